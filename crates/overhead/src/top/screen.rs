//! The user's choices on the screen, and the effects of keys.

use super::Look;
use super::view::{SortBy, View, Wanted};
use overhead_model::record::By;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Duration;

/// Descriptions of the keys for the help screen.
pub const HELP: [(&str, &str); 14] = [
    ("b", "order by bytes on the wire, in the interval"),
    ("r", "order by operations a second"),
    ("c", "order by operations since the beginning (calls)"),
    ("l", "order by latency: the 99th percentile of the interval"),
    ("g, G", "rows are operations, statements, connections, clients, servers"),
    ("t", "figures of the last interval, or of all since the beginning"),
    ("/", "show rows with a text in their names; Enter keeps it, Esc clears it"),
    ("p, space", "hold the screen; of a capture that is replayed, its clock, too"),
    ("up, down", "move by one row; also k and j"),
    ("PgUp, PgDn", "move by a screen"),
    ("Home, End", "move to the first or last row"),
    ("?, h", "this help"),
    ("Esc", "close help; clear the text to be found"),
    ("q, Ctrl-C", "end"),
];

const GRAINS: [By; 5] = [By::Name, By::Statement, By::Connection, By::Client, By::Server];

#[expect(clippy::struct_excessive_bools, reason = "each is a key that switches")]
pub struct Screen {
    pub wanted: Wanted,
    pub paused: bool,
    pub helps: bool,
    /// The user is typing the search text.
    pub types: bool,
    /// Figures cover all the time since the beginning.
    pub is_whole: bool,
    /// Rows above the first visible one.
    pub above: usize,
    pub title: String,
    pub interval: Duration,
    looks: Looks,
}

/// The last two looks with the same kind of rows.
#[derive(Default)]
struct Looks {
    before: Option<Look>,
    now: Option<Look>,
}

/// Action required after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Draw,
    /// Look again, with another kind of rows.
    Look,
    Pause,
    End,
}

impl Screen {
    pub fn new(by: By, sort: SortBy, find: String, interval: Duration) -> Self {
        Self {
            wanted: Wanted { by, sort, find },
            paused: false,
            helps: false,
            types: false,
            is_whole: false,
            above: 0,
            title: String::new(),
            interval,
            looks: Looks::default(),
        }
    }

    pub fn take(&mut self, look: Look) {
        // After the feed ends, keep its last active interval.
        let is_again = self.looks.now.as_ref().is_some_and(|now| now.is_over && look.is_over);
        let now = self.looks.now.replace(look);
        if !is_again {
            self.looks.before = now;
        }
    }

    /// Returns the view; `None` before the first look.
    pub fn view(&self) -> Option<View> {
        let Looks { before, now } = &self.looks;
        let before = before.as_ref().filter(|_| !self.is_whole);
        Some(View::between(before, now.as_ref()?, &self.wanted))
    }

