//! Limits on what this crate holds or draws, with their reasons.

/// Rows of an aggregate, without `(other)`. Names come from the wire, so a garbage capture could create millions. All protocols
/// together have fewer than 1,000 commands and verbs, and nobody reads a longer table. A row takes up to 400 kB if all its
/// sizes and latencies differ.
pub const ROWS: usize = 1_024;

/// Distinct statements per run before shedding starts: an application has some hundreds, and nobody reads a thousand. A
/// statement takes about 500 bytes plus its text. Many different latencies add 8 kB per power of two of nanoseconds they cover.
pub const STATEMENTS: usize = 4_096;

/// Statements per row in the record; one entry sums the rest.
pub const STATEMENTS_SHOWN: usize = 100;

/// Connections kept for the record, as the contract requires.
pub const CONNECTIONS: usize = 1_000;

/// Connections whose ends are kept for counters, 100 bytes each: the kernel side remembers the owners of as many.
pub const PEERS: usize = 65_536;

/// Separate sums by connection, client or server, up to 250 kB each if all latencies differ. Beyond the limit, the smallest
/// ended groups share a row.
pub const GROUPS: usize = 4_096;

/// Largest groups that get rows in the record: as many as connections.
pub const PEER_ROWS: usize = CONNECTIONS;

/// Distinct values in a distribution's sorted list (16 bytes each) before it becomes a histogram. Wire sizes rarely have more,
/// and a row with few operations never does, so the long tail of rows stays at 8 kB per distribution.
pub const SPARSE_VALUES: usize = 512;

/// Default threshold for omitting operations from a chart: less than one part in this many of a run's workload bytes. The
/// chart counts omissions. A benchmark's initial queries are not its subject.
pub const FIGURE_NEGLIGIBLE: u64 = 1_000;

/// Exception: operations that make up at least one in this many stay, because frequent ones matter even if small.
pub const FIGURE_COMMON: u64 = 100;

/// Characters of a run or operation name in a chart: about four lines. Names come from the wire.
pub const FIGURE_NAME_CHARS: usize = 200;

/// Characters of a command or reason in a caption; longer text ends in an ellipsis.
pub const CAPTION_CHARS: usize = 160;

/// Warnings per run in a caption; the accompanying report lists all.
pub const CAPTION_WARNINGS: usize = 3;

/// Default limit on chart rows: 48 make an image of about 1,600 by 6,000 pixels, a reasonable scrolling length.
pub const FIGURE_ROWS: usize = 48;

/// Pairs of a comparison shown in full to people, who would not read more; JSON and CSV have all.
pub const PAIRS_TOLD: usize = 10;

/// Changes of a comparison shown to people, so that the whole of it fits on a screen of 40 lines.
pub const CHANGES_TOLD: usize = 10;

/// Pairs of operations whose difference a comparison explains in a sentence.
pub const SENTENCES_TOLD: usize = 2;

/// Characters of an operation in a table with one line per pair, which leaves room for both runs' numbers.
pub const OVERVIEW_CHARS: usize = 24;

/// Largest statements drawn per run in a report: as many bars as readers can compare in one chart. Runs with fewer show all.
pub const REPORT_STATEMENTS: usize = 10;

/// Time steps of a run in a report: as many points as a line can legibly show, each with a latency distribution.
pub const SERIES_STEPS: usize = 60;

/// Shortest time step of a run in a report. Shorter steps would show a scheduler's turns, not a rate.
pub const SERIES_STEP_NS: u64 = 100_000_000;

/// Fewest whole time steps that are drawn: a run of less than a second has no course.
pub const SERIES_LEAST: usize = 10;

/// Rows of ranges in a report: one screenful.
pub const RANGE_ROWS: usize = 24;

/// Bytes of a record, budget or other text read as a whole: several times the longest record, yet parsable within a few hundred
/// MiB.
pub const TEXT_BYTES: u64 = 32 << 20;

/// Panels of a row for the values of a parameter: as many as remain legible on a page.
pub const FACETS: usize = 6;

/// Time limits below a panel of latencies.
pub const PANEL_BOUNDS: usize = 10;
