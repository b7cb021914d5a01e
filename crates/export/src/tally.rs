//! Collects closed operations and passes them on in batches.

use crate::dataset::Dataset;
use crate::encode::{DatasetFormat, TableLayout};
use crate::sink::{FilePlan, FileSink};
use crate::stop::ExportStop;
use crate::table::connections;
use crate::table::operations::{self, ConnectionPeers, OperationBatch, OperationShape, RowEnding};
use crate::table::statements::{StatementKey, StatementList, StatementSums};
use anyhow::{Result, anyhow};
use foldhash::fast::FixedState;
use overhead_dissect::{Dissector, KeyLog, Selection, Totals};
use overhead_model::record::Sample;
use overhead_model::{
    ConnectionEnds, ConnectionSummary, Frame, Operation, Outcome, RowId, RowKey, Side, SideTotals, Tally,
};
use overhead_reading::{DissectWindows, Schedule, add_window};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

/// Limit on open files of the table `operations`, one for each recent day.
const OPEN_DAYS: usize = 4;
/// Limit on pairs of connection and statement with late frames. Beyond it, their rows are written early.
const LATE: usize = 1 << 15;
const DAY_NS: u64 = 86_400_000_000_000;

pub struct ExportTally {
    dataset: Rc<Dataset>,
    sink: FileSink,
    stop: ExportStop,
    statements: StatementList,
    operations: Arc<TableLayout<OperationBatch>>,
    connections: Arc<TableLayout<Vec<connections::ConnectionRow>>>,
    current: Option<ConnectionEnds>,
    names: Option<[String; 2]>,
    /// By number.
    open: HashMap<u64, ExportConnection, FixedState>,
    days: DayBatches,
    ended: Vec<connections::ConnectionRow>,
    connections_file: Option<Arc<FilePlan>>,
    rows: u64,
    /// Number of pairs with late frames.
    late: usize,
    part: CapturePart,
}

/// The part of the capture in one dissector: a window of a sampled capture, or the whole capture.
#[derive(Debug, Default)]
struct CapturePart {
    /// The window's period.
    window: Option<u64>,
    /// First connection number of this part and of the next one.
    first: u64,
    next: u64,
    /// The window ends: open operations are cut.
    is_at_end: bool,
}

/// An open connection.
struct ExportConnection {
    peers: Arc<ConnectionPeers>,
    /// Start of its latest operation.
    latest_ns: u64,
    /// Late frames by statement.
    late: BTreeMap<u32, [SideTotals; 2]>,
}

/// Open files by day; all rows have day 0 unless the data set is split by day.
#[derive(Default)]
struct DayBatches {
    open: BTreeMap<u64, (Arc<FilePlan>, OperationBatch)>,
    /// Files per day so far.
    files: BTreeMap<u64, u32>,
}

pub struct TallyOutcome {
    /// For the remaining tables.
    pub sink: FileSink,
    pub statements: Vec<StatementSums>,
    /// Rows of the table `operations`.
    pub rows: u64,
}

impl ExportTally {
    /// Sets `stop` if writing to `sink` fails.
    pub fn new(dataset: Rc<Dataset>, sink: FileSink, stop: ExportStop) -> Result<Self> {
        Ok(Self {
            operations: Arc::new(dataset.layout("operations", operations::fields())?),
            connections: Arc::new(dataset.layout("connections", connections::fields())?),
            dataset,
            sink,
            stop,
            statements: StatementList::default(),
            current: None,
            names: None,
            open: HashMap::default(),
            days: DayBatches::default(),
            ended: Vec::new(),
            connections_file: None,
            rows: 0,
            late: 0,
            part: CapturePart::default(),
        })
    }

    /// Starts the window of this period.
    pub fn begin_window(&mut self, period: u64) {
        self.part.window = Some(period);
    }

    /// Marks the following operations as cut by the end of the window.
    pub fn cut_window(&mut self) {
        self.part.is_at_end = true;
    }

    /// Ends the window, after its last connection.
    pub fn end_window(&mut self) {
        self.part.is_at_end = false;
        self.part.first = self.part.next;
    }

    /// Writes what is left.
    pub fn finish(mut self) -> TallyOutcome {
        while let Some((_, (file, batch))) = self.days.open.pop_first() {
            self.write(&file, batch);
            self.stop_unless(|tally| tally.sink.end(&file));
        }
        self.write_connections();
        if let Some(file) = self.connections_file.take() {
            self.stop_unless(|tally| tally.sink.end(&file));
        }
        TallyOutcome { sink: self.sink, statements: self.statements.into_sums(), rows: self.rows }
    }

