//! Connections whose secrets are kept between captures.

use super::{KeyEpoch, RecordContent, RecordOpener, TlsSession, TrafficKeys, WireRecord};
use crate::tls::kept::RecordKeys;
use crate::tls::keylog::SecretLabel;
use overhead_model::Side;

impl TlsSession {
    /// Keeps what other captures need of the connection.
    pub(in crate::tls) fn keep(&self) {
        let Some(met) = &self.met else { return };
        let master = self.suite().filter(|(_, server, _)| !server.is_tls13).and_then(|(suite, server, random)| {
            let master = self.keys.as_ref()?.get(SecretLabel::Master, &random)?;
            Some(RecordKeys::Tls12 { suite, master, randoms: [random, server.random] })
        });
        met.keep(master);
    }

    /// Notes a record of a connection whose secrets are kept. Returns whether its content can be decoded.
    pub(super) fn pass(&mut self, side: Side, record: WireRecord<'_>, content: RecordContent) -> bool {
        let direction = &self.directions[side as usize];
        let keys = direction.traffic.as_ref().filter(|_| direction.epoch == KeyEpoch::Application);
        let keys = keys.map(|traffic| RecordKeys::Tls13 { suite: traffic.suite, secret: traffic.secret });
        let is_opened = matches!(content, RecordContent::Opened(_) | RecordContent::Unread(_));
        let opened = is_opened.then(|| (direction.sequence.saturating_sub(1), keys));
        let record_bytes = (record.header.len() + record.length) as u64;
        self.met.as_mut().is_none_or(|met| met.pass(side, record_bytes, opened))
    }

    /// Opens the first record of a connection met open, whose number is not known.
    pub(super) fn find(&mut self, side: Side, record: WireRecord<'_>, text: &mut Vec<u8>) -> bool {
        let Some(met) = self.met.as_mut().filter(|_| record.is_whole()) else { return false };
        let open = |opener: &RecordOpener, number| opener.open(number, record.header, record.fragment, text);
        let Some((keys, number)) = met.find(side, record.fragment.len(), open) else { return false };
        let direction = &mut self.directions[side as usize];
        direction.sequence = number + 1;
        match keys {
            RecordKeys::Tls13 { suite, secret } => direction.traffic = TrafficKeys::new(suite, secret),
            RecordKeys::Tls12 { .. } => direction.opener = keys.opener(side),
        }
        true
    }
}
