//! `count_messages PROTOCOL PORT FILE…`: how often each field of the protocol begins with which byte, one line
//! `side field byte count` each. Where the field is a message's type, that counts messages.
//!
//! Shows how to watch a dissection without adding up a ledger: a [`Tally`] that listens to [`Trace`].

use anyhow::{Context as _, Result};
use overhead_capture::{FileSource, FrameSource as _, NextFrame};
use overhead_dissect::{Dissector, Selection};
use overhead_model::{ConnectionSummary, Listener, Side, System, Tally, Trace};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::env;

/// Counts by side, field and first byte.
#[derive(Default)]
struct Fields {
    connection: u64,
    /// Bytes that were decoded and are not posted yet, by connection and side. 256 stands for one that was not captured.
    bytes: HashMap<(u64, Side), VecDeque<u16>>,
    counts: BTreeMap<(&'static str, &'static str, u16), u64>,
}

impl Tally for Fields {
    fn connection(&mut self, _: ConnectionSummary) {}

    fn listener(&mut self) -> Option<&mut dyn Listener> {
        Some(self)
    }
}

impl Listener for Fields {
    fn hear(&mut self, step: Trace<'_>) {
        match step {
            Trace::Frame(facts) => self.connection = facts.connection,
            Trace::Ending { connection } => self.connection = connection,
            Trace::Bytes { side, bytes, opaque } => {
                let waiting = self.bytes.entry((self.connection, side)).or_default();
                waiting.extend(bytes.iter().map(|&byte| u16::from(byte)));
                waiting.extend((0..opaque).map(|_| 256));
            }
            Trace::Field { side, field, len } => {
                let waiting = self.bytes.entry((self.connection, side)).or_default();
                let first = waiting.front().copied().unwrap_or(256);
                waiting.drain(..waiting.len().min(usize::try_from(len).unwrap_or(usize::MAX)));
                let name = if side == Side::Request { "request" } else { "response" };
                *self.counts.entry((name, field, first)).or_default() += 1;
            }
            _ => {}
        }
    }
}

fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let usage = "usage: count_messages PROTOCOL PORT FILE…";
    let name = arguments.next().context(usage)?;
    let protocol = System::named(&name).with_context(|| format!("{name} is not the name of a system"))?.protocol;
    let port = arguments.next().context(usage)?.parse()?;
    let mut dissector =
        Dissector::new(Selection { ports: vec![(port, vec![protocol])], ..Selection::default() }, Fields::default());
    for file in arguments {
        let mut source = FileSource::open(&file)?;
        while let NextFrame::Frame(frame) = source.next_frame()? {
            dissector.frame(&frame);
        }
    }
    let (fields, _) = dissector.finish();
    for ((side, field, first), count) in fields.counts {
        println!("{side}\t{field}\t{first}\t{count}");
    }
    Ok(())
}
