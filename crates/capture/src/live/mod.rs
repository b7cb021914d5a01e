//! Captures on a network interface that libpcap has opened.
//!
//! On Linux libpcap shares a ring with the kernel (`TPACKET_V3`), whose blocks are handed over when full or ten
//! milliseconds after their first packet. That bounds a lone packet's delay without a system call per packet, the
//! cost of immediate mode (`TPACKET_V2`). On Ethernet, `ring` reads it; otherwise libpcap does. libpcap's timeout
//! does not end a wait on an idle interface, so the capture does not block, and `poll` waits for the ring or a
//! [`StopHandle`].

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
pub use stop::StopHandle;

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

/// Longest time from a ring block's first packet to its handover, in milliseconds.
const RETIRE_MS: i32 = 10;
/// Longest wait for a frame before [`NextFrame::Idle`] is returned.
const WAIT: Duration = Duration::from_millis(100);
/// How long frames from before a stop may still arrive: several times [`RETIRE_MS`].
const DRAIN: Duration = Duration::from_millis(50);
/// Remembered readings of the kernel's counters. At four a second, a frame is read long before they are full.
const MAX_READINGS: usize = 1024;
/// The pseudo-interface that captures on all others.
const ANY: &str = "any";
/// A filter that matches no frame and that libpcap accepts.
const NO_FRAME: &str = "less 0";
/// libpcap's number for raw IP, which differs from files'.
const DLT_RAW: i32 = 12;

/// Options of a live capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveOptions {
    /// `any` for all interfaces.
    pub interface: String,
    /// Longest part of a frame that is kept, in bytes.
    pub snaplen: u32,
    /// Size of the kernel's ring, in bytes.
    pub buffer_bytes: u32,
    /// Applied by the kernel, before frames reach the ring.
    pub filter: KernelFilter,
    /// `None` for this process's network namespace.
    pub namespace: Option<NetworkNamespace>,
}

impl LiveOptions {
    /// Returns options for whole frames, with the default buffer and no filter.
    pub fn new(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            snaplen: DEFAULT_SNAPLEN,
            buffer_bytes: DEFAULT_BUFFER_BYTES,
            filter: KernelFilter::default(),
            namespace: None,
        }
    }
}

/// A capture on a network interface.
pub struct LiveSource {
    interface: String,
    /// Reads the ring instead of libpcap, if possible. Declared before `capture`, which owns the memory.
    ring: Option<PacketRing>,
    capture: Capture<Active>,
    /// Of all frames.
    pub link: LinkType,
    filter: Option<String>,
    stop: StopHandle,
    /// When a stop was first noticed.
    stopping: Option<Instant>,
    /// The last call found nothing, so the next one waits first.
    waits: bool,
    /// When waiting for a frame ends at the latest, if set.
    pub deadline: Option<Instant>,
    /// Kept only if the ring is read here; libpcap has its own.
    state: LinkState,
    /// Of the frames delivered.
    pub totals: LiveTotals,
    kernel: KernelStats,
    last_stat: Stat,
    /// Readings of the kernel's counters since the last frame was captured, with their Unix time in nanoseconds.
    readings: VecDeque<(u64, KernelStats)>,
    /// The kernel's counters at the end of the window. The kernel goes on capturing and dropping.
    at_end: Option<KernelStats>,
}

impl LiveSource {
    /// Starts capturing. On `any` it uses version 2 of the Linux cooked header, which names each frame's interface.
    ///
    /// # Errors
    ///
    /// [`SourceError`] if the interface does not exist or is down, the filter is invalid, or a permission is missing.
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
        // libpcap drops outgoing frames on loopback.
        let is_once = !facts::is_loopback(name) || facts::ignore_outgoing(&capture);
        let capture = capture.setnonblock().map_err(|error| error::live(name, &error))?;
        let is_plain = is_once && link == LinkType::ETHERNET && name != ANY;
        let ring =
            if is_plain { PacketRing::new(&capture, options.buffer_bytes, options.snaplen, now_ns()) } else { None };
        let stop = StopHandle::new().map_err(|error| error::live(name, &pcap::Error::from(error)))?;
        Ok(Self {
            interface: name.clone(),
            ring,
            capture,
            link,
            filter,
            stop,
            stopping: None,
            waits: false,
            deadline: None,
            state: LinkState::default(),
            totals: LiveTotals::default(),
            kernel: KernelStats::default(),
            last_stat: Stat { received: 0, dropped: 0, if_dropped: 0 },
            readings: VecDeque::new(),
            at_end: None,
        })
    }

    /// Returns the filter given to the kernel; `None` lets everything through.
    pub fn filter(&self) -> Option<&str> {
        self.filter.as_deref()
    }

    /// Makes the kernel drop all frames, so that they cost nothing, until [`LiveSource::resume`].
    pub fn pause(&mut self) {
        // On failure, frames are delivered, and the caller drops them.
        let _ = self.capture.filter(NO_FRAME, true);
    }

    /// Makes the kernel deliver frames again.
    pub fn resume(&mut self) -> Result<(), SourceError> {
        let filter = self.filter.as_deref().unwrap_or_default();
        self.capture.filter(filter, true).map_err(|error| error::live(&self.interface, &error))
    }

    /// Returns a handle that ends the capture from another thread or a signal handler.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// Returns whether the ring is read directly, without libpcap.
    pub fn reads_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Waits for the ring, a stop, the deadline, or `WAIT`.
    fn wait(&mut self) -> io::Result<()> {
        let longest = self.stopping.map_or(WAIT, |since| DRAIN.saturating_sub(since.elapsed()));
        let longest = self.deadline.map_or(longest, |at| longest.min(at.saturating_duration_since(Instant::now())));
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(longest.subsec_nanos()) };
        let mut ready =
            [PollFd::new(&self.capture, PollFlags::IN), PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN)];
        // The stop handle stays readable, so it is not polled again once noticed.
        let watched = if self.stopping.is_some() { &mut ready[..1] } else { &mut ready[..] };
        match poll(watched, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let failed = ready[0].revents().intersects(PollFlags::ERR | PollFlags::HUP);
        // libpcap checks this itself.
        if failed && self.ring.is_some() {
            match ring::socket_error(&self.capture) {
                Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => self.state.went_down(),
                outcome => return outcome,
            }
        }
        Ok(())
    }

    /// Returns how often the interface went down, if known: not for loopback and `any`.
    pub fn times_down(&self) -> u32 {
        self.state.times_down
    }

    /// Adds the kernel's counts since the last reading. Its counters are 32 bits wide and wrap.
    fn count(&mut self) -> Result<(), pcap::Error> {
        let now = self.capture.stats()?;
        let last = std::mem::replace(&mut self.last_stat, now);
        self.kernel.received += u64::from(now.received.wrapping_sub(last.received));
        self.kernel.dropped += u64::from(now.dropped.wrapping_sub(last.dropped));
        self.kernel.interface_dropped += u64::from(now.if_dropped.wrapping_sub(last.if_dropped));
        let last_ns = self.totals.last_ns.unwrap_or(0);
        while self.readings.front().is_some_and(|(at_ns, _)| *at_ns < last_ns) {
            self.readings.pop_front();
        }
        if self.readings.len() < MAX_READINGS {
            self.readings.push_back((now_ns(), self.kernel));
        }
        Ok(())
    }

    /// Ends the window at the last delivered frame, so that later drops do not count.
    ///
    /// Frames are dropped on arrival but read later: drops count up to the first reading after that frame's capture.
    pub fn end_window(&mut self) {
        self.close_window(self.totals.last_ns.unwrap_or(0));
    }

    /// Keeps the first reading at or after `end_ns`. On failure, [`FrameSource::kernel`] reports the reason.
    fn close_window(&mut self, end_ns: u64) {
        if self.at_end.is_none() && self.count().is_ok() {
            let reading = self.readings.iter().find(|(at_ns, _)| *at_ns >= end_ns);
            self.at_end = Some(reading.map_or(self.kernel, |(_, kernel)| *kernel));
        }
    }
}

