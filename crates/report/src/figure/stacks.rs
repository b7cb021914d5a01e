//! A stacked bar chart: one operation's bytes by account, request above response, for several systems.

use super::PlotStyle;
use super::caption;
use super::chart::BarPart;
use super::font::Weight;
use super::layout::{
    BAR, BAR_BASELINE, BAR_GAP, BarScale, CAPTION_LEADING, MARGIN, NAME_HEIGHT, SIDE_BY_SIDE, UNIT, backed, head,
    legend, paragraphs, stack, step,
};
use super::palette::{self, INK, MUTED, Rgb};
use super::scene::{Anchor, Face, Scene};
use crate::error::ReportError;
use crate::number::bytes_label;
use overhead_model::Account;

/// A chart with two stacked bars per row: bytes by account, request above response.
#[derive(Clone, Debug, Default)]
pub struct StackFigure {
    /// Heading; files add the systems in front.
    pub title: String,
    /// Text alternative for readers who cannot see the chart.
    pub description: String,
    /// The quantity counted.
    pub unit: String,
    /// Systems, from top to bottom.
    pub rows: Vec<StackRow>,
    /// Note on the method, printed below the chart.
    pub note: String,
    /// Width and background.
    pub style: PlotStyle,
}

/// A system: an operation's bytes by account, in stack order.
#[derive(Clone, Debug)]
pub struct StackRow {
    /// Name of the system.
    pub name: String,
    /// Bytes per operation by account, in stack order.
    pub request: Vec<(Account, f64)>,
    /// Like `request`, for the other direction.
    pub response: Vec<(Account, f64)>,
}

const NAME: Face = Face::new(12.5, Weight::Bold, INK);
const TAG: Face = Face::new(11.0, Weight::Regular, MUTED);
const SUM: Face = Face::new(15.0, Weight::Bold, INK);
/// Share of the longest bar below which an account is neither drawn nor in the legend.
const VISIBLE: f64 = 0.002;
const TAGS: [&str; 2] = ["request", "response"];
/// Space between rows.
const ROW_GAP: f64 = 11.0;
const GAP: f64 = 12.0;

fn sum(parts: &[(Account, f64)]) -> f64 {
    parts.iter().map(|(_, bytes)| bytes).sum()
}

fn longest(figure: &StackFigure) -> f64 {
    figure.rows.iter().flat_map(|row| [sum(&row.request), sum(&row.response)]).fold(0.0, f64::max)
}

/// The bars, and room for names: at their left, or above them in a narrow chart.
struct StackField {
    names: f64,
    above: f64,
    scale: BarScale,
}

pub(super) fn laid_out(figure: &StackFigure, title: Option<&str>) -> Result<Scene, ReportError> {
    if longest(figure) <= 0.0 {
        return Err(ReportError::NoRuns);
    }
    let mut scene = Scene { width: figure.style.width(), ..Scene::default() };
    let top = head(&mut scene, title).max(MARGIN);
    scene.text(&UNIT.fitted(&figure.unit, scene.width - 2.0 * MARGIN), (MARGIN, top - 2.0), Anchor::Start, UNIT);
    let right = scene.width - MARGIN;
    let axis = legend(&mut scene, &entries(figure), (MARGIN, right), top + 18.0) + 24.0;
    let field = field(figure);
    let top = axis + 6.0;
    let height = field.above + 2.0 * BAR + BAR_GAP + ROW_GAP;
    let bottom = top + height * figure.rows.len() as f64;
    field.scale.grid(&mut scene, axis, bottom, TAG);
    for (number, row) in figure.rows.iter().enumerate() {
        draw_row(&mut scene, row, &field, top + number as f64 * height);
    }
    scene.height = paragraphs(&mut scene, &caption::notes("", &figure.note), bottom + 26.0) + MARGIN - CAPTION_LEADING;
    Ok(scene)
}

/// Returns the accounts present in any bar, in stack order.
fn entries(figure: &StackFigure) -> Vec<(String, Rgb)> {
    let visible = longest(figure) * VISIBLE;
    let holds = |account: &Account| {
        let parts = figure.rows.iter().flat_map(|row| row.request.iter().chain(&row.response));
        parts.clone().any(|(of, bytes)| of == account && *bytes >= visible)
    };
    Account::ALL
        .into_iter()
        .filter(holds)
        .map(|account| (account.name().to_owned(), palette::account(account)))
        .collect()
}

