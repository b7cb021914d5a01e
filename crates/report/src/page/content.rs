//! The content of a page, as the template receives it.

use crate::document::{Fact, Section};
use crate::error::ReportError;
use crate::figure::{NARROW, Plot, PlotStyle};
use crate::grid::{Column, Grid};
use crate::series::RunSeries;
use crate::summary::grouped_by;
use serde::Serialize;

#[derive(Debug, Default, Serialize)]
pub(crate) struct WebPage {
    pub title: String,
    /// Three sentences: the measurement and its result.
    pub sentences: Vec<String>,
    /// Caveats, shown before the results.
    pub warnings: Vec<PageWarning>,
    pub charts: Vec<PageFigure>,
    pub tables: Vec<PageTable>,
    /// Possible savings as a table; `extras` holds the details.
    pub found: Option<PageTable>,
    /// A paragraph on how it was measured, to paste elsewhere; empty without one.
    pub method: String,
    /// Machine, commands and integrity of each run.
    pub conditions: Vec<Conditions>,
    pub records: Vec<Record>,
    pub tool: String,
    /// `light` or `dark`; `None` to follow the reader's system setting.
    pub theme: Option<&'static str>,
    pub extras: PageExtras,
}

/// Page content that only the packets can supply.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PageExtras {
    /// Possible savings, largest first.
    pub findings: Vec<PageFinding>,
    /// Operations shown byte by byte.
    pub examples: Vec<PageExample>,
    /// Operations over time, drawn and shown in a table.
    #[serde(skip)]
    pub series: Vec<RunSeries>,
}

/// A possible saving in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageFinding {
    /// Run name; empty if there is only one run.
    pub run: String,
    /// Operations that the finding is about.
    pub subject: String,
    /// The rule that found it, in the form `advise --what-if` accepts.
    pub rule: &'static str,
    /// The finding in one sentence.
    pub title: String,
    /// Bytes per operation, share of bytes on the wire, milliseconds per operation, share of the time spent waiting; `-` if
    /// unknown.
    pub cost: [String; 4],
    /// How reliable this is.
    pub certainty: &'static str,
    /// Savings, and the settings that lead to them.
    pub facts: Vec<Fact>,
    /// How it is known.
    pub known_by: Vec<Fact>,
}

impl PageExtras {
    /// Returns the findings as a table, or `None` if there are none.
    pub(super) fn findings_table(&self) -> Option<PageTable> {
        let several = self.findings.iter().any(|finding| !finding.run.is_empty());
        let keys = several.then_some("run").into_iter().chain(["what", "of"]).map(Column::left);
        let figures = ["saves B/op", "of the wire", "saves ms/op", "of the waiting"].map(Column::right);
        let columns = keys.chain(figures).chain([Column::left("certainty")]).collect();
        let row = |finding: &PageFinding| {
            let run = several.then(|| finding.run.clone()).into_iter();
            let keys = run.chain([finding.rule.to_owned(), finding.subject.clone()]);
            keys.chain(finding.cost.clone()).chain([finding.certainty.to_owned()]).collect()
        };
        let rows: Vec<Vec<String>> = self.findings.iter().map(row).collect();
        (!rows.is_empty())
            .then(|| PageTable::from_grid("found", "What could be saved", Grid { columns, rows, keys: 1 }))
    }
}

/// One operation byte by byte, including user data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageExample {
    /// Operation, and the run if there are several.
    pub title: String,
    /// Frames of the operation, in order.
    pub frames: Vec<ExampleFrame>,
}

/// A frame of an example, with the operation's bytes in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExampleFrame {
    /// Number, time, direction and lengths.
    pub title: String,
    /// Fields in wire order.
    pub pieces: Vec<ExamplePiece>,
}

/// A field of an example, or its part in this frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExamplePiece {
    /// Account; empty for bytes of other operations.
    pub account: &'static str,
    /// Field name, groups first.
    pub field: String,
    /// Bytes as pairs of hexadecimal digits separated by spaces; shortened if there are many.
    pub hex: String,
    /// The same bytes as text; non-ASCII characters appear as dots.
    pub text: String,
    /// Length in bytes.
    pub length: u64,
    /// Remark on the bytes: how many are omitted, or why none appear.
    pub note: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct PageWarning {
    /// Affected runs; empty if there is only one subject.
    pub of: String,
    pub text: String,
}

