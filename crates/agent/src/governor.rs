//! Keeps the agent within its budget: measures its cost, and delays windows if that is too high.

use super::config::{AgentBudget, AgentWindows};
use overhead_capture::KernelFilter;
use overhead_capture::live::{LiveOptions, LiveSource};
use overhead_host::process_cpu;
use overhead_reading::time::unix_ns;
use overhead_reading::{DutyCycle, Windows};

use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// Share of a server's throughput that an open packet socket costs, at full rate on two cores: docs/agent.md has the measurement.
const OPEN_COST: f64 = 0.12;
/// Time constant of recent spending: older spending fades, so that a quiet night does not pay for a busy day.
const MEMORY: Duration = Duration::from_mins(1);
/// Time after which the cost of a frame is measured again.
const CALIBRATION: Duration = Duration::from_hours(1);
/// Datagrams sent to time the packet socket.
const DATAGRAMS: u32 = 5_000;
/// Time that the kernel takes to copy a frame to a packet socket if it cannot be measured, nanoseconds.
const USUAL_TAP_NS: f64 = 400.0;

/// What the agent has spent.
#[derive(Clone, Copy, Debug, Default)]
pub struct AgentSpending {
    /// CPU time, with that of the kernel for the packet socket.
    pub cpu: Duration,
    /// The part of `cpu` that windows used.
    pub window_cpu: Duration,
    /// Time with an open packet socket.
    pub open: Duration,
    pub windows: u64,
    pub frames: u64,
    pub dropped: u64,
}

pub struct Governor {
    budget: AgentBudget,
    windows: Windows,
    pub spending: AgentSpending,
    /// Kernel time for each captured frame, nanoseconds.
    tap_ns: f64,
    calibrated: Instant,
    cpu_before: Duration,
    scrapes_before: Duration,
    /// Spending of [`MEMORY`] at most, which falls with time.
    recent: [f64; 2],
    settled: Instant,
}

impl Governor {
    /// Starts to count. `seed` determines the windows' random times.
    pub fn new(budget: AgentBudget, windows: AgentWindows, seed: u64) -> Self {
        let windows = Windows::new(DutyCycle::new(windows.length, windows.every), seed, unix_ns());
        let (spending, cpu_before, settled) = (AgentSpending::default(), process_cpu(), Instant::now());
        let tap_ns = tap_cost_ns().unwrap_or(USUAL_TAP_NS);
        let scrapes_before = Duration::ZERO;
        let recent = [0.0; 2];
        Self { budget, windows, spending, tap_ns, calibrated: settled, cpu_before, scrapes_before, recent, settled }
    }

    /// Replaces what the settings give. What was spent stays.
    pub fn replan(&mut self, budget: AgentBudget, windows: AgentWindows) {
        let now_ns = unix_ns();
        self.budget = budget;
        self.windows = Windows::new(DutyCycle::new(windows.length, windows.every), now_ns, now_ns);
    }

    /// Measures the cost of a frame again if the last measurement is old.
    pub fn calibrate(&mut self) {
        if self.calibrated.elapsed() >= CALIBRATION {
            self.tap_ns = tap_cost_ns().unwrap_or(self.tap_ns);
            self.calibrated = Instant::now();
        }
    }

    /// Adds the spending since the last call. A window adds its frames and length. `scrapes` is the CPU time of all scrapes so far:
    /// they put no window off, because any user can make them.
    pub fn settle(&mut self, frames: u64, open: Duration, scrapes: Duration) {
        let (cpu_now, now) = (process_cpu(), Instant::now());
        let tap = Duration::from_nanos((frames as f64 * self.tap_ns) as u64);
        let cpu = cpu_now.saturating_sub(self.cpu_before) + tap;
        let kept = (-(now - self.settled).as_secs_f64() / MEMORY.as_secs_f64()).exp();
        let own = cpu.saturating_sub(scrapes.saturating_sub(self.scrapes_before));
        for (recent, spent) in self.recent.iter_mut().zip([own, open]) {
            *recent = *recent * kept + spent.as_secs_f64();
        }
        self.spending.cpu += cpu;
        if !open.is_zero() {
            self.spending.window_cpu += own;
        }
        self.spending.open += open;
        self.spending.frames += frames;
        self.spending.windows += u64::from(!open.is_zero());
        (self.cpu_before, self.scrapes_before, self.settled) = (cpu_now, scrapes, now);
    }

