//! An explanation for people: every frame, every field, the sums.

use super::Explanation;
use overhead_dissect::explain::{ByteVisibility, FieldPiece, FrameItem, FrameView};
use overhead_model::{Account, Amounts, Class, FrameFacts, Outcome, Side};
use overhead_report::text::number::duration;
use overhead_report::text::number::percent;
use overhead_report::text::{clean, counted, grouped};
use overhead_report::{ExampleFrame, ExamplePiece, PageExample};
use std::cmp::Reverse;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
pub struct TextStyle {
    pub color: bool,
    pub full: bool,
}

const ROW: usize = 16;

/// Maximum rows shown for one field, unless the user asks for all.
const ROWS: usize = 4;

/// Most lines of frames, unless the user asks for all, and fields in the summary of a longer explanation.
const LINES: usize = 60;
const FIELDS: usize = 12;

const GREY: &str = "90";
const BOLD: &str = "1";

pub fn render(explanation: &Explanation, style: TextStyle) -> String {
    let mut page =
        TextPage { style, out: String::new(), explanation, base: [None; 2], first_ns: None, columns_said: false };
    page.head();
    let head = std::mem::take(&mut page.out);
    for view in explanation.explained.views() {
        page.frame(&view);
    }
    let frames = std::mem::take(&mut page.out);
    let lines = frames.lines().count();
    if style.full || lines <= LINES {
        page.sums();
        return head + &frames + &page.out;
    }
    page.sums();
    page.fields();
    let shown: String = frames.split_inclusive('\n').take(LINES).collect();
    let more = format!("… {}: --full shows them", counted((lines - LINES) as u64, "more line"));
    head + &page.out + &shown + &page.paint(&more, GREY) + "\n"
}

struct TextPage<'a> {
    style: TextStyle,
    out: String,
    explanation: &'a Explanation,
    /// Stream offset of the operation's first byte, by side.
    base: [Option<u64>; 2],
    first_ns: Option<u64>,
    columns_said: bool,
}

