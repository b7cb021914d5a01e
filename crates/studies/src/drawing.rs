//! Figures, drawn at the place a template asks for them.

use crate::query::error;
use crate::spread;
use minijinja::Error;
use minijinja::value::{Kwargs, Value, ValueKind};
use overhead_model::record::{OperationRow, SideRow};
use overhead_model::{Run, Spread};
use overhead_report::{LineFigure, Plot, StackFigure, StackRow};

/// File names and their contents.
pub(crate) type Files = Vec<(String, Vec<u8>)>;

/// A figure: the Markdown that shows it, and its files.
pub(crate) type Figure = (String, Files);

/// Stacks: bytes by account of the largest workload row of several cells, asked and answered. `name`, `title`, `shows`, `note`,
/// `cells` and `labels`, one for each cell, say what is drawn.
///
/// # Errors
///
/// If one of these is missing, a cell has no packets, or drawing fails.
pub(crate) fn stacks(runs: &[Run], options: &Kwargs) -> Result<Figure, Error> {
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
    let figure =
        StackFigure { title, description: shows.clone(), unit: "B on the wire, by account".to_owned(), rows, note };
    drawn(&Plot::Stacks(figure), &name, &shows)
}

fn stack_row(row: &OperationRow, name: String) -> StackRow {
    let of = |side: &SideRow| {
        side.accounts.iter().map(|(account, bytes)| (account, bytes as f64 / row.samples().max(1) as f64)).collect()
    };
    StackRow { name, request: of(&row.request), response: of(&row.response) }
}

/// Lines: `name`, `title`, `shows`, `x`, `y`, `places` (their names), `lines` (pairs of a name and a list of values or of spreads,
/// one for each place), `note`, `logarithmic`, and `unordered` if places are not joined.
///
/// # Errors
///
/// If one of these is missing, a line has too few values, or drawing fails.
pub(crate) fn lines(options: &Kwargs) -> Result<Figure, Error> {
    let (name, shows) = (text(options, "name")?, text(options, "shows")?);
    let places: Vec<Value> = options.get("places")?;
    let series: Vec<(String, Vec<Option<Point>>)> =
        options.get::<Vec<Value>>("lines")?.iter().map(line).collect::<Result<_, _>>()?;
    let values = |points: &[Option<Point>]| points.iter().map(|point| point.map(Point::value)).collect();
    let spreads = |points: &[Option<Point>]| points.iter().map(|point| point.and_then(Point::spread)).collect();
    let has_spreads = series.iter().flat_map(|(_, points)| points).flatten().any(|point| point.spread().is_some());
    let figure = LineFigure {
        title: text(options, "title")?,
        description: shows.clone(),
        x_title: text(options, "x")?,
        y_title: text(options, "y")?,
        logarithmic: options.get::<Option<bool>>("logarithmic")?.unwrap_or_default(),
        places: places.iter().map(ToString::to_string).collect(),
        is_unordered: options.get::<Option<bool>>("unordered")?.unwrap_or_default(),
        lines: series.iter().map(|(name, points)| (name.clone(), values(points))).collect(),
        spreads: if has_spreads { series.iter().map(|(_, points)| spreads(points)).collect() } else { Vec::new() },
        note: text(options, "note")?,
        ..LineFigure::default()
    };
    options.assert_all_used()?;
    if let Some((line, _)) = figure.lines.iter().find(|(_, values)| values.len() != figure.places.len()) {
        return Err(error(format!("figure {name}: the line {line} has not a value for each place")));
    }
    drawn(&Plot::Lines(figure), &name, &shows)
}

fn drawn(plot: &Plot, name: &str, shows: &str) -> Result<Figure, Error> {
    let files = plot.files(name).map_err(|cause| error(format!("figure {name}: {cause}")))?;
    Ok((format!("![{shows}](figures/{name}.svg)"), files.into()))
}

/// Value at one place of a line.
#[derive(Clone, Copy)]
enum Point {
    Value(f64),
    /// Drawn at its median.
    Spread(Spread),
}

impl Point {
    fn value(self) -> f64 {
        match self {
            Self::Value(value) => value,
            Self::Spread(spread) => spread.median,
        }
    }

    fn spread(self) -> Option<Spread> {
        match self {
            Self::Value(_) => None,
            Self::Spread(spread) => Some(spread),
        }
    }
}

/// A pair of a name and values; a value that is `none` is not drawn.
fn line(pair: &Value) -> Result<(String, Vec<Option<Point>>), Error> {
    let parts: Vec<Value> = pair.try_iter()?.collect();
    let [name, values] = parts.as_slice() else { return Err(error("a line is a name and its values".to_owned())) };
    let point = |value: Value| -> Result<Option<Point>, Error> {
        if value.is_none() {
            return Ok(None);
        }
        if value.kind() == ValueKind::Number {
            return Ok(Some(Point::Value(f64::try_from(value)?)));
        }
        let spread = spread::of(&value).map_err(|_| error(format!("{name}: {value:?} is not a number")))?;
        Ok(Some(Point::Spread(spread)))
    };
    Ok((name.to_string(), values.try_iter()?.map(point).collect::<Result<_, _>>()?))
}

fn text(options: &Kwargs, name: &str) -> Result<String, Error> {
    options.get(name)
}
