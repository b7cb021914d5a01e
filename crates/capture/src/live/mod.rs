//! Capturing from a network interface, opened by libpcap.
//!
//! On Linux libpcap makes a ring shared with the kernel (`TPACKET_V3`), whose blocks are handed over when full or ten
//! milliseconds after their first packet. On Ethernet it is read here, otherwise by libpcap. That bounds the delay of a lone packet without a system call per packet,
//! which immediate mode (`TPACKET_V2`) would cost. libpcap's own timeout does not end a wait on an idle interface, so
//! waiting is done here: the capture does not block, and `poll` waits for the ring or for a [`StopHandle`].

mod error;
mod facts;
mod idle_priority;
mod interfaces;
mod link_state;
mod memory;
mod namespace;
mod ring;
mod stop;

pub use facts::interface_facts;
pub use idle_priority::IdlePriority;
pub use interfaces::{InterfaceFlag, LiveInterface, list_interfaces};
pub use memory::return_large_blocks;
pub use namespace::NetworkNamespace;
pub use stop::{StopHandle, StopSignal};

use crate::limits::{DEFAULT_BUFFER_BYTES, DEFAULT_SNAPLEN};
use crate::{FrameSource, KernelFilter, KernelStats, LiveTotals, NextFrame, SourceError};
use link_state::{LinkState, bound_interface};
use overhead_model::frame::{Frame, LinkType};
use overhead_model::record::Measured;
use pcap::{Active, Capture, Linktype, Precision, Stat};
use ring::{PacketRing, RingAdvance, RingFrame};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};
use stop::now_ns;

/// A ring block is handed over this long after its first packet at the latest, in milliseconds.
const RETIRE_MS: i32 = 10;
/// Longest wait for a frame before [`NextFrame::Idle`] is returned.
const WAIT: Duration = Duration::from_millis(100);
/// After a stop, frames from before it may still come in for this long: several times [`RETIRE_MS`].
const DRAIN: Duration = Duration::from_millis(50);
/// Looks at the kernel's counters that are remembered. Looks are four a second, and a frame is read well within this.
const MOST_LOOKS: usize = 1024;
/// The pseudo-interface that captures on all others.
const ANY: &str = "any";
/// A filter that no frame passes, and that libpcap does not refuse for that.
const NO_FRAME: &str = "less 0";
/// libpcap numbers raw IP otherwise than files do.
const DLT_RAW: i32 = 12;

/// What to capture, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveOptions {
    /// Name of the interface; `any` for all.
    pub interface: String,
    /// Longest part of a frame that is kept, in bytes.
    pub snaplen: u32,
    /// Size of the kernel's ring, in bytes.
    pub buffer_bytes: u32,
    /// The kernel filter.
    pub filter: KernelFilter,
    /// Whether the interface takes in frames for other machines as well. tcpdump does by default; here it is off
    /// unless asked for: this tool measures what this machine sends and receives, and switching the mode is an
    /// intervention that shows in the system log and that virtual networks may refuse. Set it on a mirror port.
    /// Without effect on `any`.
    pub promiscuous: bool,
    /// Where the interface is; `None` for the network namespace of this process.
    pub namespace: Option<NetworkNamespace>,
}

impl LiveOptions {
    /// Whole frames, the default buffer, no filter, not promiscuous.
    pub fn new(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            snaplen: DEFAULT_SNAPLEN,
            buffer_bytes: DEFAULT_BUFFER_BYTES,
            filter: KernelFilter::default(),
            promiscuous: false,
            namespace: None,
        }
    }
}

