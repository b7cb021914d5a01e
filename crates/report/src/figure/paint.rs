//! A scene as SVG or PNG, by the backends of plotters.

use super::font::{self, FAMILY, Weight};
use super::palette::Rgb;
use super::scene::{Anchor, Mark, Scene, Text};
use crate::error::ReportError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use overhead_model::OutsideText;
use plotters::backend::{BitMapBackend, DrawingBackend, RGBPixel, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontFamily, FontStyle, RGBColor, TextStyle};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, DrawingErrorKind};
use std::fmt::Display;

/// Device pixels per logical pixel in both formats: sharp on dense screens, and on others at half size.
pub(crate) const SCALE: f64 = 2.0;

/// Divisor that plotters applies to a font size in SVG.
const PLOTTERS_SIZE_FACTOR: f64 = 1.24;

/// Maximum height of a PNG in device pixels: about 160 MB in memory at 1,600 pixels width.
const MAX_HEIGHT: f64 = 32_768.0;

/// Fallback families for viewers that ignore embedded fonts, most similar widths first.
const FALLBACK: &str = "Inter,Roboto,'Helvetica Neue',Arial,sans-serif";

/// Fill, or stroke of one device pixel.
struct Solid(Rgb);

impl BackendStyle for Solid {
    fn color(&self) -> BackendColor {
        color(self.0, 1.0)
    }
}

fn color(Rgb(r, g, b): Rgb, alpha: f64) -> BackendColor {
    BackendColor { alpha, rgb: (r, g, b) }
}

fn device(value: f64) -> i32 {
    (value * SCALE).round() as i32
}

fn size(scene: &Scene) -> (u32, u32) {
    (device(scene.width) as u32, device(scene.height) as u32)
}

fn failed(error: impl Display) -> ReportError {
    ReportError::Drawing(error.to_string())
}

/// Renders a PNG file with 24 bits per pixel.
pub(crate) fn png(scene: &Scene) -> Result<Vec<u8>, ReportError> {
    font::check()?;
    if scene.height * SCALE > MAX_HEIGHT {
        return Err(ReportError::Drawing("the figure is too tall for a PNG".to_owned()));
    }
    let (width, height) = size(scene);
    let mut pixels = vec![0; width as usize * height as usize * 3];
    {
        let mut backend = BitMapBackend::<RGBPixel>::with_buffer(&mut pixels, (width, height));
        shapes_and_text(&mut backend, scene, bitmap_text).map_err(failed)?;
        backend.present().map_err(failed)?;
    }
    encode(&pixels, width, height).map_err(failed)
}

fn encode(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(pixels)?;
    Ok(file)
}

/// Renders an SVG document, with or without the embedded font.
pub(crate) fn svg(scene: &Scene, title: &str, description: &str, has_fonts: bool) -> Result<Vec<u8>, ReportError> {
    font::check()?;
    let mut document = String::new();
    {
        let mut backend = SVGBackend::with_string(&mut document, size(scene));
        shapes_and_text(&mut backend, scene, svg_text).map_err(failed)?;
        backend.present().map_err(failed)?;
    }
    Ok(finished(&document, scene, [title, description], &style(has_fonts)).into_bytes())
}

type PaintResult<B> = Result<(), DrawingErrorKind<<B as DrawingBackend>::ErrorType>>;

fn shapes_and_text<B: DrawingBackend>(
    backend: &mut B,
    scene: &Scene,
    text: fn(&mut B, &Text) -> PaintResult<B>,
) -> PaintResult<B> {
    let (width, height) = size(scene);
    backend.draw_rect((0, 0), (width.cast_signed(), height.cast_signed()), &Solid(scene.paper()), true)?;
    for mark in &scene.marks {
        match mark {
            Mark::Rect { x, y, width, height, fill } => {
                let corners = (corner(*x, *y), corner(x + width, y + height));
                fill_rect(backend, corners, *fill)?;
            }
            Mark::Line { from, to, color } => {
                backend.draw_line(corner(from.0, from.1), corner(to.0, to.1), &Solid(*color))?;
            }
            Mark::ThickLine { from, to, thickness, color } => {
                backend.fill_polygon(thick_line(*from, *to, *thickness), &Solid(*color))?;
            }
            Mark::Text(line) => text(backend, line)?,
        }
    }
    Ok(())
}

/// Returns the corners of a line of constant thickness; plotters' own strokes are thinner on steep slopes.
fn thick_line(from: (f64, f64), to: (f64, f64), thickness: f64) -> [BackendCoord; 4] {
    let (along, down) = (to.0 - from.0, to.1 - from.1);
    let half = thickness / 2.0 / along.hypot(down).max(f64::MIN_POSITIVE);
    let (x, y) = (-down * half, along * half);
    [(from, 1.0), (to, 1.0), (to, -1.0), (from, -1.0)].map(|(end, side)| corner(end.0 + side * x, end.1 + side * y))
}

