//! Charts, drawn at the place where a template calls for one.

use crate::number;
use crate::query::error;
use minijinja::Error;
use minijinja::value::{Kwargs, Value, ValueKind};
use overhead_model::record::{OperationRow, SideRow};
use overhead_model::{Run, Spread};
use overhead_report::text::number::significant;
use overhead_report::{DotFigure, DotRow, Line, LineFigure, Plot, StackFigure, StackRow};

/// File names and their contents.
pub(crate) type Files = Vec<(String, Vec<u8>)>;

/// A chart: the Markdown that shows it, and its files.
pub(crate) type DrawnFigure = (String, Files);

/// Stacks: bytes by account of the largest workload row of several cells, asked and answered. `name`, `title`, `shows`, `note`,
/// `cells` and `labels`, one for each cell, say what is drawn.
///
/// # Errors
///
/// If one of these is missing, a cell has no packets, or drawing fails.
pub(crate) fn stacks(runs: &[Run], options: &Kwargs) -> Result<DrawnFigure, Error> {
    let (name, shows) = (text(options, "name")?, text(options, "shows")?);
    let cells: Vec<Value> = options.get("cells")?;
    let labels: Vec<String> = options.get("labels")?;
    if cells.len() != labels.len() {
        return Err(error(format!("figure {name}: {} cells and {} labels", cells.len(), labels.len())));
    }
    let mut rows = Vec::new();
    for (cell, label) in cells.iter().zip(labels) {
        let run = usize::try_from(cell.get_attr("index")?).ok().and_then(|index| runs.get(index));
        let row = run.and_then(|run| crate::cell::workload(run).into_iter().next());
        rows.push(stack_row(row.ok_or_else(|| error(format!("figure {name}: {label} has no operation")))?, label));
    }
    let (title, note) = (text(options, "title")?, text(options, "note")?);
    options.assert_all_used()?;
    let figure = StackFigure {
        title,
        description: shows.clone(),
        unit: "B on the wire, by account".to_owned(),
        rows,
        note,
        ..StackFigure::default()
    };
    drawn(Plot::Stacks(figure), &name, &shows)
}

fn stack_row(row: &OperationRow, name: String) -> StackRow {
    let of = |side: &SideRow| {
        side.accounts.iter().map(|(account, bytes)| (account, bytes as f64 / row.samples().max(1) as f64)).collect()
    };
    StackRow { name, request: of(&row.request), response: of(&row.response) }
}

/// Lines: `name`, `title`, `shows`, `x`, `y`, `places` (their names), `lines` (pairs of a name and a list of values or of spreads,
/// one for each place), `note` and `logarithmic`.
///
/// # Errors
///
/// If one of these is missing, a line has too few values, or drawing fails.
pub(crate) fn lines(options: &Kwargs) -> Result<DrawnFigure, Error> {
    let (name, shows) = (text(options, "name")?, text(options, "shows")?);
    let places: Vec<Value> = options.get("places")?;
    let figure = LineFigure {
        title: text(options, "title")?,
        description: shows.clone(),
        x_title: text(options, "x")?,
        y_title: text(options, "y")?,
        logarithmic: options.get::<Option<bool>>("logarithmic")?.unwrap_or_default(),
        places: places.iter().map(ToString::to_string).collect(),
        lines: options.get::<Vec<Value>>("lines")?.iter().map(line).collect::<Result<_, _>>()?,
        note: text(options, "note")?,
        ..LineFigure::default()
    };
    options.assert_all_used()?;
    if let Some((line, _)) = figure.lines.iter().find(|(_, values)| values.len() != figure.places.len()) {
        return Err(error(format!("figure {name}: the line {line} has not a value for each place")));
    }
    drawn(Plot::Lines(figure), &name, &shows)
}

/// Ranges: `name`, `title`, `shows`, `x`, `groups` (pairs of a heading and rows, each a pair of a name and a value or spread), `mark`
/// (what a mark stands for), `note` and `logarithmic`.
///
/// # Errors
///
/// If one of these is missing, a row has no value, or drawing fails.
pub(crate) fn ranges(options: &Kwargs) -> Result<DrawnFigure, Error> {
    let (name, shows) = (text(options, "name")?, text(options, "shows")?);
    let mut rows = Vec::new();
    for group in options.get::<Vec<Value>>("groups")? {
        let (heading, of_group) = pair(&group)?;
        for row in of_group.try_iter()? {
            let (name, value) = pair(&row)?;
            let Spread { median, q1, q3, min, max, .. } = point(&name, &value)?;
            rows.push(DotRow {
                group: heading.to_string(),
                name: name.to_string(),
                figures: significant(median),
                mark: median,
                bar: (q1, q3),
                line: (min, max),
                points: Vec::new(),
            });
        }
    }
    let mark = text(options, "mark")?;
    let figure = DotFigure {
        title: text(options, "title")?,
        description: shows.clone(),
        x_title: text(options, "x")?,
        logarithmic: options.get::<Option<bool>>("logarithmic")?.unwrap_or_default(),
        legend: [mark, "the middle half".to_owned(), "smallest to largest".to_owned()],
        rows,
        note: text(options, "note")?,
        ..DotFigure::default()
    };
    options.assert_all_used()?;
    drawn(Plot::Dots(figure), &name, &shows)
}

fn drawn(plot: Plot, name: &str, shows: &str) -> Result<DrawnFigure, Error> {
    let failed = |cause| error(format!("figure {name}: {cause}"));
    let mut files = Vec::from(plot.files(name).map_err(failed)?);
    files.push((format!("{name}-phone.svg"), plot.phone_svg().map_err(failed)?));
    let phone = format!("<source media=\"(max-width: 600px)\" srcset=\"figures/{name}-phone.svg\">");
    Ok((format!("<picture>{phone}![{shows}](figures/{name}.svg)</picture>"), files))
}

/// A pair of a name and values; a value that is `none` is not drawn.
fn line(of: &Value) -> Result<Line, Error> {
    let (name, values) = pair(of)?;
    let point = |value: Value| if value.is_none() { Ok(None) } else { point(&name, &value).map(Some) };
    Ok((name.to_string(), values.try_iter()?.map(point).collect::<Result<_, _>>()?))
}

fn pair(of: &Value) -> Result<(Value, Value), Error> {
    let parts: Vec<Value> = of.try_iter()?.collect();
    let [name, values] = parts.as_slice() else { return Err(error(format!("{of} is not a name and its values"))) };
    Ok((name.clone(), values.clone()))
}

/// A number, or several as a spread.
fn point(name: &Value, value: &Value) -> Result<Spread, Error> {
    if value.kind() == ValueKind::Number {
        return Ok(f64::try_from(value.clone())?.into());
    }
    number::from_value(value).map_err(|_| error(format!("{name}: {value:?} is not a number")))
}

fn text(options: &Kwargs, name: &str) -> Result<String, Error> {
    options.get(name)
}