    fn stop_unless(&mut self, write: impl FnOnce(&mut Self) -> bool) {
        if !write(self) {
            self.stop.set_failed();
        }
    }

    fn push(&mut self, times: (u64, Option<u64>), shape: &OperationShape) {
        let Self { current: Some(ends), names, open, statements, part, .. } = self else { return };
        let Some(key) = statements.key(shape.statement) else { return };
        let key = Arc::clone(key);
        let peers = connection(open, ends, names.as_ref(), part.window);
        peers.latest_ns = times.0;
        let peers = Arc::clone(&peers.peers);
        self.push_row(times, shape, &key, &peers);
    }

    fn push_row(
        &mut self,
        times: (u64, Option<u64>),
        shape: &OperationShape,
        key: &Arc<StatementKey>,
        peers: &Arc<ConnectionPeers>,
    ) {
        let day = if self.dataset.by_day { times.0 / DAY_NS } else { 0 };
        if !self.days.open.contains_key(&day) {
            self.open_day(day);
        }
        let Some((file, batch)) = self.days.open.get_mut(&day) else { return };
        batch.push(times, shape, key, peers);
        self.rows += 1;
        if batch.is_full(self.dataset.form != DatasetFormat::Parquet) {
            let (file, batch) = (Arc::clone(file), std::mem::take(batch));
            self.write(&file, batch);
        }
    }

    /// Adds rows for the late frames of the current connection.
    fn push_late_rows(&mut self, number: u64) {
        let Some(ExportConnection { latest_ns, late, .. }) = self.open.get_mut(&number) else { return };
        let (latest_ns, late) = (*latest_ns, std::mem::take(late));
        self.late -= late.len();
        for (statement, sides) in late {
            self.push((latest_ns, None), &OperationShape { statement, ending: RowEnding::Late, sides, round_trips: 0 });
        }
    }

    #[cold]
    fn open_day(&mut self, day: u64) {
        if self.days.open.len() >= OPEN_DAYS
            && let Some((_, (file, batch))) = self.days.open.pop_first()
        {
            self.write(&file, batch);
            self.stop_unless(|tally| tally.sink.end(&file));
        }
        let number = self.days.files.entry(day).or_default();
        let place = self.dataset.daily("operations", day * DAY_NS, *number);
        *number += 1;
        let plan = Arc::new(FilePlan::new(&self.dataset.root, place, &self.operations));
        self.days.open.insert(day, (plan, OperationBatch::default()));
    }

    #[inline(never)]
    fn write(&mut self, file: &Arc<FilePlan>, batch: OperationBatch) {
        if batch.is_empty() {
            return;
        }
        self.statements.add(&batch);
        let rows = batch.len();
        self.stop_unless(|tally| tally.sink.append(file, &tally.operations, batch, rows));
    }

    fn write_connections(&mut self) {
        let ended = std::mem::take(&mut self.ended);
        if ended.is_empty() {
            return;
        }
        let Self { connections_file, dataset, connections, .. } = self;
        let plan = || Arc::new(FilePlan::new(&dataset.root, dataset.table("connections"), connections));
        let file = Arc::clone(connections_file.get_or_insert_with(plan));
        let rows = ended.len();
        self.stop_unless(|tally| tally.sink.append(&file, &tally.connections, ended, rows));
    }
}

/// Returns a connection, which is added if new.
fn connection<'a>(
    open: &'a mut HashMap<u64, ExportConnection, FixedState>,
    ends: &ConnectionEnds,
    names: Option<&[String; 2]>,
    window: Option<u64>,
) -> &'a mut ExportConnection {
    open.entry(ends.number).or_insert_with(|| ExportConnection {
        peers: Arc::new(ConnectionPeers::new((ends.number, window), [ends.client, ends.server], names)),
        latest_ns: ends.first_ns,
        late: BTreeMap::new(),
    })
}

impl Tally for ExportTally {
    fn row(&mut self, key: RowKey<'_>) -> RowId {
        RowId(u64::from(self.statements.place(key)))
    }

    #[inline]
    fn operations(&mut self, _: RowId, _: &Operation, _: u64) {}

    #[inline]
    fn wants_each(&self) -> bool {
        true
    }

