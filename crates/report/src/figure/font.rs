//! The embedded typeface of all charts: they need no system font and look the same everywhere.
//!
//! Inter, subset to Latin-1, some punctuation and `≥`, without kerning and with tabular digits, so that sums of advances are
//! exact in every renderer. `assets/inter` has the licence and build steps.

use crate::clean::clean;
use crate::error::ReportError;
use ab_glyph::{Font as _, FontRef, GlyphId, OutlinedGlyph, PxScale, point};
use std::sync::LazyLock;

/// Family name of the embedded font in SVG.
pub(crate) const FAMILY: &str = "Overhead Inter";

/// By [`Weight`].
const TTF: [&[u8]; 2] = [
    include_bytes!("../../assets/inter/Inter-Regular.subset.ttf"),
    include_bytes!("../../assets/inter/Inter-SemiBold.subset.ttf"),
];

static FONTS: LazyLock<[Option<FontRef<'static>>; 2]> =
    LazyLock::new(|| TTF.map(|ttf| FontRef::try_from_slice(ttf).ok()));

/// Replaces characters that the subset lacks.
const SUBSTITUTE: char = '?';

/// Advance of a character in em without a font, which draws nothing.
const ADVANCE_WITHOUT_FONT: f64 = 0.6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Regular,
    Bold,
}

impl Weight {
    pub(crate) const ALL: [Self; 2] = [Self::Regular, Self::Bold];

    pub(crate) const fn ttf(self) -> &'static [u8] {
        TTF[self as usize]
    }

    fn font(self) -> Option<&'static FontRef<'static>> {
        FONTS[self as usize].as_ref()
    }

    /// Returns the width of `text` in units of one em at `size` units per em.
    pub(crate) fn width(self, text: &str, size: f64) -> f64 {
        let advance = |c| self.font().map_or(ADVANCE_WITHOUT_FONT, |font| advance_em(font, font.glyph_id(c)));
        text.chars().map(advance).sum::<f64>() * size
    }

    /// Escapes control characters in `text` and replaces characters that the font lacks.
    pub(crate) fn supported(self, text: &str) -> String {
        let has = |c| self.font().is_some_and(|font| font.glyph_id(c) != GlyphId(0));
        clean(text).chars().map(|c| if has(c) { c } else { SUBSTITUTE }).collect()
    }

    /// Cuts `text` to `width`, with an ellipsis if something is missing.
    pub(crate) fn fitted(self, text: &str, size: f64, width: f64) -> String {
        if self.width(text, size) <= width {
            return text.to_owned();
        }
        let mut cut: String = text.to_owned();
        while cut.pop().is_some() {
            let candidate = format!("{}…", cut.trim_end());
            if self.width(&candidate, size) <= width {
                return candidate;
            }
        }
        String::new()
    }

    /// Returns the outlines of `text` in pixels, from this point on the base line.
    pub(crate) fn outlines(self, text: &str, size: f64, (x, baseline): (f64, f64)) -> Vec<OutlinedGlyph> {
        let Some(font) = self.font() else { return Vec::new() };
        // A font's pixel scale is its height from descent to ascent, not its em.
        let scale = PxScale::from((size * f64::from(font.height_unscaled()) / units_per_em(font)) as f32);
        let mut pen = x;
        let mut outlines = Vec::new();
        for character in text.chars() {
            let id = font.glyph_id(character);
            let glyph = id.with_scale_and_position(scale, point(pen as f32, baseline as f32));
            outlines.extend(font.outline_glyph(glyph));
            pen += advance_em(font, id) * size;
        }
        outlines
    }
}

fn units_per_em(font: &FontRef<'_>) -> f64 {
    f64::from(font.units_per_em().unwrap_or(2_048.0))
}

fn advance_em(font: &FontRef<'_>, id: GlyphId) -> f64 {
    f64::from(font.h_advance_unscaled(id)) / units_per_em(font)
}

/// Returns an error if the embedded fonts do not parse, which a test rules out.
pub(crate) fn check() -> Result<(), ReportError> {
    if Weight::ALL.iter().all(|weight| weight.font().is_some()) {
        return Ok(());
    }
    Err(ReportError::Drawing("the embedded font does not parse".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_fonts_have_what_figures_write() {
        check().unwrap();
        for weight in Weight::ALL {
            assert!(weight.ttf().len() < 100_000);
            let written = "Overhead per operation 0123456789 .,:;-+/()%_'\"µ…×·–≥";
            assert_eq!(weight.supported(written), written);
            assert_eq!(weight.supported("日"), "?");
            assert!((weight.width("1111", 10.0) - weight.width("8888", 10.0)).abs() < 1e-9, "figures of equal width");
        }
    }

    #[test]
    fn long_text_is_cut_with_an_ellipsis() {
        let cut = Weight::Regular.fitted("a rather long name of a run", 11.0, 80.0);
        assert!(cut.ends_with('…') && Weight::Regular.width(&cut, 11.0) <= 80.0, "{cut}");
        assert_eq!(Weight::Regular.fitted("short", 11.0, 80.0), "short");
    }
}
