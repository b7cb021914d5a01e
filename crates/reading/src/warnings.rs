//! Warnings that a reader needs to judge a result, as complete sentences, and whether they make it partial.

mod encrypted;
mod notes;
mod rows;

pub use encrypted::TlsServer;
pub use encrypted::TlsServers;
use overhead_decode::{ApparentProtocol, ForeignTraffic, Note};
use overhead_dissect::Totals;
use overhead_model::record::{Connection, Interface, OnlyCommand, TcpTotals};
use overhead_model::{LinkType, Protocol, System, Transport, exit};
use overhead_report::text::{counted, grouped};
use std::collections::BTreeMap;

/// Maximum number of other protocols and ports named if the capture has nothing that was asked for.
const OTHERS: usize = 6;

/// Returns whether there is no frame without payload, and only one side of each connection.
fn has_one_side_alone(tcp: &TcpTotals) -> bool {
    tcp.control_frames == 0 && [tcp.request_only, tcp.response_only].contains(&tcp.connections)
}

/// Collects the warnings of a run.
#[derive(Debug, Default)]
pub struct Warnings {
    sentences: Vec<String>,
    partial: bool,
    /// The capture has nothing that was asked for.
    nothing: bool,
    /// Frames dropped during the capture, according to the files. A record of the run overrides this.
    dropped: u64,
    /// Connections whose content stayed encrypted, until they are described.
    encrypted: u64,
    /// Servers that may be able to open them.
    pub tls: TlsServers,
}

impl Warnings {
    /// Adds a warning that something is missing from the result.
    pub fn partial(&mut self, warning: impl Into<String>) {
        self.partial = true;
        self.sentences.push(warning.into());
    }

    /// Notes frames dropped during the capture, according to the files.
    pub fn dropped_of_files(&mut self, frames: u64) {
        self.dropped = frames;
    }

    /// Notes frames dropped during the capture, according to the run's record, which replaces the count from its files.
    pub fn dropped_of_record(&mut self, frames: u64) {
        self.dropped = 0;
        if frames > 0 {
            self.partial(format!("the kernel dropped {} while they were captured", counted(frames, "frame")));
        }
    }

    /// Adds a warning that the capture has nothing that was asked for.
    fn nothing(&mut self, warning: impl Into<String>) {
        self.nothing = true;
        self.sentences.push(warning.into());
    }

    /// Returns whether the capture certainly has nothing that was asked for.
    pub fn is_nothing(&self) -> bool {
        self.nothing && !self.partial
    }

    /// Accepts a capture without selected connections: the user asked only for packets.
    pub fn accept_packets_alone(&mut self) {
        self.nothing = false;
    }

    /// Adds a remark that leaves the result complete.
    pub fn remark(&mut self, warning: impl Into<String>) {
        self.sentences.push(warning.into());
    }

    /// Returns the warnings and their exit status.
    pub fn settle(mut self) -> (Vec<String>, u8) {
        if self.dropped > 0 {
            let dropped = counted(self.dropped, "frame");
            self.partial(format!(
                "the kernel or the interface dropped {dropped} while they were captured, as the files say"
            ));
        }
        if self.encrypted > 0 {
            let connections = counted(self.encrypted, "connection");
            let are = if self.encrypted == 1 { "is" } else { "are" };
            self.remark(format!("{connections} {are} encrypted: name a key log with their keys (--keylog)"));
        }
        let status = match (self.partial, self.nothing) {
            (true, _) => exit::PARTIAL,
            (false, true) => exit::FAILED,
            (false, false) => exit::COMPLETE,
        };
        (self.sentences, status)
    }

    /// Reports frames that the user's options left out.
    pub fn outside(&mut self, frames: u64, options: &str) {
        if frames > 0 {
            let are = if frames == 1 { "is" } else { "are" };
            self.remark(format!("{} outside {options} {are} not counted", counted(frames, "frame")));
        }
    }

