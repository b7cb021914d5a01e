//! Documents: headings, prose, tables, charts and warnings. Each kind of result builds one; the renderers know nothing about
//! results.

use crate::clean::{clean, code_span, markdown_cell};
use crate::error::ReportError;
use crate::grid::{Column, Grid, Style, alarming, bold, wrapped};
use crate::number::DASH;
use overhead_model::outside::to_json;
use serde::Serialize;

/// A titled table with its explanation.
pub(crate) struct Section {
    pub title: String,
    pub table: Grid,
    pub notes: Vec<String>,
}

impl Section {
    pub(crate) fn new(title: &str, table: Grid, note: impl Into<String>) -> Self {
        Self { title: title.to_owned(), table, notes: vec![note.into()] }
    }
}

/// A condition of a result, such as its source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// Empty for a sentence.
    pub term: String,
    /// Plain text; renderers escape it.
    pub text: String,
}

/// Term of a command line, which stays whole so that readers can copy it.
pub(crate) const COMMAND: &str = "command";

impl Fact {
    /// Makes a fact with this term.
    pub fn new(term: &str, text: impl Into<String>) -> Self {
        Self { term: term.to_owned(), text: text.into() }
    }

    fn terminal(&self, style: Style) -> String {
        let width = style.prose.filter(|_| self.term != COMMAND);
        wrapped(&self.line(&self.term, &self.text), width)
    }

    fn markdown(&self) -> String {
        let text = if self.term == COMMAND { code_span(&clean(&self.text)) } else { markdown_cell(&self.text) };
        format!("- {}\n", self.line(&markdown_cell(&self.term), &text))
    }

    fn line(&self, term: &str, text: &str) -> String {
        if self.term.is_empty() { text.to_owned() } else { format!("{term}: {text}") }
    }
}

pub(crate) enum Block {
    /// Markdown level and text.
    Heading(usize, String),
    Facts(Vec<Fact>),
    Prose(String),
    /// Lines on a terminal, sentences of one paragraph in documents.
    Notes(Vec<String>),
    Table(Grid),
    /// File name of a chart, without suffix, and what it shows. Documents only.
    Figure(String, String),
    Warning(String),
}

/// A result as a sequence of blocks, rendered for a terminal or as Markdown.
#[derive(Default)]
pub struct Document {
    blocks: Vec<Block>,
}

impl Document {
    /// Adds a heading of a Markdown level.
    pub fn heading(&mut self, level: usize, text: impl Into<String>) {
        self.blocks.push(Block::Heading(level, text.into()));
    }

    /// Adds facts, if there are any.
    pub fn facts(&mut self, facts: Vec<Fact>) {
        self.blocks.extend((!facts.is_empty()).then_some(Block::Facts(facts)));
    }

