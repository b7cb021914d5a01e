//! A figure of pairs: for each row two bars in each of three panels, such as few clients and many, or without a setting
//! and with it.

use super::caption::{self, Paragraph};
use super::chart::{Bar, BarPart, BarRow, Chart, Panel};
use super::palette::{self, KERNEL, Rgb, USER};
use super::{ImageFormat, layout, paint};
use crate::error::ReportError;
use overhead_model::{Account, Amounts};

/// What is drawn.
pub(crate) struct PairFigure {
    /// Heading.
    pub title: String,
    /// What it shows, for those who do not see it.
    pub description: &'static str,
    /// What the two bars of a row are.
    pub tags: [String; 2],
    /// In order.
    pub rows: Vec<PairRow>,
    /// In order.
    pub panels: [PairPanel; 3],
    /// Paragraphs below, each with its first words.
    pub notes: Vec<(&'static str, String)>,
}

/// The name of a row.
pub(crate) struct PairRow {
    /// What several rows are of.
    pub group: String,
    /// It begins here.
    pub first: bool,
    /// What this one is.
    pub label: String,
}

/// A panel of a pair of bars in each row.
pub(crate) struct PairPanel {
    title: &'static str,
    unit: &'static str,
    /// `None` where the colours are those of the tags.
    legend: Option<Vec<(String, Rgb)>>,
    bars: Vec<[Bar; 2]>,
    print: fn(f64) -> String,
}

impl PairPanel {
    /// One figure for each bar.
    pub(crate) fn of_figures(
        title: &'static str,
        unit: &'static str,
        print: fn(f64) -> String,
        figures: Vec<[Option<f64>; 2]>,
    ) -> Self {
        let bar = |value: Option<f64>, color| match value {
            Some(value) => Ok(vec![BarPart { value, color }]),
            None => Err("no figure".to_owned()),
        };
        let bars = figures.into_iter().map(|[first, second]| [bar(first, USER), bar(second, KERNEL)]).collect();
        Self { title, unit, legend: None, bars, print }
    }

    /// Bytes by account for each bar, over so many operations.
    pub(crate) fn of_accounts(title: &'static str, unit: &'static str, amounts: &[[(Amounts, u64); 2]]) -> Self {
        let bar = |(amounts, count): &(Amounts, u64)| {
            let per = |bytes: u64| bytes as f64 / (*count).max(1) as f64;
            let parts = amounts.iter().filter(|(_, bytes)| *bytes > 0);
            Ok(parts.map(|(account, bytes)| BarPart { value: per(bytes), color: palette::account(account) }).collect())
        };
        let used = |account: &Account| amounts.iter().flatten().any(|(amounts, _)| amounts[*account] > 0);
        let legend = Account::ALL.into_iter().filter(used);
        Self {
            title,
            unit,
            legend: Some(legend.map(|account| (account.name().to_owned(), palette::account(account))).collect()),
            bars: amounts.iter().map(|[first, second]| [bar(first), bar(second)]).collect(),
            print: crate::text::number::bytes_label,
        }
    }

    fn panel(self, tags: &[String; 2]) -> Panel {
        Panel {
            title: self.title,
            unit: self.unit.to_owned(),
            legend: self.legend.unwrap_or_else(|| tags.iter().cloned().zip([USER, KERNEL]).collect()),
            tags: tags.clone(),
            rows: self.bars.into_iter().map(Some).collect(),
            print: self.print,
            whole_run: false,
        }
    }
}

/// The figure as SVG and as PNG.
pub(crate) fn draw_pairs(figure: PairFigure) -> Result<[(ImageFormat, Vec<u8>); 2], ReportError> {
    let PairFigure { title, description, tags, rows, panels, notes } = figure;
    let panels = panels.map(|panel| panel.panel(&tags));
    let chart = Chart { rows: rows.into_iter().map(row).collect(), panels };
    let notes: Vec<Paragraph> = notes.iter().map(|(lead, text)| caption::note(lead, text)).collect();
    let scene = layout::scene(&chart, &title, &notes);
    Ok([(ImageFormat::Svg, paint::svg(&scene, &title, description)?), (ImageFormat::Png, paint::png(&scene)?)])
}

fn row(row: PairRow) -> BarRow {
    BarRow {
        run: row.group,
        operation: row.label,
        count: String::new(),
        total: String::new(),
        first: row.first,
        rows_of_run: 1,
        remainder: None,
        at_least: false,
    }
}
