//! Command words and primitives of the text protocol.

use super::pair::MemcacheRequestKind;
use overhead_decode::{Free, Out, Reader};
use overhead_model::{Account, enum_with};

/// Longest key (`KEY_MAX_LENGTH`). A longer one is not followed by a value.
pub(super) const KEY: usize = 250;

/// Largest value length that servers accept: `INT_MAX`, including the line end.
pub(super) const VALUE: u64 = i32::MAX as u64 - 2;

pub(super) const REQUEST: u8 = 0x80;

pub(super) const RESPONSE: u8 = 0x81;

enum_with! {
    /// The meaning of a word in a command line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum WordRole, title: (Account, &'static str) {
        Key = (Account::Data, "key"),
        Flags = (Account::Metadata, "client flags"),
        Time = (Account::Data, "time to live"),
        Length = (Account::Framing, "length"),
        Unique = (Account::Metadata, "CAS"),
        Delta = (Account::Data, "delta"),
        Subcommand = (Account::Query, "subcommand"),
        Argument = (Account::Data, "argument"),
    }
}

impl WordRole {
    /// Returns the largest number of digits that stays valid whatever their values; 0 if the values matter.
    const fn digits(self) -> usize {
        match self {
            Self::Key => usize::MAX,
            Self::Flags | Self::Time => 9,
            Self::Unique | Self::Delta => 19,
            Self::Length | Self::Subcommand | Self::Argument => 0,
        }
    }

    pub fn post<R: Reader>(self, word: &[u8], out: &mut Out<'_, R>) {
        let (account, name) = self.title();
        post_word(word, account, name, self.digits(), out);
    }
}

/// Posts a word whose digits may vary if it has at most `digits` bytes. Any other byte could end it.
pub fn post_word<R: Reader>(word: &[u8], account: Account, name: &'static str, digits: usize, out: &mut Out<'_, R>) {
    let free = (word.len() <= digits).then_some(Free::Digits);
    out.post_maybe_free(account, name, word.len() as u64, free);
}

#[derive(Debug)]
pub(super) struct Command {
    pub name: &'static str,
    pub ask: MemcacheRequestKind,
    /// Least and most words, including the command; servers answer `ERROR` otherwise.
    words: (usize, usize),
    /// Accepts `noreply` as its last word.
    noreply: bool,
    /// Roles of the words after the command; the last role repeats.
    roles: &'static [WordRole],
}

const ANY: usize = usize::MAX;

const fn command(
    name: &'static str,
    ask: MemcacheRequestKind,
    words: (usize, usize),
    noreply: bool,
    roles: &'static [WordRole],
) -> Command {
    Command { name, ask, words, noreply, roles }
}

const STORE: &[WordRole] = &[WordRole::Key, WordRole::Flags, WordRole::Time, WordRole::Length];
const COMPARE: &[WordRole] = &[WordRole::Key, WordRole::Flags, WordRole::Time, WordRole::Length, WordRole::Unique];