fn corner(x: f64, y: f64) -> BackendCoord {
    (device(x), device(y))
}

/// Draws nothing below one pixel, so that a stack of thin parts keeps its length.
fn fill_rect<B: DrawingBackend>(
    backend: &mut B,
    (from, to): (BackendCoord, BackendCoord),
    fill: Rgb,
) -> PaintResult<B> {
    if to.0 > from.0 && to.1 > from.1 { backend.draw_rect(from, to, &Solid(fill), true) } else { Ok(()) }
}

/// Draws glyphs at fractions of a pixel; plotters' own text snaps each to a whole one and spaces them unevenly.
fn bitmap_text(
    backend: &mut BitMapBackend<'_, RGBPixel>,
    text: &Text,
) -> PaintResult<BitMapBackend<'static, RGBPixel>> {
    let start = (text.left() * SCALE, f64::from(device(text.baseline)));
    for glyph in text.face.weight.outlines(&text.line, text.face.size * SCALE, start) {
        let bounds = glyph.px_bounds();
        let (left, top) = (bounds.min.x as i32, bounds.min.y as i32);
        let mut result = Ok(());
        glyph.draw(|x, y, coverage| {
            let pixel = (left + x.cast_signed(), top + y.cast_signed());
            if result.is_ok() && coverage > 0.0 {
                result = backend.draw_pixel(pixel, color(text.face.color, f64::from(coverage.min(1.0))));
            }
        });
        result?;
    }
    Ok(())
}

fn svg_text(backend: &mut SVGBackend<'_>, text: &Text) -> PaintResult<SVGBackend<'static>> {
    let horizontal = match text.anchor {
        Anchor::Start => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::End => HPos::Right,
    };
    let weight = match text.face.weight {
        Weight::Regular => FontStyle::Normal,
        Weight::Bold => FontStyle::Bold,
    };
    let Rgb(r, g, b) = text.face.color;
    let ink = RGBColor(r, g, b);
    let style = TextStyle::from((FontFamily::Name(FAMILY), text.face.size * SCALE * PLOTTERS_SIZE_FACTOR, weight))
        .color(&ink)
        .pos(Pos::new(horizontal, VPos::Bottom));
    backend.draw_text(&text.line, &style, corner(text.x, text.baseline))
}

/// Finishes a plotters document with logical size, exact base lines, title, description and style sheet.
fn finished(document: &str, scene: &Scene, [title, description]: [&str; 2], style: &str) -> String {
    let (width, height) = size(scene);
    let drawn = format!("width=\"{width}\" height=\"{height}\" viewBox");
    let shown = format!("width=\"{}\" height=\"{}\" role=\"img\" viewBox", scene.width.round(), scene.height.round());
    let document = document.replacen(&drawn, &shown, 1).replace(" dy=\"-0.5ex\"", "");
    let head =
        format!("<title>{}</title>\n<desc>{}</desc>\n<style>{style}</style>\n", escaped(title), escaped(description));
    let document = sized_text(&document, scene);
    match document.find(">\n").map(|at| at + 2) {
        Some(body) => format!("{}{head}{}", &document[..body], &document[body..]),
        None => document,
    }
}

/// Removes the line breaks that plotters puts around texts, which some viewers count as spaces. Adds each text's layout width,
/// so that viewers without the embedded font stretch or squeeze their own, and fallback families for viewers that also drop the
/// style sheet.
fn sized_text(document: &str, scene: &Scene) -> String {
    let family = format!("font-family=\"{FAMILY}\"");
    let families = format!("font-family=\"'{FAMILY}',{FALLBACK}\"");
    let texts = scene.marks.iter().filter_map(|mark| if let Mark::Text(text) = mark { Some(text) } else { None });
    let mut widths = texts.map(|text| text.face.width(&text.line) * SCALE);
    let mut out = String::with_capacity(document.len() + scene.marks.len() * 64);
    let mut inside = false;
    for line in document.lines() {
        let begins = line.starts_with("<text");
        inside = (inside || begins) && line != "</text>";
        if begins && let Some(width) = widths.next() {
            let sized = format!("<text textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\"");
            out.push_str(&line.replacen("<text", &sized, 1).replace(&family, &families));
        } else {
            out.push_str(line);
        }
        if !inside {
            out.push('\n');
        } else if !begins && out.ends_with(' ') {
            out.truncate(out.trim_end().len());
        }
    }
    out
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

pub(super) fn escaped(text: &str) -> String {
    OutsideText(text).to_string().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