    /// Returns how long to wait for the next window: it starts at a random time of its period, or later if the budget is spent.
    pub fn wait(&self) -> Duration {
        let now_ns = unix_ns();
        let next = self.windows.at_or_after(now_ns.saturating_add(nanoseconds(self.debt())));
        Duration::from_nanos(next.start.saturating_sub(now_ns)).max(Duration::from_millis(1))
    }

    /// Returns the time without windows that brings the spending back within the budget.
    pub fn debt(&self) -> Duration {
        let memory = MEMORY.as_secs_f64();
        let most = [self.budget.cpu, self.budget.throughput / OPEN_COST].map(|share| share * memory);
        let waits = self.recent.iter().zip(most).map(|(recent, most)| (recent / most).ln() * memory);
        Duration::try_from_secs_f64(waits.fold(0.0, f64::max)).unwrap_or_default()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Measures how much longer a datagram on loopback takes with a packet socket that captures it; `None` if that fails.
fn tap_cost_ns() -> Option<f64> {
    let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
    let address = socket.local_addr().ok()?;
    let timed = || {
        let (started, mut received) = (Instant::now(), [0; 64]);
        for _ in 0..DATAGRAMS {
            socket.send_to(&[0; 64], address).ok()?;
            socket.recv(&mut received).ok()?;
        }
        Some(started.elapsed().as_secs_f64() * 1e9 / f64::from(DATAGRAMS))
    };
    let mut options = LiveOptions::new("lo");
    options.buffer_bytes = 4 << 20;
    options.filter = KernelFilter::new([], Some(&format!("udp port {}", address.port())));
    timed()?;
    let without = timed()?;
    let _source = overhead_kernel::raised(|| LiveSource::open(&options)).ok()?;
    Some((timed()? - without).clamp(50.0, 5_000.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn governor(cpu: f64, throughput: f64) -> Governor {
        let budget = AgentBudget { cpu, throughput };
        Governor { recent: [0.0; 2], ..Governor::new(budget, AgentWindows::default(), 1) }
    }

    #[test]
    fn spending_beyond_the_budget_puts_windows_off_until_it_is_within() {
        let mut governor = governor(0.05, 0.01);
        assert_eq!(governor.debt(), Duration::ZERO);
        assert!(governor.wait() <= Duration::from_secs(20), "a window in each period of ten seconds");
        // 6 s of CPU in the last minute, where 3 s are allowed: they must halve, in ln(2) of the memory.
        governor.recent = [6.0, 0.0];
        assert!((governor.debt().as_secs_f64() - 41.59).abs() < 0.01, "{:?}", governor.debt());
        assert!(governor.wait() >= Duration::from_secs(41));
        // 1% of the throughput, at 12% while open: a twelfth of the time.
        governor.recent = [0.0, 5.0];
        assert_eq!(governor.debt(), Duration::ZERO);
        governor.recent = [0.0, 10.0];
        assert!(governor.debt() > Duration::from_secs(40));
    }

    #[test]
    fn work_is_counted_with_the_packet_socket() {
        let mut governor = governor(0.05, 0.01);
        governor.tap_ns = 1_000.0;
        governor.settle(2_000_000, Duration::from_millis(100), Duration::ZERO);
        assert!(governor.spending.cpu >= Duration::from_secs(2) && governor.recent[0] >= 2.0);
        assert_eq!((governor.spending.windows, governor.spending.frames), (1, 2_000_000));
    }

    #[test]
    fn scrapes_put_no_window_off() {
        let mut governor = governor(0.05, 0.01);
        governor.tap_ns = 1_000.0;
        governor.settle(20_000_000, Duration::ZERO, Duration::from_secs(19));
        assert!(governor.spending.cpu >= Duration::from_secs(20), "they are in the spending");
        assert!(governor.recent[0] < 2.0 && governor.debt() == Duration::ZERO, "{:?}", governor.recent);
        governor.settle(20_000_000, Duration::ZERO, Duration::from_secs(19));
        assert!(governor.debt() > Duration::ZERO, "each counts once");
    }
}