/// All commands (`doc/protocol.txt`), the most frequent first.
static COMMANDS: [Command; 36] = [
    command("get", MemcacheRequestKind::Values, (2, ANY), false, &[WordRole::Key]),
    command("set", MemcacheRequestKind::Store, (5, 6), true, STORE),
    command("gets", MemcacheRequestKind::Values, (2, ANY), false, &[WordRole::Key]),
    command("mg", MemcacheRequestKind::MetaGet, (2, ANY), false, &[WordRole::Key]),
    command("ms", MemcacheRequestKind::MetaSet, (2, ANY), false, &[WordRole::Key, WordRole::Length]),
    command("md", MemcacheRequestKind::MetaDelete, (2, ANY), false, &[WordRole::Key]),
    command("ma", MemcacheRequestKind::MetaCount, (2, ANY), false, &[WordRole::Key]),
    command("mn", MemcacheRequestKind::MetaNoop, (1, ANY), false, &[WordRole::Argument]),
    command("me", MemcacheRequestKind::MetaDebug, (2, ANY), false, &[WordRole::Key]),
    command("delete", MemcacheRequestKind::Delete, (2, 4), true, &[WordRole::Key, WordRole::Time]),
    command("add", MemcacheRequestKind::Store, (5, 6), true, STORE),
    command("replace", MemcacheRequestKind::Store, (5, 6), true, STORE),
    command("append", MemcacheRequestKind::Store, (5, 6), true, STORE),
    command("prepend", MemcacheRequestKind::Store, (5, 6), true, STORE),
    command("cas", MemcacheRequestKind::Store, (6, 7), true, COMPARE),
    command("incr", MemcacheRequestKind::Count, (3, 4), true, &[WordRole::Key, WordRole::Delta]),
    command("decr", MemcacheRequestKind::Count, (3, 4), true, &[WordRole::Key, WordRole::Delta]),
    command("touch", MemcacheRequestKind::Touch, (3, 4), true, &[WordRole::Key, WordRole::Time]),
    command("gat", MemcacheRequestKind::Values, (3, ANY), false, &[WordRole::Time, WordRole::Key]),
    command("gats", MemcacheRequestKind::Values, (3, ANY), false, &[WordRole::Time, WordRole::Key]),
    command("bget", MemcacheRequestKind::Values, (2, ANY), false, &[WordRole::Key]),
    command("stats", MemcacheRequestKind::List, (1, ANY), false, &[WordRole::Subcommand, WordRole::Argument]),
    // ElastiCache and compatible services: the addresses of a cluster's servers.
    command("config", MemcacheRequestKind::Values, (3, 3), false, &[WordRole::Subcommand, WordRole::Key]),
    command("version", MemcacheRequestKind::Version, (1, ANY), false, &[WordRole::Argument]),
    command("verbosity", MemcacheRequestKind::Other, (2, 3), true, &[WordRole::Argument]),
    command("flush_all", MemcacheRequestKind::Other, (1, 3), true, &[WordRole::Time]),
    command("cache_memlimit", MemcacheRequestKind::Other, (2, 3), true, &[WordRole::Argument]),
    command("slabs", MemcacheRequestKind::Other, (3, ANY), true, &[WordRole::Subcommand, WordRole::Argument]),
    command("lru", MemcacheRequestKind::Other, (2, ANY), true, &[WordRole::Subcommand, WordRole::Argument]),
    command("lru_crawler", MemcacheRequestKind::List, (2, ANY), false, &[WordRole::Subcommand, WordRole::Argument]),
    command("watch", MemcacheRequestKind::Watch, (1, ANY), true, &[WordRole::Subcommand]),
    command("extstore", MemcacheRequestKind::Other, (2, ANY), true, &[WordRole::Subcommand, WordRole::Argument]),
    command("refresh_certs", MemcacheRequestKind::Other, (1, ANY), true, &[WordRole::Argument]),
    command("shutdown", MemcacheRequestKind::Other, (1, ANY), false, &[WordRole::Subcommand]),
    command("misbehave", MemcacheRequestKind::Other, (1, ANY), false, &[WordRole::Argument]),
    command("quit", MemcacheRequestKind::Quit, (1, ANY), false, &[WordRole::Argument]),
];

