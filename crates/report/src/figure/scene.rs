//! A scene of rectangles, lines and texts in logical pixels, before drawing. It makes layout a pure, testable function and
//! keeps both image formats identical.

use super::font::Weight;
use super::palette::{PAPER, Rgb};

#[derive(Clone, Debug, Default)]
pub(crate) struct Scene {
    pub width: f64,
    pub height: f64,
    pub marks: Vec<Mark>,
    /// Uses colours for a dark screen.
    pub dark: bool,
}

/// One thing to draw; later ones cover earlier ones.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    Rect {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        fill: Rgb,
    },
    Line {
        from: (f64, f64),
        to: (f64, f64),
        color: Rgb,
    },
    /// A filled area with four corners.
    Quad {
        corners: [(f64, f64); 4],
        color: Rgb,
    },
    ThickLine {
        from: (f64, f64),
        to: (f64, f64),
        thickness: f64,
        color: Rgb,
    },
    Text(Text),
}

#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub line: String,
    /// Start, middle or end of the line, by `anchor`.
    pub x: f64,
    pub baseline: f64,
    pub anchor: Anchor,
    pub face: Face,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Face {
    pub size: f64,
    pub weight: Weight,
    pub color: Rgb,
}

/// Meaning of a text's `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Face {
    pub(crate) const fn new(size: f64, weight: Weight, color: Rgb) -> Self {
        Self { size, weight, color }
    }

    pub(crate) fn width(self, text: &str) -> f64 {
        self.weight.width(text, self.size)
    }

    /// Returns how many times wider a text may be if a viewer has no Inter and ignores the lengths of texts, as librsvg does: as wide as in
    /// `DejaVu` Sans.
    pub(crate) fn spare(self) -> f64 {
        if self.weight == Weight::Bold { 1.16 } else { 1.08 }
    }

    pub(crate) fn fitted(self, text: &str, width: f64) -> String {
        self.weight.fitted(&self.weight.supported(text), self.size, width)
    }
}

impl Text {
    pub(crate) fn left(&self) -> f64 {
        let width = self.face.width(&self.line);
        match self.anchor {
            Anchor::Start => self.x,
            Anchor::Middle => self.x - width / 2.0,
            Anchor::End => self.x - width,
        }
    }
}

impl Scene {
    pub(crate) fn darkened(mut self) -> Self {
        for mark in &mut self.marks {
            match mark {
                Mark::Rect { fill: color, .. }
                | Mark::Line { color, .. }
                | Mark::ThickLine { color, .. }
                | Mark::Quad { color, .. }
                | Mark::Text(Text { face: Face { color, .. }, .. }) => *color = color.dark(),
            }
        }
        self.dark = true;
        self
    }

    pub(crate) fn paper(&self) -> Rgb {
        if self.dark { PAPER.dark() } else { PAPER }
    }

