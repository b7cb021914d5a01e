//! What a page says, as the template sees it.

use crate::error::ReportError;
use crate::figure::{Look, NARROW, Plot};
use crate::series::RunSeries;
use crate::text::grid::{Column, Grid};
use serde::Serialize;

/// All of a page.
#[derive(Debug, Default, Serialize)]
pub(crate) struct WebPage {
    pub title: String,
    /// What was measured and what came of it, in three.
    pub sentences: Vec<String>,
    /// What there is to know before any of it is believed.
    pub doubts: Vec<Doubt>,
    pub figures: Vec<PageFigure>,
    pub tables: Vec<PageTable>,
    /// What could be saved, as a table; what there is to say of each is in `extras`.
    pub found: Option<PageTable>,
    /// Machine, commands and integrity of each run.
    pub conditions: Vec<Conditions>,
    pub records: Vec<Record>,
    /// What made it.
    pub tool: String,
    /// `light` or `dark`; `None` as the reader's system has it.
    pub theme: Option<&'static str>,
    pub extras: PageExtras,
}

/// What only the packets say of runs, for their page.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PageExtras {
    /// What could be saved.
    pub findings: Vec<PageFinding>,
    /// Operations byte by byte.
    pub examples: Vec<PageExample>,
    /// Operations over time: they are drawn, and stand in a table.
    #[serde(skip)]
    pub series: Vec<RunSeries>,
}

/// Something that could be saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageFinding {
    /// The run; empty where there is one.
    pub run: String,
    /// The operations that it is about.
    pub subject: String,
    /// The rule that found it, as `advise --what-if` takes it.
    pub rule: &'static str,
    /// What it is.
    pub title: String,
    /// How much, in words.
    pub saves: String,
    /// Bytes of an operation, the part of the bytes on the wire, milliseconds of an operation, the part of the time that was waited;
    /// `-` where it is not known.
    pub cost: [String; 4],
    /// How far that can be relied on.
    pub certainty: &'static str,
    /// Settings that mend it.
    pub remedies: Vec<String>,
    /// What shows it.
    pub evidence: String,
    /// How it was computed.
    pub computed: String,
    /// What is not known.
    pub unknown: String,
    /// How to look at one of the operations; empty where none is an example.
    pub example: String,
}

impl PageExtras {
    /// Returns what is found as a table; `None` where nothing is.
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
        (!rows.is_empty()).then(|| PageTable::of_grid("found", "What could be saved", Grid { columns, rows, keys: 1 }))
    }
}

/// One operation byte by byte. It has user data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageExample {
    /// What it is.
    pub title: String,
    /// Its frames in their order.
    pub frames: Vec<ExampleFrame>,
}

/// A frame of an example.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExampleFrame {
    /// Number, time, direction and lengths.
    pub title: String,
    /// What it holds.
    pub pieces: Vec<ExamplePiece>,
}

/// A field of an example, or the part of it in a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExamplePiece {
    /// Where it is posted; empty for bytes of other operations.
    pub account: &'static str,
    /// Its name, groups first.
    pub field: String,
    /// Its bytes in hexadecimal digits, pairs apart; shortened where there are many.
    pub hex: String,
    /// The same as text, other characters than ASCII's as dots.
    pub text: String,
    /// Length.
    pub length: u64,
    /// What there is to say of the bytes: how many are not shown, or why none is.
    pub note: String,
}

/// A reason not to believe figures.
#[derive(Debug, Serialize)]
pub(crate) struct Doubt {
    /// The runs that it is about; empty where there is only one subject.
    pub of: String,
    pub text: String,
}

/// A figure that is part of the page.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PageFigure {
    /// Name of its files, without suffix.
    pub name: String,
    pub title: String,
    pub svg: String,
    /// The same for small screens.
    pub narrow: String,
    /// Of `svg`, in logical pixels.
    pub width: u32,
}

impl PageFigure {
    /// Returns a figure in both widths.
    ///
    /// # Errors
    ///
    /// Those of drawing.
    pub(crate) fn of(name: &str, plot: &Plot) -> Result<Self, ReportError> {
        let narrow = plot.clone().looking(Look { width: NARROW, dark: false });
        Ok(Self {
            name: name.to_owned(),
            title: plot.title().to_owned(),
            svg: plot.inline(name)?,
            narrow: narrow.inline(&format!("{name}-narrow"))?,
            width: plot.width(),
        })
    }
}

/// A table that can be sorted and copied.
#[derive(Debug, Serialize)]
pub(crate) struct PageTable {
    /// Its place in the page.
    pub id: String,
    pub title: String,
    pub columns: Vec<PageColumn>,
    pub rows: Vec<PageRow>,
    /// What its columns mean.
    pub notes: Vec<String>,
    /// It is folded away until somebody wants it.
    pub folded: bool,
}

/// A column: left-aligned ones hold words, the others numbers.
#[derive(Debug, Serialize)]
pub(crate) struct PageColumn {
    pub header: String,
    pub left: bool,
}

/// A row, and what unfolds below it.
#[derive(Debug, Serialize)]
pub(crate) struct PageRow {
    pub cells: Vec<String>,
    pub detail: Option<RowDetail>,
}

/// What unfolds below a row.
#[derive(Debug, Serialize)]
pub(crate) struct RowDetail {
    pub id: String,
    /// The cell that unfolds it, from 0.
    pub cell: usize,
    pub name: String,
    pub sides: Vec<SideBar>,
    pub tables: Vec<PageTable>,
}

/// One direction of an operation as a bar.
#[derive(Debug, Serialize)]
pub(crate) struct SideBar {
    pub name: &'static str,
    /// Why there is no bar.
    pub absent: Option<String>,
    pub total: String,
    /// Part of the longer of the two bars, in percent.
    pub width: String,
    pub parts: Vec<SidePart>,
}

/// An account of a bar.
#[derive(Debug, Serialize)]
pub(crate) struct SidePart {
    pub account: &'static str,
    pub bytes: String,
    /// Part of the bar, in percent.
    pub share: String,
    /// How much room its name and figure take: `short`, `middle` or `long`.
    pub length: &'static str,
}

/// Under which conditions a run was made.
#[derive(Debug, Serialize)]
pub(crate) struct Conditions {
    pub name: String,
    pub facts: Vec<Fact>,
    /// Commands, whole.
    pub commands: Vec<Fact>,
}

/// Something that is so.
#[derive(Debug, Serialize)]
pub(crate) struct Fact {
    pub term: String,
    pub text: String,
}

/// A record, as its schema has it.
#[derive(Debug, Serialize)]
pub(crate) struct Record {
    pub name: String,
    /// `run`, `sweep` or `bench`.
    pub kind: &'static str,
    pub json: String,
}

impl Fact {
    pub(crate) fn new(term: &str, text: impl Into<String>) -> Self {
        Self { term: term.to_owned(), text: text.into() }
    }
}

impl PageColumn {
    pub(crate) fn of(column: &Column) -> Self {
        let header = column.header.replace("-\n", "").replace('\n', " ").trim().to_owned();
        Self { header, left: column.left }
    }
}

impl PageTable {
    /// Returns a table of text as one of the page.
    pub(crate) fn of_grid(id: &str, title: &str, grid: Grid) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            columns: grid.columns.iter().map(PageColumn::of).collect(),
            rows: grid.rows.into_iter().map(|cells| PageRow { cells, detail: None }).collect(),
            notes: Vec::new(),
            folded: false,
        }
    }

    /// Adds what its columns mean.
    pub(crate) fn with_notes(self, notes: impl IntoIterator<Item = String>) -> Self {
        Self { notes: notes.into_iter().collect(), ..self }
    }
}