/// Places names and tags left of the bars, sums right of them.
fn field(figure: &StackFigure) -> StackField {
    let widest = |texts: &mut dyn Iterator<Item = f64>| texts.fold(0.0, f64::max);
    let width = figure.style.width();
    let names = widest(&mut figure.rows.iter().map(|row| NAME.width(&row.name)));
    let tags = widest(&mut TAGS.iter().map(|tag| TAG.width(tag)));
    let sums = widest(&mut figure.rows.iter().map(|row| SUM.width(&total(row))));
    let limit = longest(figure);
    let step = step(limit, 5.0);
    let label = TAG.width(&bytes_label(limit)) + GAP;
    if width < SIDE_BY_SIDE {
        let (zero, names) = (MARGIN + tags + 5.0, width - 2.0 * MARGIN - sums - GAP);
        let scale = BarScale { zero, length: width - MARGIN - label - zero, limit, step };
        return StackField { names, above: NAME_HEIGHT, scale };
    }
    let names = names.min(width / 3.0);
    let zero = MARGIN + names + GAP + tags + 5.0;
    let scale = BarScale { zero, length: width - MARGIN - sums - GAP - label - zero, limit, step };
    StackField { names, above: 0.0, scale }
}

fn total(row: &StackRow) -> String {
    format!("{} B", bytes_label(sum(&row.request) + sum(&row.response)))
}

fn draw_row(scene: &mut Scene, row: &StackRow, field: &StackField, top: f64) {
    let baseline = top + if field.above > 0.0 { 14.0 } else { BAR + BAR_GAP / 2.0 + 4.5 };
    backed(scene, &NAME.fitted(&row.name, field.names), (MARGIN, baseline), Anchor::Start, NAME);
    backed(scene, &total(row), (scene.width - MARGIN, baseline + 1.0), Anchor::End, SUM);
    for (number, (tag, parts)) in TAGS.iter().zip([&row.request, &row.response]).enumerate() {
        let y = top + field.above + number as f64 * (BAR + BAR_GAP);
        scene.text(tag, (field.scale.zero - 5.0, y + BAR_BASELINE), Anchor::End, TAG);
        let parts: Vec<BarPart> = parts
            .iter()
            .filter(|(_, bytes)| *bytes > 0.0)
            .map(|(account, bytes)| BarPart { value: *bytes, color: palette::account(*account) })
            .collect();
        stack(scene, &parts, bytes_label, None, &field.scale, y);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Plot;
    use super::super::scene::Mark;
    use super::*;

    fn figure() -> StackFigure {
        let row = |name: &str, schema: f64| StackRow {
            name: name.to_owned(),
            request: vec![(Account::Tcp, 32.0), (Account::Data, 8.0)],
            response: vec![(Account::Tcp, 32.0), (Account::Schema, schema), (Account::Data, 108.0)],
        };
        StackFigure {
            title: "A row".to_owned(),
            description: "Bars".to_owned(),
            unit: "B on the wire, by account".to_owned(),
            rows: vec![row("Redis 7", 0.0), row("a server with a name that is long", 120.0)],
            note: "made up.".to_owned(),
            style: PlotStyle::default(),
        }
    }

    fn texts(scene: &Scene) -> Vec<(&str, f64, f64)> {
        let mut texts = Vec::new();
        for mark in &scene.marks {
            if let Mark::Text(text) = mark {
                texts.push((text.line.as_str(), text.left(), text.left() + text.face.width(&text.line)));
            }
        }
        texts
    }

    #[test]
    fn each_row_has_its_bytes_and_their_sum() {
        let scene = laid_out(&figure(), None).unwrap();
        let texts: Vec<&str> = texts(&scene).into_iter().map(|(text, ..)| text).collect();
        for wanted in ["180 B", "300 B", "40", "140", "260", "schema"] {
            assert!(texts.contains(&wanted), "{wanted} in {texts:?}");
        }
        assert!(!texts.contains(&"query"), "an account that nothing was posted to is not in the legend");
    }

    #[test]
    fn nothing_stands_beyond_the_margins() {
        for width in [340, 800] {
            let figure = StackFigure { style: PlotStyle { width, dark: false }, ..figure() };
            let scene = laid_out(&figure, Some("A row")).unwrap();
            for (text, left, right) in texts(&scene) {
                assert!(left >= MARGIN - 0.1 && right <= scene.width - MARGIN + 0.1, "{text}: {left} to {right}");
            }
            let is_beside = field(&figure).scale.zero > MARGIN + NAME.width("a server with a name that is long");
            assert_eq!(is_beside, width == 800);
        }
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        let [svg, png] = Plot::Stacks(figure()).draw().unwrap();
        assert!(roxmltree::Document::parse(&String::from_utf8(svg).unwrap()).is_ok());
        assert!(png.starts_with(b"\x89PNG"));
        assert!(laid_out(&StackFigure { rows: Vec::new(), ..figure() }, None).is_err());
    }
}