impl Command {
    /// Returns the command with this name. Servers accept only lower case.
    pub fn named(name: &[u8]) -> Option<&'static Self> {
        COMMANDS.iter().find(|command| command.name.as_bytes() == name)
    }

    /// Returns the role of the word at index `place`; the command has index 0.
    pub fn role(&self, place: usize) -> WordRole {
        let role = self.roles.get(place.saturating_sub(1)).or(self.roles.last());
        role.copied().unwrap_or(WordRole::Argument)
    }

    /// Returns whether the command accepts a line of this many words.
    pub fn takes(&self, words: usize) -> bool {
        (self.words.0..=self.words.1).contains(&words)
    }

    pub fn ask_of(&self, line: &LineWords<'_>) -> MemcacheRequestKind {
        let is_one = self.name == "stats" && matches!(line.get(1), b"sizes_enable" | b"sizes_disable");
        if is_one { MemcacheRequestKind::Item } else { self.ask }
    }

    /// Returns whether the request has no reply: servers look for `noreply` after counting words.
    pub fn is_silent(&self, line: &LineWords<'_>) -> bool {
        let counts = self.takes(line.count) && line.count > 1 && line.last == b"noreply";
        counts
            && self.noreply
            && match self.name {
                "delete" => line.count > 2,
                "slabs" => line.get(1) == b"automove",
                _ => true,
            }
    }

    /// Returns the length of the value that follows the line; `None` if a server would not read one.
    pub fn value(&self, line: &LineWords<'_>) -> Option<u64> {
        if line.get(1).len() > KEY || !self.takes(line.count) {
            return None;
        }
        let length = match self.ask {
            MemcacheRequestKind::Store => {
                let unique = self.name != "cas" || number(line.get(5)).is_some();
                if unique && number(line.get(2)).is_some() && is_time(line.get(3)) { line.get(4) } else { b"" }
            }
            MemcacheRequestKind::MetaSet => line.get(2),
            _ => b"",
        };
        number(length).filter(|&length| length <= VALUE)
    }
}

/// The words of a command line that decide its kind.
#[derive(Debug)]
pub(super) struct LineWords<'a> {
    words: [&'a [u8]; 7],
    pub last: &'a [u8],
    pub count: usize,
}

impl<'a> LineWords<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        let mut line = Self { words: [b""; 7], last: b"", count: 0 };
        for word in words(text) {
            if let Some(place) = line.words.get_mut(line.count) {
                *place = word;
            }
            (line.last, line.count) = (word, line.count + 1);
        }
        line
    }

    /// Returns one of the first seven words; empty if absent.
    pub fn get(&self, place: usize) -> &'a [u8] {
        self.words.get(place).copied().unwrap_or_default()
    }
}

/// Posts the spaces of a line, and calls `post` for each word.
pub fn each_word<R: Reader>(text: &[u8], out: &mut Out<'_, R>, mut post: impl FnMut(usize, &[u8], &mut Out<'_, R>)) {
    let (mut rest, mut place) = (text, 0);
    while !rest.is_empty() {
        let blank = rest.iter().take_while(|&&byte| byte == b' ').count();
        out.post(Account::Framing, "space", blank as u64);
        let behind = rest.get(blank..).unwrap_or_default();
        let len = behind.iter().position(|&byte| byte == b' ').unwrap_or(behind.len());
        let (word, further) = behind.split_at(len);
        if !word.is_empty() {
            post(place, word, out);
        }
        (rest, place) = (further, place + 1);
    }
}

pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    text.split(|&byte| byte == b' ').filter(|word| !word.is_empty())
}

/// Parses an unsigned number, optionally with a plus sign. Servers refuse more than 64 bits and truncate to 32
/// (`safe_strtoul`).
pub fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Returns whether a word is a number that servers accept as a time, optionally signed (`safe_strtol`).
fn is_time(word: &[u8]) -> bool {
    std::str::from_utf8(word).is_ok_and(|word| word.parse::<i64>().is_ok())
}

/// Returns an FNV-1a hash of a word, adjusted to be neither 0 nor `u64::MAX`.
pub fn fingerprint(word: &[u8]) -> u64 {
    let hash = word
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (hash | 1) & (u64::MAX >> 1)
}

/// Splits a line into its text and the length of its end.
pub fn text(line: &[u8]) -> (&[u8], u64) {
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    (text, (line.len() - text.len()) as u64)
}

pub fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte >= b' ' && byte != 0x7f)
}
