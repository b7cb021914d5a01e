//! Takes operations as they close, and hands them on in batches.

use crate::dataset::Dataset;
use crate::encode::Layout;
use crate::sink::{FilePlan, Sink};
use crate::stop::Stop;
use crate::table::operations::{Batch, Ending, Peers, Shape};
use crate::table::statements::{Key, StatementSums, Statements};
use crate::table::{connections, operations};
use anyhow::Result;
use foldhash::fast::FixedState;
use overhead_model::{ConnectionSummary, Ends, Operation, Outcome, RowId, RowKey, Side, SideTotals, Tally};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

/// Files of the table `operations` that are open at a time: one for each day on which operations began lately.
const OPEN_DAYS: usize = 4;
/// Connections times statements of which something came late: beyond, they are told of before their connections end.
const LATE: usize = 1 << 15;
const DAY_NS: u64 = 86_400_000_000_000;

/// What is told of a capture, on its way to files.
pub struct ExportTally {
    dataset: Rc<Dataset>,
    sink: Sink,
    stop: Stop,
    statements: Statements,
    operations: Arc<Layout<Batch>>,
    connections: Arc<Layout<Vec<connections::Ended>>>,
    current: Option<Ends>,
    names: Option<[String; 2]>,
    /// Connections that have not ended, by number.
    open: HashMap<u64, Connection, FixedState>,
    days: Days,
    ended: Vec<connections::Ended>,
    connections_file: Option<Arc<FilePlan>>,
    rows: u64,
    /// How many sums of what came late are kept, of all connections.
    late: usize,
    part: Part,
}

/// The part of the capture that is dissected as one: all of it, but for those that were captured in windows.
#[derive(Debug, Default)]
struct Part {
    /// The period whose window it is.
    window: Option<u64>,
    /// Numbers of connections begin with this one, and go on with that one in the next part.
    first: u64,
    next: u64,
    /// It is about to end: what is open is cut.
    is_at_end: bool,
}

/// A connection that has not ended.
struct Connection {
    peers: Arc<Peers>,
    /// When its latest operation began.
    latest_ns: u64,
    /// What came after operations had closed, by statement.
    late: BTreeMap<u32, [SideTotals; 2]>,
}

/// Operations by the day on which they began; of one day where that makes no difference.
#[derive(Default)]
struct Days {
    open: BTreeMap<u64, (Arc<FilePlan>, Batch)>,
    /// Files of a day so far.
    files: BTreeMap<u64, u32>,
}

/// What is left when all files are written.
pub struct Remains {
    /// Where the last tables are to go.
    pub sink: Sink,
    /// All statements that there were.
    pub statements: Vec<StatementSums>,
    /// Rows of the table `operations`.
    pub rows: u64,
}

impl ExportTally {
    /// Returns one that writes into a data set by way of `sink`. `stop` is set when that has failed.
    pub fn new(dataset: Rc<Dataset>, sink: Sink, stop: Stop) -> Result<Self> {
        Ok(Self {
            operations: Arc::new(dataset.layout("operations", operations::fields())?),
            connections: Arc::new(dataset.layout("connections", connections::fields())?),
            dataset,
            sink,
            stop,
            statements: Statements::default(),
            current: None,
            names: None,
            open: HashMap::default(),
            days: Days::default(),
            ended: Vec::new(),
            connections_file: None,
            rows: 0,
            late: 0,
            part: Part::default(),
        })
    }

    /// Says of which period's window the operations to come are.
    pub fn begin_window(&mut self, period: u64) {
        self.part.window = Some(period);
    }

    /// Says that the operations to come are those that the window's end has cut.
    pub fn cut_window(&mut self) {
        self.part.is_at_end = true;
    }

    /// Says that all connections of the window have been told of.
    pub fn end_window(&mut self) {
        self.part.is_at_end = false;
        self.part.first = self.part.next;
    }

    /// Hands everything on.
    pub fn finish(mut self) -> Remains {
        while let Some((_, (file, batch))) = self.days.open.pop_first() {
            self.write(&file, batch);
            self.note(|tally| tally.sink.end(&file));
        }
        self.write_connections();
        if let Some(file) = self.connections_file.take() {
            self.note(|tally| tally.sink.end(&file));
        }
        Remains { sink: self.sink, statements: self.statements.into_sums(), rows: self.rows }
    }

    fn note(&mut self, write: impl FnOnce(&mut Self) -> bool) {
        if !write(self) {
            self.stop.set();
        }
    }

    /// Adds a row of the current connection.
    fn push(&mut self, times: (u64, Option<u64>), shape: &Shape) {
        let Self { current: Some(ends), names, open, statements, part, .. } = self else { return };
        let Some(key) = statements.key(shape.statement) else { return };
        let key = Arc::clone(key);
        let peers = connection(open, ends, names.as_ref(), part.window);
        peers.latest_ns = times.0;
        let peers = Arc::clone(&peers.peers);
        self.push_row(times, shape, &key, &peers);
    }