/// A network interface being captured.
pub struct LiveSource {
    interface: String,
    /// Read in place of libpcap, where it can be. Before `capture`, whose it is.
    ring: Option<PacketRing>,
    capture: Capture<Active>,
    link: LinkType,
    filter: Option<String>,
    stop: StopSignal,
    /// When a stop was first seen.
    stopping: Option<Instant>,
    /// The last call found nothing, so the next one waits first.
    waits: bool,
    /// Whether the interface is up, where the ring is read here: libpcap looks for itself.
    state: LinkState,
    totals: LiveTotals,
    kernel: KernelStats,
    last_stat: Stat,
    /// Looks at the kernel's counters since the last frame was captured: when, Unix nanoseconds, and what they were.
    looks: VecDeque<(u64, KernelStats)>,
    /// The kernel's counters at the end of the window, once it has ended: the kernel goes on to capture, and to drop.
    at_end: Option<KernelStats>,
}

impl LiveSource {
    /// Starts capturing.
    ///
    /// `any` is captured with the second version of the Linux cooked header, which names the interface of each frame.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when there is no such interface, it is down, capturing is not permitted, the filter is not
    /// valid, or the network namespace may not be entered.
    pub fn open(options: &LiveOptions) -> Result<Self, SourceError> {
        namespace::inside(options.namespace.as_ref(), || Self::open_here(options))?
    }

    fn open_here(options: &LiveOptions) -> Result<Self, SourceError> {
        let name = &options.interface;
        let mut capture = activate(options)?;
        if name == ANY && capture.list_datalinks().is_ok_and(|list| list.contains(&Linktype::LINUX_SLL2)) {
            capture.set_datalink(Linktype::LINUX_SLL2).map_err(|error| error::live(name, &error))?;
        }
        let link = link_type(capture.get_datalink());
        let filter = set_filter(&mut capture, &options.filter, link)?;
        // libpcap leaves out what goes out by loopback.
        let is_once = !facts::is_loopback(name) || facts::ignore_outgoing(&capture);
        let capture = capture.setnonblock().map_err(|error| error::live(name, &error))?;
        let is_plain = is_once && link == LinkType::ETHERNET && name != ANY;
        let ring =
            if is_plain { PacketRing::of(&capture, options.buffer_bytes, options.snaplen, now_ns()) } else { None };
        let stop = StopSignal::new().map_err(|error| error::live(name, &pcap::Error::from(error)))?;
        Ok(Self {
            interface: name.clone(),
            ring,
            capture,
            link,
            filter,
            stop,
            stopping: None,
            waits: false,
            state: LinkState::default(),
            totals: LiveTotals::default(),
            kernel: KernelStats::default(),
            last_stat: Stat { received: 0, dropped: 0, if_dropped: 0 },
            looks: VecDeque::new(),
            at_end: None,
        })
    }

    /// Returns what was delivered so far.
    pub fn totals(&self) -> &LiveTotals {
        &self.totals
    }

    /// Link type of all its frames.
    pub fn link_type(&self) -> LinkType {
        self.link
    }

    /// Returns the filter given to the kernel; `None` lets everything through.
    pub fn filter(&self) -> Option<&str> {
        self.filter.as_deref()
    }

    /// Has the kernel leave all frames out, so that they cost nothing, until [`LiveSource::resume`].
    pub fn pause(&mut self) {
        // Where it does not, they are delivered, and whoever paused leaves them out.
        let _ = self.capture.filter(NO_FRAME, true);
    }

    /// Has the kernel deliver frames again.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when the filter is refused.
    pub fn resume(&mut self) -> Result<(), SourceError> {
        let filter = self.filter.as_deref().unwrap_or_default();
        self.capture.filter(filter, true).map_err(|error| error::live(&self.interface, &error))
    }

