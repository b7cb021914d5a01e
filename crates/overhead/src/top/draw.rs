//! Renders a screen as lines of text, for the terminal and for `--once`.

use super::screen::{HELP, Screen};
use super::view::{SortBy, TopRow, View, grain};
use overhead_report::text::number::{duration, significant, with_digits};
use overhead_report::text::{clean, counted, middle_cut};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use std::fmt::Write as _;
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

/// Role of a piece of a line, which decides its style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Plain,
    Title,
    Heading,
    /// Heading of the column that orders the rows.
    Chosen,
    Alarm,
    Quiet,
}

pub type TextLine = Vec<(Look, String)>;

/// Columns of figures: heading, width with its leading space, and the sort order that highlights it.
const COLUMNS: [(&str, usize, Option<SortBy>); 6] = [
    ("calls", 7, Some(SortBy::Calls)),
    ("calls/s", 8, Some(SortBy::Rate)),
    ("bytes/s", 8, Some(SortBy::Bytes)),
    ("B/op", 7, None),
    ("p50", 8, None),
    ("p99", 8, Some(SortBy::Latency)),
];
/// The column in the place of the latencies, if rows have costs.
const COST: (&str, usize, Option<SortBy>) = ("cost/30 days", 16, None);
/// The column of failures, shown only if there are any.
const ERRORS: (&str, usize) = ("errors", 7);
/// Minimum width of names.
const NARROWEST: usize = 12;
/// Lines around the rows: title, figures, a blank line and headings above; a blank line and the keys below.
const AROUND: usize = 6;

/// Returns the number of rows that fit.
pub fn page(height: usize) -> usize {
    height.saturating_sub(AROUND).max(1)
}

/// Returns the screen as lines of at most `width` columns, with all rows if there is no height.
pub fn lines(screen: &Screen, width: usize, height: Option<usize>) -> Vec<TextLine> {
    let view = screen.view();
    let mut lines = vec![title(screen, view.as_ref(), width)];
    if screen.helps && height.is_some() {
        lines.push(Vec::new());
        lines.extend(HELP.iter().map(|(keys, what)| {
            vec![(Look::Heading, format!(" {keys:<11}")), (Look::Plain, cut(what, width.saturating_sub(12)))]
        }));
        return lines;
    }
    let Some(view) = view else {
        lines.push(vec![(Look::Quiet, " waiting for the first figures".to_owned())]);
        return lines;
    };
    lines.push(figures(&view, width));
    lines.push(Vec::new());
    let has_errors = view.errors > 0;
    lines.push(headings(screen, &view, width));
    let page = height.map_or(view.rows.len(), page);
    let above = screen.above.min(view.rows.len().saturating_sub(page));
    lines.extend(view.rows.iter().skip(above).take(page).map(|row| row_line(row, &view, width, has_errors)));
    let below = view.rows.len().saturating_sub(above + page);
    lines.resize(height.map_or(lines.len() + 1, |height| lines.len().max(height.saturating_sub(2))), Vec::new());
    lines.push(vec![(Look::Quiet, cut(&note(screen, &view, above, below), width))]);
    lines.extend(height.map(|_| keys(screen, width)));
    lines
}

fn title(screen: &Screen, view: Option<&View>, width: usize) -> TextLine {
    let state = match (view, screen.paused) {
        (Some(view), _) if view.is_over => "ended",
        (_, true) => "held",
        _ => "",
    };
    let at = view.map(|view| clock(view.at)).unwrap_or_default();
    let right = [state, &at].iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("  ");
    let room = width.saturating_sub(right.width() + 2);
    let left = cut(&format!(" overhead top  {}", clean(&screen.title)), room);
    vec![(Look::Title, format!("{}{right} ", padded(&left, width.saturating_sub(right.width() + 1))))]
}