    /// Reports the connections that `--only-command` left out.
    pub fn warn_of_only_command(&mut self, only: OnlyCommand) {
        if only.left_out > 0 {
            let were = if only.left_out == 1 { "was" } else { "were" };
            let left_out = counted(only.left_out, "connection");
            self.remark(format!("{left_out} of other processes {were} left out (--only-command)"));
        }
        if only.undetermined > 0 {
            self.partial(format!(
                "the owner of {} could not be determined: they were left out, and may be the command's",
                counted(only.undetermined, "connection")
            ));
        }
    }

    /// Adds the warnings that follow from the totals of a dissection.
    pub fn warn_of_totals(&mut self, totals: &Totals) {
        self.warn_of_emptiness(totals);
        for link in totals.link_types.iter().filter(|link| link.name().is_none()) {
            self.partial(format!(
                "frames of link type {link} are not decoded and count as `other`: capture on Ethernet, loopback, cooked (`any`) or raw IP"
            ));
        }
        if totals.malformed_frames > 0 {
            self.remark(format!("{} with broken headers count as `other`", counted(totals.malformed_frames, "frame")));
        }
        if totals.header_snapped_frames > 0 {
            self.partial(format!(
                "the snap length of {} cut off the headers of {}, which count as `other`: capture whole frames with -s 0; -s {} keeps only the headers",
                counted(totals.snap_bytes, "byte"),
                counted(totals.header_snapped_frames, "frame"),
                totals.header_bytes
            ));
        }
        if totals.tcp.snapped_bytes > 0 {
            self.partial(format!(
                "{} of payload were on the wire but not captured (snapped): capture whole frames with -s 0",
                counted(totals.tcp.snapped_bytes, "byte")
            ));
        }
        if totals.tcp.gap_bytes > 0 {
            let (where_from, why) = if !totals.transport().has_frames() {
                ("were written and not captured (gaps in the streams)", "the capture lost calls")
            } else if has_one_side_alone(&totals.tcp) {
                (
                    "are in no captured frame (gaps in the TCP sequence)",
                    "the file has only frames with payload, and of one side, as a filter on content leaves them; capture with a filter on hosts and ports instead",
                )
            } else {
                ("are in no captured frame (gaps in the TCP sequence)", "the capture lost frames")
            };
            self.partial(format!(
                "{} {where_from}: {why}, and these bytes are posted nowhere",
                counted(totals.tcp.gap_bytes, "byte")
            ));
        }
        self.warn_of_transport(totals);
        self.warn_of_directions(&totals.tcp);
        if totals.tcp.given_up > 0 {
            self.partial(format!(
                "{} given up before the end, to keep memory within bounds: half-open ones first, as in a flood or a scan, then the largest; what came of them later counts as new connections: narrow the capture down with --port or -f",
                counted(totals.tcp.given_up, "connection")
            ));
        }
        self.warn_of_clocks(totals);
        for (note, count) in &totals.notes {
            if let Note::Foreign(foreign) = note {
                self.warn_of_foreign(*foreign, *count, totals.tcp.connections > 0);
            } else {
                self.warn_of_note(*note, *count);
            }
        }
    }

    /// Reports frames that were captured later than their acknowledgments.
    fn warn_of_clocks(&mut self, totals: &Totals) {
        let [late, too_late] = [Note::CapturedLate, Note::CapturedTooLate]
            .map(|note| totals.notes.get(&note).copied().unwrap_or_default());
        if too_late > 0 {
            self.partial(format!(
                "{} came so much later than their acknowledgments that the order could not be restored: operations and latencies may be wrong; put the frames in order (`reordercap`), or capture both directions at one tap",
                counted(too_late, "frame")
            ));
        }
        if late == 0 {
            return;
        }
        let facts = format!("{} came later than their acknowledgments", counted(late, "frame"));
        if totals.had_two_clocks() {
            self.partial(format!(
                "{facts}, so the two directions were captured by different clocks: their order was restored, and latencies are left out; to measure latencies, capture both directions at one tap"
            ));
        } else {
            self.remark(format!(
                "{facts}, as packets do that pass different queues of an interface: their order was restored"
            ));
        }
    }

