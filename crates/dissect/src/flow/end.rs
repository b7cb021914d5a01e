//! The end of a connection, and its summary.

use super::half::StreamReassembly;
use super::sniffing::{DecodingStage, FlowStage};
use super::{ConnectionFlow, FinishedFlow};
use crate::ledger::LedgerReader;
use crate::limits;
use overhead_decode::Note;
use overhead_model::record::TcpTotals;
use overhead_model::{ConnectionSummary, Protocol, Side, Tally, Transport};

impl ConnectionFlow {
    /// Ends the connection: gives up open holes and closes open operations.
    pub fn finish<T: Tally>(&mut self, tally: &mut T) -> FinishedFlow {
        self.fall_back(None, tally);
        self.tell(tally);
        for side in Side::BOTH {
            self.reject_probe(side, tally);
            while let Some(hole) = self.halves[side as usize].hole() {
                self.give_up(side, &hole, tally);
            }
            let astray = self.halves[side as usize].take_astray();
            self.leave_astray(side, astray, tally);
            let missing = self.halves[side as usize].missing();
            self.skip_hole(side, &missing, tally);
            let half = &mut self.halves[side as usize];
            if half.forgo_end() || half.has_lost_end() {
                self.book.note(Note::EndNotCaptured);
            }
        }
        self.decide_at_end(tally);
        let FlowStage::Decoding(DecodingStage { protocol, mut engine }) =
            std::mem::replace(&mut self.stage, FlowStage::Other)
        else {
            let mut notes = self.book.take_notes();
            notes.retain(|note, _| matches!(note, Note::Foreign(_)));
            let other = self.counts.wire_bytes;
            return FinishedFlow { other, wire_bytes: other, notes, hits: self.hits(), ..FinishedFlow::default() };
        };
        self.leave_midst();
        engine.finish(&mut LedgerReader::new(&mut self.book, protocol, tally));
        self.book.finish(protocol, tally);
        let mut tcp = self.counts.totals();
        tcp.gap_bytes = self.halves.iter().map(StreamReassembly::hole_bytes).sum();
        if self.counts.payload_frames > 0 {
            tcp.request_only = u64::from(self.seen == [true, false]);
            tcp.response_only = u64::from(self.seen == [false, true]);
        }
        if self.counts.payload_frames >= limits::ONE_WAY_FRAMES && self.seen != [true; 2] {
            self.book.note(Note::OneWay);
        }
        tally.connection(self.summary(protocol, &tcp));
        let transport = Some(self.transport());
        let (notes, requests) = (self.book.take_notes(), std::mem::take(&mut self.requests));
        let wire_bytes = self.counts.wire_bytes;
        FinishedFlow { tcp: Some(tcp), transport, other: 0, wire_bytes, notes, hits: self.hits(), requests }
    }

    fn transport(&self) -> Transport {
        self.stream.as_ref().map_or(Transport::Tcp, |stream| stream.transport)
    }

    fn summary(&self, protocol: Protocol, tcp: &TcpTotals) -> ConnectionSummary {
        ConnectionSummary {
            client: self.ends[0],
            server: self.ends[1],
            transport: self.transport(),
            names: self.stream.as_ref().map(|stream| Box::new(stream.names.clone())),
            protocol,
            server_software: self.book.software(Side::Response).map(str::to_owned),
            client_software: self.book.software(Side::Request).map(str::to_owned),
            tls: self.book.is_noted(Note::Tls),
            encrypted: self.book.is_noted(Note::Encrypted),
            server_decided_by: self.decided_by,
            first_ns: self.first_ns,
            operations: self.book.operations,
            wire_bytes: self.counts.wire_bytes,
            payload_bytes: tcp.payload_bytes.saturating_sub(tcp.retransmitted_bytes),
            round_trips: self.book.round_trips(),
            round_trips_to_answer: self.book.round_trips_to_answer,
        }
    }
}