impl TextPage<'_> {
    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    /// Writes a line in one colour.
    fn painted(&mut self, text: &str, code: &str) {
        let text = self.paint(text, code);
        self.line(&text);
    }

    fn paint(&self, text: &str, code: &str) -> String {
        if self.style.color && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Writes the operation, its outcome and its connection.
    fn head(&mut self) {
        let explained = &self.explanation.explained;
        let (class, name, via) = explained.label.as_ref().map_or((Class::Unmatched, "", ""), |(c, n, v)| (*c, n, v));
        let via = if via.is_empty() { String::new() } else { format!(" ({via})") };
        let outcome = explained.outcome().map_or("open", Outcome::name);
        let latency = explained.operation.and_then(|operation| operation.latency_ns);
        let latency = latency.map_or_else(String::new, |ns| format!(", latency {} µs", micros(ns)));
        let (number, count) = (self.explanation.found.number, self.explanation.count);
        let title = format!("operation {} of {}", grouped(number), grouped(count));
        let title = self.paint(&title, BOLD);
        let name = self.paint(&clean(name), BOLD);
        self.line(&format!("{title}: {name}{via}, {}, {outcome}{latency}", class.name()));
        if let Some(connection) = &explained.connection {
            let software = connection.server_software.as_deref().map(clean);
            let software = software.map_or_else(String::new, |software| format!(", {software}"));
            let (client, server) = (clean(&connection.client_name()), clean(&connection.server_name()));
            let number = grouped(self.explanation.found.connection);
            self.line(&format!("connection {number}: {client} > {server}, {}{software}", connection.protocol));
        }
    }

    fn frame(&mut self, view: &FrameView<'_>) {
        self.out.push('\n');
        let facts = view.frame.and_then(|number| self.explanation.frames.get(&number)).copied();
        let side = format!("{:<8}", view.side.name());
        let Some(facts) = facts else {
            let what = view.frame.map_or_else(|| "no captured frame".to_owned(), |frame| format!("frame {frame}"));
            let what = self.paint(&what, BOLD);
            self.line(&format!("{what}  {side}"));
            return self.items(view);
        };
        let first_ns = *self.first_ns.get_or_insert(facts.time_ns);
        let since = seconds_between(first_ns, facts.time_ns);
        let ends = self.ends(view.side);
        let title = self.paint(&format!("frame {}", facts.number), BOLD);
        self.line(&format!("{title}  {since} s  {side}  {ends}"));
        for text in parts(&facts, view) {
            self.painted(&format!("  {text}"), GREY);
        }
        self.items(view);
    }

    /// Returns `sender > receiver`.
    fn ends(&self, side: Side) -> String {
        let Some(connection) = &self.explanation.explained.connection else {
            return String::new();
        };
        let (client, server) = (clean(&connection.client_name()), clean(&connection.server_name()));
        match side {
            Side::Request => format!("{client} > {server}"),
            Side::Response => format!("{server} > {client}"),
        }
    }

    /// Writes the column headings once.
    fn columns(&mut self) {
        if !std::mem::replace(&mut self.columns_said, true) {
            let (bytes, text) = ("bytes", "text");
            let columns = format!("  {:<4}  {bytes:<47}  {text:<16}  {:>6}  {:<8}  field", "at", "length", "account");
            self.painted(&columns, GREY);
        }
    }

    fn items(&mut self, view: &FrameView<'_>) {
        if !view.items.is_empty() {
            self.columns();
        }
        for item in view.items {
            match item {
                FrameItem::Others(len) => {
                    let text = format!("        ({} of other operations)", counted(*len, "byte"));
                    self.painted(&text, GREY);
                }
                FrameItem::Piece(piece) => self.piece(view.side, piece),
            }
        }
    }

    /// Writes the rows of one field, or of its part in one frame.
    fn piece(&mut self, side: Side, piece: &FieldPiece) {
        let base = *self.base[side as usize].get_or_insert(piece.offset);
        let at = piece.offset.saturating_sub(base);
        let name =
            format!("{:>6}  {:<8}  {}{}", grouped(piece.len), piece.account.name(), clean(&piece.path), extent(piece));
        if piece.bytes.is_empty() {
            let why = self.paint(&format!("{:<67}", absence(piece.seen)), GREY);
            let name = self.paint(&name, color(piece.account));
            return self.line(&format!("  {at:04x}  {why}{name}"));
        }
        let rows = piece.bytes.chunks(ROW).count();
        let shown = if self.style.full || rows <= ROWS + 1 { rows } else { ROWS };
        for (row, bytes) in piece.bytes.chunks(ROW).take(shown).enumerate() {
            let (hex, text) = (hex(bytes, " "), printable(bytes));
            let text = format!("{hex:<47}  {text:<16}");
            let name = if row == 0 { name.as_str() } else { "" };
            let (text, name) = (self.paint(&text, color(piece.account)), self.paint(name, color(piece.account)));
            self.line(&format!("  {:04x}  {text}  {name}", at + (row * ROW) as u64));
        }
        let hidden = piece.bytes.len().saturating_sub(shown * ROW) as u64;
        if hidden > 0 {
            self.painted(&format!("        … {} more bytes", grouped(hidden)), GREY);
        }
    }

    /// Writes the fields with the most bytes.
    fn fields(&mut self) {
        let mut sums: BTreeMap<(&str, &str), (u64, Account)> = BTreeMap::new();
        let views = self.explanation.explained.views();
        for view in &views {
            for item in view.items {
                if let FrameItem::Piece(piece) = item {
                    sums.entry((view.side.name(), &piece.path)).or_insert((0, piece.account)).0 += piece.len;
                }
            }
        }
        let all: u64 = sums.values().map(|(bytes, _)| bytes).sum();
        let mut rows: Vec<_> = sums.into_iter().collect();
        rows.sort_by_key(|(_, (bytes, _))| Reverse(*bytes));
        self.out.push('\n');
        self.painted("fields with the most bytes of payload", BOLD);
        for ((side, path), (bytes, account)) in rows.iter().take(FIELDS) {
            let share = percent(*bytes, all);
            let (account, bytes) = (*account, grouped(*bytes));
            let text = format!("{bytes:>11}  {share:>6}  {side:<8}  {:<8}  {}", account.name(), clean(path));
            self.painted(&text, color(account));
        }
    }

    fn sums(&mut self) {
        let explained = &self.explanation.explained;
        let [request, response] = explained.amounts;
        let row = |name: &str, a: u64, b: u64| {
            format!("{name:<14}  {:>11}  {:>11}  {:>11}", grouped(a), grouped(b), grouped(a + b))
        };
        self.out.push('\n');
        let head = format!("{:<14}  {:>11}  {:>11}  {:>11}", "bytes", "request", "response", "total");
        self.painted(&head, BOLD);
        for account in Account::ALL {
            if request[account] + response[account] > 0 {
                self.painted(&row(account.name(), request[account], response[account]), color(account));
            }
        }
        self.line(&row("total", request.total(), response.total()));
        let total = request.total() + response.total();
        let late = total - explained.at_close.iter().map(Amounts::total).sum::<u64>().min(total);
        if late > 0 && explained.operation.is_some() {
            let text = format!("of which {} came after the operation had closed", counted(late, "byte"));
            self.line(&text);
        }
        let unlisted: u64 = explained.unlisted.iter().map(Amounts::total).sum();
        if unlisted > 0 {
            self.line(&format!(
                "{} are in these sums, and in fields or frames beyond those listed",
                counted(unlisted, "byte")
            ));
        }
    }
}

