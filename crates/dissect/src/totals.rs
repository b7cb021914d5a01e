//! Totals over all frames.

use crate::limits;
use overhead_decode::{ApparentProtocol, ForeignTraffic, Note};
use overhead_model::record::TcpTotals;
use overhead_model::{Frame, LinkType, Transport, add_fields};
use std::collections::{BTreeMap, BTreeSet};

/// Totals over all frames, as in the run record's `source`, `tcp` and `ledger.other`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub link_types: BTreeSet<LinkType>,
    /// Earliest capture time, Unix nanoseconds; `None` without frames.
    pub first_ns: Option<u64>,
    pub last_ns: Option<u64>,
    pub frames: u64,
    /// Packets with TLS library calls, of old captures; not counted as frames.
    pub calls: u64,
    /// Total wire length of all frames.
    pub wire_bytes: u64,
    pub captured_bytes: u64,
    /// Frames captured only in part.
    pub truncated_frames: u64,
    /// Second copies of frames on `any`, recognised by interface or packet type.
    pub duplicate_frames: u64,
    /// Frames with invalid headers.
    pub malformed_frames: u64,
    /// Frames with headers cut off by the snap length.
    pub header_snapped_frames: u64,
    /// Capture length that the headers of all these frames need at least, in bytes.
    pub header_bytes: u32,
    /// Longest captured length of a truncated frame, which suggests the snap length; 0 without any.
    pub snap_bytes: u64,
    /// Packets in Wireshark's export format without a stream piece as this tool writes it.
    pub foreign_pdus: u64,
    pub transports: BTreeSet<Transport>,
    /// Frame bytes outside the selected connections.
    pub other: u64,
    /// Frame bytes of TLS connections whose handshake was not captured.
    pub midway_tls_bytes: u64,
    /// Transport totals over the selected connections.
    pub tcp: TcpTotals,
    /// Decoder warnings, with the number of times each occurred.
    pub notes: BTreeMap<Note, u64>,
}

impl Totals {
    /// Adds the totals of connections.
    pub fn add(&mut self, part: &Self) {
        add_fields!(self, part => other, midway_tls_bytes);
        self.transports.extend(&part.transports);
        for (&note, count) in &part.notes {
            *self.notes.entry(note).or_default() += count;
            if matches!(note, Note::Foreign(_)) {
                self.bound_foreign();
            }
        }
        let (sum, tcp) = (&mut self.tcp, part.tcp);
        add_fields!(sum, tcp => connections, given_up, request_only, response_only);
        add_fields!(sum, tcp => payload_bytes, retransmitted_bytes, gap_bytes, snapped_bytes);
        add_fields!(sum, tcp => frames, out_of_order_frames, control_frames, oversize_frames, oversize_header_bytes);
        sum.oversize_longest_bytes = sum.oversize_longest_bytes.max(tcp.oversize_longest_bytes);
    }

    /// Adds the totals of a later part of the capture, dissected separately.
    pub fn append(&mut self, part: &Self) {
        self.link_types.extend(&part.link_types);
        self.first_ns = self.first_ns.into_iter().chain(part.first_ns).min();
        self.last_ns = self.last_ns.max(part.last_ns);
        add_fields!(self, part => frames, calls, wire_bytes, captured_bytes, foreign_pdus);
        add_fields!(self, part => truncated_frames, duplicate_frames, malformed_frames, header_snapped_frames);
        self.header_bytes = self.header_bytes.max(part.header_bytes);
        self.snap_bytes = self.snap_bytes.max(part.snap_bytes);
        self.add(part);
    }

    /// Returns the transport that covers all selected connections.
    pub fn transport(&self) -> Transport {
        let mut transports = self.transports.iter();
        match (transports.next(), transports.next()) {
            (None, _) => Transport::Tcp,
            (Some(only), None) => *only,
            (Some(_), Some(_)) => Transport::Mixed,
        }
    }

    /// Returns whether the directions were captured by different clocks: more than a hundredth of the frames came later than their
    /// acknowledgments. Queues of one interface reorder a few frames.
    pub fn had_two_clocks(&self) -> bool {
        let late =
            [Note::CapturedLate, Note::CapturedTooLate].iter().filter_map(|note| self.notes.get(note)).sum::<u64>();
        late.saturating_mul(100) > self.frames
    }

    /// Returns whether there were TLS connections with content that was not decrypted.
    pub fn is_encrypted(&self) -> bool {
        let is_tls = |note: &Note| {
            matches!(note, Note::Encrypted | Note::Foreign(ForeignTraffic { look: ApparentProtocol::Tls, .. }))
        };
        self.notes.keys().any(is_tls)
    }

    /// Merges the kinds of foreign traffic on the highest ports if there are too many.
    fn bound_foreign(&mut self) {
        let further = Note::Foreign(ForeignTraffic::FURTHER);
        let of = |note: &&Note| matches!(note, Note::Foreign(_)) && **note != further;
        if self.notes.keys().filter(of).count() > limits::FOREIGN
            && let Some(last) = self.notes.keys().rev().find(of).copied()
        {
            let count = self.notes.remove(&last).unwrap_or_default();
            *self.notes.entry(further).or_default() += count;
        }
    }

    #[inline(always)]
    pub(crate) fn count_frame(&mut self, frame: &Frame<'_>) {
        self.frames += 1;
        self.wire_bytes += u64::from(frame.wire_len());
        self.captured_bytes += u64::from(frame.captured_len());
        if frame.bytes.len() < frame.original_len as usize {
            self.truncated_frames += 1;
            self.snap_bytes = self.snap_bytes.max(u64::from(frame.captured_len()));
        }
        if self.last_ns.is_some_and(|last| frame.time_ns >= last) {
            self.last_ns = Some(frame.time_ns);
        } else {
            self.early_or_first(frame.time_ns);
        }
    }

    #[cold]
    fn early_or_first(&mut self, time_ns: u64) {
        self.first_ns = Some(self.first_ns.map_or(time_ns, |first| first.min(time_ns)));
        self.last_ns = Some(self.last_ns.map_or(time_ns, |last| last.max(time_ns)));
    }
}