    /// Returns a handle that ends the capture from another thread or from a signal handler.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.handle()
    }

    /// Returns whether the ring is read directly, not by libpcap.
    pub fn reads_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Waits for the ring, a stop, or `WAIT` to pass.
    fn wait(&mut self) -> io::Result<()> {
        let longest = self.stopping.map_or(WAIT, |since| DRAIN.saturating_sub(since.elapsed()));
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(longest.subsec_nanos()) };
        let mut ready =
            [PollFd::new(&self.capture, PollFlags::IN), PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN)];
        // The stop handle stays readable once used, so it is waited for only until it was seen.
        let watched = if self.stopping.is_some() { &mut ready[..1] } else { &mut ready[..] };
        match poll(watched, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let failed = ready[0].revents().intersects(PollFlags::ERR | PollFlags::HUP);
        // libpcap looks for itself.
        if failed && self.ring.is_some() {
            match ring::socket_error(&self.capture) {
                Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => self.state.went_down(),
                outcome => return outcome,
            }
        }
        Ok(())
    }

    /// How often the interface went down so far, as far as this is known: of loopback and `any` it is not.
    pub fn times_down(&self) -> u32 {
        self.state.times_down()
    }

    /// Adds what the kernel counted since the last look; its counters are 32 bits wide and wrap.
    fn count(&mut self) -> Result<(), pcap::Error> {
        let now = self.capture.stats()?;
        let last = std::mem::replace(&mut self.last_stat, now);
        self.kernel.received += u64::from(now.received.wrapping_sub(last.received));
        self.kernel.dropped += u64::from(now.dropped.wrapping_sub(last.dropped));
        self.kernel.interface_dropped += u64::from(now.if_dropped.wrapping_sub(last.if_dropped));
        let last_ns = self.totals.last_ns.unwrap_or(0);
        while self.looks.front().is_some_and(|(at_ns, _)| *at_ns < last_ns) {
            self.looks.pop_front();
        }
        if self.looks.len() < MOST_LOOKS {
            self.looks.push_back((now_ns(), self.kernel));
        }
        Ok(())
    }

    /// Ends the window with the last frame that was delivered: what the kernel drops from here on is none of its frames.
    ///
    /// Frames are dropped when they come, and read later: of the drops since that frame was captured those count that had
    /// happened at the first look behind it.
    pub fn end_window(&mut self) {
        self.close_window(self.totals.last_ns.unwrap_or(0));
    }

    /// Keeps the counters of the first look at or behind `end_ns`. Where they cannot be read, [`FrameSource::kernel`] says why.
    fn close_window(&mut self, end_ns: u64) {
        if self.at_end.is_none() && self.count().is_ok() {
            let look = self.looks.iter().find(|(at_ns, _)| *at_ns >= end_ns);
            self.at_end = Some(look.map_or(self.kernel, |(_, kernel)| *kernel));
        }
    }
}

impl FrameSource for LiveSource {
    /// Returns [`NextFrame::Idle`] at once when the ring has run empty, then after every tenth of a second without a frame.
    /// After a stop, frames from before it are still delivered; the end comes within a twentieth of a second.
    ///
    /// An interface that goes down has no frames, and has them again when it is up. One that was removed is
    /// [`SourceError::InterfaceRemoved`], after all frames from before.
    fn next_frame(&mut self) -> Result<NextFrame<'_>, SourceError> {
        if self.waits {
            self.wait().map_err(|error| error::live(&self.interface, &pcap::Error::PcapError(error.to_string())))?;
        }
        let stopped_ns = self.stop.requested_ns();
        if let Some(stopped_ns) = stopped_ns.filter(|_| self.stopping.is_none()) {
            self.stopping = Some(Instant::now());
            self.close_window(stopped_ns);
        }
        // What was captured before it went down is in the ring by now.
        let is_removed = self.state.is_down_for(DRAIN) && bound_interface(&self.capture).is_none();
        let ahead = self.ring.as_mut().map(PacketRing::advance);
        if ahead == Some(RingAdvance::Unreadable) {
            self.ring = None;
        }
        let next = match &mut self.ring {
            Some(ring) if ahead == Some(RingAdvance::Frame) => Some(ring.frame()),
            Some(_) => None,
            None => match self.capture.next_packet() {
                Ok(packet) => Some(RingFrame {
                    time_ns: time_ns(&packet.header.ts),
                    original_len: packet.header.len,
                    bytes: packet.data,
                }),
                Err(pcap::Error::TimeoutExpired) => None,
                Err(pcap::Error::NoMorePackets) => return Ok(NextFrame::End),
                Err(error) => return Err(error::live(&self.interface, &error)),
            },
        };
        match next {
            Some(RingFrame { time_ns, original_len, bytes }) => {
                // Frames from before it went down are read after it.
                if self.waits && self.state.is_down_for(DRAIN) {
                    self.state.is_up();
                }
                self.waits = false;
                if stopped_ns.is_some_and(|stopped_ns| time_ns > stopped_ns) {
                    return Ok(NextFrame::End);
                }
                let original_len = original_len.max(bytes.len() as u32);
                let frame = Frame { time_ns, link: self.link, original_len, interface: 0, bytes };
                self.totals.add(&frame);
                Ok(NextFrame::Frame(frame))
            }
            None => {
                if is_removed {
                    return Err(SourceError::InterfaceRemoved { interface: self.interface.clone() });
                }
                self.waits = true;
                let drained = self.stopping.is_some_and(|since| since.elapsed() >= DRAIN);
                Ok(if drained { NextFrame::End } else { NextFrame::Idle })
            }
        }
    }

    /// After a stop, or [`LiveSource::end_window`], the counters as they were then.
    fn kernel(&mut self) -> Measured<KernelStats> {
        if let Some(at_end) = self.at_end {
            return Measured::Value(at_end);
        }
        match self.count() {
            Ok(()) => Measured::Value(self.kernel),
            Err(error) => Measured::unavailable(error::reason(&error)),
        }
    }
}

