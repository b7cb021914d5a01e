//! Turns of each protocol, by number: a request, or several, and what the server says.
//!
//! `lengths` is 0 for the usual lengths; other numbers give other ones, so that a turn is made with the shape of the one
//! before it, or with another.

mod cql;
mod http;
mod memcache;
mod mongo;
mod mysql;
mod pgwire;
mod resp;
mod ssdb;

use super::words::Words;
use overhead_model::Protocol;
use overhead_protocols::facts;

/// Messages of both sides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    pub request: Vec<u8>,
    pub response: Vec<u8>,
}

/// Makes the turn of a kind, which is below 16.
pub(crate) fn make(protocol: Protocol, kind: u8, lengths: u8, words: &mut Words) -> Turn {
    let (request, response) = match protocol {
        Protocol::Resp => resp::make(kind, lengths, words),
        Protocol::Pgwire => pgwire::make(kind, lengths, words),
        Protocol::Cql => cql::make(kind, lengths, words),
        Protocol::Http => http::make(kind, lengths, words),
        Protocol::Mongo => mongo::make(kind, lengths, words),
        Protocol::Memcache => memcache::make(kind, lengths, words),
        Protocol::Mysql => mysql::make(kind, lengths, words),
        Protocol::Ssdb => ssdb::make(kind, lengths, words),
        // Others repeat what was recorded of them, and ask the smallest thing that there is to ask.
        #[allow(unreachable_patterns, reason = "reached by a protocol that has no turns of its own")]
        _ => (facts(protocol).greeting.to_vec(), facts(protocol).answer.to_vec()),
    };
    Turn { request, response }
}

/// The kinds of turn by which a connection begins.
pub(crate) const fn start(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Pgwire => &[0, 3],
        Protocol::Cql => &[0, 2],
        Protocol::Mongo => &[0],
        Protocol::Mysql => &[0, 1, 2],
        _ => &[],
    }
}

/// A request and its response.
type Pair = (Vec<u8>, Vec<u8>);

/// Says one after the other.
fn join(pairs: Vec<Pair>) -> Pair {
    let (requests, responses): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    (requests.concat(), responses.concat())
}