fn figures(view: &View, width: usize) -> TextLine {
    let rate = |value: u64| view.per_second(value).map_or_else(|| "-".to_owned(), scaled);
    let figures = [
        format!(
            "{} ops/s",
            if view.operations == 0 && view.operation_bytes > 0 { "-".to_owned() } else { rate(view.operations) }
        ),
        format!("{} bytes/s in all, {} other", rate(view.wire_bytes), rate(view.bytes_beside())),
        format!("{} frames/s", rate(view.frames)),
    ];
    // Problems come first, so that a narrow screen drops the last figures instead.
    let dropped = (view.dropped > 0).then(|| format!("{} dropped", counted(view.dropped, "frame")));
    let errors = (view.errors > 0).then(|| counted(view.errors, "error"));
    let alarms = [dropped, errors].into_iter().flatten().map(|text| (Look::Alarm, text));
    let (mut line, mut room) = (Vec::new(), width);
    for (look, text) in alarms.chain(figures.into_iter().map(|text| (Look::Plain, text))) {
        let text = format!("{}{text}", if line.is_empty() { " " } else { "  " });
        if text.width() > room {
            break;
        }
        room -= text.width();
        line.push((look, text));
    }
    line
}

fn label_width(width: usize, has_errors: bool) -> usize {
    let figures = COLUMNS.iter().map(|(_, width, _)| width).sum::<usize>() + if has_errors { ERRORS.1 } else { 0 };
    width.saturating_sub(figures + 1).max(NARROWEST)
}

/// Returns the columns of a view. All views' columns are equally wide together.
fn columns(view: &View) -> Vec<(&'static str, usize, Option<SortBy>)> {
    let [figures @ .., _, _] = COLUMNS;
    if view.has_costs { figures.into_iter().chain([COST]).collect() } else { COLUMNS.to_vec() }
}

fn headings(screen: &Screen, view: &View, width: usize) -> TextLine {
    let has_errors = view.errors > 0;
    let label = label_width(width, has_errors);
    let mut line = vec![(Look::Heading, padded(&format!(" {}", grain(screen.wanted.by)), label + 1))];
    for (name, width, sort) in columns(view) {
        let look = if sort == Some(screen.wanted.sort) { Look::Chosen } else { Look::Heading };
        line.push((look, format!("{name:>width$}")));
    }
    if has_errors {
        line.push((Look::Heading, format!("{:>width$}", ERRORS.0, width = ERRORS.1)));
    }
    line
}

fn row_line(row: &TopRow, view: &View, width: usize, has_errors: bool) -> TextLine {
    let label = label_width(width, has_errors);
    let none = || "-".to_owned();
    let latency = |at: usize| row.latency_ns.map_or_else(none, |latencies| duration(latencies[at]));
    let bytes = |count: u64| if count == 0 { none() } else { mean(row.sums.bytes() as f64 / count as f64) };
    let mut cells = vec![
        if row.calls == 0 { none() } else { scaled(row.calls as f64) },
        view.per_second(row.sums.count).filter(|_| row.calls > 0).map_or_else(none, scaled),
        view.per_second(row.sums.bytes()).map_or_else(none, scaled),
        bytes(row.sums.count),
    ];
    if view.has_costs {
        cells.push(row.cost.map_or_else(none, significant));
    } else {
        cells.extend([latency(0), latency(1)]);
    }
    let mut text = padded(&format!(" {}", cut(&clean(&row.label), label)), label + 1);
    for (cell, (_, width, _)) in cells.iter().zip(columns(view)) {
        let _ = write!(text, "{cell:>width$}");
    }
    let mut line = vec![(Look::Plain, text)];
    if has_errors {
        let look = if row.sums.errors > 0 { Look::Alarm } else { Look::Plain };
        line.push((look, format!("{:>width$}", scaled(row.sums.errors as f64), width = ERRORS.1)));
    }
    line
}

/// Returns the note about hidden rows and the filter.
fn note(screen: &Screen, view: &View, above: usize, below: usize) -> String {
    let what = grain(screen.wanted.by);
    let mut parts = vec![if screen.is_whole || view.is_whole {
        format!("since the beginning, {}", clock(view.time))
    } else {
        format!("last {}", clock(view.time))
    }];
    if view.rows.is_empty() && view.left_out == 0 {
        parts.push(format!("no {what} yet"));
    }
    if above > 0 {
        parts.push(format!("{above} above"));
    }
    if below > 0 {
        parts.push(format!("{below} below"));
    }
    if !screen.wanted.find.is_empty() || screen.types {
        parts.push(format!("{} without '{}'", view.left_out, clean(&screen.wanted.find)));
    }
    format!(" {}", parts.join("; "))
}