    fn push_row(&mut self, times: (u64, Option<u64>), shape: &Shape, key: &Arc<Key>, peers: &Arc<Peers>) {
        let day = if self.dataset.by_day { times.0 / DAY_NS } else { 0 };
        if !self.days.open.contains_key(&day) {
            self.open_day(day);
        }
        let Some((file, batch)) = self.days.open.get_mut(&day) else { return };
        batch.push(times, shape, key, peers);
        self.rows += 1;
        if batch.is_full(self.dataset.form) {
            let (file, batch) = (Arc::clone(file), std::mem::take(batch));
            self.write(&file, batch);
        }
    }

    /// Adds the rows of what came late of the current connection, which has this number.
    fn tell_late(&mut self, number: u64) {
        let Some(Connection { latest_ns, late, .. }) = self.open.get_mut(&number) else { return };
        let (latest_ns, late) = (*latest_ns, std::mem::take(late));
        self.late -= late.len();
        for (statement, sides) in late {
            self.push((latest_ns, None), &Shape { statement, ending: Ending::Late, sides });
        }
    }

    #[cold]
    fn open_day(&mut self, day: u64) {
        if self.days.open.len() >= OPEN_DAYS
            && let Some((_, (file, batch))) = self.days.open.pop_first()
        {
            self.write(&file, batch);
            self.note(|tally| tally.sink.end(&file));
        }
        let number = self.days.files.entry(day).or_default();
        let place = self.dataset.operations(day * DAY_NS, *number);
        *number += 1;
        let plan = Arc::new(FilePlan::new(place, &self.operations));
        self.days.open.insert(day, (plan, Batch::default()));
    }

    #[inline(never)]
    fn write(&mut self, file: &Arc<FilePlan>, batch: Batch) {
        if batch.is_empty() {
            return;
        }
        self.statements.add(&batch);
        let rows = batch.len();
        self.note(|tally| tally.sink.append(file, &tally.operations, batch, rows));
    }

    fn write_connections(&mut self) {
        let ended = std::mem::take(&mut self.ended);
        if ended.is_empty() {
            return;
        }
        let Self { connections_file, dataset, connections, .. } = self;
        let plan = || Arc::new(FilePlan::new(dataset.table("connections"), connections));
        let file = Arc::clone(connections_file.get_or_insert_with(plan));
        let rows = ended.len();
        self.note(|tally| tally.sink.append(&file, &tally.connections, ended, rows));
    }
}

/// Returns what is known of a connection, from now on if it is new.
fn connection<'a>(
    open: &'a mut HashMap<u64, Connection, FixedState>,
    ends: &Ends,
    names: Option<&[String; 2]>,
    window: Option<u64>,
) -> &'a mut Connection {
    open.entry(ends.number).or_insert_with(|| Connection {
        peers: Arc::new(Peers::new((ends.number, window), [ends.client, ends.server], names)),
        latest_ns: ends.first_ns,
        late: BTreeMap::new(),
    })
}

impl Tally for ExportTally {
    fn row(&mut self, key: RowKey<'_>) -> RowId {
        RowId(u64::from(self.statements.place(key)))
    }

    #[inline]
    fn operation(&mut self, _: RowId, _: &Operation) {}

    #[inline]
    fn operations(&mut self, _: RowId, _: &Operation, _: u64) {}

    #[inline]
    fn wants_each(&self) -> bool {
        true
    }

    fn each(&mut self, row: RowId, operation: &Operation, start_ns: Option<u64>) {
        let Operation { sides, outcome, latency_ns } = *operation;
        let Some(ends) = &self.current else { return };
        let start_ns = start_ns.unwrap_or(ends.first_ns);
        let is_cut = self.part.is_at_end && outcome == Outcome::Unanswered;
        let ending = if is_cut { Ending::Cut } else { outcome.into() };
        self.push((start_ns, latency_ns), &Shape { statement: row.0 as u32, ending, sides });
    }

    fn late(&mut self, row: RowId, side: Side, totals: &SideTotals) {
        let Self { current: Some(ends), names, open, part, .. } = self else { return };
        let number = ends.number;
        let sums = &mut connection(open, ends, names.as_ref(), part.window).late;
        let before = sums.len();
        if let Some(sum) = sums.entry(row.0 as u32).or_default().get_mut(side as usize) {
            sum.frames += totals.frames;
            sum.amounts.add_times(&totals.amounts, 1);
        }
        self.late += sums.len() - before;
        if self.late > LATE {
            self.tell_late(number);
        }
    }

    fn connection(&mut self, summary: ConnectionSummary) {
        let Some(ends) = self.current else { return };
        self.tell_late(ends.number);
        self.open.remove(&ends.number);
        self.ended.push(connections::Ended { number: ends.number, window: self.part.window, summary });
        if self.ended.len() >= connections::ROWS {
            self.write_connections();
        }
    }

    #[inline]
    fn wants_ends(&self) -> bool {
        true
    }

    #[inline]
    fn turn_to(&mut self, ends: &Ends) {
        let number = self.part.first + ends.number;
        self.part.next = self.part.next.max(number + 1);
        self.current = Some(Ends { number, ..*ends });
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