impl FrameSource for LiveSource {
    /// Returns [`NextFrame::Idle`] at once when the ring becomes empty, then every tenth of a second without a frame.
    /// After a stop, earlier frames are still delivered; the end comes within a twentieth of a second.
    ///
    /// An interface may go down and come up again meanwhile. If it is removed, returns
    /// [`SourceError::InterfaceRemoved`] after its last frame.
    fn next_frame(&mut self) -> Result<NextFrame<'_>, SourceError> {
        if self.waits {
            self.wait().map_err(|error| error::live(&self.interface, &pcap::Error::PcapError(error.to_string())))?;
        }
        let stopped_ns = self.stop.requested_ns();
        if let Some(stopped_ns) = stopped_ns.filter(|_| self.stopping.is_none()) {
            self.stopping = Some(Instant::now());
            self.close_window(stopped_ns);
        }
        // Frames from before it went down are in the ring by now.
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
        let Some(RingFrame { time_ns, original_len, bytes }) = next else {
            if is_removed {
                return Err(SourceError::InterfaceRemoved(self.interface.clone()));
            }
            self.waits = true;
            let drained = self.stopping.is_some_and(|since| since.elapsed() >= DRAIN);
            return Ok(if drained { NextFrame::End } else { NextFrame::Idle });
        };
        // Frames from before it went down are read later.
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

    /// Returns the counters as of the stop or [`LiveSource::end_window`], if there was one.
    fn kernel(&mut self) -> Measured<KernelStats> {
        if let Some(at_end) = self.at_end {
            return Measured::Value(at_end);
        }
        self.count().map(|()| self.kernel).map_err(|error| error::reason(&error)).into()
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
            let capture = capture.snaplen(snaplen).buffer_size(buffer).timeout(RETIRE_MS);
            // Not promiscuous, unlike tcpdump: this tool measures this machine's traffic, and the mode appears in the
            // system log and may be refused by virtual networks.
            capture.promisc(false).precision(Precision::Nano).open()
        })
        .map_err(|error| error::live(name, &error))?;
    // Commands started later must not inherit the socket, by which they could read others' traffic.
    fcntl_setfd(&capture, FdFlags::CLOEXEC)
        .map_err(|error| error::live(name, &pcap::Error::from(io::Error::from(error))))?;
    Ok(capture)
}

/// Compiles and sets the filter. The user's part is also compiled separately, so that errors quote what the user
/// wrote and an unbalanced parenthesis cannot change the rest.
fn set_filter(on: &mut Capture<Active>, filter: &KernelFilter, link: LinkType) -> Result<Option<String>, SourceError> {
    let invalid =
        |text: &str, error| SourceError::Filter { expression: text.to_owned(), reason: error::reason(&error) };
    if let Some(user) = filter.user() {
        on.compile(user, true).map_err(|error| invalid(user, error))?;
    }
    let expression = filter.expression(link);
    if let Some(text) = &expression {
        on.filter(text, true).map_err(|error| invalid(text, error))?;
    }
    Ok(expression)
}

/// Converts libpcap's data link number to files'.
fn link_type(data_link: Linktype) -> LinkType {
    if data_link.0 == DLT_RAW { LinkType::RAW } else { LinkType(data_link.0 as u16) }
}

/// The capture was opened for nanoseconds, so the microseconds field holds those.
fn time_ns(time: &libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_usec).unwrap_or(0))
}
