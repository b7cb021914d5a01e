//! Figures that a template asks for, where it wants them.

use crate::query::error;
use crate::spread;
use minijinja::Error;
use minijinja::value::{Kwargs, Value, ValueKind};
use overhead_model::{Run, Spread};
use overhead_report::{FigureOptions, ImageFormat, LineFigure, NamedRun, draw, draw_lines};

/// File names and their contents.
pub(crate) type Files = Vec<(String, Vec<u8>)>;

/// A figure: the Markdown that shows it, and its files.
pub(crate) type Figure = (String, Files);

/// Bars: bytes by account, system calls and CPU work per operation of several cells. `name`, `title`, `shows`, `cells` and
/// `labels`, one for each cell, say what is drawn; `most`, how many operations of each.
///
/// # Errors
///
/// What is missing among these, and those of drawing.
pub(crate) fn bars(runs: &[Run], options: &Kwargs) -> Result<Figure, Error> {
    let (name, title, shows) = (text(options, "name")?, text(options, "title")?, text(options, "shows")?);
    let cells: Vec<Value> = options.get("cells")?;
    let labels: Vec<String> = options.get("labels")?;
    let most: Option<usize> = options.get("most")?;
    options.assert_all_used()?;
    if cells.len() != labels.len() {
        return Err(error(format!("figure {name}: {} cells and {} labels", cells.len(), labels.len())));
    }
    let mut drawn = Vec::new();
    for (cell, label) in cells.iter().zip(labels) {
        let run = usize::try_from(cell.get_attr("index")?).ok().and_then(|index| runs.get(index));
        drawn.push(NamedRun::new(label, run.ok_or_else(|| error(format!("figure {name}: not a cell")))?.clone()));
    }
    let options = FigureOptions { title, operations_per_run: most };
    let mut files = Files::new();
    for (format, suffix) in [(ImageFormat::Svg, "svg"), (ImageFormat::Png, "png")] {
        files.push((
            format!("{name}.{suffix}"),
            draw(&drawn, format, &options).map_err(|cause| error(cause.to_string()))?,
        ));
    }
    Ok((markdown(&name, &shows), files))
}

/// Lines: `name`, `title`, `shows`, `x`, `y`, `places` (their names), `lines` (pairs of a name and a list of values or of spreads,
/// one for each place), `note`, `logarithmic`, and `unordered` where places are not joined.
///
/// # Errors
///
/// What is missing among these, a line with too few values, and those of drawing.
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
    };
    options.assert_all_used()?;
    if let Some((line, _)) = figure.lines.iter().find(|(_, values)| values.len() != figure.places.len()) {
        return Err(error(format!("figure {name}: the line {line} has not a value for each place")));
    }
    let drawn = draw_lines(&figure).map_err(|cause| error(format!("figure {name}: {cause}")))?;
    let suffix = |format| if format == ImageFormat::Svg { "svg" } else { "png" };
    let files = drawn.into_iter().map(|(format, bytes)| (format!("{name}.{}", suffix(format)), bytes)).collect();
    Ok((markdown(&name, &shows), files))
}

/// What stands at a place of a line.
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

fn markdown(name: &str, shows: &str) -> String {
    format!("![{shows}](figures/{name}.svg)")
}
