//! Measures what a capture costs the command, which runs alternately with and without it.

use super::command::{self, CommandOutput};
use super::folder::RunFolder;
use super::plan::CapturePlan;
use super::session::{CaptureEnd, CaptureSession, FinishedCapture};
use anyhow::{Result, bail};
use overhead_host::CaptureSignals;
use overhead_kernel::{ProcessSelection, children_cpu_ns, family_cpu_ns, servers};
use overhead_model::record::WatchingCost;
use overhead_model::{Class, Measured, Run, Spread, exit};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Two runs of the same work may differ by one operation in this many, because clients send more than their workload.
const SAME_WORK: u64 = 100;

/// Warms up with one run each way, then runs the command `rounds` times each way, in alternating order. Returns
/// the last captured run, with the measured cost.
pub async fn measure(plan: &CapturePlan, rounds: u32, signals: &mut CaptureSignals) -> Result<FinishedCapture> {
    let folder = plan.make_folder()?.map(Arc::new);
    let mut quiet = plan.clone();
    quiet.quiet = true;
    let mut turns = CostTurns { plan, quiet: Arc::new(quiet), folder, signals, kept: None };
    let taken = turns.take(rounds).await;
    let CostTurns { folder, kept, .. } = turns;
    let Some(mut captured) = kept else {
        if let Some(folder) = folder {
            folder.discard();
        }
        taken?;
        bail!("ended before the command ran under the capture for the first time: nothing was measured");
    };
    let pairs = taken?;
    captured.run.observer.watching = Some(cost(&pairs));
    if pairs.len() < rounds as usize {
        let made = pairs.len();
        let said = format!("ended after {made} of {rounds} rounds: the cost of watching is from these only");
        captured.run.warnings.push(said);
        captured.run.exit = captured.run.exit.max(exit::PARTIAL);
    }
    Ok(captured)
}

/// One run of the command.
#[derive(Clone, Copy, Debug)]
struct CommandWork {
    elapsed: Duration,
    /// CPU time of command and server; `None` if the server is not visible.
    cpu_ns: Option<u64>,
}

/// A run without the capture and a run with it.
#[derive(Clone, Copy, Debug)]
struct CostPair {
    unwatched: CommandWork,
    watched: CommandWork,
    /// CPU time of this program.
    own_cpu_ns: Option<u64>,
    /// Workload operations that were seen.
    operations: u64,
}

struct CostTurns<'a> {
    plan: &'a CapturePlan,
    /// The plan for all runs but the last, without messages.
    quiet: Arc<CapturePlan>,
    folder: Option<Arc<RunFolder>>,
    signals: &'a mut CaptureSignals,
    /// The last captured run.
    kept: Option<FinishedCapture>,
}

