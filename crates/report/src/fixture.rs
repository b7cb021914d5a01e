//! The runs of `overhead_testing` as records, under this crate's names.

use crate::run::NamedRun;
use overhead_model::record::Run;
use overhead_testing::runs;

pub(crate) use runs::{redis, unbalanced};

fn named((name, run): (&str, Run)) -> NamedRun {
    NamedRun::new(name, run)
}

pub(crate) fn redis_live() -> NamedRun {
    named(runs::redis_live())
}

pub(crate) fn databases(both: bool) -> Vec<NamedRun> {
    runs::databases(both).into_iter().map(named).collect()
}

pub(crate) fn files() -> Vec<NamedRun> {
    runs::files().into_iter().map(named).collect()
}

pub(crate) fn warned() -> NamedRun {
    named(runs::warned())
}
