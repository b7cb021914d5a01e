//! Builds numbered turns for each protocol: one or more requests and the server's replies.
//!
//! `lengths` is 0 for the usual lengths. Other numbers give other lengths, so that a turn can have the same shape as
//! the previous one or another.

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

/// Builds the turn of a kind, which must be below 16.
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
        // The other protocols have only recorded turns and the smallest request.
        #[allow(unreachable_patterns, reason = "reached by a protocol that has no turns of its own")]
        _ => (facts(protocol).greeting.to_vec(), facts(protocol).reply.to_vec()),
    };
    Turn { request, response }
}

/// The kinds of turns that start a connection.
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

/// Joins turns into one.
fn join(pairs: Vec<Pair>) -> Pair {
    let (requests, responses): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    (requests.concat(), responses.concat())
}