/// Returns the parts of a frame, and this operation's share if it is not the whole frame.
pub fn parts(facts: &FrameFacts, view: &FrameView<'_>) -> Vec<String> {
    let wire = format!("{} B", grouped(u64::from(facts.wire_len)));
    let mine: u64 = view.items.iter().map(|item| if let FrameItem::Piece(piece) = item { piece.len } else { 0 }).sum();
    let charges = view.charges;
    if facts.payload_len == 0 || mine == 0 {
        let accounts: Vec<String> = nonzero(&charges).map(|(account, bytes)| amount(account, bytes)).collect();
        let flags = flags(facts);
        return vec![format!("{wire} = {}{flags}", accounts.join(" + "))];
    }
    let payload = grouped(u64::from(facts.payload_len));
    let whole = match facts.headers {
        [0, 0, 0] => format!("{wire} = payload {payload}"),
        [link, ip, tcp] => format!("{wire} = link {link} + ip {ip} + tcp {tcp} + payload {payload}"),
    };
    let own = charges.total() + mine;
    if own == u64::from(facts.wire_len) {
        return vec![whole];
    }
    let accounts = nonzero(&charges).map(|(account, bytes)| amount(account, bytes));
    let accounts: Vec<String> = accounts.chain([format!("payload {}", grouped(mine))]).collect();
    vec![whole, format!("of which this operation {} B = {}", grouped(own), accounts.join(" + "))]
}

fn nonzero(amounts: &Amounts) -> impl Iterator<Item = (Account, u64)> + '_ {
    amounts.iter().filter(|(_, bytes)| *bytes > 0)
}

fn amount(account: Account, bytes: u64) -> String {
    format!("{account} {}", grouped(bytes))
}

/// Returns the TCP flags, such as ` (SYN, ACK)`.
fn flags(facts: &FrameFacts) -> String {
    let flags = facts.flags;
    let set = [(flags.syn, "SYN"), (flags.fin, "FIN"), (flags.rst, "RST"), (flags.ack, "ACK")];
    let set: Vec<&str> = set.into_iter().filter(|(set, _)| *set).map(|(_, name)| name).collect();
    if set.is_empty() { String::new() } else { format!(" ({})", set.join(", ")) }
}

/// Returns which part of a field a piece covers, if not all of it, and whether it was decrypted.
pub fn extent(piece: &FieldPiece) -> String {
    let part = (piece.len != piece.field_len)
        .then(|| format!("from byte {} of {}", grouped(piece.field_at), grouped(piece.field_len)));
    let decrypted = (piece.seen == ByteVisibility::Decrypted).then(|| "decrypted".to_owned());
    let words: Vec<String> = part.into_iter().chain(decrypted).collect();
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

pub fn absence(seen: ByteVisibility) -> &'static str {
    match seen {
        ByteVisibility::Captured | ByteVisibility::Decrypted | ByteVisibility::NotKept => "(captured, not shown)",
        ByteVisibility::Snapped => "(not captured: snapped)",
        ByteVisibility::Gap => "(in no captured frame, and in no sum)",
    }
}

