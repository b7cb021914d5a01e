//! Decodes command lines and the values that follow them.

use super::pair::{MemcachePending, MemcacheRequestKind};
use super::wire::{self, Command, LineWords, WordRole};
use super::{IncompleteRequest, Memcache, MemcacheEncoding, MemcacheStage, PartialLine, PartialValue};
use crate::{limits, pattern};
use overhead_decode::{DecodeStep, Input, Label, Malformed, MaybeStep, Note, OpId, Out, Reader, Step};
use overhead_model::{Account, Class, Outcome};

/// Retrieval commands accept any number of keys on a line of any length, so they are read word by word.
const FETCH: [&str; 4] = ["get", "gets", "gat", "gats"];

/// Longest key in bytes; a longer one causes an error even with `noreply`.
const LONGEST_KEY: usize = 250;

/// Shown for unknown commands.
const UNKNOWN: &str = "(unknown)";

impl Memcache {
    /// Returns the class and the `via` of operations with this name.
    pub(super) fn label(&self, name: &str) -> (Class, &'static str) {
        let is_setup = matches!(name, "quit" | "bin quit" | "bin quitq") || name.starts_with("bin sasl_");
        let class = if is_setup { Class::Setup } else { Class::Workload };
        (class, if self.mode == Some(MemcacheEncoding::Binary) { "binary" } else { "text" })
    }

    pub(super) fn name<R: Reader>(&mut self, op: OpId, name: &str, out: &mut Out<'_, R>) {
        let (class, via) = self.label(name);
        let statement = self.keys.statement(name);
        out.label_statement(op, Label { class, name, via, statement });
    }