    fn warn_of_emptiness(&mut self, totals: &Totals) {
        if totals.frames == 0 {
            self.nothing("no frame was captured");
        } else if totals.tcp.connections == 0 && totals.snap_bytes > 0 {
            self.partial(format!(
                "no connection was decoded, and only up to {} of each frame were captured: capture whole frames with -s 0",
                counted(totals.snap_bytes, "byte")
            ));
        } else if totals.tcp.connections == 0 {
            self.nothing(
                "no connection was decoded: if the server listens on another port, name it with --port, and its system with --db",
            );
        } else if totals.tcp.payload_bytes == 0 {
            self.nothing("no connection carried any payload: capture while the client works");
        }
    }

    /// Warns about connections that no frames carried.
    fn warn_of_transport(&mut self, totals: &Totals) {
        for transport in totals.transports.iter().filter(|transport| !transport.has_frames()) {
            let what = match transport {
                Transport::Unix => "UNIX sockets",
                _ => "TLS in clear, from the calls of its library,",
            };
            self.remark(format!(
                "{what} have no link: their wire bytes are the payload, without frames and headers; compare them with other connections by payload"
            ));
        }
        if totals.midway_tls_bytes > 0 {
            self.remark(format!(
                "{} on the wire are of TLS connections that began before the capture, and stay encrypted",
                counted(totals.midway_tls_bytes, "byte")
            ));
        }
        if totals.calls > 0 {
            self.remark(format!(
                "{} with calls of a TLS library {} not used any more: name a key log with the connections' keys (--keylog), or capture again with --tls-keys",
                counted(totals.calls, "packet"),
                if totals.calls == 1 { "is" } else { "are" }
            ));
        }
        if totals.foreign_pdus > 0 {
            self.partial(format!(
                "{} of link type {} {} no piece of a stream, and {} not decoded: capture the connections themselves",
                counted(totals.foreign_pdus, "packet"),
                LinkType::UPPER_PDU,
                if totals.foreign_pdus == 1 { "is" } else { "are" },
                if totals.foreign_pdus == 1 { "is" } else { "are" },
            ));
        }
    }

    /// Warns about a capture that sees only one direction of connections.
    fn warn_of_directions(&mut self, tcp: &TcpTotals) {
        let sides = [
            (tcp.request_only, "client", "responses, and with them latencies,"),
            (tcp.response_only, "server", "requests, and with them operations,"),
        ];
        for (connections, end, missing) in sides.into_iter().filter(|(connections, ..)| *connections > 0) {
            let warning = format!(
                "of {} only what the {end} sent was captured: their {missing} are absent, not empty; capture both directions (a filter such as `dst port`, or a mirror port, may let one pass)",
                counted(connections, "connection")
            );
            self.remark(warning);
        }
    }

    /// Warns about connections whose protocol is not decoded or not expected.
    fn warn_of_foreign(&mut self, foreign: ForeignTraffic, count: u64, is_any_decoded: bool) {
        let ForeignTraffic { port, look, expected } = foreign;
        let look_like = if count == 1 { "looks like" } else { "look like" };
        let place = if port == 0 { "on other ports".to_owned() } else { format!("on port {port}") };
        if look == ApparentProtocol::Subflow {
            return self.partial(format!(
                "{} {place} {} of Multipath TCP, which can spread one payload over several: rows may be incomplete, and the payload of further subflows is in `unknown` or `other`; measure without it (`sysctl net.mptcp.enabled=0`)",
                counted(count, "connection"),
                if count == 1 { "is" } else { "are" }
            ));
        }
        if look == ApparentProtocol::Undecided {
            let (subject, was) = (counted(count, "connection"), if count == 1 { "was" } else { "were" });
            return self.partial(format!(
                "{subject} {place} {was} joined midway, and too little followed to recognise the protocol: counted as `other`; name it with --db and --port {port}"
            ));
        }
        let subject = format!("{} {place} {look_like} {look}", counted(count, "connection"));
        let remedy = match look {
            ApparentProtocol::Ours(protocol) => {
                let name = System::default_for(protocol).map_or(protocol.name(), |system| system.name);
                format!("name it with --db {name} --port {port}")
            }
            ApparentProtocol::Tls => self.tls.remedy_midway(port),
            ApparentProtocol::Unknown => "name the system with --db, if it is one that is decoded".to_owned(),
            look => format!("{look} is not decoded yet"),
        };
        match expected {
            Some(expected) => self.partial(format!(
                "{subject}, not like {expected}: not decoded, their payload is in `unknown`; {remedy}"
            )),
            None if is_any_decoded => self.remark(format!("{subject}: not decoded, and counted as `other`; {remedy}")),
            None => self.partial(format!("{subject}: not decoded, and counted as `other`; {remedy}")),
        }
    }

