//! What a client sends before the server's first answer (RFC 8446 section 2.3).

use super::{RecordOpener, TlsSession, WireRecord};
use crate::tls::keylog::{SecretLabel, TlsSecret};
use crate::tls::suite::CipherSuite;
use overhead_model::Side;

impl TlsSession {
    /// Returns whether the client's first protected record is early data, and prepares to open it. If it can only
    /// be that, waits for the secret.
    pub(super) fn start_early_data(&mut self, record: WireRecord<'_>, text: &mut Vec<u8>) -> bool {
        let keys = self.keys.clone().filter(|_| record.is_whole());
        let (Some(keys), Some(random)) = (keys, self.client_random) else { return false };
        let direction = &mut self.directions[Side::Request as usize];
        let mut opens = |secret: TlsSecret| {
            let mut openers = CipherSuite::usual_of_tls13().filter_map(|suite| RecordOpener::tls13(suite, &secret));
            direction.opener = openers.find(|opener| opener.open(0, record.header, record.fragment, text));
            direction.opener.is_some()
        };
        let label = SecretLabel::ClientEarly;
        loop {
            if keys.get(label, &random).is_some_and(&mut opens)
                || (self.is_patient && keys.claim((label, &random), &mut self.objects, &mut opens))
            {
                return true;
            }
            if self.server.is_some() || !self.is_patient {
                return false;
            }
            self.is_patient = keys.more(true);
        }
    }
}
