//! Invariants for the explanation of every operation of a capture.

use overhead_dissect::explain::{
    ByteVisibility, ExplainedOperation, FieldPiece, Finder, FoundOperation, FrameItem, OperationQuery,
    OperationRecorder,
};
use overhead_dissect::{Dissector, KeyLog, Selection};
use overhead_model::{
    Amounts, Class, ConnectionSummary, Frame, LinkType, Listener, Operation, RowId, RowKey, Side, SideTotals, Tally,
    Trace,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A captured frame that owns its bytes.
#[derive(Clone, Debug)]
pub struct Stored {
    pub time_ns: u64,
    pub link: LinkType,
    pub original_len: u32,
    pub bytes: Vec<u8>,
}

type Key = (Class, String, &'static str);

/// The ledger's figures, and the bytes that it was given.
#[derive(Debug, Default)]
struct Books {
    /// Told of no fields.
    is_quiet: bool,
    rows: Vec<(Key, [Amounts; 2])>,
    connection: u64,
    streams: BTreeMap<(u64, Side), Vec<Option<u8>>>,
    posted: BTreeMap<(u64, Side), u64>,
}

impl Tally for Books {
    fn row(&mut self, key: RowKey<'_>) -> RowId {
        self.rows.push(((key.class, key.name.to_owned(), key.via), [Amounts::ZERO; 2]));
        RowId(self.rows.len() as u64 - 1)
    }
    fn operation(&mut self, row: RowId, operation: &Operation) {
        for side in Side::BOTH {
            self.late(row, side, &operation.sides[side as usize]);
        }
    }
    fn late(&mut self, row: RowId, side: Side, totals: &SideTotals) {
        self.rows[row.0 as usize].1[side as usize] += totals.amounts;
    }
    fn connection(&mut self, _: ConnectionSummary) {}

    fn listener(&mut self) -> Option<&mut dyn Listener> {
        if self.is_quiet { None } else { Some(self) }
    }
}

impl Listener for Books {
    fn hear(&mut self, step: Trace<'_>) {
        match step {
            Trace::Frame(facts) => self.connection = facts.connection,
            Trace::Ending { connection } => self.connection = connection,
            Trace::Bytes { side, bytes, opaque } => {
                let stream = self.streams.entry((self.connection, side)).or_default();
                stream.extend(bytes.iter().copied().map(Some));
                stream.extend((0..opaque).map(|_| None));
            }
            Trace::Posted { side, len, in_order: true, .. } => {
                *self.posted.entry((self.connection, side)).or_default() += len;
            }
            Trace::Decrypted { side, ahead, bytes } => {
                let key = (self.connection, side);
                let at = (self.posted.get(&key).copied().unwrap_or(0) + ahead) as usize;
                let stream = &mut self.streams.get_mut(&key).unwrap()[at..at + bytes.len()];
                stream.iter_mut().zip(bytes).for_each(|(byte, clear)| *byte = Some(*clear));
            }
            _ => {}
        }
    }
}

fn run<T: Tally>(frames: &[Stored], selection: &Selection, keys: &Arc<KeyLog>, tally: T) -> T {
    let mut dissector = Dissector::new(selection.clone(), tally).with_keys(Arc::clone(keys));
    for frame in frames {
        let Stored { time_ns, link, original_len, .. } = *frame;
        dissector.frame(&Frame { time_ns, link, original_len, interface: 0, bytes: &frame.bytes });
    }
    dissector.finish().0
}

/// Records many operations at once.
#[derive(Debug)]
struct Recorders(Vec<OperationRecorder>);

impl Tally for Recorders {
    fn connection(&mut self, summary: ConnectionSummary) {
        self.0.iter_mut().for_each(|recorder| recorder.connection(summary.clone()));
    }

    fn listener(&mut self) -> Option<&mut dyn Listener> {
        Some(self)
    }
}

impl Listener for Recorders {
    fn hear(&mut self, step: Trace<'_>) {
        self.0.iter_mut().for_each(|recorder| recorder.trace(step));
    }
}

/// The fields and pieces of fields of an operation on one side.
pub fn pieces(explained: &ExplainedOperation, side: Side) -> impl Iterator<Item = &FieldPiece> {
    let parts = explained.parts.iter().filter(move |part| part.side == side);
    parts.flat_map(|part| &part.items).filter_map(|item| match item {
        FrameItem::Piece(piece) => Some(piece),
        FrameItem::Others(_) => None,
    })
}

/// Explains every operation and checks that
///
/// - each has the amounts that the ledger gave it when it closed, and together they add up to the ledger's rows;
/// - what is listed adds up to these amounts;
/// - every byte of every stream is in one field of one operation, in order, and is the byte that was captured, in clear
///   if it was decrypted.
pub fn check(
    frames: &[Stored],
    selection: &Selection,
    keys: &Arc<KeyLog>,
) -> Vec<(FoundOperation, ExplainedOperation)> {
    let books = run(frames, selection, keys, Books::default());
    let finder = run(
        frames,
        selection,
        keys,
        Finder::new(OperationQuery::Fitting { name: None, statement: None, kind: None, nth: u64::MAX }),
    );
    let found: Vec<FoundOperation> = finder.fitting().collect();
    assert!(found.iter().map(|found| found.number).eq(1..=finder.numbering.count), "numbers have no holes");
    let recorders = found.iter().map(|found| OperationRecorder::new(found.connection, found.op)).collect();
    let recorded = run(frames, selection, keys, Recorders(recorders)).0.into_iter().map(|recorder| recorder.explained);
    let all: Vec<(FoundOperation, ExplainedOperation)> = found.into_iter().zip(recorded).collect();
    for (_, explained) in &all {
        check_one(explained);
    }
    assert_eq!(sums_explained(&all), sums_of(books.rows), "all operations and the ledger");
    let quiet = run(frames, selection, keys, Books { is_quiet: true, ..Books::default() });
    assert_eq!(sums_of(quiet.rows), sums_explained(&all), "fields added up on their way");
    check_streams(&all, &books.streams);
    all
}

fn sums_of(rows: impl IntoIterator<Item = (Key, [Amounts; 2])>) -> BTreeMap<String, [Amounts; 2]> {
    let mut sums: BTreeMap<String, [Amounts; 2]> = BTreeMap::new();
    for (key, sides) in rows {
        if sides.iter().any(|side| side.total() > 0) {
            let sum = sums.entry(format!("{key:?}")).or_insert([Amounts::ZERO; 2]);
            sum.iter_mut().zip(sides).for_each(|(sum, side)| *sum += side);
        }
    }
    sums
}

fn sums_explained(all: &[(FoundOperation, ExplainedOperation)]) -> BTreeMap<String, [Amounts; 2]> {
    sums_of(
        all.iter()
            .map(|(_, explained)| (explained.label.clone().expect("every operation is labelled"), explained.amounts)),
    )
}

fn check_one(explained: &ExplainedOperation) {
    assert!(explained.is_balanced(), "{explained:#?}");
    let mut listed = explained.unlisted;
    for view in explained.views() {
        let sum = &mut listed[view.side as usize];
        *sum += view.charges;
        for item in view.items {
            if let (FrameItem::Piece(piece), Some(_)) = (item, view.frame) {
                sum[piece.account] += piece.len;
            }
        }
    }
    assert_eq!(listed, explained.amounts, "what is listed and what is summed up");
}

fn check_streams(all: &[(FoundOperation, ExplainedOperation)], streams: &BTreeMap<(u64, Side), Vec<Option<u8>>>) {
    for (&(connection, side), stream) in streams {
        let mine = all.iter().filter(|(found, _)| found.connection == connection);
        let mut tiles: BTreeMap<u64, &FieldPiece> = BTreeMap::new();
        for (_, explained) in mine {
            let mut at = 0;
            for piece in pieces(explained, side).filter(|piece| piece.path != "outside the stream") {
                assert!(piece.offset >= at, "in stream order: {piece:?}");
                at = piece.offset + piece.len;
                assert!(tiles.insert(piece.offset, piece).is_none(), "twice: {piece:?}");
            }
        }
        let mut end = 0;
        for (offset, piece) in tiles {
            assert_eq!(offset, end, "no byte twice, none left out");
            end += piece.len;
            let sent = &stream[offset as usize..end as usize];
            let shown: Vec<Option<u8>> = match piece.seen {
                ByteVisibility::Captured | ByteVisibility::Decrypted => piece.bytes.iter().copied().map(Some).collect(),
                _ => vec![None; piece.len as usize],
            };
            assert_eq!(shown, sent, "{}", piece.path);
        }
        assert_eq!(end, stream.len() as u64, "the whole stream");
    }
}
