//! Command words, opcodes and the small readers of both encodings.

use super::pair::Ask;
use crate::limits;
use overhead_decode::{Free, Malformed, Out, Reader, near};
use overhead_model::Account;

/// Longest key (`KEY_MAX_LENGTH`). What comes behind a longer one is not read as its value.
pub(super) const KEY: usize = 250;

/// Largest length of a value that servers read as one: `INT_MAX`, the line's end counted.
pub(super) const VALUE: u64 = i32::MAX as u64 - 2;

/// First byte of a binary request.
pub(super) const REQUEST: u8 = 0x80;

/// First byte of a binary response.
pub(super) const RESPONSE: u8 = 0x81;

/// What a word of a command line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Key,
    Flags,
    Time,
    Length,
    Unique,
    Delta,
    Subcommand,
    Argument,
}

impl Role {
    /// Returns the account and the name.
    pub const fn title(self) -> (Account, &'static str) {
        match self {
            Self::Key => (Account::Data, "key"),
            Self::Flags => (Account::Metadata, "client flags"),
            Self::Time => (Account::Data, "time to live"),
            Self::Length => (Account::Framing, "length"),
            Self::Unique => (Account::Metadata, "CAS"),
            Self::Delta => (Account::Data, "delta"),
            Self::Subcommand => (Account::Query, "subcommand"),
            Self::Argument => (Account::Data, "argument"),
        }
    }

    /// Returns up to how many digits it stays valid whatever they are; 0 where it matters what they are.
    const fn digits(self) -> usize {
        match self {
            Self::Key => usize::MAX,
            Self::Flags | Self::Time => 9,
            Self::Unique | Self::Delta => 19,
            Self::Length | Self::Subcommand | Self::Argument => 0,
        }
    }

    /// Posts a word of this role.
    pub fn post<R: Reader>(self, word: &[u8], out: &mut Out<'_, R>) {
        let (account, name) = self.title();
        post_word(word, account, name, self.digits(), out);
    }
}

/// Posts a word whose digits are free to differ where there are at most `digits` bytes. Other bytes could end it.
pub(super) fn post_word<R: Reader>(
    word: &[u8],
    account: Account,
    name: &'static str,
    digits: usize,
    out: &mut Out<'_, R>,
) {
    let len = word.len() as u64;
    if word.len() <= digits {
        out.post_free(account, name, len, Free::Digits);
    } else {
        out.post(account, name, len);
    }
}

/// A command of the text protocol.
#[derive(Debug)]
pub(super) struct Command {
    pub name: &'static str,
    pub ask: Ask,
    /// With fewer or more words, the command's own counted, it is answered by `ERROR`.
    words: (usize, usize),
    /// Whether `noreply` as the last word is one.
    noreply: bool,
    /// What the words behind the command are; the last role is that of all further ones.
    roles: &'static [Role],
}

const ANY: usize = usize::MAX;

const fn command(
    name: &'static str,
    ask: Ask,
    words: (usize, usize),
    noreply: bool,
    roles: &'static [Role],
) -> Command {
    Command { name, ask, words, noreply, roles }
}

const STORE: &[Role] = &[Role::Key, Role::Flags, Role::Time, Role::Length];

/// All commands (`doc/protocol.txt`), the most frequent first.
static COMMANDS: [Command; 36] = [
    command("get", Ask::Values, (2, ANY), false, &[Role::Key]),
    command("set", Ask::Store, (5, 6), true, STORE),
    command("gets", Ask::Values, (2, ANY), false, &[Role::Key]),
    command("mg", Ask::MetaGet, (2, ANY), false, &[Role::Key]),
    command("ms", Ask::MetaSet, (2, ANY), false, &[Role::Key, Role::Length]),
    command("md", Ask::MetaDelete, (2, ANY), false, &[Role::Key]),
    command("ma", Ask::MetaCount, (2, ANY), false, &[Role::Key]),
    command("mn", Ask::MetaNoop, (1, ANY), false, &[Role::Argument]),
    command("me", Ask::MetaDebug, (2, ANY), false, &[Role::Key]),
    command("delete", Ask::Delete, (2, 4), true, &[Role::Key, Role::Time]),
    command("add", Ask::Store, (5, 6), true, STORE),
    command("replace", Ask::Store, (5, 6), true, STORE),
    command("append", Ask::Store, (5, 6), true, STORE),
    command("prepend", Ask::Store, (5, 6), true, STORE),
    command("cas", Ask::Store, (6, 7), true, &[Role::Key, Role::Flags, Role::Time, Role::Length, Role::Unique]),
    command("incr", Ask::Count, (3, 4), true, &[Role::Key, Role::Delta]),
    command("decr", Ask::Count, (3, 4), true, &[Role::Key, Role::Delta]),
    command("touch", Ask::Touch, (3, 4), true, &[Role::Key, Role::Time]),
    command("gat", Ask::Values, (3, ANY), false, &[Role::Time, Role::Key]),
    command("gats", Ask::Values, (3, ANY), false, &[Role::Time, Role::Key]),
    command("bget", Ask::Values, (2, ANY), false, &[Role::Key]),
    command("stats", Ask::List, (1, ANY), false, &[Role::Subcommand, Role::Argument]),
    // Of ElastiCache and its like: where the servers of a cluster are.
    command("config", Ask::Values, (3, 3), false, &[Role::Subcommand, Role::Key]),
    command("version", Ask::Version, (1, ANY), false, &[Role::Argument]),
    command("verbosity", Ask::Other, (2, 3), true, &[Role::Argument]),
    command("flush_all", Ask::Other, (1, 3), true, &[Role::Time]),
    command("cache_memlimit", Ask::Other, (2, 3), true, &[Role::Argument]),
    command("slabs", Ask::Other, (3, ANY), true, &[Role::Subcommand, Role::Argument]),
    command("lru", Ask::Other, (2, ANY), true, &[Role::Subcommand, Role::Argument]),
    command("lru_crawler", Ask::List, (2, ANY), false, &[Role::Subcommand, Role::Argument]),
    command("watch", Ask::Watch, (1, ANY), true, &[Role::Subcommand]),
    command("extstore", Ask::Other, (2, ANY), true, &[Role::Subcommand, Role::Argument]),
    command("refresh_certs", Ask::Other, (1, ANY), true, &[Role::Argument]),
    command("shutdown", Ask::Other, (1, ANY), false, &[Role::Subcommand]),
    command("misbehave", Ask::Other, (1, ANY), false, &[Role::Argument]),
    command("quit", Ask::Quit, (1, ANY), false, &[Role::Argument]),
];