impl std::fmt::Debug for LiveSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveSource")
            .field("interface", &self.interface)
            .field("link", &self.link)
            .field("filter", &self.filter)
            .field("totals", &self.totals)
            .finish_non_exhaustive()
    }
}

fn activate(options: &LiveOptions) -> Result<Capture<Active>, SourceError> {
    let name = &options.interface;
    let signed = |option, value: u32| {
        let range = "1 to 2147483647 bytes";
        let signed = i32::try_from(value).ok().filter(|value| *value > 0);
        signed.ok_or(SourceError::Option { option, value: u64::from(value), range })
    };
    let (snaplen, buffer) = (signed("snap length", options.snaplen)?, signed("buffer size", options.buffer_bytes)?);
    interfaces::check_exists(name)?;
    let capture = Capture::from_device(name.as_str())
        .and_then(|capture| {
            // Promiscuous mode on `any` is a warning to libpcap, which the pcap crate takes for an error.
            let promiscuous = options.promiscuous && name != ANY;
            let capture = capture.snaplen(snaplen).buffer_size(buffer).promisc(promiscuous);
            capture.timeout(RETIRE_MS).precision(Precision::Nano).open()
        })
        .map_err(|error| error::live(name, &error))?;
    // libpcap's socket would pass to every command started from here on, which could read the traffic of others.
    fcntl_setfd(&capture, FdFlags::CLOEXEC)
        .map_err(|error| error::live(name, &pcap::Error::from(io::Error::from(error))))?;
    Ok(capture)
}

/// Compiles and sets the filter. The user's part is compiled alone first: so errors quote what the user wrote, and an
/// unbalanced parenthesis cannot change the meaning of the rest.
fn set_filter(
    capture: &mut Capture<Active>,
    filter: &KernelFilter,
    link: LinkType,
) -> Result<Option<String>, SourceError> {
    let invalid =
        |text: &str, error| SourceError::Filter { expression: text.to_owned(), reason: error::reason(&error) };
    if let Some(user) = filter.user() {
        capture.compile(user, true).map_err(|error| invalid(user, error))?;
    }
    let expression = filter.expression(link);
    if let Some(text) = &expression {
        capture.filter(text, true).map_err(|error| invalid(text, error))?;
    }
    Ok(expression)
}

/// Returns the number that files use for what libpcap calls a data link.
fn link_type(data_link: Linktype) -> LinkType {
    match data_link.0 {
        DLT_RAW => LinkType::RAW,
        number => LinkType(number as u16),
    }
}

/// The capture was opened for nanoseconds, so the field for microseconds holds those.
fn time_ns(time: &libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_usec).unwrap_or(0))
}
