//! Exchanges named after their situation and split at every byte; damage; properties.

mod bodies;
mod build;
mod damage;
mod known;
mod masks;
mod pairing;
mod segments;
mod statements;
mod values;

use super::Cql;
use crate::SharedContext;
use overhead_model::Side::{Request, Response};
use overhead_model::{Account, Side};
use overhead_testing::transcript::{Transcript, check};

impl Cql {
    /// Returns a decoder that shares nothing with other connections.
    pub fn new(mid_stream: bool) -> Self {
        Self::sharing(mid_stream, SharedContext::default())
    }
}

/// Decodes a conversation from its start, split at every byte.
fn decode(conversation: &[(Side, &[u8])]) -> Transcript {
    check(|| Cql::new(false), conversation)
}

/// Decodes a conversation that started before the capture.
fn decode_later(conversation: &[(Side, &[u8])]) -> Transcript {
    check(|| Cql::new(true), conversation)
}

fn exchange(request: &[u8], response: &[u8]) -> Transcript {
    decode(&[(Request, request), (Response, response)])
}

/// Returns account and length of the postings whose path ends with `field`, in order.
fn posted(transcript: &Transcript, side: Side, field: &str) -> Vec<(Account, u64)> {
    let postings = transcript.postings[side as usize].iter();
    let named = postings.filter(|posting| posting.path.ends_with(field));
    named.map(|posting| (posting.account, posting.len)).collect()
}

fn bytes_of(transcript: &Transcript, side: Side, account: Account) -> u64 {
    transcript.ops.iter().map(|op| op.amounts[side as usize][account]).sum()
}
