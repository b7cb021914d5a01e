//! A scene as a page element. The page supplies the font; its style sheet sets the colours of non-data and of data that changes
//! on a dark screen.

use super::font::Weight;
use super::paint::escaped;
use super::palette::{Rgb, THEMED};
use super::scene::{Anchor, Mark, Scene, Text};
use std::fmt::Write;

/// Returns the element; `id` is the prefix of its ids.
pub(super) fn svg(scene: &Scene, id: &str, title: &str, description: &str) -> String {
    let (width, height) = (number(scene.width), number(scene.height));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"drawn\" role=\"img\" viewBox=\"0 0 {width} {height}\" \
         aria-labelledby=\"{id}-name {id}-shows\">\n<title id=\"{id}-name\">{}</title>\n<desc id=\"{id}-shows\">{}</desc>\n",
        escaped(title),
        escaped(description)
    );
    scene.marks.iter().for_each(|mark| draw(&mut out, mark));
    out.push_str("</svg>");
    out
}

/// Writing to a string cannot fail.
fn draw(out: &mut String, mark: &Mark) {
    let _ = match mark {
        Mark::Rect { x, y, width, height, fill } => writeln!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}/>",
            number(*x),
            number(*y),
            number(*width),
            number(*height),
            paint(*fill)
        ),
        Mark::Line { from, to, color } => line(out, *from, *to, 0.5, *color),
        Mark::ThickLine { from, to, thickness, color } => line(out, *from, *to, *thickness, *color),
        Mark::Text(text) => writeln!(out, "{}", element(text)),
    };
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64), thickness: f64, color: Rgb) -> std::fmt::Result {
    // Use an outline: a stroke would need a second set of classes.
    let (along, down) = (to.0 - from.0, to.1 - from.1);
    let half = thickness / 2.0 / along.hypot(down).max(f64::MIN_POSITIVE);
    let (x, y) = (-down * half, along * half);
    let corners = [(from, 1.0), (to, 1.0), (to, -1.0), (from, -1.0)]
        .map(|(end, side)| format!("{},{}", number(end.0 + side * x), number(end.1 + side * y)));
    writeln!(out, "<polygon points=\"{}\"{}/>", corners.join(" "), paint(color))
}

/// Sets each text to its layout width, whatever font a browser uses.
fn element(text: &Text) -> String {
    let anchor = match text.anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let weight = if text.face.weight == Weight::Bold { " font-weight=\"600\"" } else { "" };
    format!(
        "<text x=\"{}\" y=\"{}\" font-size=\"{}\"{weight}{anchor} textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\"{}>{}</text>",
        number(text.x),
        number(text.baseline),
        number(text.face.size),
        number(text.face.width(&text.line)),
        paint(text.face.color),
        escaped(&text.line)
    )
}

/// Returns a colour value, as a style sheet variable for non-data.
fn paint(color: Rgb) -> String {
    match THEMED.iter().find(|(_, light, _)| *light == color) {
        Some((name, ..)) => format!(" style=\"fill:var(--{name})\""),
        None if color.dark() != color => format!(" class=\"{}\" fill=\"{}\"", class(color), color.hex()),
        None => format!(" fill=\"{}\"", color.hex()),
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
