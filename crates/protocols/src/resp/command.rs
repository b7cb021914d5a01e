//! The current command: its name, its class, and the roles of its arguments.

use super::argument::{ArgumentField, ArgumentRole};
use super::commands::{BeginSearch, CommandSpec, FindKeys, REST};
use super::resolved::{CommandKind, ResolvedCommand};
use super::value::LeafAccounts;
use super::wire;
use crate::keys::KeyPatterns;
use overhead_decode::{Free, OpId, Out, Reader};
use overhead_model::{Account, Side};

/// The current command, or the last one.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact about the command, independent of the others")]
pub(super) struct Command {
    pub op: OpId,
    /// By its first word. Kept, because most commands equal the previous one.
    first: ResolvedCommand,
    /// The commands before it, because most others equal one of these.
    earlier: Vec<ResolvedCommand>,
    /// By both words of a command with a subcommand. Absent before the first one.
    both: Option<Box<ResolvedCommand>>,
    /// Number of arguments, including the command word; at most [`wire::MAX_COUNT`].
    count: u32,
    /// Index of the next argument; 0 is the command word.
    place: u32,
    /// Words in the name: 1, or 2 with a subcommand.
    words: u32,
    /// Words of the name already read.
    known: u32,
    /// Values that still belong to the last option token.
    values: u8,
    options_over: bool,
    /// The next argument that is not an option is the text of a script.
    script_due: bool,
    /// The first word and this argument count equal the previous command's, so that the derived fields still hold. 0 if
    /// that is not enough.
    learned: u32,
    /// The roles of the arguments after the name do not depend on their content.
    is_fixed: bool,
    /// Index of the first and last key, and the step. Out of range without keys.
    keys: (u32, u32, u32),
    /// Index of the argument with the number of keys, index of the first key, and the step. Out of range if there is
    /// none.
    number: (u32, u32, u32),
    pub inline: bool,
    pub kind: CommandKind,
    /// Collects the patterns of its keys.
    wants_keys: bool,
    pub patterns: KeyPatterns,
}

const EARLIER: usize = 7;

const NO_KEYS: (u32, u32, u32) = (u32::MAX, 0, 1);

/// The command does not state its number of keys.
const NO_NUMBER: (u32, u32, u32) = (u32::MAX, 0, 1);

/// Returns the command, of whose words `known` are read.
#[inline]
fn named<'c>(known: u32, first: &'c ResolvedCommand, both: Option<&'c ResolvedCommand>) -> &'c ResolvedCommand {
    match known {
        0 => &ResolvedCommand::NOTHING,
        1 => first,
        _ => both.unwrap_or(&ResolvedCommand::NOTHING),
    }
}

impl Command {
    /// Starts a command of `count` arguments; `wants_statement` if its statement is wanted.
    pub fn begin(&mut self, op: OpId, count: u64, wants_statement: bool) {
        self.wants_keys = wants_statement;
        self.patterns.clear();
        (self.op, self.count, self.place) = (op, count as u32, 0);
        (self.words, self.known, self.values) = (1, 0, 0);
        (self.options_over, self.inline, self.kind) = (false, false, CommandKind::Plain);
        self.script_due = false;
    }

    pub fn named(&self) -> &ResolvedCommand {
        named(self.known, &self.first, self.both.as_deref())
    }

    pub fn held(&self) -> usize {
        self.earlier.capacity() * size_of::<ResolvedCommand>() + self.patterns.held()
    }

    /// Returns the number of arguments after the command word.
    pub fn arguments(&self) -> u32 {
        self.count.saturating_sub(1)
    }

    /// Returns whether the content of the next argument matters.
    #[inline]
    pub fn needs_content(&self) -> bool {
        self.place < self.words || !self.is_fixed && self.is_looked_at()
    }

    #[inline(never)]
    fn is_looked_at(&self) -> bool {
        if self.place == self.number.0 {
            return true;
        }
        if self.is_key(self.place) {
            return false;
        }
        let before = self.place.saturating_sub(self.words);
        let has_options = |entry: &CommandSpec| !entry.tokens.is_empty() && before >= entry.leading;
        let options = self.named().entry.is_some_and(has_options);
        options && !self.options_over && self.values == 0
            || matches!(
                self.kind,
                CommandKind::SetInfo
                    | CommandKind::LibraryName
                    | CommandKind::LibraryVersion
                    | CommandKind::ReplicaConfig
            )
    }

