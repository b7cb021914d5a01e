//! One run: concurrent clients work until the operations or the time are used up.

#[cfg(test)]
mod tests;

use crate::data::{IdSource, XorshiftRng};
use crate::driver::{ConnectionLost, DriverConnection};
use crate::pace::{ClientSchedule, PreciseTimer};
use crate::plan::{OperationMix, RunLength};
use crate::stats::{self, ClientTally, Faults};
use crate::stop::StopRequest;
use anyhow::{Context, Result};
use overhead_model::load::LoadRun;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::task::{JoinHandle, JoinSet};

/// Settings of a run, shared by its clients.
pub struct RunPlan {
    pub mix: OperationMix,
    /// Operations that each client sends together.
    pub pipeline: u32,
    /// Operations per second of all clients, for an open loop.
    pub rate: Option<f64>,
    pub length: RunLength,
    pub ids: Arc<IdSource>,
    /// Longest silence before the run is given up.
    pub timeout: Duration,
    pub stop: StopRequest,
}

pub struct RunOutcome<C> {
    pub run: LoadRun,
    /// Reusable for the next run; connections that were lost are missing.
    pub connections: Vec<C>,
}

/// Shared by the clients of a run.
struct RunState {
    plan: RunPlan,
    start: Instant,
    /// Operations that no client has taken yet.
    left: AtomicU64,
    deadline: Option<Instant>,
    /// Rounds answered so far.
    answered: AtomicU64,
    /// Ends only this run: the server is gone or silent.
    lost: StopRequest,
}

/// Runs one task per connection and merges their tallies.
pub async fn run<C: DriverConnection>(connections: Vec<C>, plan: RunPlan) -> Result<RunOutcome<C>> {
    let clients = connections.len() as u32;
    let started_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let cpu = stats::cpu()?;
    let start = Instant::now();
    let (left, deadline) = match plan.length {
        RunLength::Operations(operations) => (operations, None),
        RunLength::Time(time) => (u64::MAX, Some(start + time)),
    };
    let (left, answered) = (AtomicU64::new(left), AtomicU64::new(0));
    let shared = Arc::new(RunState { plan, start, left, deadline, answered, lost: StopRequest::default() });
    let mut tasks = JoinSet::new();
    for (number, connection) in (0..).zip(connections) {
        let client = BenchClient::new(connection, number, clients, &shared)?;
        tasks.spawn(client.work());
    }
    let watch = watch(Arc::clone(&shared));
    let (mut sum, mut connections, mut end) = (ClientTally::new().context("no histogram")?, Vec::new(), start);
    while let Some(client) = tasks.join_next().await {
        let client = client.context("a client ended unexpectedly")?;
        sum.merge(&client.tally);
        end = end.max(client.now);
        connections.extend(client.connection);
    }
    watch.abort();
    let elapsed = end - start;
    let run = LoadRun {
        started_ns,
        elapsed_ns: elapsed.as_nanos() as u64,
        operations: sum.operations,
        errors: sum.faults.count,
        first_error: sum.faults.first.clone(),
        per_second: if elapsed.is_zero() { 0.0 } else { sum.operations as f64 / elapsed.as_secs_f64() },
        latency_ns: sum.latency(),
        cpu_ns: stats::cpu_since(cpu)?,
        partial: shared.lost.reason().or_else(|| shared.plan.stop.reason()),
    };
    Ok(RunOutcome { run, connections })
}

/// Ends the run if the server is silent for too long, and soon after Ctrl-C.
fn watch(shared: Arc<RunState>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let timeout = shared.plan.timeout;
        let mut last = 0;
        loop {
            tokio::select! {
                () = tokio::time::sleep(timeout) => {}
                () = shared.plan.stop.wait() => {
                    tokio::time::sleep(timeout.min(Duration::from_secs(1))).await;
                    return shared.lost.request(shared.plan.stop.reason().unwrap_or_default());
                }
            }
            let answered = shared.answered.load(Ordering::Relaxed);
            if answered == last && !shared.may_be_idle(timeout) {
                return shared.lost.request(format!("no answer for {} s", timeout.as_secs_f64()));
            }
            last = answered;
        }
    })
}

impl RunState {
    /// Returns whether rounds may be further apart than the timeout.
    fn may_be_idle(&self, timeout: Duration) -> bool {
        self.plan.rate.is_some_and(|rate| f64::from(self.plan.pipeline) / rate > timeout.as_secs_f64() / 2.0)
    }

    /// Takes the operations of the next round; 0 ends the run.
    fn take(&self, now: Instant) -> u64 {
        if self.plan.stop.is_requested()
            || self.lost.is_requested()
            || self.deadline.is_some_and(|deadline| now >= deadline)
        {
            return 0;
        }
        let most = u64::from(self.plan.pipeline);
        if self.deadline.is_some() {
            return most;
        }
        let before =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(most)));
        before.unwrap_or(0).min(most)
    }
}

struct BenchClient<C> {
    /// `None` once lost.
    connection: Option<C>,
    shared: Arc<RunState>,
    random: XorshiftRng,
    tally: ClientTally,
    schedule: Option<(ClientSchedule, PreciseTimer)>,
    /// Time of the last answer.
    now: Instant,
}

impl<C: DriverConnection> BenchClient<C> {
    fn new(connection: C, number: u32, clients: u32, shared: &Arc<RunState>) -> Result<Self> {
        let plan = &shared.plan;
        let schedule = match plan.rate {
            None => None,
            Some(rate) => {
                let schedule = ClientSchedule::new(shared.start, rate, number, clients, plan.pipeline);
                Some((schedule, PreciseTimer::new().context("no timer")?))
            }
        };
        Ok(Self {
            connection: Some(connection),
            shared: Arc::clone(shared),
            random: XorshiftRng::new(u64::from(number)),
            tally: ClientTally::new().context("no histogram")?,
            schedule,
            now: shared.start,
        })
    }

    /// Works until the run is over. If the run is given up, stops waiting for an answer.
    async fn work(mut self) -> Self {
        let shared = Arc::clone(&self.shared);
        tokio::select! {
            biased;
            result = self.rounds() => match result {
                Ok(()) => return self,
                Err(lost) => shared.lost.request(lost.0),
            },
            () = shared.lost.wait() => {}
        }
        self.connection = None;
        self
    }

    async fn rounds(&mut self) -> Result<(), ConnectionLost> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let shared = &*self.shared;
        let mut ids = Vec::with_capacity(shared.plan.pipeline as usize);
        let mut faults = Faults::default();
        loop {
            let count = shared.take(self.now);
            if count == 0 {
                break;
            }
            let mut start = self.now;
            if let Some((schedule, timer)) = &mut self.schedule {
                start = schedule.next();
                if shared.deadline.is_some_and(|deadline| start >= deadline) {
                    break;
                }
                timer.wait(self.now, start).await.map_err(ConnectionLost::new)?;
            }
            let operation = shared.plan.mix.operation(|| self.random.next());
            ids.clear();
            ids.extend((0..count).map(|_| shared.plan.ids.choose(operation, &mut self.random)));
            connection.run(operation, &ids, &mut faults).await?;
            self.now = Instant::now();
            let good = count.saturating_sub(std::mem::take(&mut faults.count));
            self.tally.record(self.now - start, good);
            self.tally.record_faults(count - good, &mut faults);
            shared.answered.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
