//! Every bound on what this crate holds or draws, with its reason.

/// Rows of an aggregate, `(other)` left out. Names come from the wire, so a capture of garbage could make millions;
/// commands and verbs of all protocols together are under 1,000, and a table of more is not read by anyone. A row takes up
/// to 400 kB, where its sizes and latencies are all different.
pub const ROWS: usize = 1_024;

/// Statements that a run tells apart before some are shed: an application has some hundreds, and a thousand are not read by
/// anyone. One takes some 500 bytes, its text, and where its latencies are many and
/// different, 8 kB for each power of two of nanoseconds that they lie in.
pub const STATEMENTS: usize = 4_096;

/// Statements of a row in the record; the others are one.
pub const STATEMENTS_SHOWN: usize = 100;

/// Connections kept for the record. The contract says 1,000.
pub const CONNECTIONS: usize = 1_000;

/// Connections whose ends are kept beside counters, 100 bytes each: as many as the kernel side remembers the owners of.
pub const PEERS: usize = 65_536;

/// Connections, clients or servers whose operations are added up apart, up to 250 kB each where their latencies are all different;
/// beyond it, the smallest of those that have ended share a row.
pub const GROUPS: usize = 4_096;

/// Of these, the largest, that have rows in the record: as many as connections.
pub const PEER_ROWS: usize = CONNECTIONS;

/// Distinct values that a distribution keeps as a sorted list (16 bytes each) before it becomes a histogram. Wire sizes
/// rarely have more, and a row of few operations never does, so the long tail of rows stays at 8 kB per distribution.
pub const SPARSE_VALUES: usize = 512;

/// Where the caller does not say how many operations to draw, those below one in this many of a run's workload bytes
/// are left out, and counted: what a benchmark asks once at its start is not what it measures.
pub const FIGURE_NEGLIGIBLE: u64 = 1_000;

/// Unless they are at least one in this many of its operations: what is asked often matters though it is small.
pub const FIGURE_COMMON: u64 = 100;

/// Characters of a run's or an operation's name in a figure: about four lines. Names come from the wire.
pub const FIGURE_NAME_CHARS: usize = 200;

/// Characters of a command or reason in a caption; a longer one ends in an ellipsis.
pub const CAPTION_CHARS: usize = 240;

/// Warnings of one run that a caption repeats; the report beside it has them all.
pub const CAPTION_WARNINGS: usize = 3;

/// Rows of a figure when the caller does not say how many operations to draw: 48 make an image of about 1,600 by 6,000
/// pixels, which is as far as one scrolls.
pub const FIGURE_ROWS: usize = 48;

/// Pairs of a comparison that are told in full where people read it: more are not read, and JSON and CSV have all.
pub const PAIRS_TOLD: usize = 10;

/// Characters of an operation in a table that has a line for each pair: figures of both runs fit beside it.
pub const OVERVIEW_CHARS: usize = 32;

/// Statements of a run that a report draws, the largest: as many bars as can be compared in one figure. Those of a run with fewer are all drawn.
pub const REPORT_STATEMENTS: usize = 10;

/// Steps of a run's time in a report: as many points as a line can be read by, each with its own distribution of latencies.
pub const SERIES_STEPS: usize = 60;

/// Rows of ranges in a report: as many as stand on one screen.
pub const RANGE_ROWS: usize = 24;

/// Bytes of a record, a budget or another text that is read as a whole: several times the longest record, and little enough to be
/// parsed in a few hundred MiB.
pub const TEXT_BYTES: u64 = 32 << 20;