    /// Warns about HTTP next to database connections if the user named no protocol. `protocols` has one entry per connection.
    pub fn warn_of_detection<'a>(&mut self, protocols: impl Iterator<Item = &'a str>) {
        let mut is_spoken = [false; 2];
        for protocol in protocols {
            is_spoken[usize::from(protocol == Protocol::Http.name())] = true;
        }
        if is_spoken == [true; 2] {
            self.remark(
                "there are HTTP operations as well as database operations, because no --db says which you want: name systems with --db, and everything else counts as `other`",
            );
        }
    }

    /// Lists the other protocols and ports in files that have nothing that was asked for, one sentence each.
    pub fn warn_of_others(&mut self, connections: &[Connection]) {
        let mut found = BTreeMap::<(Protocol, String), u64>::new();
        for connection in connections {
            let protocol = Protocol::ALL.into_iter().find(|protocol| protocol.name() == connection.protocol);
            let port = connection.server.rsplit_once(':').map(|(_, port)| port.to_owned());
            if let (Some(protocol), Some(port)) = (protocol, port) {
                *found.entry((protocol, port)).or_default() += 1;
            }
        }
        for ((protocol, port), count) in found.into_iter().take(OTHERS) {
            let name = System::default_for(protocol).map_or(protocol.name(), |system| system.name);
            let is_usual = protocol.ports().iter().any(|usual| usual.to_string() == port);
            let options = if is_usual { format!("--db {name}") } else { format!("--db {name} --port {port}") };
            let verb = if count == 1 { "speaks" } else { "speak" };
            let protocol = protocol.name();
            self.remark(format!(
                "{} on port {port} {verb} {protocol}: read with {options}",
                counted(count, "connection")
            ));
        }
    }

    /// Warns about frames too large for Ethernet, and names the cause on the captured interface.
    pub fn warn_of_frame_sizes(&mut self, totals: &Totals, interface: Option<&Interface>) {
        let tcp = &totals.tcp;
        let is_jumbo = |interface: &Interface| {
            interface.name != "lo" && interface.mtu.is_some_and(|mtu| u64::from(mtu) >= tcp.oversize_longest_bytes)
        };
        // On a link with jumbo frames, this size is genuine.
        if tcp.oversize_frames == 0 || interface.is_some_and(is_jumbo) {
            return;
        }
        if interface.is_some_and(|interface| interface.name == "lo") {
            self.remark(format!(
                "frames of up to {}, as on loopback alone: a link of MTU 1,500 would add {} of headers",
                counted(tcp.oversize_longest_bytes, "byte"),
                counted(tcp.oversize_header_bytes, "byte"),
            ));
            return;
        }
        let cause = interface.and_then(cause_of_large_frames);
        let cause = cause
            .unwrap_or_else(|| "captured on loopback, or before segmentation and after receive offload".to_owned());
        let (are, longest) = (if tcp.oversize_frames == 1 { "is" } else { "are" }, tcp.oversize_longest_bytes);
        self.remark(format!(
            "{} {are} larger than Ethernet carries, with IP packets of up to {}: a link of MTU 1,500 would add {} of headers at least ({cause})",
            counted(tcp.oversize_frames, "frame"),
            counted(longest, "byte"),
            counted(tcp.oversize_header_bytes, "byte"),
        ));
    }
}

