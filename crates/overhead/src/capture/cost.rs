//! What watching takes from a command: it runs in turns with nobody watching and under the capture.

use super::{CaptureArgs, Captured, CommandOutput, Folder, Signals, command};
use crate::caller::User;
use anyhow::{Result, bail};
use overhead_kernel::{ProcessSelection, children_cpu_ns, family_cpu_ns, servers};
use overhead_model::record::WatchingCost;
use overhead_model::{Class, Measured, Run, Spread, exit, say};
use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Operations of two runs of the same work may differ by one in so many: what a client sends beside its work.
const SAME_WORK: u64 = 100;

/// Runs the command once each way to warm up, then `rounds` times each way in alternating order. The last run under the
/// capture is the one that is written and printed, with what watching took in it.
pub async fn measure(capture: CaptureArgs, rounds: u32, signals: &mut Signals) -> Result<u8> {
    let folder = capture.folder()?.map(Arc::new);
    let mut turns = Turns { capture: Arc::new(capture), folder, signals, kept: None };
    let taken = turns.take(rounds).await;
    let Turns { capture, folder, kept, .. } = turns;
    let Some(mut captured) = kept else {
        if let Some(folder) = &folder {
            folder.discard();
        }
        taken?;
        bail!("ended before the command ran under the capture for the first time: nothing was measured");
    };
    let pairs = taken?;
    captured.run.observer.watching = Some(cost(&pairs));
    if pairs.len() < rounds as usize {
        let made = pairs.len();
        let said = format!("ended after {made} of {rounds} rounds: what watching takes is of these alone");
        captured.run.warnings.push(said);
        captured.run.exit = captured.run.exit.max(exit::PARTIAL);
    }
    capture.publish(captured)
}

/// One run of the command.
#[derive(Clone, Copy, Debug)]
struct Work {
    elapsed: Duration,
    /// Of command and server; `None` where it cannot be seen.
    cpu_ns: Option<u64>,
}

/// One run without the capture, and one under it.
#[derive(Clone, Copy, Debug)]
struct Pair {
    unwatched: Work,
    watched: Work,
    /// What the tool itself took.
    own_cpu_ns: Option<u64>,
    /// Workload operations that were seen.
    operations: u64,
}

struct Turns<'a> {
    capture: Arc<CaptureArgs>,
    folder: Option<Arc<Folder>>,
    signals: &'a mut Signals,
    /// The last run under the capture.
    kept: Option<Captured>,
}

impl Turns<'_> {
    /// Returns the pairs that were made; fewer where somebody asked for the end.
    async fn take(&mut self, rounds: u32) -> Result<Vec<Pair>> {
        let mut pairs = Vec::new();
        let shown = self.unwatched(CommandOutput::Shown).await?;
        if shown.is_none() || self.watched().await?.is_none() {
            return Ok(pairs);
        }
        for round in 0..rounds {
            // Once somebody has asked for the end, nothing is run any more.
            let watched_first = round % 2 == 1;
            let before = if watched_first { self.watched().await? } else { None };
            let unwatched = self.unwatched(unseen()?).await?;
            let watched = if watched_first { before } else { self.watched().await? };
            let (Some(unwatched), Some(watched)) = (unwatched, watched) else { break };
            let Some(Captured { run, .. }) = &self.kept else { break };
            let own_cpu_ns = run.observer.cpu_ns.value().copied();
            let pair = Pair { unwatched, watched, own_cpu_ns, operations: operations(run) };
            if !self.capture.output.quiet {
                let [without, with] = [unwatched, watched].map(|work| work.elapsed.as_secs_f64());
                say!(
                    "overhead: round {} of {rounds}: {without:.3} s unwatched, {with:.3} s under the capture",
                    round + 1
                );
            }
            pairs.push(pair);
        }
        Ok(pairs)
    }

    /// Runs the command with nobody watching; `None` where somebody asks for the end.
    async fn unwatched(&mut self, output: CommandOutput) -> Result<Option<Work>> {
        if self.signals.end.was_heard().await {
            return Ok(None);
        }
        let user = User::choose(self.capture.user.as_deref(), self.capture.as_root)?;
        let before = self.cpu_ns();
        let spawned = Instant::now();
        let Some(mut child) = command::start(&self.capture.command, user, output)? else { return Ok(None) };
        let asked = tokio::select! {
            biased;
            asked = self.signals.end.recv() => Some(asked),
            _ = child.wait() => None,
        };
        let elapsed = spawned.elapsed();
        let code = command::end(&mut child, asked, &mut self.signals.end).await?;
        if asked.is_some() {
            return Ok(None);
        }
        let code = code.unwrap_or(1);
        if code != 0 {
            bail!(
                "the command ended with status {code} when nobody watched it: what watching takes of it cannot be measured"
            );
        }
        Ok(Some(Work { elapsed, cpu_ns: difference(before, self.cpu_ns()) }))
    }

    /// Runs the command under the capture, and keeps what came of it in place of the run before; `None` where somebody asks
    /// for the end.
    async fn watched(&mut self) -> Result<Option<Work>> {
        if self.signals.end.was_heard().await {
            return Ok(None);
        }
        if let (Some(_), Some(folder)) = (&self.kept, &self.folder) {
            folder.forget_packets();
        }
        let mut capture = CaptureArgs::clone(&self.capture);
        capture.output.quiet = true;
        let before = self.cpu_ns();
        let conclude = |_: &CaptureArgs, captured| Ok(captured);
        let captured = Arc::new(capture).session(self.signals, self.folder.clone(), unseen()?, conclude).await?;
        let cpu_ns = difference(before, self.cpu_ns());
        let (ended, ran) = (captured.ended, captured.ran);
        self.kept = Some(captured);
        if ended.was_asked {
            return Ok(None);
        }
        match (ran, ended.code) {
            (Some(elapsed), Some(0)) => Ok(Some(Work { elapsed, cpu_ns })),
            (None, _) => bail!(
                "the command was ended by a limit: what watching takes of it needs runs to its own end (leave -c, --ops and --duration out)"
            ),
            (_, code) => bail!(
                "the command ended with status {} under the capture: what watching takes of it cannot be measured",
                code.unwrap_or(1)
            ),
        }
    }

    /// Returns the CPU time of the command's processes and the server's so far; `None` where the server is not seen.
    fn cpu_ns(&self) -> Option<u64> {
        let selection = self.capture.which.selection().ok()?;
        let by_port = self.capture.server() == ProcessSelection::Ports;
        let sockets = self.capture.sockets(&selection).ok()?.filter(|_| by_port);
        let chosen = sockets.map_or_else(|| self.capture.server(), |sockets| sockets.server());
        let servers: BTreeSet<u32> = servers(&chosen, &self.capture.ports().ok()?).ok()?;
        if servers.is_empty() {
            return None;
        }
        Some(family_cpu_ns(&servers).ok()? + children_cpu_ns())
    }
}

