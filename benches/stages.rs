//! The stages that a frame goes through, each with all before it, over captures of real servers: read from the file, its
//! headers taken apart, dissected to closed operations, and these added up to the rows of the record. What a stage costs is
//! its time less that of the one before.
//!
//! `cargo bench -p overhead-benches`; a part of a name as argument picks some.

#![allow(missing_docs, clippy::expect_used, reason = "a benchmark: without its captures there is nothing to do")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use overhead_benches::{CAPTURES, Count, frames, path};
use overhead_capture::FileSource;
use overhead_dissect::packet::{self, Packet};
use overhead_dissect::{Dissector, Selection};
use overhead_model::Tally;
use overhead_model::frame::OwnedFrame;
use overhead_report::Aggregate;
use std::hint::black_box;
use std::io::Cursor;
use std::ops::ControlFlow;

/// The frames of the capture to the end of dissection.
fn dissect<T: Tally>(frames: &[OwnedFrame], tally: T) -> T {
    let mut dissector = Dissector::new(Selection::default(), tally);
    for kept in frames {
        dissector.frame(&kept.frame());
    }
    dissector.finish().0
}

fn stages(c: &mut Criterion) {
    for name in CAPTURES {
        let frames = frames(name).expect("the fixture");
        let file = std::fs::read(path(name)).expect("the fixture");
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Elements(frames.len() as u64));
        group.bench_function("1 read", |b| {
            b.iter(|| {
                let mut source = FileSource::from_reader("memory", Cursor::new(file.clone())).expect("a capture");
                let mut frames = 0_u64;
                while source.fill().expect("a capture") {
                    let _ = source.buffered_frames(|_| {
                        frames += 1;
                        ControlFlow::Continue(())
                    });
                }
                frames
            });
        });
        group.bench_function("2 headers", |b| {
            b.iter(|| {
                frames.iter().filter(|kept| matches!(black_box(packet::parse(&kept.frame())), Packet::Tcp(_))).count()
            });
        });
        group.bench_function("3 dissect", |b| b.iter(|| dissect(&frames, Count::default()).0));
        group.bench_function("4 add up", |b| b.iter(|| dissect(&frames, Aggregate::new()).operations().len()));
        group.finish();
    }
}

criterion_group!(benches, stages);
criterion_main!(benches);