impl CostTurns<'_> {
    /// Returns the completed pairs; fewer than `rounds` if the user ended the measurement.
    async fn take(&mut self, rounds: u32) -> Result<Vec<CostPair>> {
        let mut pairs = Vec::new();
        let shown = self.unwatched(CommandOutput::Shown).await?;
        if shown.is_none() || self.watched().await?.is_none() {
            return Ok(pairs);
        }
        for round in 0..rounds {
            // After a request to end, no further command starts.
            let watched_first = round % 2 == 1;
            let before = if watched_first { self.watched().await? } else { None };
            let unwatched = self.unwatched(CommandOutput::unseen()?).await?;
            let watched = if watched_first { before } else { self.watched().await? };
            let (Some(unwatched), Some(watched)) = (unwatched, watched) else { break };
            let Some(FinishedCapture { run, .. }) = &self.kept else { break };
            let own_cpu_ns = run.observer.cpu_ns.value().copied();
            let pair = CostPair { unwatched, watched, own_cpu_ns, operations: operations(run) };
            let [without, with] = [unwatched, watched].map(|work| work.elapsed.as_secs_f64());
            let round = round + 1;
            self.plan
                .say(&format!("round {round} of {rounds}: {without:.3} s unwatched, {with:.3} s under the capture"));
            pairs.push(pair);
        }
        Ok(pairs)
    }

    /// Runs the command without the capture. Returns `None` if the user asks for the end.
    async fn unwatched(&mut self, output: CommandOutput) -> Result<Option<CommandWork>> {
        if self.signals.end.was_requested().await {
            return Ok(None);
        }
        let before = self.cpu_ns();
        let spawned = Instant::now();
        let Some(mut child) = self.plan.start_command(output)? else { return Ok(None) };
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
            bail!("the command ended with status {code} without the capture: the cost of watching cannot be measured");
        }
        Ok(Some(CommandWork { elapsed, cpu_ns: difference(before, self.cpu_ns()) }))
    }

    /// Runs the command under the capture, and keeps the result in place of the previous one. Returns `None` if the
    /// user asks for the end.
    async fn watched(&mut self) -> Result<Option<CommandWork>> {
        if self.signals.end.was_requested().await {
            return Ok(None);
        }
        if let (Some(_), Some(folder)) = (&self.kept, &self.folder) {
            folder.forget_packets();
        }
        let before = self.cpu_ns();
        let conclude = |_: &CapturePlan, captured| Ok(captured);
        let folder = self.folder.clone();
        let captured =
            CaptureSession::run(&self.quiet, folder, self.signals, CommandOutput::unseen()?, conclude).await?;
        let cpu_ns = difference(before, self.cpu_ns());
        match self.kept.insert(captured).end {
            CaptureEnd::Command { code: 0, ran } => Ok(Some(CommandWork { elapsed: ran, cpu_ns })),
            CaptureEnd::Command { code, .. } => {
                bail!("the command ended with status {code} under the capture: the cost of watching cannot be measured")
            }
            CaptureEnd::Asked(_) => Ok(None),
            CaptureEnd::Enough => bail!(
                "the command was ended by a limit: the cost of watching needs complete runs (leave out -c, --ops and --duration)"
            ),
        }
    }

    /// Returns the CPU time of command and server so far; `None` if the server is not visible.
    fn cpu_ns(&self) -> Option<u64> {
        let chosen = &self.plan.counters.server;
        let sockets = self.plan.find_sockets().ok()?.filter(|_| *chosen == ProcessSelection::Ports);
        let chosen = sockets.map_or_else(|| chosen.clone(), |sockets| sockets.server());
        let servers: BTreeSet<u32> = servers(&chosen, &self.plan.live.ports).ok()?;
        if servers.is_empty() { None } else { Some(family_cpu_ns(&servers).ok()? + children_cpu_ns()) }
    }
}

fn difference(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after?.checked_sub(before?)
}

/// Returns the workload operations of a run.
fn operations(run: &Run) -> u64 {
    run.operations.iter().filter(|row| row.class == Class::Workload).map(|row| row.count).sum()
}

/// Computes the cost of watching.
fn cost(pairs: &[CostPair]) -> WatchingCost {
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
    let per_operation = |value: fn(&CostPair) -> Option<f64>| {
        if least == 0 {
            return Measured::unavailable("no workload operation was captured");
        }
        spread(pairs, |pair| Some(value(pair)? / pair.operations as f64))
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

/// Returns the spread of a value over all pairs; absent if a pair lacks it.
fn spread(pairs: &[CostPair], value: impl Fn(&CostPair) -> Option<f64>) -> Measured<Spread> {
    let values: Option<Vec<f64>> = pairs.iter().map(value).collect();
    let Some(values) = values else {
        return Measured::unavailable("the processes of the server are not seen on this host (name them with --pid)");
    };
    Spread::from_values(&values).ok_or("no round was completed").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(unwatched: (u64, u64), watched: (u64, u64), operations: u64) -> CostPair {
        let work = |(ms, us): (u64, u64)| CommandWork { elapsed: Duration::from_millis(ms), cpu_ns: Some(us * 1000) };
        CostPair { unwatched: work(unwatched), watched: work(watched), own_cpu_ns: Some(50_000), operations }
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
