//! The terminal: what is drawn, which keys come, and that it is as before in the end, whatever happens.

use super::draw::{lines, page, plain, styled};
use super::feed::Feed;
use super::screen::{Effect, Screen};
use crate::cli::no_color;
use crate::print;
use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};
use ratatui::Frame;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::execute;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs::File;
use std::io::{self, IsTerminal, Stdin};
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a signal may wait for the screen to end.
const PATIENCE: Duration = Duration::from_millis(100);

/// Somebody wants the end.
struct EndFlag(Arc<AtomicBool>);

impl EndFlag {
    /// Listens from here on.
    fn new() -> Result<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&ends))?;
        }
        Ok(Self(ends))
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The terminal that keys come from: standard input, or, where that is something else, the one that this process belongs to.
enum Keyboard {
    Input(Stdin),
    Controlling(File),
}

impl Keyboard {
    fn open() -> io::Result<Self> {
        let input = io::stdin();
        if input.is_terminal() { Ok(Self::Input(input)) } else { File::open("/dev/tty").map(Self::Controlling) }
    }

    /// Waits until something comes from it, and returns whether it is gone: the window is closed, or the connection that it was at the
    /// end of has broken. The library that reads the keys does not come back from there.
    fn is_gone(&self, wait: Duration) -> bool {
        let fd = match self {
            Self::Input(input) => input.as_fd(),
            Self::Controlling(file) => file.as_fd(),
        };
        let mut watched = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        // A signal of somebody who wants the end ends the wait.
        let _ = poll(&mut watched, Timespec::try_from(wait).ok().as_ref());
        watched.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL))
    }
}

/// The terminal is as before when this goes away. A panic gives it back first, so that what it says can be read.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        // If the terminal has gone away there is nothing to restore, and nobody to be told.
        let _ = ratatui::try_restore();
        let _ = execute!(io::stdout(), Show);
    }
}

/// Holds the signal of a terminal with another size back, in this thread and those that it begins from here on: each drawing asks for the
/// size, and there is one every tenth of a second.
///
/// crossterm 0.29 waits for changes (`EPOLLET`) of keys and of that signal together, and returns after the first: a key that came with
/// the signal would lie there until the next one, and a loop that waits for keys would turn without rest.
pub fn hold_resize_signal() -> Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGWINCH);
    signals.thread_block().context("a signal cannot be held back")
}

/// Shows the screen until somebody ends it. [`hold_resize_signal`] comes before the first thread.
pub fn show(feed: &mut dyn Feed, screen: &mut Screen) -> Result<()> {
    let ends = EndFlag::new()?;
    let keyboard = Keyboard::open().context("there is no terminal that keys could come from")?;
    // Not dropped: it would print an error to a terminal that has gone away, and panic for that.
    let mut terminal = ManuallyDrop::new(ratatui::try_init().context("the terminal cannot be used")?);
    let _restored = Restored;
    let has_colour = !no_color();
    screen.title = feed.title();
    let mut due = Instant::now();
    while !ends.is_set() {
        if Instant::now() >= due {
            due = Instant::now() + screen.interval;
            if !screen.paused {
                look(feed, screen)?;
            }
        }
        let drawn = terminal.draw(|frame| draw(frame, screen, has_colour)).map(|drawn| drawn.area.height);
        let rows = match drawn {
            Err(_) if keyboard.is_gone(Duration::ZERO) => return Ok(()),
            height => page(usize::from(height?)),
        };
        // Several keys may come before there is anything to draw.
        let mut wait = due.saturating_duration_since(Instant::now()).min(PATIENCE);
        loop {
            if keyboard.is_gone(wait) {
                return Ok(());
            }
            if !event::poll(Duration::ZERO)? {
                break;
            }
            wait = Duration::ZERO;
            let Event::Key(key) = event::read()? else { continue };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            match screen.key(key, rows) {
                Effect::Draw => {}
                Effect::Look => look(feed, screen)?,
                Effect::Pause => feed.pause(screen.paused),
                Effect::End => return Ok(()),
            }
        }
    }
    Ok(())
}

/// Prints one screen: of an interval, or of all where nobody waits for the time of it.
pub fn once(feed: &mut dyn Feed, screen: &mut Screen) -> Result<()> {
    screen.title = feed.title();
    if feed.takes_time() {
        let ends = EndFlag::new()?;
        let due = Instant::now() + screen.interval;
        while !ends.is_set() && Instant::now() < due {
            std::thread::sleep(PATIENCE.min(due.saturating_duration_since(Instant::now())));
        }
    }
    look(feed, screen)?;
    let width = print::style(false).width.unwrap_or(usize::MAX);
    let text: String = lines(screen, width, None).iter().map(|line| plain(line) + "\n").collect();
    print::verbatim(&text)
}

fn look(feed: &mut dyn Feed, screen: &mut Screen) -> Result<()> {
    if let Some(look) = feed.look(screen.wanted.by)? {
        screen.take(look);
    }
    Ok(())
}

/// Draws the screen; the row that is shown first is one that there is, from then on.
pub fn draw(frame: &mut Frame<'_>, screen: &mut Screen, has_colour: bool) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let rows = screen.view().map_or(0, |view| view.rows.len());
    screen.above = screen.above.min(rows.saturating_sub(page(height)));
    let shown = lines(screen, width, Some(height));
    let text: Vec<_> = shown.into_iter().take(height).map(|line| styled(line, has_colour)).collect();
    frame.render_widget(ratatui::widgets::Paragraph::new(text), area);
}