    pub(crate) fn prose(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Prose(text.into()));
    }

    pub(crate) fn notes(&mut self, notes: Vec<String>) {
        self.blocks.extend((!notes.is_empty()).then_some(Block::Notes(notes)));
    }

    pub(crate) fn table(&mut self, table: Grid) {
        self.blocks.push(Block::Table(table));
    }

    /// Adds a table of words on the left and numbers on the right.
    pub fn figures(&mut self, keys: &[&str], figures: &[&str], rows: Vec<Vec<String>>) {
        self.table(Grid::new(keys, figures, rows));
    }

    /// Adds a section under a heading of this level, if it has a title.
    pub(crate) fn section(&mut self, level: usize, section: Section) {
        if !section.title.is_empty() {
            self.heading(level, section.title);
        }
        self.table(section.table);
        self.notes(section.notes);
    }

    pub(crate) fn figure(&mut self, name: &str, shows: &str) {
        self.blocks.push(Block::Figure(name.to_owned(), shows.to_owned()));
    }

    pub(crate) fn warnings(&mut self, warnings: impl IntoIterator<Item = String>) {
        self.blocks.extend(warnings.into_iter().map(Block::Warning));
    }

    pub(crate) fn append(&mut self, other: Self) {
        self.blocks.extend(other.blocks);
    }

    /// Renders for a terminal, with an empty line between blocks, but none before a warning, nor between a heading and its facts.
    /// Facts of a part are indented.
    pub fn terminal(&self, style: Style) -> String {
        let is_heading = |at: usize| matches!(self.blocks[at], Block::Heading(..));
        let mut out = String::new();
        for (at, block) in self.blocks.iter().enumerate() {
            let text = match block {
                Block::Heading(_, text) if style.color => bold(&clean(text)) + "\n",
                Block::Heading(_, text) => clean(text) + "\n",
                Block::Facts(facts) => {
                    let indent = if at > 1 && is_heading(at - 1) { "  " } else { "" };
                    let line =
                        |fact: &Fact| indent.to_owned() + &fact.terminal(style).replace('\n', &format!("\n{indent}"));
                    facts.iter().map(|fact| line(fact) + "\n").collect()
                }
                Block::Prose(text) => wrapped(text, style.prose) + "\n",
                Block::Notes(notes) => notes.iter().map(|note| wrapped(note, style.prose) + "\n").collect(),
                Block::Table(table) => table.render(style),
                Block::Figure(..) => continue,
                Block::Warning(text) => {
                    let line = wrapped(&format!("warning: {text}"), style.prose);
                    if style.color { alarming(&line) + "\n" } else { line + "\n" }
                }
            };
            let is_joined = match block {
                Block::Warning(_) => true,
                Block::Facts(_) => at > 0 && is_heading(at - 1),
                _ => false,
            };
            let gap = if out.is_empty() || is_joined { "" } else { "\n" };
            out.extend([gap, &text]);
        }
        out
    }

    /// Renders GitHub Markdown, with an empty line between blocks.
    pub fn markdown(&self) -> String {
        let text = |block: &Block| match block {
            Block::Heading(level, text) => format!("{} {}\n", "#".repeat(*level), markdown_cell(text)),
            Block::Facts(facts) => facts.iter().map(Fact::markdown).collect(),
            Block::Prose(text) => markdown_cell(text) + "\n",
            Block::Notes(notes) => markdown_cell(&(notes.join(". ").trim_end_matches('.').to_owned() + ".")) + "\n",
            Block::Table(table) => table.markdown(),
            Block::Figure(name, shows) => format!("![{}]({name}.svg)\n", markdown_cell(shows)),
            Block::Warning(text) => format!("> **Warning:** {}\n", markdown_cell(text)),
        };
        self.blocks.iter().map(text).collect::<Vec<_>>().join("\n")
    }
}

/// Renders a result as indented JSON with a final newline.
///
/// # Errors
///
/// Returns [`ReportError::Json`] if a number is not finite.
pub fn json(result: &impl Serialize) -> Result<String, ReportError> {
    Ok(to_json(result)?)
}

impl Grid {
    /// Removes columns without a single measured value.
    pub(crate) fn measured(mut self) -> Self {
        fn said_of<T>(all: Vec<T>, said: &[bool]) -> Vec<T> {
            all.into_iter().zip(said).filter_map(|(of, is_said)| is_said.then_some(of)).collect()
        }
        let is_said = |at: usize| at < self.keys || self.rows.is_empty() || self.rows.iter().any(|row| row[at] != DASH);
        let said: Vec<bool> = (0..self.columns.len()).map(is_said).collect();
        self.columns = said_of(self.columns, &said);
        self.rows = self.rows.into_iter().map(|row| said_of(row, &said)).collect();
        self
    }

    /// Renders a GitHub table; replaces line breaks in headers with spaces.
    pub(crate) fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let header = |column: &Column| markdown_cell(&column.header.replace("-\n", "").replace('\n', " "));
        let rules = self.columns.iter().map(|column| if column.left { ":--" } else { "--:" }.to_owned());
        let mut out = line(self.columns.iter().map(header).collect()) + &line(rules.collect());
        out.extend(self.rows.iter().map(|row| line(row.iter().map(|cell| markdown_cell(cell)).collect())));
        out
    }
}
