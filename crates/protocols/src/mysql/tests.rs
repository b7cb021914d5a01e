//! Conversations, each named after its situation.

use super::*;
use overhead_decode::{DecoderEngine, Note};
use overhead_testing::transcript::{Transcript, check};
use wire::capability;

mod build;
mod compression;
mod hostile;
mod prepared;
mod queries;
mod sessions;
mod statements;

use build::*;

impl Mysql {
    /// Returns a decoder that shares nothing with other connections.
    pub fn new(mid_stream: bool) -> Self {
        Self::sharing(mid_stream, &SharedContext::default())
    }
}

/// Returns the summary of a conversation after a login with these capabilities.
fn summary(capabilities: u64, talk: &[(Side, &[u8])]) -> Vec<String> {
    said(capabilities, talk).summary().split_off(1)
}

/// Returns the transcript of a conversation after a login with these capabilities.
fn said(capabilities: u64, talk: &[(Side, &[u8])]) -> Transcript {
    let login = login(capabilities);
    let mut whole: Vec<(Side, &[u8])> = login.iter().map(|(side, bytes)| (*side, bytes.as_slice())).collect();
    whole.extend_from_slice(talk);
    check(|| Mysql::new(false), &whole)
}

/// Returns the transcript of a conversation whose handshake was not captured.
fn mid_stream(talk: &[(Side, &[u8])]) -> Transcript {
    let mut engine = DecoderEngine::new(Mysql::new(true), true);
    let mut transcript = Transcript::default();
    for (side, bytes) in talk {
        engine.bytes(*side, bytes, &mut transcript);
    }
    engine.finish(&mut transcript);
    transcript
}
