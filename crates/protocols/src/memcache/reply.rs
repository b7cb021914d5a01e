//! Decodes the lines of a server and the values that follow them.

use super::pair::{MemcacheReplyTarget, MemcacheRequestKind, ReplyKeyword};
use super::{Memcache, MemcacheStage, PartialValue, meta, wire};
use overhead_decode::{DecodeStep, Input, Malformed, MaybeStep, Out, Reader};
use overhead_model::{Account, Class, Outcome, Side};

impl Memcache {
    pub(super) fn text_reply<R: Reader>(&mut self, input: &mut Input<'_>, out: &mut Out<'_, R>) -> MaybeStep {
        let Some(line) = crate::lines::line(input.bytes, &mut self.scanned[1])? else {
            return input.await_more("a line without an end").map(Some);
        };
        let (text, end) = wire::text(line);
        let name = text.split(|&byte| byte == b' ').next().unwrap_or_default();
        let word = word(name, text);
        // A key may contain any byte except space and LF.
        let has_key = word.is_meta() || matches!(word, ReplyKeyword::Value | ReplyKeyword::Debug);
        if !has_key && !wire::is_text(text) {
            return Err(Malformed("an answer that is no line of text"));
        }
        input.advance(line.len() as u64);
        if self.is_logged(text) {
            self.log(text, end, out);
            return Ok(None);
        }
        let is_read = self.pairing.has_quiet();
        let target = match self.target {
            Some(target) => target,
            None => self.pairing.answer(word, || meta::answered(text), &mut self.sent, out),
        };
        out.charge(target.op);
        self.target = Some(target);
        post(word, name, text, is_read, out);
        out.post(Account::Framing, "CRLF", end);
        self.take_effect(word, text, target, out)?;
        Ok(None)
    }

    /// Starts the value that follows a line, and applies the line's flags and length.
    fn take_effect<R: Reader>(
        &mut self,
        word: ReplyKeyword,
        text: &[u8],
        target: MemcacheReplyTarget,
        out: &mut Out<'_, R>,
    ) -> DecodeStep<()> {
        match word {
            ReplyKeyword::Value => self.begin_value(wire::words(text).nth(3), false)?,
            ReplyKeyword::Fetched => self.begin_value(wire::words(text).nth(1), true)?,
            ReplyKeyword::Item if target.ask != MemcacheRequestKind::Item => {
                report_version(text.strip_prefix(b"STAT version "), out);
            }
            _ => {
                if word == ReplyKeyword::Version {
                    report_version(text.strip_prefix(b"VERSION "), out);
                }
                self.is_watching |= target.ask == MemcacheRequestKind::Watch && word == ReplyKeyword::Other;
                if word.is_error() {
                    self.target = Some(MemcacheReplyTarget { outcome: Outcome::Error, ..target });
                }
                self.end_reply(out);
            }
        }
        Ok(())
    }

    fn begin_value(&mut self, length: Option<&[u8]>, is_last: bool) -> DecodeStep<()> {
        let left = length.and_then(wire::number).filter(|&left| left <= wire::VALUE);
        let left = left.ok_or(Malformed("the length of a value"))?;
        self.stages[1] = MemcacheStage::Value(PartialValue { left, account: Account::Data, has_end: true, is_last });
        Ok(())
    }

    /// Returns whether the line belongs to the log that a client watches.
    fn is_logged(&self, text: &[u8]) -> bool {
        self.is_watching && self.target.is_none() && (self.pairing.pending.is_empty() || text.starts_with(b"ts="))
    }

    fn log<R: Reader>(&self, text: &[u8], end: u64, out: &mut Out<'_, R>) {
        let (_, via) = self.label("watch");
        let op = out.begin(Class::Background, "watch", via);
        out.post(Account::Data, "log line", text.len() as u64);
        out.post(Account::Framing, "CRLF", end);
        out.close(op, Outcome::Unsolicited);
        out.release();
    }
}