fn keys(screen: &Screen, width: usize) -> TextLine {
    if screen.types {
        return vec![(Look::Chosen, cut(&format!(" find: {}_", clean(&screen.wanted.find)), width))];
    }
    let text = " b bytes r rate c calls l latency  g rows  / find  t total  p hold  ? help q end";
    vec![(Look::Quiet, text.chars().take(width).collect())]
}

/// Formats a time as `500 ms`, `12 s` or `1:02:03`.
fn clock(time: Duration) -> String {
    match time.as_secs() {
        0..10 => duration(time.as_nanos() as u64),
        whole @ 10..60 => format!("{whole} s"),
        whole @ 60..3600 => format!("{}:{:02}", whole / 60, whole % 60),
        whole => format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60),
    }
}

/// Formats a value with about three significant digits: `999`, `1.23k`, `12.3M`, `123G`.
fn scaled(value: f64) -> String {
    const UNITS: [&str; 5] = ["", "k", "M", "G", "T"];
    let (mut value, mut unit) = (value, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1e3;
        unit += 1;
    }
    if unit == 0 && value.fract() == 0.0 {
        return format!("{value}");
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{}{}", with_digits(value, digits), UNITS[unit])
}

/// Formats the bytes per operation, exactly if they are few.
fn mean(value: f64) -> String {
    match value {
        value if value >= 99_999.5 => scaled(value),
        value if value.fract() == 0.0 || value >= 999.95 => with_digits(value, 0),
        value => significant(value),
    }
}

/// Shortens a text to `columns` terminal columns with an ellipsis in the middle.
fn cut(text: &str, columns: usize) -> String {
    let mut chars = columns;
    loop {
        let text = middle_cut(text, chars);
        if text.width() <= columns || chars == 0 {
            return text;
        }
        // Some characters take two columns.
        chars -= 1;
    }
}

fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text.width())))
}

pub fn styled(line: TextLine, has_colour: bool) -> Line<'static> {
    line.into_iter().map(|(look, text)| Span::styled(text, style(look, has_colour))).collect()
}

fn style(look: Look, has_colour: bool) -> Style {
    let coloured = |style: Style, colour: Color| if has_colour { style.fg(colour) } else { style };
    match look {
        Look::Plain => Style::new(),
        Look::Title => Style::new().add_modifier(Modifier::REVERSED),
        Look::Heading => Style::new().add_modifier(Modifier::BOLD),
        Look::Chosen => coloured(Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED), Color::Cyan),
        Look::Alarm => coloured(Style::new().add_modifier(Modifier::BOLD), Color::Red),
        Look::Quiet => coloured(Style::new(), Color::DarkGray),
    }
}