pub fn hex(bytes: &[u8], gap: &str) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(gap)
}

pub fn printable(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| if byte == b' ' || byte.is_ascii_graphic() { char::from(byte) } else { '.' }).collect()
}

fn micros(ns: u64) -> String {
    format!("{}.{}", grouped(ns / 1000), ns % 1000 / 100)
}

/// Returns a time difference in seconds, such as `+0.000113`.
fn seconds_between(from_ns: u64, to_ns: u64) -> String {
    let sign = if to_ns < from_ns { '-' } else { '+' };
    let us = to_ns.abs_diff(from_ns) / 1000;
    format!("{sign}{}.{:06}", us / 1_000_000, us % 1_000_000)
}

/// Returns an ANSI colour, so that it suits the terminal's theme. Families share a hue.
fn color(account: Account) -> &'static str {
    match account {
        Account::Link | Account::Ip | Account::Tcp => GREY,
        Account::Control | Account::Retransmission => "31",
        Account::Tls => "35",
        Account::Framing => "34",
        Account::Metadata => "36",
        Account::Schema => "96",
        Account::Query => "32",
        Account::Data => "33",
        Account::Status => "92",
        Account::Unknown => "91",
    }
}

const SHOWN: usize = 64;

pub fn example(explanation: &Explanation) -> PageExample {
    let explained = &explanation.explained;
    let (_, name, via) = explained.label.as_ref().map_or((Class::Unmatched, "", ""), |(c, n, v)| (*c, n, v));
    let via = if via.is_empty() { String::new() } else { format!(" ({via})") };
    let outcome = explained.outcome().map_or("open", Outcome::name);
    let latency = explained.operation.and_then(|operation| operation.latency_ns);
    let latency = latency.map_or_else(String::new, |ns| format!(", answered within {}", duration(ns)));
    let (number, count) = (grouped(explanation.found.number), grouped(explanation.count));
    PageExample {
        title: format!("{name}{via}: operation {number} of {count}, {outcome}{latency}"),
        frames: explained.views().iter().map(|view| frame(explanation, view)).collect(),
    }
}

fn frame(explanation: &Explanation, view: &FrameView<'_>) -> ExampleFrame {
    let side = view.side.name();
    let facts = view.frame.and_then(|number| explanation.frames.get(&number));
    let title = match (facts, view.frame) {
        (Some(facts), _) => format!("Frame {}, {side}: {}", grouped(facts.number), parts(facts, view).join(", ")),
        (None, Some(number)) => format!("Frame {}, {side}", grouped(number)),
        (None, None) => format!("In no captured frame, {side}"),
    };
    ExampleFrame { title, pieces: view.items.iter().map(item).collect() }
}

fn item(item: &FrameItem) -> ExamplePiece {
    match item {
        FrameItem::Others(length) => ExamplePiece {
            field: "of other operations".to_owned(),
            length: *length,
            note: format!("({})", counted(*length, "byte")),
            ..ExamplePiece::default()
        },
        FrameItem::Piece(piece) => field(piece),
    }
}

fn field(piece: &FieldPiece) -> ExamplePiece {
    let shown = piece.bytes.get(..SHOWN).unwrap_or(&piece.bytes);
    let hidden = (piece.bytes.len() - shown.len()) as u64;
    let note = match (piece.bytes.is_empty(), hidden) {
        (true, _) => absence(piece.seen).to_owned(),
        (false, 0) => String::new(),
        (false, more) => format!("… {} more", counted(more, "byte")),
    };
    ExamplePiece {
        account: piece.account.name(),
        field: format!("{}{}", piece.path, extent(piece)),
        hex: hex(shown, " ") + if note.is_empty() { "" } else { " " },
        text: printable(shown),
        length: piece.len,
        note,
    }
}
