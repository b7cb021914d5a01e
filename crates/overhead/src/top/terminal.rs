//! The terminal: draws the screen, reads keys, and always restores the terminal in the end.

use super::Feed;
use super::draw::{lines, page, plain, styled};
use super::screen::{Effect, Screen};
use crate::print;
use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};
use overhead_options::no_color;
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

/// Longest delay between a signal and the end of the screen.
const PATIENCE: Duration = Duration::from_millis(100);

/// Set by a signal to end.
struct EndFlag(Arc<AtomicBool>);

impl EndFlag {
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

/// The terminal that sends keys: standard input, or else the controlling terminal of this process.
enum Keyboard {
    Input(Stdin),
    Controlling(File),
}

impl Keyboard {
    fn open() -> io::Result<Self> {
        let input = io::stdin();
        if input.is_terminal() { Ok(Self::Input(input)) } else { File::open("/dev/tty").map(Self::Controlling) }
    }

    /// Waits for input and returns whether the terminal is gone, because its window was closed or its connection broke. The
    /// library that reads keys would never return in that case.
    fn is_gone(&self, wait: Duration) -> bool {
        let fd = match self {
            Self::Input(input) => input.as_fd(),
            Self::Controlling(file) => file.as_fd(),
        };
        let mut watched = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        // A signal interrupts the wait.
        let _ = poll(&mut watched, Timespec::try_from(wait).ok().as_ref());
        watched.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL))
    }
}

/// Restores the terminal on drop. A panic restores it first, so that its message is readable.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to restore and nobody to notify.
        let _ = ratatui::try_restore();
        let _ = execute!(io::stdout(), Show);
    }
}

/// Blocks the signal for a new terminal size in this thread and in threads started later. Each drawing asks for the size, and
/// there is one every tenth of a second.
///
/// crossterm 0.29 waits for key and signal events together (`EPOLLET`) and returns after the first. A key that arrives with the
/// signal would stay unread until the next key, and a loop that waits for keys would spin.
pub fn hold_resize_signal() -> Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGWINCH);
    signals.thread_block().context("a signal cannot be held back")
}

/// Shows the screen until the user ends it. Call [`hold_resize_signal`] before starting the first thread.
pub fn show(feed: &mut dyn Feed, screen: &mut Screen) -> Result<()> {
    let ends = EndFlag::new()?;
    let keyboard = Keyboard::open().context("no terminal to read keys from")?;
    // Never dropped: on a terminal that is gone, drop would print an error and panic.
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
        // Several keys may arrive before the next drawing.
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

/// Prints one screen: one interval of a live feed, or the whole of a capture.
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
    let width = crate::terminal::style(false).width.unwrap_or(usize::MAX);
    let text: String = lines(screen, width, None).iter().map(|line| plain(line) + "\n").collect();
    print::verbatim(&text)
}

fn look(feed: &mut dyn Feed, screen: &mut Screen) -> Result<()> {
    if let Some(look) = feed.look(screen.wanted.by)? {
        screen.take(look);
    }
    Ok(())
}

/// Draws the screen, and scrolls back if the first visible row no longer exists.
pub fn draw(frame: &mut Frame<'_>, screen: &mut Screen, has_colour: bool) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let rows = screen.view().map_or(0, |view| view.rows.len());
    screen.above = screen.above.min(rows.saturating_sub(page(height)));
    let shown = lines(screen, width, Some(height));
    let text: Vec<_> = shown.into_iter().take(height).map(|line| styled(line, has_colour)).collect();
    frame.render_widget(ratatui::widgets::Paragraph::new(text), area);
}
