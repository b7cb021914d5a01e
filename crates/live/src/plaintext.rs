//! Calls of TLS libraries, merged as packets with those of an interface.

use super::beside::LiveInput;
use anyhow::Result;
use overhead_capture::live::{LiveSource, StopHandle};
use overhead_capture::{FrameSource, KernelStats, LiveTotals, NextFrame, SourceError};
use overhead_kernel::{TlsCall, TlsCalls, TlsCounts, TlsOptions, TlsProcesses, TlsUnsupported, raised};
use overhead_model::stream::unix_ends;
use overhead_model::{CallPacket, CallPart, Frame, LinkType, Measured, StreamPiece, Transport};
use overhead_reading::time::unix_ns;
use overhead_report::text::counted;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Name of the second interface of a packet file.
pub const INTERFACE: &str = "calls of TLS libraries";
/// Packets between two polls of the calls. Few calls wait that long.
const BETWEEN: u32 = 64;
/// Interval between checks for newly loaded libraries.
const LOOK: Duration = Duration::from_millis(500);

/// The packets of an interface, merged with the calls of TLS libraries.
pub struct TlsSource {
    packets: LiveSource,
    calls: TlsCalls,
    /// Calls ready for delivery: time and packet.
    ready: VecDeque<(u64, Vec<u8>)>,
    /// The call that was delivered last.
    call: Vec<u8>,
    server_port: u16,
    until_look: u32,
    looked: Instant,
    is_over: bool,
}

impl TlsSource {
    /// Starts to capture the calls of these processes about these ports, in addition to packets. `program` is about to
    /// be started as our child.
    pub fn open(packets: LiveSource, whose: &TlsProcesses, ports: &[u16], program: Option<&str>) -> Result<Self> {
        let mut options = TlsOptions::new(whose.clone(), ports);
        options.program = program.and_then(executable);
        let calls = raised(|| TlsCalls::start(&options))?;
        let mut announcement = Vec::new();
        CallPacket::Announcement.write(0, &mut announcement);
        Ok(Self {
            packets,
            calls,
            ready: VecDeque::from([(unix_ns(), announcement)]),
            call: Vec::new(),
            server_port: ports.first().copied().filter(|_| ports.len() == 1).unwrap_or_default(),
            until_look: 0,
            looked: Instant::now(),
            is_over: false,
        })
    }

    /// Returns the message for the start of the capture.
    pub fn announcement(&self) -> String {
        let libraries = self.calls.libraries();
        let of = match self.calls.processes().as_slice() {
            [] => "children of this process".to_owned(),
            [pid] => format!("process {pid}"),
            pids => format!("{} processes", pids.len()),
        };
        let role = if self.calls.serves() { "the server" } else { "the client" };
        if libraries.is_empty() {
            return format!("no TLS library is watched: {}", self.unsupported().join("; "));
        }
        format!("takes the TLS plaintext of {role} ({of}) from the calls of {}", libraries.join(", "))
    }

    fn unsupported(&self) -> Vec<String> {
        self.calls.unsupported().iter().map(say_unsupported).collect()
    }

    /// Reads the calls that have returned.
    fn look(&mut self) -> Result<(), SourceError> {
        self.until_look = BETWEEN;
        let Self { calls, ready, server_port, .. } = self;
        let (serves, port) = (calls.serves(), *server_port);
        let taken = calls.poll(|call| ready.push_back((call.time_ns, packet_of(call, serves, port))));
        taken.map_err(|error| failed(&error))?;
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            raised(|| self.calls.rescan()).map_err(|error| failed(&error))?;
        }
        Ok(())
    }
}

impl FrameSource for TlsSource {
    fn next_frame(&mut self) -> Result<NextFrame<'_>, SourceError> {
        if self.until_look == 0 {
            self.look()?;
        }
        if let Some((time_ns, bytes)) = self.ready.pop_front() {
            self.call = bytes;
            let original_len = self.call.len() as u32;
            let frame = Frame { time_ns, link: LinkType::UPPER_PDU, original_len, interface: 1, bytes: &self.call };
            return Ok(NextFrame::Frame(frame));
        }
        if self.is_over {
            return Ok(NextFrame::End);
        }
        self.until_look -= 1;
        match self.packets.next_frame()? {
            frame @ NextFrame::Frame(_) => Ok(frame),
            NextFrame::Idle => {
                self.until_look = 0;
                Ok(NextFrame::Idle)
            }
            NextFrame::End => {
                // A call returns shortly after its bytes were sent or received.
                std::thread::sleep(Duration::from_millis(5));
                (self.until_look, self.is_over) = (0, true);
                Ok(NextFrame::Idle)
            }
        }
    }

    fn kernel(&mut self) -> Measured<KernelStats> {
        self.packets.kernel()
    }
}

