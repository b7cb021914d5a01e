//! A scene as SVG: a file with its own font and colours, or an element of a page. The page supplies the font; its style sheet sets
//! the colours of non-data and of data that changes on a dark screen.

use super::font::{self, FAMILY, Weight};
use super::paint::SCALE;
use super::palette::{Rgb, THEMED};
use super::scene::{Anchor, Mark, Scene, Text, outline};
use crate::error::ReportError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use overhead_model::OutsideText;

/// Fallback families for viewers that ignore embedded fonts, most similar widths first.
const FALLBACK: &str = "Inter,Roboto,'Helvetica Neue',Arial,sans-serif";

/// Returns the element of a page; `id` is the prefix of its ids.
pub(super) fn element(scene: &Scene, id: &str, title: &str, description: &str) -> String {
    let (width, height) = (number(scene.width), number(scene.height));
    let head = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"drawn\" role=\"img\" viewBox=\"0 0 {width} {height}\" \
         aria-labelledby=\"{id}-name {id}-shows\">\n<title id=\"{id}-name\">{}</title>\n<desc id=\"{id}-shows\">{}</desc>\n",
        escaped(title),
        escaped(description)
    );
    let marks = scene.marks.iter().map(|mark| SvgForm::Element.mark(mark) + "\n");
    head + &marks.collect::<String>() + "</svg>"
}

/// Returns a document, with or without the embedded font.
pub(super) fn file(scene: &Scene, title: &str, description: &str, has_fonts: bool) -> Result<Vec<u8>, ReportError> {
    font::check()?;
    let form = SvgForm::File;
    let size = (scene.width, scene.height);
    let (width, height) = form.at(size);
    let head = format!(
        "<svg width=\"{}\" height=\"{}\" role=\"img\" viewBox=\"0 0 {width} {height}\" xmlns=\"http://www.w3.org/2000/svg\">\n\
         <title>{}</title>\n<desc>{}</desc>\n<style>{}</style>\n{}\n",
        scene.width.round(),
        scene.height.round(),
        escaped(title),
        escaped(description),
        style(has_fonts),
        form.rect((0.0, 0.0), size, scene.paper())
    );
    let marks = scene.marks.iter().map(|mark| form.mark(mark) + "\n");
    Ok((head + &marks.collect::<String>() + "</svg>\n").into_bytes())
}

#[derive(Clone, Copy, PartialEq)]
enum SvgForm {
    /// In logical pixels.
    Element,
    /// In whole device pixels, so that edges are sharp.
    File,
}

impl SvgForm {
    fn scale(self) -> f64 {
        if self == Self::File { SCALE } else { 1.0 }
    }

    fn at(self, (x, y): (f64, f64)) -> (f64, f64) {
        if self == Self::File { ((x * SCALE).round(), (y * SCALE).round()) } else { (x, y) }
    }

    fn mark(self, mark: &Mark) -> String {
        match mark {
            Mark::Rect { x, y, width, height, fill } => self.rect((*x, *y), (x + width, y + height), *fill),
            Mark::Line { from, to, color } => self.line(*from, *to, 0.5, *color),
            Mark::ThickLine { from, to, thickness, color } => self.line(*from, *to, *thickness, *color),
            Mark::Quad { corners, color } => self.polygon(corners.map(|corner| self.at(corner)), *color),
            Mark::Text(text) => self.text(text),
        }
    }

    fn rect(self, from: (f64, f64), to: (f64, f64), fill: Rgb) -> String {
        let ((left, top), (right, bottom)) = (self.at(from), self.at(to));
        let [x, y, width, height] = [left, top, right - left, bottom - top].map(number);
        format!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"{}/>", self.paint(fill))
    }

    /// Draws an outline: a stroke would need a second set of classes.
    fn line(self, from: (f64, f64), to: (f64, f64), thickness: f64, color: Rgb) -> String {
        self.polygon(outline(self.at(from), self.at(to), thickness * self.scale()), color)
    }

    fn polygon(self, corners: [(f64, f64); 4], color: Rgb) -> String {
        let corners = corners.map(|(x, y)| format!("{},{}", number(x), number(y)));
        format!("<polygon points=\"{}\"{}/>", corners.join(" "), self.paint(color))
    }

    /// Sets each text to its layout width, whatever font a viewer uses. Names fallback families for viewers that drop the style
    /// sheet.
    fn text(self, text: &Text) -> String {
        let anchor = match text.anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let weight = if text.face.weight == Weight::Bold { " font-weight=\"600\"" } else { "" };
        let families = match self {
            Self::Element => String::new(),
            Self::File => format!(" font-family=\"'{FAMILY}',{FALLBACK}\""),
        };
        let (x, y) = self.at((text.x, text.baseline));
        format!(
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\"{families}{weight}{anchor} textLength=\"{}\" \
             lengthAdjust=\"spacingAndGlyphs\"{}>{}</text>",
            number(x),
            number(y),
            number(text.face.size * self.scale()),
            number(text.face.width(&text.line) * self.scale()),
            self.paint(text.face.color),
            escaped(&text.line)
        )
    }

    /// Returns a colour value, on a page as a style sheet variable for non-data.
    fn paint(self, color: Rgb) -> String {
        let themed = THEMED.iter().find(|(_, light, _)| *light == color).filter(|_| self == Self::Element);
        match themed {
            Some((name, ..)) => format!(" style=\"fill:var(--{name})\""),
            None if self == Self::Element && color.dark() != color => {
                format!(" class=\"{}\" fill=\"{}\"", class(color), color.hex())
            }
            None => format!(" fill=\"{}\"", color.hex()),
        }
    }
}

/// Returns the class of data in this colour.
pub(super) fn class(color: Rgb) -> String {
    format!("d{}", &color.hex()[1..])
}

/// Formats a coordinate to a hundredth with as few characters as possible.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn style(has_fonts: bool) -> String {
    let face = |weight: Weight| {
        let name = if weight == Weight::Bold { "bold" } else { "normal" };
        let data = font_base64(weight);
        format!(
            "@font-face{{font-family:\"{FAMILY}\";font-weight:{name};src:url(data:font/ttf;base64,{data}) format(\"truetype\")}}"
        )
    };
    let fallback =
        format!("text{{font-family:\"{FAMILY}\",{FALLBACK};font-kerning:none;text-rendering:geometricPrecision}}");
    if has_fonts { Weight::ALL.map(face).concat() + &fallback } else { fallback }
}

pub(super) fn font_base64(weight: Weight) -> String {
    STANDARD.encode(weight.ttf())
}

fn escaped(text: &str) -> String {
    OutsideText(text).to_string().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