    pub(crate) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: Rgb) {
        self.marks.push(Mark::Rect { x, y, width, height, fill });
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), color: Rgb) {
        self.marks.push(Mark::Line { from, to, color });
    }

    pub(crate) fn thick_line(&mut self, from: (f64, f64), to: (f64, f64), thickness: f64, color: Rgb) {
        self.marks.push(Mark::ThickLine { from, to, thickness, color });
    }

    pub(crate) fn quad(&mut self, corners: [(f64, f64); 4], color: Rgb) {
        self.marks.push(Mark::Quad { corners, color });
    }

    pub(crate) fn text(&mut self, text: &str, (x, baseline): (f64, f64), anchor: Anchor, face: Face) {
        let text = face.weight.supported(text);
        if !text.trim().is_empty() {
            self.marks.push(Mark::Text(Text { line: text, x, baseline, anchor, face }));
        }
    }

    /// Writes labels centred at these positions of a base line, as many as fit with a gap between them.
    pub(crate) fn labels(&mut self, labels: impl Iterator<Item = (f64, String)>, baseline: f64, gap: f64, face: Face) {
        let mut free = f64::NEG_INFINITY;
        for (x, label) in labels {
            let half = face.width(&label) / 2.0;
            if x - half > free {
                self.text(&label, (x, baseline), Anchor::Middle, face);
                free = x + half + gap;
            }
        }
    }

    /// Adds a paragraph of words with their faces, in lines no wider than `width`. Returns the base line after the last.
    pub(crate) fn paragraph(
        &mut self,
        words: &[(String, Face)],
        (x, baseline): (f64, f64),
        width: f64,
        leading: f64,
    ) -> f64 {
        let (mut pen, mut line) = (x, baseline);
        // Join words of one face on a line into one text that a reader can search and copy.
        let mut phrase: Option<(String, f64, Face)> = None;
        for (word, face) in words {
            for piece in pieces(&face.weight.supported(word), *face, width) {
                if let Some(before) = phrase.take_if(|phrase| phrase.2 != *face) {
                    pen += (pen - before.1) * (before.2.spare() - 1.0);
                    self.phrase(Some(before), line);
                }
                let advance = face.width(&piece);
                let full = pen > x && pen + advance > x + width;
                if full {
                    self.phrase(phrase.take(), line);
                }
                if full {
                    (pen, line) = (x, line + leading);
                }
                match &mut phrase {
                    Some((text, ..)) => text.extend([" ", &piece]),
                    None => phrase = Some((piece, pen, *face)),
                }
                pen += advance + face.width(" ");
            }
        }
        self.phrase(phrase, line);
        line + leading
    }

    fn phrase(&mut self, phrase: Option<(String, f64, Face)>, line: f64) {
        if let Some((text, x, face)) = phrase {
            self.text(&text, (x, line), Anchor::Start, face);
        }
    }
}

/// Returns the corners of a line of constant thickness.
pub(super) fn outline(from: (f64, f64), to: (f64, f64), thickness: f64) -> [(f64, f64); 4] {
    let (along, down) = (to.0 - from.0, to.1 - from.1);
    let half = thickness / 2.0 / along.hypot(down).max(f64::MIN_POSITIVE);
    let (x, y) = (-down * half, along * half);
    [(from, 1.0), (to, 1.0), (to, -1.0), (from, -1.0)].map(|(end, side)| (end.0 + side * x, end.1 + side * y))
}

/// Splits a word into parts no wider than a line, preferably after punctuation in the second half of the line.
fn pieces(word: &str, face: Face, width: f64) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = word;
    loop {
        let mut taken = 0.0;
        let fits = rest.char_indices().find(|(at, character)| {
            taken += face.width(character.encode_utf8(&mut [0; 4]));
            taken > width && *at > 0
        });
        let Some((end, _)) = fits else {
            pieces.push(rest.to_owned());
            return pieces;
        };
        let between = rest[..end].rfind(['-', '/', '_', '.', ':', ',']).map(|at| at + 1);
        let (piece, more) = rest.split_at(between.filter(|at| at * 2 > end).unwrap_or(end));
        pieces.push(piece.to_owned());
        rest = more;
    }
}

pub(crate) fn words(text: &str, face: Face) -> impl Iterator<Item = (String, Face)> {
    text.split_whitespace().map(move |word| (word.to_owned(), face))
}

#[cfg(test)]
mod tests {
    use super::super::palette::INK;
    use super::*;

    #[test]
    fn a_long_word_is_cut_between_its_parts_and_nothing_of_it_is_lost() {
        let face = Face::new(12.0, Weight::Regular, INK);
        for (word, ends) in [
            ("/translations-that-wait-for-a-second-reader-or-for-the-author", "-"),
            ("WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW", "W"),
            ("/x-WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW", "W"),
        ] {
            for width in [1.0, 40.0, 150.0, 10_000.0] {
                let pieces = pieces(word, face, width);
                assert_eq!(pieces.concat(), word);
                assert!(
                    pieces.iter().all(|piece| face.width(piece) <= width || piece.chars().count() == 1),
                    "{pieces:?}"
                );
            }
            let cut = pieces(word, face, 150.0);
            assert!(cut[..cut.len() - 1].iter().all(|piece| piece.ends_with(ends)), "{cut:?}");
        }
        assert_eq!(pieces("", face, 10.0), [""]);
    }
}
