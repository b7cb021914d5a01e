//! A scene as PNG, by the bitmap backend of plotters.

use super::font;
use super::palette::Rgb;
use super::scene::{Mark, Scene, Text, outline};
use crate::error::ReportError;
use plotters::backend::{BitMapBackend, DrawingBackend, RGBPixel};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, DrawingErrorKind};
use std::fmt::Display;

/// Device pixels per logical pixel in both formats: sharp on dense screens, and on others at half size.
pub(super) const SCALE: f64 = 2.0;

/// Maximum height of a PNG in device pixels: about 160 MB in memory at 1,600 pixels width.
const MAX_HEIGHT: f64 = 32_768.0;

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

fn device((x, y): (f64, f64)) -> BackendCoord {
    ((x * SCALE).round() as i32, (y * SCALE).round() as i32)
}

fn failed(error: impl Display) -> ReportError {
    ReportError::Drawing(error.to_string())
}

/// Renders a PNG file with 24 bits per pixel.
pub(super) fn png(scene: &Scene) -> Result<Vec<u8>, ReportError> {
    font::check()?;
    if scene.height * SCALE > MAX_HEIGHT {
        return Err(ReportError::Drawing("the chart is too tall for a PNG".to_owned()));
    }
    let end = device((scene.width, scene.height));
    let (width, height) = (end.0.cast_unsigned(), end.1.cast_unsigned());
    let mut pixels = vec![0; width as usize * height as usize * 3];
    {
        let mut backend = BitMapBackend::<RGBPixel>::with_buffer(&mut pixels, (width, height));
        backend.draw_rect((0, 0), end, &Solid(scene.paper()), true).map_err(failed)?;
        scene.marks.iter().try_for_each(|mark| draw(&mut backend, mark)).map_err(failed)?;
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

type Bitmap<'a> = BitMapBackend<'a, RGBPixel>;
type PaintResult = Result<(), DrawingErrorKind<<Bitmap<'static> as DrawingBackend>::ErrorType>>;

fn draw(backend: &mut Bitmap<'_>, mark: &Mark) -> PaintResult {
    match mark {
        Mark::Rect { x, y, width, height, fill } => {
            let (from, to) = (device((*x, *y)), device((x + width, y + height)));
            // Draw nothing below one pixel, so that a stack of thin parts keeps its length.
            if to.0 > from.0 && to.1 > from.1 { backend.draw_rect(from, to, &Solid(*fill), true) } else { Ok(()) }
        }
        Mark::Line { from, to, color } => backend.draw_line(device(*from), device(*to), &Solid(*color)),
        // Plotters' own strokes are thinner on steep slopes.
        Mark::ThickLine { from, to, thickness, color } => {
            backend.fill_polygon(outline(*from, *to, *thickness).map(device), &Solid(*color))
        }
        Mark::Quad { corners, color } => backend.fill_polygon(corners.map(device), &Solid(*color)),
        Mark::Text(text) => draw_text(backend, text),
    }
}

/// Draws glyphs at fractions of a pixel; plotters' own text snaps each to a whole one and spaces them unevenly.
fn draw_text(backend: &mut Bitmap<'_>, text: &Text) -> PaintResult {
    let start = (text.left() * SCALE, (text.baseline * SCALE).round());
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