impl LiveInput for TlsSource {
    fn stop_handle(&self) -> StopHandle {
        self.packets.stop_handle()
    }

    fn totals(&self) -> &LiveTotals {
        self.packets.totals()
    }

    fn end_window(&mut self) {
        self.packets.end_window();
    }

    fn losses(&self) -> Vec<String> {
        let Ok(counts) = self.calls.counts() else { return Vec::new() };
        let TlsCounts { lost_bytes, unread_bytes, file_bytes, unjoined_bytes, .. } = counts;
        let mut said = Vec::new();
        let mut say = |bytes: u64, what: &str| {
            if bytes > 0 {
                said.push(format!("{} {what}", counted(bytes, "byte")));
            }
        };
        say(lost_bytes, "of TLS calls found no room in the ring buffer: their content is not known");
        say(unread_bytes, "of TLS calls were not in the process's memory any more: their content is not known");
        say(file_bytes, "were sent by SSL_sendfile, out of files: their content is not known");
        let unjoined = "of TLS calls are of connections whose socket is not used within the calls (memory BIOs): they are a stream \
                        of their own, transport tls-plaintext, and the packets that carried them are in `unknown`";
        say(unjoined_bytes, unjoined);
        said.extend(self.unsupported());
        said
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = self.packets.remarks();
        if self.calls.counts().is_ok_and(|counts| counts.calls == 0) && !self.calls.libraries().is_empty() {
            let libraries = self.calls.libraries();
            remarks.push(format!(
                "no call of {} moved bytes of the captured connections: they are encrypted by another library, or began before; have the process write a key log, and name that with --keylog",
                libraries.join(", ")
            ));
        }
        remarks
    }
}

/// Describes a process whose calls cannot be captured, and what helps.
fn say_unsupported(process: &TlsUnsupported) -> String {
    let with = match process.libraries.as_slice() {
        [] => "maps no OpenSSL or BoringSSL whose functions have names (symbols)".to_owned(),
        libraries => format!("encrypts with {}, whose calls are not supported", libraries.join(" and ")),
    };
    let TlsUnsupported { pid, comm, .. } = process;
    format!("process {pid} ({comm}) {with}: have it write a key log, and name that with --keylog")
}

/// Formats a call as a packet, on its TCP connection or as a separate stream.
fn packet_of(call: &TlsCall<'_>, serves: bool, port: u16) -> Vec<u8> {
    let mut packet = Vec::with_capacity(call.bytes.len() + 160);
    let Some(connection) = &call.connection else {
        stream_of(call, serves, port, &mut packet);
        return packet;
    };
    let (local, remote) = (connection.local, connection.remote);
    let part = CallPart {
        sender: if call.sent { local } else { remote },
        receiver: if call.sent { remote } else { local },
        sent: call.sent,
        sequence: connection.sequence,
        call_start: call.offset - call.call_before,
        call_len: call.call_bytes,
        before: call.call_before,
        len: call.len,
        bytes: call.bytes,
    };
    CallPacket::Part(part).write(if serves { local.port() } else { remote.port() }, &mut packet);
    packet
}

/// Writes a call whose socket is unknown.
fn stream_of(call: &TlsCall<'_>, serves: bool, port: u16, packet: &mut Vec<u8>) {
    let (process, peer) = (format!("pid:{}", call.pid), "peer");
    let (client, server) = if serves { (peer, process.as_str()) } else { (process.as_str(), peer) };
    let client_pid = if serves { 0 } else { call.pid };
    let piece = StreamPiece {
        transport: Transport::TlsPlaintext,
        id: call.stream,
        to_server: call.sent != serves,
        offset: call.offset,
        begins: true,
        ends: false,
        client,
        server,
        addresses: unix_ends(client_pid, server, call.stream, port),
    };
    piece.write(packet);
    packet.extend_from_slice(call.bytes);
}

/// Finds the program of a command.
fn executable(command: &str) -> Option<std::path::PathBuf> {
    if command.contains('/') {
        return Some(command.into());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(command)).find(|path| path.is_file())
}

fn failed(error: &overhead_kernel::Error) -> SourceError {
    SourceError::Live { interface: INTERFACE.to_owned(), reason: error.to_string() }
}