fn word(name: &[u8], text: &[u8]) -> ReplyKeyword {
    match name {
        b"VALUE" | b"CONFIG" => ReplyKeyword::Value,
        b"END" => ReplyKeyword::End,
        b"STORED" | b"NOT_STORED" | b"EXISTS" => ReplyKeyword::Stored,
        b"VA" => ReplyKeyword::Fetched,
        b"HD" => ReplyKeyword::Done,
        b"EN" => ReplyKeyword::Miss,
        b"NF" => ReplyKeyword::Absent,
        b"NS" | b"EX" => ReplyKeyword::Refused,
        b"MN" => ReplyKeyword::Noop,
        b"ME" => ReplyKeyword::Debug,
        b"DELETED" => ReplyKeyword::Deleted,
        b"TOUCHED" => ReplyKeyword::Touched,
        b"NOT_FOUND" => ReplyKeyword::NotFound,
        b"VERSION" => ReplyKeyword::Version,
        b"CLIENT_ERROR" => ReplyKeyword::Refusal,
        // The last two belong to `lru_crawler mgdump` and `lru_crawler metadump`.
        b"STAT" | b"ITEM" | b"PREFIX" | b"mg" => ReplyKeyword::Item,
        _ if name.starts_with(b"key=") => ReplyKeyword::Item,
        _ if [&b"ERROR"[..], b"CLIENT_ERROR", b"SERVER_ERROR"].iter().any(|error| text.starts_with(error)) => {
            ReplyKeyword::Error
        }
        [b'0'..=b'9', ..] if text.trim_ascii_end().iter().all(u8::is_ascii_digit) => ReplyKeyword::Number,
        _ => ReplyKeyword::Other,
    }
}

/// Posts a line that starts with `name`, without its end. `is_read`: its content decides which request it answers.
fn post<R: Reader>(word: ReplyKeyword, name: &[u8], text: &[u8], is_read: bool, out: &mut Out<'_, R>) {
    out.set_read(is_read);
    match word {
        ReplyKeyword::Value => wire::each_word(text, out, post_value),
        _ if word.is_meta() || word == ReplyKeyword::Noop => post_meta(name, text, out),
        ReplyKeyword::Debug | ReplyKeyword::Item | ReplyKeyword::Version => {
            let after = if word == ReplyKeyword::Item && name.contains(&b'=') { 0 } else { name.len() };
            out.post(Account::Framing, "word", after as u64);
            let spaces = text.len().min(after + 1) - after;
            out.post(Account::Framing, "space", if after > 0 { spaces as u64 } else { 0 });
            let behind = if after > 0 { after + spaces } else { 0 };
            let field = if word == ReplyKeyword::Version { "version" } else { "item" };
            out.post(Account::Data, field, (text.len() - behind) as u64);
        }
        ReplyKeyword::End => {
            out.post(Account::Framing, "word", name.len() as u64);
            out.post(Account::Data, "item", (text.len() - name.len()) as u64);
        }
        ReplyKeyword::Number => wire::post_word(text, Account::Status, "number", 19, out),
        _ => out.post(Account::Status, "status", text.len() as u64),
    }
    out.set_read(false);
}

/// Posts a word of `VALUE <key> <flags> <bytes> [<cas>]`.
fn post_value<R: Reader>(place: usize, word: &[u8], out: &mut Out<'_, R>) {
    use wire::WordRole::{Argument, Flags, Key, Length, Unique};
    match place {
        0 => out.post(Account::Framing, "word", word.len() as u64),
        1 => Key.post(word, out),
        2 => Flags.post(word, out),
        3 => Length.post(word, out),
        4 => Unique.post(word, out),
        _ => Argument.post(word, out),
    }
}

/// Posts the reply to a meta command: result, length of the value, flags.
fn post_meta<R: Reader>(name: &[u8], text: &[u8], out: &mut Out<'_, R>) {
    let is_framing = matches!(name, b"VA" | b"EN");
    wire::each_word(text, out, |place, word, out| match place {
        0 if is_framing => out.post(Account::Framing, "word", word.len() as u64),
        0 => out.post(Account::Status, "status", word.len() as u64),
        1 if name == b"VA" => wire::WordRole::Length.post(word, out),
        _ => meta::post_flag(word, out),
    });
}

/// Reports the server's version; servers other than memcached send their name before it.
pub(super) fn report_version<R: Reader>(version: Option<&[u8]>, out: &mut Out<'_, R>) {
    let Some(version) = version.filter(|version| !version.is_empty() && version.len() <= 64) else { return };
    let version = String::from_utf8_lossy(version);
    if version.starts_with(|first: char| first.is_ascii_digit()) {
        out.software(Side::Response, &format!("memcached {version}"));
    } else {
        out.software(Side::Response, &version);
    }
}