/// Returns what makes this interface's frames larger than Ethernet's, and the commands to turn it off; `None` if unknown.
fn cause_of_large_frames(interface: &Interface) -> Option<String> {
    let Interface { name, mtu, offloads, .. } = interface;
    let mtu = mtu.filter(|mtu| *mtu > 1500);
    let on: Vec<&str> = offloads.iter().filter(|(_, on)| **on).map(|(name, _)| name.as_str()).collect();
    let mut facts: Vec<String> = mtu.iter().map(|mtu| format!("an MTU of {}", grouped(u64::from(*mtu)))).collect();
    let mut remedy: Vec<String> = mtu.iter().map(|_| format!("ip link set {name} mtu 1500")).collect();
    if !on.is_empty() {
        facts.push(format!("{} on", on.join(", ")));
        remedy.push(format!("ethtool -K {name} {} off", on.join(" off ")));
    }
    (!facts.is_empty()).then(|| {
        format!(
            "{name} has {}; without: `{}`, and the same at the other end where the link is virtual",
            facts.join(" and "),
            remedy.join(" && ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_decode::Codec;

    #[test]
    fn a_limit_of_decompression_is_named() {
        let said = |note, count| {
            let mut warnings = Warnings::default();
            warnings.warn_of_note(note, count);
            warnings.settle().0.concat()
        };
        let zstd = said(Note::Implausible(Codec::Zstd), 1);
        assert!(
            zstd.starts_with("1 compressed message claims to decompress to more than zstd can (32,768 times"),
            "{zstd}"
        );
        let long = said(Note::LongBody, 2);
        assert!(long.starts_with("2 compressed messages claim to decompress to more than 64 MiB"), "{long}");
    }

    #[test]
    fn what_a_filter_left_out_was_not_lost_by_the_capture() {
        let said = |tcp: TcpTotals| {
            let mut warnings = Warnings::default();
            warnings.warn_of_totals(&Totals { frames: 9, tcp, ..Totals::default() });
            let (sentences, status) = warnings.settle();
            assert_eq!(status, exit::PARTIAL);
            sentences.concat()
        };
        let part =
            TcpTotals { connections: 2, payload_bytes: 9, gap_bytes: 9, request_only: 2, ..TcpTotals::default() };
        assert!(said(part).contains("a filter on content"), "{}", said(part));
        for other in [TcpTotals { control_frames: 1, ..part }, TcpTotals { request_only: 1, ..part }] {
            assert!(said(other).contains("the capture lost frames"), "{}", said(other));
        }
    }

    #[test]
    fn http_that_nobody_asked_for_is_told_where_it_is_not_alone() {
        let said = |protocols: &[&str]| {
            let mut warnings = Warnings::default();
            warnings.warn_of_detection(protocols.iter().copied());
            warnings.settle()
        };
        assert_eq!(said(&["http", "http"]), (Vec::new(), exit::COMPLETE));
        assert_eq!(said(&["resp", "pgwire"]), (Vec::new(), exit::COMPLETE));
        let (sentences, status) = said(&["resp", "http", "resp"]);
        assert!(sentences.concat().starts_with("there are HTTP operations as well as database operations"));
        assert_eq!(status, exit::COMPLETE);
    }

    #[test]
    fn large_frames_are_told_with_what_makes_them() {
        let mut totals = Totals::default();
        let warning = |totals: &Totals, interface: Option<&Interface>| {
            let mut warnings = Warnings::default();
            warnings.warn_of_frame_sizes(totals, interface);
            let (warnings, status) = warnings.settle();
            assert_eq!(status, exit::COMPLETE);
            warnings.first().cloned()
        };
        assert_eq!(warning(&totals, None), None);
        totals.tcp.oversize_frames = 2;
        (totals.tcp.oversize_header_bytes, totals.tcp.oversize_longest_bytes) = (3_620, 8_900);
        let offline = warning(&totals, None).unwrap();
        assert!(offline.starts_with("2 frames are larger than Ethernet carries"), "{offline}");
        assert!(offline.contains("would add 3,620 bytes of headers at least (captured on loopback"), "{offline}");
        let interface = |name: &str, mtu: u32, driver: Option<&str>| {
            let offloads = [("gro", true), ("gso", true), ("lro", false), ("tso", true)];
            Interface {
                name: name.to_owned(),
                mtu: Some(mtu),
                driver: driver.map(str::to_owned),
                offloads: offloads.into_iter().map(|(name, on)| (name.to_owned(), on)).collect(),
            }
        };
        let live = |name, mtu, driver| warning(&totals, Some(&interface(name, mtu, driver)));
        let lo = live("lo", 65_536, None).unwrap();
        assert_eq!(
            lo,
            "frames of up to 8,900 bytes, as on loopback alone: a link of MTU 1,500 would add 3,620 bytes of headers"
        );
        let veth = live("veth0", 1_500, Some("veth")).unwrap();
        assert!(veth.contains("`ethtool -K veth0 gro off gso off tso off`, and the same at the other end"), "{veth}");
        // The link carries jumbo frames.
        assert_eq!(live("eth0", 9_000, None), None);
    }

    #[test]
    fn a_gap_makes_a_result_partial_and_a_remark_does_not() {
        let mut totals = Totals { frames: 1, ..Totals::default() };
        (totals.tcp.connections, totals.tcp.payload_bytes) = (1, 100);
        totals.notes.insert(Note::Tls, 1);
        let mut warnings = Warnings::default();
        warnings.warn_of_totals(&totals);
        assert_eq!(warnings.settle().1, exit::COMPLETE);
        totals.tcp.gap_bytes = 7;
        let mut warnings = Warnings::default();
        warnings.warn_of_totals(&totals);
        let (warnings, status) = warnings.settle();
        assert_eq!(status, exit::PARTIAL);
        assert!(warnings.iter().any(|warning| warning.starts_with("7 bytes are in no captured frame")), "{warnings:?}");
    }

    #[test]
    fn lost_boundaries_make_a_result_partial_without_a_gap() {
        let mut totals = Totals { frames: 1, ..Totals::default() };
        (totals.tcp.connections, totals.tcp.payload_bytes) = (1, 100);
        totals.notes.insert(Note::LostBoundary, 2);
        let mut warnings = Warnings::default();
        warnings.warn_of_totals(&totals);
        let (warnings, status) = warnings.settle();
        assert_eq!(status, exit::PARTIAL);
        assert!(warnings[0].starts_with("message boundaries were lost 2 times"), "{warnings:?}");
    }

    #[test]
    fn foreign_traffic_is_named_with_its_remedy() {
        let said = |look, expected, connections| {
            let mut totals = Totals { frames: 1, ..Totals::default() };
            (totals.tcp.connections, totals.tcp.payload_bytes) = (connections, 100 * connections);
            totals.notes.insert(Note::Foreign(ForeignTraffic { port: 6379, look, expected }), 3);
            let mut warnings = Warnings::default();
            warnings.warn_of_totals(&totals);
            let (warnings, status) = warnings.settle();
            (warnings.join("; "), status)
        };
        let (warning, status) = said(ApparentProtocol::Ours(Protocol::Pgwire), Some(Protocol::Resp), 3);
        assert!(warning.starts_with("3 connections on port 6379 look like PostgreSQL, not like resp"), "{warning}");
        assert!(warning.ends_with("name it with --db postgres --port 6379"), "{warning}");
        assert_eq!(status, exit::PARTIAL);
        let (warning, status) = said(ApparentProtocol::Kafka, None, 0);
        assert!(warning.ends_with("Kafka is not decoded yet"), "{warning}");
        assert_eq!(status, exit::PARTIAL);
        assert_eq!(said(ApparentProtocol::Kafka, None, 1).1, exit::COMPLETE);
    }
}