    /// Returns the role of the next argument, and advances. `word` is given if the content matters.
    #[inline]
    pub fn argument(&mut self, word: Option<&[u8]>) -> ArgumentField {
        let place = self.place;
        self.place += 1;
        if place < self.words {
            self.name_word(place, word.unwrap_or(b"(long)"))
        } else if self.is_fixed {
            self.positional_field(place, Some(Free::Any))
        } else {
            self.looked_at(place, word)
        }
    }

    /// Returns a positional argument as a field. A key's pattern depends on letters but not on the digits.
    #[inline]
    fn positional_field(&self, place: u32, free: Option<Free>) -> ArgumentField {
        if !self.is_key(place) {
            return ArgumentField::new(ArgumentRole::Argument, free);
        }
        let is_looked_at = self.wants_keys && free == Some(Free::Any);
        ArgumentField::new(ArgumentRole::Key, if is_looked_at { Some(Free::Digits) } else { free })
    }

    /// Returns whether the argument at index `place` is a key.
    #[inline]
    fn is_key(&self, place: u32) -> bool {
        let (first, last, step) = self.keys;
        place >= first && place <= last && (step == 1 || (place - first).is_multiple_of(step))
    }

    /// Determines the keys from the argument `place` on.
    fn find_keys(&mut self, place: u32, find: FindKeys) {
        match find {
            FindKeys::Range(last, step, limit) => {
                let behind = self.count.saturating_sub(place) / limit.max(1);
                let last = if last < 0 { place + behind } else { place }.checked_add_signed(last);
                self.keys = last.map_or(NO_KEYS, |last| (place, last, step));
            }
            FindKeys::Count(number, first, step) => self.number = (place + number, place + first, step),
        }
    }

    fn count_keys(&mut self, number: Option<&[u8]>) {
        let number = number.and_then(wire::number).and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
        let (_, first, step) = std::mem::replace(&mut self.number, NO_NUMBER);
        let last = number.checked_sub(1).map(|further| first.saturating_add(further.saturating_mul(step)));
        self.keys = last.map_or(NO_KEYS, |last| (first, last, step));
    }

    /// Returns the role of an argument that may depend on its content.
    #[inline(never)]
    fn looked_at(&mut self, place: u32, word: Option<&[u8]>) -> ArgumentField {
        let free = match word {
            None => Some(Free::Any),
            // Options never start with a digit, so digits may vary.
            Some([b'0'..=b'9', ..]) if self.kind == CommandKind::Plain => Some(Free::Digits),
            Some(_) => None,
        };
        let Some(entry) = self.named().entry else { return ArgumentField::new(ArgumentRole::Argument, free) };
        let is_value = self.values > 0;
        if is_value && self.values != REST {
            self.values -= 1;
        }
        if place == self.number.0 {
            self.count_keys(word);
            return ArgumentField::new(ArgumentRole::Argument, None);
        }
        if self.is_key(place) {
            return self.positional_field(place, free);
        }
        if is_value {
            return ArgumentField::new(ArgumentRole::OptionValue, free);
        }
        if place - self.words >= entry.leading && !self.options_over {
            if let Some(values) = word.and_then(|word| entry.token(word)) {
                self.values = values;
                let is_here = |token: &str| word.is_some_and(|word| token.as_bytes().eq_ignore_ascii_case(word));
                for keys in
                    entry.keys.iter().filter(|keys| matches!(keys.begin, BeginSearch::After(token) if is_here(token)))
                {
                    self.find_keys(place + 1, keys.find);
                }
                return ArgumentField::new(ArgumentRole::Option, None);
            }
            self.options_over = entry.positional_after;
        }
        if std::mem::take(&mut self.script_due) {
            return ArgumentField::new(ArgumentRole::Script, free);
        }
        self.positional_field(place, free)
    }

    /// Skips an argument that is not a bulk string.
    pub fn odd_argument(&mut self) {
        if self.argument(None).is_key() && self.wants_keys {
            self.patterns.push_unknown();
        }
    }

    /// Notes a complete argument for the statement, if it is a key.
    #[inline]
    pub fn take_key(&mut self, field: ArgumentField, body: &[u8]) {
        if self.wants_keys && field.is_key() {
            self.patterns.push(body);
        }
    }

    /// Notes a piece of `len` bytes of an argument, of which only `bytes` were captured.
    pub fn take_key_piece(&mut self, field: ArgumentField, bytes: &[u8], len: u64) {
        if self.wants_keys && field.is_key() {
            self.patterns.push_piece(bytes, len);
        }
    }