    fn each(&mut self, row: RowId, operation: &Operation, start_ns: Option<u64>) {
        let Operation { sides, outcome, latency_ns, round_trips } = *operation;
        let Some(ends) = &self.current else { return };
        let start_ns = start_ns.unwrap_or(ends.first_ns);
        let is_cut = self.part.is_at_end && outcome == Outcome::Unanswered;
        let ending = if is_cut { RowEnding::Cut } else { outcome.into() };
        self.push((start_ns, latency_ns), &OperationShape { statement: row.0 as u32, ending, sides, round_trips });
    }

    fn late(&mut self, row: RowId, side: Side, totals: &SideTotals) {
        let Self { current: Some(ends), names, open, part, .. } = self else { return };
        let number = ends.number;
        let sums = &mut connection(open, ends, names.as_ref(), part.window).late;
        let before = sums.len();
        if let Some(sum) = sums.entry(row.0 as u32).or_default().get_mut(side as usize) {
            sum.add_times(totals, 1);
        }
        self.late += sums.len() - before;
        if self.late > LATE {
            self.push_late_rows(number);
        }
    }

    fn connection(&mut self, summary: ConnectionSummary) {
        let Some(ends) = self.current else { return };
        self.push_late_rows(ends.number);
        self.open.remove(&ends.number);
        self.ended.push(connections::ConnectionRow { number: ends.number, window: self.part.window, summary });
        if self.ended.len() >= connections::ROWS {
            self.write_connections();
        }
    }

    #[inline]
    fn wants_ends(&self) -> bool {
        true
    }

    #[inline]
    fn turn_to(&mut self, ends: &ConnectionEnds) {
        let number = self.part.first + ends.number;
        self.part.next = self.part.next.max(number + 1);
        self.current = Some(ConnectionEnds { number, ..*ends });
        self.names = None;
    }

    fn name_ends(&mut self, names: &[String; 2]) {
        self.names = Some(names.clone());
    }

    fn swap_ends(&mut self) {
        if let Some(ends) = &mut self.current {
            std::mem::swap(&mut ends.client, &mut ends.server);
        }
        if let Some(names) = &mut self.names {
            names.swap(0, 1);
        }
    }
}

pub struct ExportWindows {
    selection: Selection,
    keys: Arc<KeyLog>,
    stop: ExportStop,
    /// For the current or the next window.
    dissector: Option<Dissector<ExportTally>>,
    period: Option<u64>,
    ended: Totals,
    windows: u64,
    covered_ns: u64,
}

impl ExportWindows {
    pub fn new(selection: Selection, keys: Arc<KeyLog>, tally: ExportTally, stop: ExportStop) -> Self {
        let mut new = Self {
            selection,
            keys,
            stop,
            dissector: None,
            period: None,
            ended: Totals::default(),
            windows: 0,
            covered_ns: 0,
        };
        new.start_dissector(tally);
        new
    }

    fn start_dissector(&mut self, tally: ExportTally) {
        self.dissector = Some(Dissector::new(self.selection.clone(), tally).with_keys(Arc::clone(&self.keys)));
    }

    pub fn finish(mut self, schedule: Option<&Schedule>) -> Result<(ExportTally, Totals, Option<Sample>)> {
        let last =
            self.dissector.take().ok_or_else(|| anyhow!("a window was not ended: this is a bug, please report it"))?;
        let (tally, rest) = last.finish();
        self.ended.append(&rest);
        let sample = schedule.map(|schedule| {
            let [window_ns, period_ns] = schedule.cycle_ns();
            let (windows, covered_ns, span_ns) = (self.windows, self.covered_ns, schedule.span_ns());
            Sample { window_ns, period_ns, windows, span_ns, covered_ns, ..Sample::default() }
        });
        Ok((tally, self.ended, sample))
    }
}

impl DissectWindows for ExportWindows {
    #[inline]
    fn frame(&mut self, period: u64, frame: &Frame<'_>) {
        let Some(dissector) = &mut self.dissector else { return };
        if self.period != Some(period) {
            self.period = Some(period);
            dissector.tally_mut().begin_window(period);
        }
        dissector.frame(frame);
    }

    fn end_window(&mut self, covered_ns: u64) {
        self.skip(covered_ns, 1);
        let Some(mut dissector) = self.dissector.take_if(|dissector| dissector.totals().frames > 0) else { return };
        // Report closed connections before open operations are cut.
        dissector.tally();
        dissector.tally_mut().cut_window();
        let (mut tally, totals) = dissector.finish();
        tally.end_window();
        add_window(&mut self.ended, totals);
        self.start_dissector(tally);
    }

    fn skip(&mut self, covered_ns: u64, windows: u64) {
        self.windows += windows;
        self.covered_ns += covered_ns.saturating_mul(windows);
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.stop.should_stop()
    }
}