/// A chart embedded in the page.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PageFigure {
    /// File name without suffix.
    pub name: String,
    pub title: String,
    /// How to read it; empty if it needs no words.
    pub method: String,
    pub svg: String,
    /// Version for small screens.
    pub narrow: String,
    /// Width of `svg` in logical pixels.
    pub width: u32,
}

impl PageFigure {
    /// Returns a chart in both widths.
    pub(crate) fn new(name: &str, plot: &Plot) -> Result<Self, ReportError> {
        let narrow = plot.clone().with_style(PlotStyle { width: NARROW, dark: false });
        Ok(Self {
            name: name.to_owned(),
            title: plot.words()[0].to_owned(),
            method: plot.method().to_owned(),
            svg: plot.inline(name)?,
            narrow: narrow.inline(&format!("{name}-narrow"))?,
            width: plot.style().width,
        })
    }
}

/// A sortable, copyable table.
#[derive(Debug, Serialize)]
pub(crate) struct PageTable {
    /// Anchor in the page.
    pub id: String,
    pub title: String,
    pub columns: Vec<Column>,
    pub rows: Vec<PageRow>,
    /// Meaning of the columns.
    pub notes: Vec<String>,
    /// Collapsed until the reader opens it.
    pub folded: bool,
}

/// A row and the detail that unfolds below it.
#[derive(Debug, Serialize)]
pub(crate) struct PageRow {
    pub cells: Vec<String>,
    pub detail: Option<RowDetail>,
}

#[derive(Debug, Serialize)]
pub(crate) struct RowDetail {
    pub id: String,
    /// Index of the cell that unfolds it, from 0.
    pub cell: usize,
    pub name: String,
    pub sides: Vec<SideBar>,
    pub tables: Vec<PageTable>,
}

/// One direction of an operation as a bar.
#[derive(Debug, Serialize)]
pub(crate) struct SideBar {
    pub name: &'static str,
    /// Reason for a missing bar.
    pub absent: Option<String>,
    pub total: String,
    /// Share of the longer of the two bars, in percent.
    pub width: String,
    pub parts: Vec<SidePart>,
}

#[derive(Debug, Serialize)]
pub(crate) struct SidePart {
    pub account: &'static str,
    pub bytes: String,
    /// Share of the bar, in percent.
    pub share: String,
    /// Space that the name and number need: `short`, `middle` or `long`.
    pub length: &'static str,
}

#[derive(Debug, Serialize)]
pub(crate) struct Conditions {
    pub name: String,
    pub facts: Vec<Fact>,
    /// Full command lines.
    pub commands: Vec<Fact>,
}

/// A record in its schema's form.
#[derive(Debug, Serialize)]
pub(crate) struct Record {
    pub name: String,
    /// `run` or `bench`.
    pub kind: &'static str,
    pub json: String,
}

impl PageWarning {
    /// Lists each text once. `named` joins the names that it is about.
    pub(crate) fn listed(
        texts: impl IntoIterator<Item = (String, String)>,
        named: impl Fn(Vec<String>) -> String,
    ) -> impl Iterator<Item = Self> {
        let told = grouped_by(texts.into_iter().map(|(name, text)| (text, name)));
        told.into_iter().map(move |(text, names)| Self { of: named(names), text })
    }
}

impl PageTable {
    /// Converts a text table to a page table.
    pub(crate) fn from_grid(id: &str, title: &str, grid: Grid) -> Self {
        let grid = grid.measured();
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            columns: grid.columns.iter().map(Column::on_one_line).collect(),
            rows: grid.rows.into_iter().map(|cells| PageRow { cells, detail: None }).collect(),
            notes: Vec::new(),
            folded: false,
        }
    }

    pub(crate) fn from_section(id: &str, section: Section) -> Self {
        Self::from_grid(id, &section.title, section.table).with_notes(section.notes)
    }

    pub(crate) fn with_notes(self, notes: impl IntoIterator<Item = String>) -> Self {
        Self { notes: notes.into_iter().collect(), ..self }
    }
}