    /// Ends an argument that arrived in pieces.
    pub fn end_key(&mut self, field: ArgumentField) {
        if self.wants_keys && field.is_key() {
            self.patterns.end_pieces();
        }
    }

    /// Returns name and statement; the statement is empty without keys.
    pub fn name_and_statement(&mut self) -> (&str, &str) {
        let named = named(self.known, &self.first, self.both.as_deref());
        (named.name(), self.patterns.statement(named.name()))
    }

    /// Reads a word of the name. Most commands equal the previous one, in the number of arguments too.
    #[inline(never)]
    fn name_word(&mut self, place: u32, word: &[u8]) -> ArgumentField {
        if place == 0 && self.count == self.learned && self.first.name.is(word) {
            self.known = 1;
        } else {
            self.learn(place, word);
        }
        ArgumentField::new(if place == 0 { ArgumentRole::Command } else { ArgumentRole::Subcommand }, None)
    }

    fn learn(&mut self, place: u32, word: &[u8]) {
        if place > 0 {
            **self.both.get_or_insert_with(|| Box::new(ResolvedCommand::NOTHING)) =
                ResolvedCommand::two(&self.first, word);
        } else if !self.first.name.is(word) {
            self.name_first(word);
        }
        self.known = place + 1;
        if place == 0 && self.first.entry.is_some_and(|entry| entry.container) && self.count > 1 {
            self.words = 2;
        }
        let &ResolvedCommand { kind, entry, fixed, .. } = self.named();
        let arguments = self.count - self.words.min(self.count);
        self.kind = kind;
        self.script_due = entry.is_some_and(|entry| entry.script);
        self.is_fixed = self.known == self.words && arguments <= fixed;
        let is_by_content = !self.is_fixed && entry.is_some_and(CommandSpec::has_keys_by_content);
        let is_enough = self.words == 1 && kind == CommandKind::Plain && !self.script_due && !is_by_content;
        self.learned = if is_enough { self.count } else { 0 };
        (self.keys, self.number) = (NO_KEYS, NO_NUMBER);
        for keys in entry.map_or(&[][..], |entry| &entry.keys) {
            if let BeginSearch::At(place) = keys.begin {
                self.find_keys(place, keys.find);
            }
        }
    }

    /// Reads the first word of a command that differs from the previous one.
    fn name_first(&mut self, word: &[u8]) {
        if let Some(known) = self.earlier.iter_mut().find(|known| known.name.is(word)) {
            std::mem::swap(known, &mut self.first);
            return;
        }
        let before = std::mem::replace(&mut self.first, ResolvedCommand::one(word));
        if before.name.is(b"") {
            return;
        }
        if self.earlier.len() >= EARLIER {
            self.earlier.rotate_right(1);
            self.earlier.truncate(EARLIER - 1);
        }
        self.earlier.push(before);
    }

    /// Reads an argument whose content matters.
    #[inline]
    pub fn content<R: Reader>(&mut self, word: &[u8], out: &mut Out<'_, R>) {
        if self.kind != CommandKind::Plain {
            self.special_content(word, out);
        }
    }

    #[inline(never)]
    fn special_content<R: Reader>(&mut self, word: &[u8], out: &mut Out<'_, R>) {
        let is = |text: &str| text.as_bytes().eq_ignore_ascii_case(word);
        // The index already points at the next argument.
        match (self.kind, self.place) {
            (CommandKind::Reply, 3) if is("OFF") => self.kind = CommandKind::ReplyOff,
            (CommandKind::Reply, 3) if is("SKIP") => self.kind = CommandKind::ReplySkip,
            (CommandKind::Reply, 3) => self.kind = CommandKind::ReplyOn,
            (CommandKind::ReplicaConfig, 2) if is("ACK") => self.kind = CommandKind::ReplicaAck,
            (CommandKind::SetInfo, 3) if is("LIB-NAME") => self.kind = CommandKind::LibraryName,
            (CommandKind::SetInfo, 3) if is("LIB-VER") => self.kind = CommandKind::LibraryVersion,
            (CommandKind::LibraryName, 4) => out.software(Side::Request, &String::from_utf8_lossy(word)),
            (CommandKind::LibraryVersion, 4) => out.software_version(Side::Request, &String::from_utf8_lossy(word)),
            _ => {}
        }
    }

    pub fn leaves(&self) -> LeafAccounts {
        let write = self.named().entry.is_some_and(|entry| entry.write);
        let integer = if write { Account::Status } else { Account::Data };
        LeafAccounts { status: Account::Status, integer, free: true }
    }
}