pub fn plain(line: &TextLine) -> String {
    let text: String = line.iter().map(|(_, text)| text.as_str()).collect();
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top;
    use crate::top::terminal::draw;
    use crate::top::view::tests::kind;
    use overhead_model::record::By;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(kinds: Vec<overhead_report::OperationKind>) -> Screen {
        let mut screen = Screen::new(By::Name, SortBy::Bytes, String::new(), Duration::from_secs(1));
        screen.title = "lo, TCP port 6379".to_owned();
        let look = |seconds, kinds, frames, wire_bytes| top::Look {
            at: Duration::from_secs(seconds),
            frames,
            wire_bytes,
            kinds,
            ..top::Look::default()
        };
        screen.take(look(61, Vec::new(), 0, 0));
        screen.take(look(62, kinds, 12_345, 1_234_567));
        screen
    }

    fn kinds() -> Vec<overhead_report::OperationKind> {
        vec![
            kind("GET", &[12_345; 2_000], [36, 108]),
            kind("SET (array)", &[23_456_789, 1_000, 1_000], [1_000, 5]),
            kind("EVIL\x1b[2J\x07", &[999], [1, 1]),
            kind("a-command-of-a-module-with-a-rather-long-name.READ", &[5; 4], [10, 20]),
        ]
    }

    fn shown(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, screen, true)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    #[test]
    fn what_was_lost_is_not_cut() {
        let mut view = screen(kinds()).view().unwrap();
        (view.dropped, view.errors) = (1_234_567, 12_345);
        let line: String = figures(&view, 80).into_iter().map(|(_, part)| part).collect();
        assert_eq!(line, " 1,234,567 frames dropped  12,345 errors  2.01k ops/s");
    }

    #[test]
    fn a_screen_of_80_by_24() {
        let found = shown(&mut screen(kinds()), 80, 24);
        assert_eq!(
            found[..8],
            [
                " overhead top  lo, TCP port 6379                                           1:02",
                " 2.01k ops/s  1.23M bytes/s in all, 943k other  12.3k frames/s",
                "",
                " operations                         calls calls/s bytes/s   B/op     p50     p99",
                " GET                                2.00k   2.00k    288k    144 12.3 µs 12.3 µs",
                " SET (array)                            3       3   3.02k  1,005 1.00 µs 23.5 ms",
                " a-command-of-a-m…r-long-name.READ      4       4     120     30    5 ns    5 ns",
                " EVIL\\u{1b}[2J\\u{7}                     1       1       2      2  999 ns  999 ns",
            ]
        );
        assert!(found.iter().all(|line| line.width() <= 80), "{found:#?}");
        assert_eq!(found[22], " last 1.00 s");
        assert_eq!(found[23], " b bytes r rate c calls l latency  g rows  / find  t total  p hold  ? help q end");
    }

    #[test]
    fn costs_take_the_place_of_latencies() {
        let mut screen = screen(kinds());
        let mut look = top::Look { at: Duration::from_secs(63), kinds: kinds(), ..top::Look::default() };
        look.costs.insert("GET".to_owned(), 12.345);
        screen.take(look);
        let found = shown(&mut screen, 80, 24);
        assert!(found[3].ends_with("   B/op    cost/30 days"), "{found:#?}");
        let get = found.iter().find(|line| line.starts_with(" GET")).unwrap();
        assert!(get.ends_with("            12.3") && found.iter().all(|line| line.width() <= 80), "{found:#?}");
    }

    #[test]
    fn help_fits_the_smallest_terminal_that_is_usual() {
        let mut screen = screen(kinds());
        screen.helps = true;
        let found = shown(&mut screen, 80, 24);
        assert!(found.iter().any(|line| line.ends_with("end")), "{found:#?}");
        assert!(found.iter().all(|line| !line.contains('…')), "{found:#?}");
        assert!(HELP.len() + 2 <= 24);
    }

    #[test]
    fn no_size_of_terminal_is_too_small() {
        for (width, height) in [(1, 1), (10, 3), (40, 8), (300, 100)] {
            shown(&mut screen(kinds()), width, height);
        }
    }

    #[test]
    fn the_last_rows_can_be_reached_and_no_further() {
        let many = (0..100).map(|number| kind(&format!("name-{number:02}"), &[5; 3], [100 - number, 1])).collect();
        let mut screen = screen(many);
        screen.above = usize::MAX;
        let found = shown(&mut screen, 80, 24);
        assert!(found[21].starts_with(" name-99"), "{found:#?}");
        assert!(found[22].ends_with("82 above"), "{}", found[22]);
        assert_eq!(screen.above, 82, "and up goes up from there");
    }

    #[test]
    fn without_colour_there_is_none() {
        let looks = [Look::Plain, Look::Title, Look::Heading, Look::Chosen, Look::Alarm, Look::Quiet];
        assert!(looks.iter().all(|look| style(*look, false).fg.is_none() && style(*look, false).bg.is_none()));
        assert!(looks.iter().any(|look| style(*look, true).fg.is_some()));
    }

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        let found = [0.0, 7.0, 0.5, 999.4, 999.6, 1_234.0, 12_345.0, 123_456.0, 99_960.0, 5e9, 7e15].map(scaled);
        assert_eq!(found, ["0", "7", "0.50", "999", "1.00k", "1.23k", "12.3k", "123k", "100k", "5.00G", "7,000T"]);
        assert_eq!([276.0, 0.25, 276.25, 12_345.6, 123_456.0].map(mean), ["276", "0.25", "276", "12,346", "123k"]);
        assert_eq!(
            [500, 12_300, 61_000, 3_723_000].map(|ms| clock(Duration::from_millis(ms))),
            ["500 ms", "12 s", "1:01", "1:02:03"]
        );
        assert_eq!(cut("名前名前名前", 7).width(), 7);
    }
}