    /// Handles a key, for pages of `page` rows.
    pub fn key(&mut self, key: KeyEvent, page: usize) -> Effect {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Effect::End } else { Effect::Draw };
        }
        if self.types {
            self.type_in(key.code);
            return Effect::Draw;
        }
        if self.helps {
            self.helps = false;
            return if key.code == KeyCode::Char('q') { Effect::End } else { Effect::Draw };
        }
        match key.code {
            KeyCode::Char('q') => return Effect::End,
            KeyCode::Char('g') | KeyCode::Tab => return self.turn(1),
            KeyCode::Char('G') | KeyCode::BackTab => return self.turn(GRAINS.len() - 1),
            KeyCode::Char('p' | ' ') => {
                self.paused = !self.paused;
                return Effect::Pause;
            }
            KeyCode::Char('b') => self.sort(SortBy::Bytes),
            KeyCode::Char('r') => self.sort(SortBy::Rate),
            KeyCode::Char('c') => self.sort(SortBy::Calls),
            KeyCode::Char('l') => self.sort(SortBy::Latency),
            KeyCode::Char('t') => self.is_whole = !self.is_whole,
            KeyCode::Char('?' | 'h') => self.helps = true,
            KeyCode::Char('/') => {
                self.types = true;
                self.wanted.find.clear();
            }
            KeyCode::Esc => self.wanted.find.clear(),
            KeyCode::Up | KeyCode::Char('k') => self.above = self.above.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.above += 1,
            KeyCode::PageUp => self.above = self.above.saturating_sub(page),
            KeyCode::PageDown => self.above += page,
            KeyCode::Home => self.above = 0,
            KeyCode::End => self.above = usize::MAX,
            _ => {}
        }
        Effect::Draw
    }

    fn type_in(&mut self, code: KeyCode) {
        self.above = 0;
        match code {
            KeyCode::Enter => self.types = false,
            KeyCode::Esc => {
                self.types = false;
                self.wanted.find.clear();
            }
            KeyCode::Backspace => _ = self.wanted.find.pop(),
            KeyCode::Char(letter) if !letter.is_control() => self.wanted.find.push(letter),
            _ => {}
        }
    }

    fn sort(&mut self, sort: SortBy) {
        self.wanted.sort = sort;
        self.above = 0;
    }

    /// Switches to the kind of rows `by` steps further, and drops the looks at the current kind.
    fn turn(&mut self, by: usize) -> Effect {
        let at = GRAINS.iter().position(|grain| *grain == self.wanted.by).unwrap_or(0);
        self.wanted.by = GRAINS[(at + by) % GRAINS.len()];
        self.above = 0;
        self.looks = Looks::default();
        Effect::Look
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::view::tests::kind;

    fn screen() -> Screen {
        Screen::new(By::Name, SortBy::Bytes, String::new(), Duration::from_secs(1))
    }

    fn press(screen: &mut Screen, code: KeyCode) -> Effect {
        screen.key(KeyEvent::new(code, KeyModifiers::NONE), 10)
    }

    fn press_all(screen: &mut Screen, letters: &str) {
        letters.chars().for_each(|letter| _ = press(screen, KeyCode::Char(letter)));
    }

    #[test]
    fn letters_are_keys_or_text_but_not_both() {
        let mut screen = screen();
        press_all(&mut screen, "/qlp");
        assert_eq!((&*screen.wanted.find, screen.wanted.sort, screen.paused), ("qlp", SortBy::Bytes, false));
        press(&mut screen, KeyCode::Backspace);
        press(&mut screen, KeyCode::Enter);
        assert_eq!(press(&mut screen, KeyCode::Char('p')), Effect::Pause);
        assert_eq!((&*screen.wanted.find, screen.paused), ("ql", true));
        press_all(&mut screen, "l");
        assert_eq!(screen.wanted.sort, SortBy::Latency);
        press(&mut screen, KeyCode::Esc);
        assert_eq!(screen.wanted.find, "");
        assert_eq!(press(&mut screen, KeyCode::Char('q')), Effect::End);
    }

    #[test]
    fn ctrl_c_ends_whatever_is_shown() {
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        for before in ["", "/", "?"] {
            let mut screen = screen();
            press_all(&mut screen, before);
            assert_eq!(screen.key(ctrl_c, 10), Effect::End, "after {before:?}");
        }
    }

    #[test]
    fn every_grain_is_reached_both_ways() {
        let mut screen = screen();
        let mut seen = Vec::new();
        for _ in 0..GRAINS.len() {
            assert_eq!(press(&mut screen, KeyCode::Char('g')), Effect::Look);
            seen.push(screen.wanted.by);
        }
        assert_eq!(seen, [By::Statement, By::Connection, By::Client, By::Server, By::Name]);
        press(&mut screen, KeyCode::Char('G'));
        assert_eq!(screen.wanted.by, By::Server);
    }

    #[test]
    fn the_last_interval_stays_when_nothing_comes_any_more() {
        let mut screen = screen();
        let look = |seconds, count, is_over| Look {
            at: Duration::from_secs(seconds),
            kinds: vec![kind("GET", &vec![100; count], [1, 1])],
            is_over,
            ..Look::default()
        };
        let operations = |screen: &Screen| screen.view().map(|view| view.operations);
        assert_eq!(operations(&screen), None);
        screen.take(look(1, 5, false));
        screen.take(look(2, 7, true));
        assert_eq!(operations(&screen), Some(2));
        screen.take(look(2, 7, true));
        assert_eq!(operations(&screen), Some(2));
        press_all(&mut screen, "t");
        assert_eq!(operations(&screen), Some(7));
    }
}
