//! Meta commands: a key, then one-letter flags, some with a token.

use super::Memcache;
use super::pair::{MemcachePending, MemcacheRequestKind};
use super::wire::{self, Command};
use overhead_decode::{Out, Reader};
use overhead_model::Account;

impl Memcache {
    /// Posts the line of a meta command and completes `pending` from its flags.
    pub(super) fn meta_line<R: Reader>(
        &mut self,
        command: &Command,
        text: &[u8],
        mut pending: MemcachePending,
        out: &mut Out<'_, R>,
    ) -> MemcachePending {
        let before = if command.ask == MemcacheRequestKind::MetaSet { 3 } else { 2 };
        let flags = || wire::words(text).skip(before);
        let has = |letter: u8| flags().any(|flag| flag.first() == Some(&letter));
        (pending.quiet, pending.fetches) = (has(b'q'), has(b'v'));
        if command.ask == MemcacheRequestKind::MetaCount && has(b'N') {
            pending.ask = MemcacheRequestKind::MetaCreate;
        }
        let is_read = pending.quiet || self.pairing.has_quiet();
        if is_read {
            let key = wire::words(text).nth(1).unwrap_or_default();
            pending.id = repeated(&flags(), key);
            pending.key = wire::fingerprint(key);
        }
        out.set_read(is_read);
        wire::each_word(text, out, |place, word, out| match place {
            0 => out.post(Account::Query, "command", word.len() as u64),
            _ if place < before => command.role(place).post(word, out),
            _ => post_flag(word, out),
        });
        out.set_read(false);
        pending
    }
}

/// Returns a fingerprint of what the reply will repeat: the opaque, else the `key`; 0 if neither.
fn repeated<'a>(flags: &(impl Iterator<Item = &'a [u8]> + Clone), key: &[u8]) -> u64 {
    let opaque = flags.clone().find_map(|flag| flag.strip_prefix(b"O"));
    match opaque {
        Some(opaque) => wire::fingerprint(opaque),
        None if flags.clone().any(|flag| flag == b"k") => wire::fingerprint(key),
        None => 0,
    }
}

/// Returns the fingerprint of what a reply repeats.
pub(super) fn answered(text: &[u8]) -> u64 {
    let flags = || wire::words(text).skip(1);
    let opaque = flags().find_map(|flag| flag.strip_prefix(b"O"));
    let repeated = opaque.or_else(|| flags().find_map(|flag| flag.strip_prefix(b"k")));
    repeated.map_or(0, wire::fingerprint)
}

pub(super) fn post_flag<R: Reader>(word: &[u8], out: &mut Out<'_, R>) {
    let Some((letter, token)) = word.split_first() else { return };
    match letter {
        // Won the right to recache, stale, right already given.
        b'W' | b'X' | b'Z' => out.post(Account::Status, "flag", 1),
        _ => out.post(Account::Query, "flag", 1),
    }
    let (account, field, digits) = match letter {
        b'O' => (Account::Metadata, "opaque", usize::MAX),
        b'F' | b'f' => (Account::Metadata, "client flags", 9),
        b'C' | b'E' | b'c' => (Account::Metadata, "CAS", 19),
        b'k' => (Account::Data, "key", usize::MAX),
        b'N' | b'R' | b'T' | b't' => (Account::Data, "time to live", 9),
        b'D' | b'J' => (Account::Data, "delta", 19),
        b's' => (Account::Data, "size", 9),
        b'h' | b'l' => (Account::Data, "last access", 9),
        b'M' => (Account::Data, "mode", 0),
        _ => (Account::Data, "token", 0),
    };
    wire::post_word(token, account, field, digits, out);
}
