//! Rules for the content of each output form, written without the code that escapes.

use serde_json::Value;
use std::fs;
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Lines that a terminal shows, and that GitHub's runner reads.
    Terminal,
    Json,
    Csv,
    Markdown,
    /// Annotations, a line each.
    Github,
    /// HTML or SVG.
    Markup,
    /// Any other text that people look at.
    Document,
}

/// Holds an output against the rules of its form.
#[track_caller]
pub fn check(what: &str, bytes: &[u8], form: Form) {
    let text = std::str::from_utf8(bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
    let shown = |at: usize| {
        text[text.floor_char_boundary(at.saturating_sub(90))..text.ceil_char_boundary((at + 90).min(text.len()))]
            .to_owned()
    };
    if let Some((at, harmful)) = text.char_indices().find(|(_, character)| is_forbidden(*character)) {
        panic!("{what}: {harmful:?} in {form:?}: {:?}", shown(at));
    }
    if !matches!(form, Form::Markup | Form::Document) {
        for line in text.lines() {
            let begins = line.trim_start();
            assert!(form == Form::Github || !begins.starts_with("::"), "{what}: a command in {line:?}");
            assert!(!line.contains("##["), "{what}: an old command in {line:?}");
        }
    }
    match form {
        Form::Json => {
            if !text.is_empty() {
                serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{what}: {error}: {text}"));
            }
        }
        Form::Csv => csv(what, text),
        Form::Markdown => markdown(what, text),
        Form::Github => text.lines().for_each(|line| annotation(what, line)),
        Form::Markup => markup(what, text),
        Form::Terminal | Form::Document => {}
    }
}

/// Characters that are invisible or act: Unicode's categories Cc, Cf and Zl, Zp, and default-ignorable characters.
fn is_forbidden(character: char) -> bool {
    let code = u32::from(character);
    let ranges = [
        (0, 9),
        (0xb, 0x1f),
        (0x7f, 0x9f),
        (0xad, 0xad),
        (0x34f, 0x34f),
        (0x61c, 0x61c),
        (0x180e, 0x180e),
        (0x200b, 0x200f),
        (0x2028, 0x202e),
        (0x2060, 0x206f),
        (0x3164, 0x3164),
        (0xfeff, 0xfeff),
        (0xfff9, 0xfffb),
        (0xfffe, 0xffff),
        (0xe0000, 0xe0fff),
    ];
    ranges.iter().any(|&(first, last)| (first..=last).contains(&code))
}

/// Every row has as many cells as the header, and no cell begins a formula.
fn csv(what: &str, text: &str) {
    let mut rows: Vec<Vec<String>> = vec![vec![String::new()]];
    let (mut quoted, mut characters) = (false, text.chars().peekable());
    while let Some(character) = characters.next() {
        let row = rows.last_mut().unwrap();
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => row.last_mut().unwrap().extend(characters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(String::new()),
            '\n' if !quoted => rows.push(vec![String::new()]),
            _ => row.last_mut().unwrap().push(character),
        }
    }
    let columns = rows[0].len();
    for row in rows.iter().filter(|row| row.len() > 1) {
        assert_eq!(row.len(), columns, "{what}: {row:?}");
        for cell in row.iter().filter(|cell| cell.parse::<f64>().is_err()) {
            assert!(!cell.starts_with(['=', '+', '-', '@']), "{what}: {cell}");
        }
    }
}

/// Nothing is left of a document without its code and its escapes that GitHub acts upon.
fn markdown(what: &str, text: &str) {
    for line in text.lines().filter(|line| !line.starts_with("<!-- made by overhead ")) {
        let plain = without_code(line);
        for active in ["<", "http://", "https://", "www.", "@", "$", ":tada:", "#12", "#7", "GH-9", "~~"] {
            let heading = plain.trim_start_matches('#');
            assert!(!heading.contains(active), "{what}: {active} in {line:?}");
        }
        if text.contains("| --: |") && line.starts_with('|') {
            assert!(!plain.contains("]("), "{what}: a link in {line:?}");
        }
    }
    for table in text.split("\n\n").filter(|part| part.starts_with("| ")) {
        let cells: Vec<usize> = table
            .lines()
            .filter(|line| line.starts_with("| "))
            .map(|line| line.replace("\\|", "").matches('|').count())
            .collect();
        assert!(cells.windows(2).all(|pair| pair[0] == pair[1]), "{what}: {cells:?} cells in {table}");
    }
}

/// A line without its code spans, and without characters that a backslash keeps.
fn without_code(line: &str) -> String {
    let (mut out, mut rest) = (String::new(), line);
    while let Some(at) = rest.find(['`', '\\']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix('\\') {
            rest = after.get(after.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default();
            continue;
        }
        let fence = rest.len() - rest.trim_start_matches('`').len();
        let (mark, inside) = rest.split_at(fence);
        let mut from = 0;
        let end = loop {
            let Some(found) = inside[from..].find(mark).map(|found| from + found) else { break None };
            let run = inside[found..].len() - inside[found..].trim_start_matches('`').len();
            if run == fence {
                break Some(found);
            }
            from = found + run;
        };
        let Some(end) = end else { break };
        rest = &inside[end + fence..];
    }
    out + rest
}

/// `::error file=…,title=…::…`: one command, with properties that end at their delimiters.
fn annotation(what: &str, line: &str) {
    let (command, data) =
        line.strip_prefix("::").and_then(|rest| rest.split_once("::")).unwrap_or_else(|| panic!("{what}: {line}"));
    let (name, properties) = command.split_once(' ').unwrap();
    assert!(["error", "notice"].contains(&name), "{what}: {line}");
    assert!(properties.split(',').all(|of| of.starts_with("file=") || of.starts_with("title=")), "{what}: {line}");
    assert!(!data.contains("%0A") && !data.contains("%0D"), "{what}: {line}");
}

fn markup(what: &str, text: &str) {
    for begin in ["<script>alert", "<img", "</script><script>"] {
        assert!(!text.contains(begin), "{what}: {begin}");
    }
}

/// Holds the files of a folder against the rules; returns how many they were.
pub fn check_files(folder: &Path) -> usize {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut count = 0;
    for path in files {
        let form = match path.extension().and_then(|ending| ending.to_str()) {
            Some("html" | "svg") => Form::Markup,
            Some("md") => Form::Markdown,
            Some("csv") => Form::Csv,
            Some("json") => Form::Json,
            _ => continue,
        };
        check(&path.display().to_string(), &fs::read(&path).unwrap(), form);
        count += 1;
    }
    count
}