    /// Decodes the next command line, or the available part of a retrieval.
    pub(super) fn command<R: Reader>(&mut self, input: &mut Input<'_>, out: &mut Out<'_, R>) -> MaybeStep {
        if let MemcacheStage::Words(words) = self.stages[0] {
            return self.words(words, input, out);
        }
        let blank = input.bytes.iter().take_while(|&&byte| byte == b' ').count();
        let behind = input.bytes.get(blank..).unwrap_or_default();
        let is_word =
            |name: &&&str| behind.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b' '));
        if let Some(name) = FETCH.iter().find(is_word) {
            let op = out.open();
            out.charge(op);
            self.keys.clear();
            out.post(Account::Framing, "space", blank as u64);
            out.post(Account::Query, "command", name.len() as u64);
            input.advance((blank + name.len()) as u64);
            self.scanned[0] = 0;
            self.stages[0] = MemcacheStage::Words(PartialLine { op, name, place: 1 });
            return Ok(None);
        }
        let Some(line) = crate::lines::line(input.bytes, &mut self.scanned[0])? else {
            return input.await_more("a line without an end").map(Some);
        };
        self.line(line, out)?;
        input.advance(line.len() as u64);
        Ok(None)
    }

    fn words<R: Reader>(&mut self, mut words: PartialLine, input: &mut Input<'_>, out: &mut Out<'_, R>) -> MaybeStep {
        let command = Command::named(words.name.as_bytes()).ok_or(Malformed("a command without a name"))?;
        loop {
            let blank = input.bytes.iter().take_while(|&&byte| byte == b' ').count();
            out.post(Account::Framing, "space", blank as u64);
            input.advance(blank as u64);
            let Some(end) = input.bytes.iter().position(|&byte| byte == b' ' || byte == b'\n') else { break };
            let (word, behind) = input.bytes.split_at(end);
            let is_over = behind.first() == Some(&b'\n');
            let text = if is_over { word.strip_suffix(b"\r").unwrap_or(word) } else { word };
            let role = command.role(words.place);
            if role == WordRole::Key && out.wants_statements() {
                self.keys.push(text);
            }
            role.post(text, out);
            input.advance(text.len() as u64);
            if is_over {
                let end = (word.len() - text.len() + 1) as u64;
                out.post(Account::Framing, "CRLF", end);
                input.advance(end);
                self.stages[0] = MemcacheStage::Idle;
                self.end_words(words, out);
                return Ok(None);
            }
            words.place += 1;
        }
        self.stages[0] = MemcacheStage::Words(words);
        if input.bytes.len() > limits::LINE || input.opaque > 0 {
            return Err(Malformed("a word without an end"));
        }
        Ok(Some(Step::More))
    }

    pub(super) fn end_words<R: Reader>(&mut self, PartialLine { op, name, .. }: PartialLine, out: &mut Out<'_, R>) {
        self.name(op, name, out);
        if self.pairing.push(MemcachePending::new(op, MemcacheRequestKind::Values), out).is_err() {
            out.close(op, Outcome::Unanswered);
        }
        out.release();
    }

    fn line<R: Reader>(&mut self, line: &[u8], out: &mut Out<'_, R>) -> DecodeStep<()> {
        let (text, end) = wire::text(line);
        let words = LineWords::new(text);
        let op = out.open();
        out.charge(op);
        self.keys.clear();
        let command = Command::named(words.get(0));
        let is_meta = command.is_some_and(|command| is_meta(command.ask));
        let ask = command.map_or(MemcacheRequestKind::Unknown, |command| command.ask_of(&words));
        let mut pending = MemcachePending::new(op, ask);
        let mut silent = false;
        if let Some(command) = command.filter(|_| out.wants_statements()) {
            self.take_keys(command, text);
        }
        match command {
            Some(command) if is_meta => pending = self.meta_line(command, text, pending, out),
            Some(command) => {
                silent = command.is_silent(&words);
                pending.quiet = command.name == "shutdown";
                let noreply = silent.then_some(words.count - 1);
                wire::each_word(text, out, |place, word, out| match place {
                    0 => out.post(Account::Query, "command", word.len() as u64),
                    _ if Some(place) == noreply => out.post(Account::Query, "noreply", word.len() as u64),
                    _ => command.role(place).post(word, out),
                });
            }
            None => post_unknown(text, out),
        }
        out.post(Account::Framing, "CRLF", end);
        if ask == MemcacheRequestKind::Quit {
            self.quit(op, out);
            return Ok(());
        }
        let has_long_word = || wire::words(text).any(|word| word.len() > LONGEST_KEY);
        if silent {
            self.pairing.has_silent |= has_long_word();
        } else {
            self.pairing.follow_silent(|| is_sound(ask) && !has_long_word());
            self.pairing.push(pending, out)?;
        }
        let value = command.and_then(|command| Some((command.name, command.value(&words)?)));
        if let Some((name, left)) = value {
            self.sent = Some(IncompleteRequest { op, name, is_silent: silent, answered: None });
            let value = PartialValue { left, account: Account::Data, has_end: true, is_last: true };
            self.stages[0] = MemcacheStage::Value(value);
            return Ok(());
        }
        let name = match command {
            Some(command) => command.name,
            None => std::str::from_utf8(words.get(0)).ok().filter(|word| pattern::is_command(word)).unwrap_or(UNKNOWN),
        };
        self.name(op, name, out);
        if silent {
            self.pairing.push_silent(op, out);
        }
        out.release();
        Ok(())
    }

    /// Notes the key of a storage, arithmetic, deletion, touch or meta command.
    fn take_keys(&mut self, command: &Command, text: &[u8]) {
        let mut words = wire::words(text).skip(1);
        if command.role(1) == WordRole::Key
            && let Some(key) = words.next()
        {
            // The key is encoded in base64.
            if is_meta(command.ask) && words.any(|flag| flag == b"b") {
                self.keys.push_unknown();
            } else {
                self.keys.push(key);
            }
        }
    }

    /// A quit is not answered.
    fn quit<R: Reader>(&mut self, op: OpId, out: &mut Out<'_, R>) {
        let (class, via) = self.label("quit");
        out.label(op, class, "quit", via);
        out.close(op, Outcome::NoReply);
        out.release();
    }
}

/// Returns whether servers never refuse such a request, if its keys are not too long.
fn is_sound(ask: MemcacheRequestKind) -> bool {
    matches!(ask, MemcacheRequestKind::Values | MemcacheRequestKind::Version)
}

fn is_meta(ask: MemcacheRequestKind) -> bool {
    use MemcacheRequestKind::{MetaCount, MetaDebug, MetaDelete, MetaGet, MetaSet};
    matches!(ask, MetaGet | MetaSet | MetaDelete | MetaCount | MetaDebug)
}

/// Posts a line that servers do not accept as a command.
fn post_unknown<R: Reader>(text: &[u8], out: &mut Out<'_, R>) {
    if wire::is_text(text) {
        wire::each_word(text, out, |place, word, out| {
            let (account, field) = if place == 0 { (Account::Query, "command") } else { (Account::Data, "argument") };
            out.post(account, field, word.len() as u64);
        });
    } else {
        out.note(Note::UndecodedMessage);
        out.post(Account::Unknown, "line", text.len() as u64);
    }
}