fn difference(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after?.checked_sub(before?)
}

/// Returns where what a command prints is not seen.
fn unseen() -> Result<CommandOutput> {
    let null = || File::options().write(true).open("/dev/null");
    Ok(CommandOutput::Kept([null()?, null()?]))
}

/// Returns the workload operations of a run.
fn operations(run: &Run) -> u64 {
    run.operations.iter().filter(|row| row.class == Class::Workload).map(|row| row.count).sum()
}

/// Returns what watching took.
fn cost(pairs: &[Pair]) -> WatchingCost {
    let (least, most) =
        (pairs.iter().map(|pair| pair.operations).min(), pairs.iter().map(|pair| pair.operations).max());
    let (least, most) = (least.unwrap_or(0), most.unwrap_or(0));
    let varies = (most - least) * SAME_WORK > most;
    let throughput_share = if varies {
        Measured::unavailable(format!(
            "the command did not do the same work each time ({least} to {most} operations): give it a number of operations"
        ))
    } else {
        spread(pairs, |pair| Some(pair.unwatched.elapsed.as_secs_f64() / pair.watched.elapsed.as_secs_f64()))
    };
    let per_operation = |of: fn(&Pair) -> Option<f64>| {
        if least == 0 {
            return Measured::unavailable("no workload operation was captured");
        }
        spread(pairs, |pair| Some(of(pair)? / pair.operations as f64))
    };
    WatchingCost {
        rounds: pairs.len() as u64,
        throughput_share,
        cpu_ns_per_operation: per_operation(|pair| {
            let watched = (pair.watched.cpu_ns? + pair.own_cpu_ns?) as f64;
            Some(watched - pair.unwatched.cpu_ns? as f64)
        }),
        unwatched_cpu_ns_per_operation: per_operation(|pair| Some(pair.unwatched.cpu_ns? as f64)),
    }
}

/// Returns the spread of a figure over all pairs; absent where one does not have it.
fn spread(pairs: &[Pair], of: impl Fn(&Pair) -> Option<f64>) -> Measured<Spread> {
    let values: Option<Vec<f64>> = pairs.iter().map(of).collect();
    let Some(values) = values else {
        return Measured::unavailable("the processes of the server are not seen on this host (name them with --pid)");
    };
    Spread::of(&values).map_or_else(|| Measured::unavailable("no round was completed"), Measured::Value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(unwatched: (u64, u64), watched: (u64, u64), operations: u64) -> Pair {
        let work = |(ms, us): (u64, u64)| Work { elapsed: Duration::from_millis(ms), cpu_ns: Some(us * 1000) };
        Pair { unwatched: work(unwatched), watched: work(watched), own_cpu_ns: Some(50_000), operations }
    }

    #[test]
    fn shares_are_pair_by_pair_and_the_tools_own_time_is_in_it() {
        let pairs =
            [pair((80, 400), (100, 450), 100), pair((90, 400), (100, 450), 100), pair((99, 400), (100, 450), 100)];
        let cost = cost(&pairs);
        let median = |spread: &Measured<Spread>| spread.value().unwrap().median;
        assert!((median(&cost.throughput_share) - 0.9).abs() < 1e-9);
        assert!((median(&cost.cpu_ns_per_operation) - 1000.0).abs() < 1e-9);
        assert!((median(&cost.unwatched_cpu_ns_per_operation) - 4000.0).abs() < 1e-9);
    }

    #[test]
    fn a_command_that_does_not_do_the_same_work_each_time_has_no_throughput() {
        let cost = cost(&[pair((80, 400), (100, 450), 100), pair((80, 400), (100, 450), 90)]);
        assert!(cost.throughput_share.reason().unwrap().contains("(90 to 100 operations)"));
        assert!(cost.cpu_ns_per_operation.value().is_some());
    }

    #[test]
    fn a_server_on_another_host_leaves_cpu_time_absent() {
        let mut pair = pair((80, 400), (100, 450), 100);
        pair.watched.cpu_ns = None;
        let cost = cost(&[pair]);
        assert!(cost.cpu_ns_per_operation.reason().unwrap().contains("not seen on this host"));
        assert!(cost.throughput_share.value().is_some());
    }

    #[test]
    fn without_a_round_there_is_nothing() {
        let cost = cost(&[]);
        assert!(cost.throughput_share.reason().is_some() && cost.cpu_ns_per_operation.reason().is_some());
    }
}
