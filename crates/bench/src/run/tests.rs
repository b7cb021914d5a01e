//! Runs against a fake client that answers at times the test chooses.

use super::*;
use crate::data::InsertIds;
use crate::plan::BenchOp;

/// Answers every operation at once, except number `at`.
#[derive(Default)]
struct Answers {
    count: usize,
    at: usize,
    instead: Instead,
}

#[derive(Clone, Copy, Default)]
enum Instead {
    #[default]
    Nothing,
    Wait(Duration),
    Never,
    Refuse,
    HangUp,
}

impl Answers {
    fn but(at: usize, instead: Instead) -> Self {
        Self { count: 0, at, instead }
    }
}

impl DriverConnection for Answers {
    async fn run(&mut self, _: BenchOp, ids: &[i64], faults: &mut Faults) -> Result<(), ConnectionLost> {
        let different = (self.count..self.count + ids.len()).contains(&self.at);
        self.count += ids.len();
        if different {
            match self.instead {
                Instead::Nothing => {}
                Instead::Wait(time) => tokio::time::sleep(time).await,
                Instead::Never => std::future::pending().await,
                Instead::Refuse => faults.add("no"),
                Instead::HangUp => return Err(ConnectionLost::new("gone")),
            }
        }
        tokio::task::yield_now().await;
        Ok(())
    }

    async fn close(self) {}
}

fn plan(length: RunLength) -> RunPlan {
    RunPlan {
        mix: OperationMix::single(BenchOp::Read),
        pipeline: 1,
        rate: None,
        length,
        ids: Arc::new(IdSource::new(10, InsertIds::Fresh)),
        timeout: Duration::from_mins(1),
        stop: StopRequest::default(),
    }
}

const STALL: Duration = Duration::from_millis(200);

#[tokio::test]
async fn operations_are_counted_exactly_over_all_clients() {
    let clients = (0..7).map(|_| Answers::default()).collect();
    let outcome = run(clients, RunPlan { pipeline: 3, ..plan(RunLength::Operations(1000)) }).await.unwrap();
    let sent: usize = outcome.connections.iter().map(|connection| connection.count).sum();
    assert_eq!((outcome.run.operations, sent, outcome.run.latency_ns.count), (1000, 1000, 1000));
    assert_eq!((outcome.connections.len(), outcome.run.partial), (7, None));
}

#[tokio::test]
async fn a_closed_loop_sees_a_stall_once() {
    let client = Answers::but(10, Instead::Wait(STALL));
    let run = run(vec![client], plan(RunLength::Operations(100))).await.unwrap().run;
    assert!(run.latency_ns.max >= STALL.as_nanos() as u64);
    assert!(run.latency_ns.p90 < STALL.as_nanos() as u64 / 4, "{:?}", run.latency_ns);
}

#[tokio::test]
async fn an_open_loop_charges_a_stall_for_all_that_was_due_meanwhile() {
    // 500 operations per second: 100 of the 150 become due while the tenth waits for 200 ms.
    let client = Answers::but(10, Instead::Wait(STALL));
    let run = run(vec![client], RunPlan { rate: Some(500.0), ..plan(RunLength::Operations(150)) }).await.unwrap().run;
    let half = STALL.as_nanos() as u64 / 2;
    assert!(run.latency_ns.max >= 2 * half);
    assert!(run.latency_ns.mean >= half as f64 / 2.0, "{:?}", run.latency_ns);
    assert!(run.elapsed_ns >= 149 * 2_000_000, "not before the last one is due: {}", run.elapsed_ns);
}

#[tokio::test]
async fn a_run_by_time_ends_in_time() {
    let run = run(vec![Answers::default()], plan(RunLength::Time(Duration::from_millis(50)))).await.unwrap().run;
    assert!(run.operations > 0 && run.elapsed_ns >= 50_000_000);
}

#[tokio::test]
async fn errors_are_counted_and_not_timed() {
    let run = run(vec![Answers::but(5, Instead::Refuse)], plan(RunLength::Operations(10))).await.unwrap().run;
    assert_eq!((run.operations, run.errors, run.latency_ns.count), (9, 1, 9));
    assert_eq!((run.first_error.as_deref(), run.partial), (Some("no"), None));
}

#[tokio::test]
async fn a_lost_connection_ends_the_run_and_keeps_what_was_done() {
    let clients = vec![Answers::but(20, Instead::HangUp), Answers::default()];
    let outcome = run(clients, plan(RunLength::Time(Duration::from_mins(1)))).await.unwrap();
    assert_eq!(outcome.run.partial.as_deref(), Some("gone"));
    assert!(outcome.run.operations >= 20);
}

#[tokio::test]
async fn a_server_that_falls_silent_is_not_waited_for() {
    let clients = vec![Answers::but(20, Instead::Never)];
    let silent = RunPlan { timeout: Duration::from_millis(50), ..plan(RunLength::Operations(1000)) };
    let outcome = run(clients, silent).await.unwrap();
    assert_eq!(outcome.run.partial.as_deref(), Some("no answer for 0.05 s"));
    assert_eq!((outcome.run.operations, outcome.connections.len()), (20, 0));
}

#[tokio::test]
async fn who_is_asked_to_stop_stops() {
    let stop = StopRequest::default();
    let endless = RunPlan { stop: stop.clone(), ..plan(RunLength::Time(Duration::from_mins(1))) };
    let (outcome, ()) = tokio::join!(run(vec![Answers::default()], endless), async {
        tokio::task::yield_now().await;
        stop.request("enough");
    });
    let outcome = outcome.unwrap();
    assert_eq!((outcome.run.partial.as_deref(), outcome.connections.len()), (Some("enough"), 1));
}