impl Command {
    /// Returns the command with this name. Servers know them in lower case alone.
    pub fn named(name: &[u8]) -> Option<&'static Self> {
        COMMANDS.iter().find(|command| command.name.as_bytes() == name)
    }

    /// Returns what the word at `place` is; the command's own has place 0.
    pub fn role(&self, place: usize) -> Role {
        let role = self.roles.get(place.saturating_sub(1)).or(self.roles.last());
        role.copied().unwrap_or(Role::Argument)
    }

    /// Returns whether a line of so many words has as many as the command takes.
    pub fn takes(&self, words: usize) -> bool {
        (self.words.0..=self.words.1).contains(&words)
    }

    /// Returns what the command asks for, with these words.
    pub fn ask_of(&self, line: &Line<'_>) -> Ask {
        let is_one = self.name == "stats" && matches!(line.get(1), b"sizes_enable" | b"sizes_disable");
        if is_one { Ask::Item } else { self.ask }
    }

    /// Returns whether the command is not answered, with these words: servers look for `noreply` after they counted them.
    pub fn is_silent(&self, line: &Line<'_>) -> bool {
        let counts = self.takes(line.count) && line.count > 1 && line.last == b"noreply";
        counts
            && self.noreply
            && match self.name {
                "delete" => line.count > 2,
                "slabs" => line.get(1) == b"automove",
                _ => true,
            }
    }

    /// Returns how long the value behind the line is; `None` where none follows, or where a server would not read it as one.
    pub fn value(&self, line: &Line<'_>) -> Option<u64> {
        if line.get(1).len() > KEY || !self.takes(line.count) {
            return None;
        }
        let length = match self.ask {
            Ask::Store => {
                let unique = self.name != "cas" || number(line.get(5)).is_some();
                if unique && number(line.get(2)).is_some() && is_time(line.get(3)) { line.get(4) } else { b"" }
            }
            Ask::MetaSet => line.get(2),
            _ => b"",
        };
        number(length).filter(|&length| length <= VALUE)
    }
}

/// The words of a command line that decide what it is.
#[derive(Debug)]
pub(super) struct Line<'a> {
    words: [&'a [u8]; 7],
    pub last: &'a [u8],
    pub count: usize,
}

impl<'a> Line<'a> {
    /// Looks at the text of a line, without its end.
    pub fn of(text: &'a [u8]) -> Self {
        let mut line = Self { words: [b""; 7], last: b"", count: 0 };
        for word in words(text) {
            if let Some(place) = line.words.get_mut(line.count) {
                *place = word;
            }
            (line.last, line.count) = (word, line.count + 1);
        }
        line
    }

    /// Returns the word at `place`, one of the first seven; empty where the line has fewer.
    pub fn get(&self, place: usize) -> &'a [u8] {
        self.words.get(place).copied().unwrap_or_default()
    }
}

/// Posts the spaces between the words of a line, and has each word posted in its place.
pub(super) fn each_word<R: Reader>(
    text: &[u8],
    out: &mut Out<'_, R>,
    mut post: impl FnMut(usize, &[u8], &mut Out<'_, R>),
) {
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

/// Returns the words of a line.
pub(super) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    text.split(|&byte| byte == b' ').filter(|word| !word.is_empty())
}

/// Returns the unsigned number that a word is, with or without a plus. Servers refuse what 64 bits do not hold, and cut what fewer do not
/// (`safe_strtoul`).
pub(super) fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Returns whether a word is a number with a sign or without one, as servers read times (`safe_strtol`).
fn is_time(word: &[u8]) -> bool {
    std::str::from_utf8(word).is_ok_and(|word| word.parse::<i64>().is_ok())
}

/// Returns a number to compare words by that are not kept; neither 0 nor the largest. (FNV-1a)
pub(super) fn fingerprint(word: &[u8]) -> u64 {
    let hash = word
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (hash | 1) & (u64::MAX >> 1)
}

/// Returns a line with its end, LF or CRLF; `None` where the end is not there yet. The first `scanned` bytes have none.
///
/// # Errors
///
/// [`Malformed`] where it is longer than any line is.
pub(super) fn line<'a>(bytes: &'a [u8], scanned: &mut usize) -> Result<Option<&'a [u8]>, Malformed> {
    let from = (*scanned).min(bytes.len());
    if let Some(end) = near::find(b'\n', bytes.get(from..).unwrap_or_default()) {
        *scanned = 0;
        return Ok(bytes.get(..=from + end));
    }
    *scanned = bytes.len();
    if bytes.len() > limits::LINE { Err(Malformed("a line without an end")) } else { Ok(None) }
}

/// Returns the text of a line and the length of its end.
pub(super) fn text(line: &[u8]) -> (&[u8], u64) {
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    (text, (line.len() - text.len()) as u64)
}

/// Returns whether these are the bytes of a line of text.
pub(super) fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte >= b' ' && byte != 0x7f)
}
