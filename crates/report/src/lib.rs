//! Aggregates operations and presents them as tables, records and charts.
//!
//! [`Aggregate`] sums closed operations; [`build_run`] makes the run record and verifies that the ledger balances. [`text`]
//! prints a record; [`figure`] and [`write_report`] present any number of them side by side, [`compare`] compares them,
//! [`gate`] checks them against limits. The crate uses no network, clock or system font: equal records give equal output
//! everywhere.

#![forbid(unsafe_code)]

pub mod aggregate;
pub mod bounded;
mod bounds;
mod clean;
pub mod compare;
pub mod composition;
mod distance;
mod document;
mod error;
pub mod figure;
#[cfg(test)]
mod fixture;
pub mod gate;
mod grid;
mod latencies;
pub mod limits;
pub mod load;
pub mod number;
mod page;
mod ranges;
mod report;
mod report_folder;
pub mod reported;
mod run;
mod sample;
mod series;
mod summary;
mod sums;
pub mod sweep;
pub mod text;
mod view;

pub use aggregate::{Aggregate, KindKey, OperationKind, RowSums, RunFacts, SharedListener, balance, build_run};
pub use document::{Document, Fact, json};
pub use error::ReportError;
pub use figure::{
    ChartAxes, DotFigure, DotRow, Line, LineFigure, PanelFigure, PanelLine, PanelPoint, Plot, PlotPanel, PlotStyle,
    ReportOptions, StackFigure, StackRow, Theme, draw,
};
pub use grid::Style;
pub use page::{ExampleFrame, ExamplePiece, PageExample, PageExtras, PageFinding, sentences};
pub use report::{REPORT_FILES, replaced_by_report, report_markdown, write_report, write_report_as};
pub use run::RunGroup;
pub use run::{NamedRun, load_named_run, load_run, parse_run};
pub use sample::{Clusters, WindowTotals};
pub use series::RunSeries;
pub use summary::{grouped_by, systems, window_ns, workload_count as workload_operations, workload_names};
pub use sweep::Sweep;
pub use text::{Columns, OperationColumn};
pub use view::{ViewOptions, numbered, price, view};
