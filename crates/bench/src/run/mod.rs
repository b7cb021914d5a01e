//! One run: clients that work at the same time until the operations or the time are used up.

#[cfg(test)]
mod tests;

use crate::data::{Ids, Random};
use crate::driver::{Lost, Session};
use crate::pace::{Schedule, Timer};
use crate::plan::{Length, Mix};
use crate::stats::{Faults, Tally};
use crate::stop::Stop;
use crate::usage;
use anyhow::{Context, Result};
use overhead_model::load::LoadRun;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::task::{JoinHandle, JoinSet};

/// What all clients of a run share.
pub struct Work {
    /// What they do.
    pub mix: Mix,
    /// Operations that each sends together.
    pub pipeline: u32,
    /// Operations per second over all clients, where each is due at its time.
    pub rate: Option<f64>,
    /// When to end.
    pub length: Length,
    /// Rows to work on.
    pub ids: Arc<Ids>,
    /// How long no answer at all may come.
    pub timeout: Duration,
    /// Who asks to end.
    pub stop: Stop,
}

/// What a run came to.
pub struct Outcome<S> {
    /// Its record.
    pub run: LoadRun,
    /// The clients, for another run; fewer than before where connections were lost.
    pub sessions: Vec<S>,
}

/// What the clients of a run count together.
struct Shared {
    work: Work,
    start: Instant,
    /// Operations that are not yet taken by a client.
    left: AtomicU64,
    deadline: Option<Instant>,
    /// Rounds that were answered.
    answered: AtomicU64,
    /// Asked to end by this run alone: the server went away, or does not answer.
    lost: Stop,
}

/// Lets the clients work.
pub async fn run<S: Session>(sessions: Vec<S>, work: Work) -> Result<Outcome<S>> {
    let clients = sessions.len() as u32;
    let started_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let cpu = usage::cpu()?;
    let start = Instant::now();
    let (left, deadline) = match work.length {
        Length::Operations(operations) => (operations, None),
        Length::Time(time) => (u64::MAX, Some(start + time)),
    };
    let (left, answered) = (AtomicU64::new(left), AtomicU64::new(0));
    let shared = Arc::new(Shared { work, start, left, deadline, answered, lost: Stop::default() });
    let mut tasks = JoinSet::new();
    for (number, session) in (0..).zip(sessions) {
        let client = Client::new(session, number, clients, &shared)?;
        tasks.spawn(client.work());
    }
    let watch = watch(Arc::clone(&shared));
    let (mut sum, mut sessions, mut end) = (Tally::new().context("no histogram")?, Vec::new(), start);
    while let Some(client) = tasks.join_next().await {
        let client = client.context("a client ended unexpectedly")?;
        sum.merge(&client.tally);
        end = end.max(client.now);
        sessions.extend(client.session);
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
        cpu_ns: usage::since(cpu)?,
        partial: shared.lost.reason().or_else(|| shared.work.stop.reason()),
    };
    Ok(Outcome { run, sessions })
}

/// Ends the run where no answer comes for too long, and soon after Ctrl-C.
fn watch(shared: Arc<Shared>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let timeout = shared.work.timeout;
        let mut last = 0;
        loop {
            tokio::select! {
                () = tokio::time::sleep(timeout) => {}
                () = shared.work.stop.wait() => {
                    tokio::time::sleep(timeout.min(Duration::from_secs(1))).await;
                    return shared.lost.ask(shared.work.stop.reason().unwrap_or_default());
                }
            }
            let answered = shared.answered.load(Ordering::Relaxed);
            if answered == last && !shared.may_be_idle(timeout) {
                return shared.lost.ask(format!("no answer for {} s", timeout.as_secs_f64()));
            }
            last = answered;
        }
    })
}

impl Shared {
    /// Rounds may be further apart than the time-out.
    fn may_be_idle(&self, timeout: Duration) -> bool {
        self.work.rate.is_some_and(|rate| f64::from(self.work.pipeline) / rate > timeout.as_secs_f64() / 2.0)
    }

    /// Operations for the next round of a client, which begins now; none when the run is over.
    fn take(&self, now: Instant) -> u64 {
        if self.work.stop.asked() || self.lost.asked() || self.deadline.is_some_and(|deadline| now >= deadline) {
            return 0;
        }
        let most = u64::from(self.work.pipeline);
        if self.deadline.is_some() {
            return most;
        }
        let before =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(most)));
        before.unwrap_or(0).min(most)
    }
}

/// One client at work.
struct Client<S> {
    /// Gone with its connection.
    session: Option<S>,
    shared: Arc<Shared>,
    random: Random,
    tally: Tally,
    schedule: Option<(Schedule, Timer)>,
    /// The latest time read, after the last answer.
    now: Instant,
}

impl<S: Session> Client<S> {
    fn new(session: S, number: u32, clients: u32, shared: &Arc<Shared>) -> Result<Self> {
        let work = &shared.work;
        let schedule = match work.rate {
            None => None,
            Some(rate) => {
                let schedule = Schedule::new(shared.start, rate, number, clients, work.pipeline);
                Some((schedule, Timer::new().context("no timer")?))
            }
        };
        Ok(Self {
            session: Some(session),
            shared: Arc::clone(shared),
            random: Random::new(u64::from(number)),
            tally: Tally::new().context("no histogram")?,
            schedule,
            now: shared.start,
        })
    }

    /// Works until the run is over. A client that is stuck is left alone when the run is given up.
    async fn work(mut self) -> Self {
        let shared = Arc::clone(&self.shared);
        tokio::select! {
            biased;
            result = self.rounds() => match result {
                Ok(()) => return self,
                Err(lost) => shared.lost.ask(lost.0),
            },
            () = shared.lost.wait() => {}
        }
        self.session = None;
        self
    }

    async fn rounds(&mut self) -> Result<(), Lost> {
        let Some(session) = &mut self.session else { return Ok(()) };
        let shared = &*self.shared;
        let mut ids = Vec::with_capacity(shared.work.pipeline as usize);
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
                timer.wait(self.now, start).await.map_err(Lost::new)?;
            }
            let operation = shared.work.mix.operation(&mut self.random);
            ids.clear();
            ids.extend((0..count).map(|_| shared.work.ids.choose(operation, &mut self.random)));
            session.run(operation, &ids, &mut faults).await?;
            self.now = Instant::now();
            let good = count.saturating_sub(std::mem::take(&mut faults.count));
            self.tally.record(self.now - start, good);
            self.tally.fault(count - good, &mut faults);
            shared.answered.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
