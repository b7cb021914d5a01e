//! Templates rendered over the records of a study.

use crate::drawing::{self, DrawnFigure, Files};
use crate::records::Study;
use crate::{number, query};
use anyhow::{Result, ensure};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{Environment, Error, UndefinedBehavior, context};
use overhead_model::Run;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Words of a page at most, with all that stands in it.
const WORDS: usize = 1_500;

/// The page that holds what is looked up and not read, and may be as long as that takes.
pub(crate) const TABLES: &str = "tables.md";

/// Output of a study's templates.
#[derive(Debug)]
pub(crate) struct Pages {
    /// Names of files, and Markdown.
    pub texts: Vec<(String, String)>,
    /// Names within `figures/`, and contents.
    pub figures: Files,
}

/// Returns the pages of these templates, each a name of a file and its text.
///
/// # Errors
///
/// If the records lack a value that a template uses, or a page has more than [`WORDS`] words outside [`TABLES`].
pub(crate) fn render(templates: &[(String, String)], study: Study) -> Result<Pages> {
    let files: Arc<Mutex<Files>> = Arc::default();
    let cells = Value::from(Serde(cells(&study)));
    let conditions = Value::from(Serde(&study.conditions));
    let runs: Arc<Vec<Run>> = Arc::new(study.cells.into_iter().map(|cell| cell.run).collect());
    let mut environment = environment()?;
    add_queries(&mut environment, &cells);
    add_figures(&mut environment, &runs, &files);
    let mut texts = Vec::new();
    for (name, template) in templates {
        let text = environment.render_named_str(
            name,
            template,
            context! { cells => cells.clone(), conditions => conditions.clone() },
        )?;
        let text = text.trim().to_owned() + "\n";
        let words = text.split_whitespace().count();
        ensure!(name == TABLES || words <= WORDS, "{name} has {words} words, and may have {WORDS}");
        texts.push((name.clone(), text));
    }
    let figures = std::mem::take(&mut *files.lock().unwrap_or_else(PoisonError::into_inner));
    let names: BTreeSet<&String> = figures.iter().map(|(name, _)| name).collect();
    ensure!(names.len() == figures.len(), "two figures have one name");
    Ok(Pages { texts, figures })
}

/// The cells as templates see them; `index` tells which of the runs is theirs.
fn cells(study: &Study) -> Vec<serde_json::Value> {
    let numbered = |(index, mut cell): (usize, serde_json::Value)| {
        if let Some(members) = cell.as_object_mut() {
            members.insert("index".to_owned(), json!(index));
        }
        cell
    };
    study.cells.iter().map(crate::cell::Cell::value).enumerate().map(numbered).collect()
}

fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    for (name, print) in number::FILTERS {
        environment.add_filter(name, move |value: Value| number::from_number(&value).map(print));
    }
    environment
        .add_filter("spread", |values: Value| number::from_value(&values).map(|spread| Value::from(Serde(spread))));
    environment.add_function("apart", |one: Value, other: Value| number::apart(&one, &other));
    environment.add_filter("within", |entries: Value, bound: f64| number::within(&entries, bound));
    environment.add_filter("percentile", |entries: Value, percent: f64| number::percentile(&entries, percent));
    Ok(environment)
}

/// `only(…)` is the one with these labels, `cells_with(…)` are all such cells; `has(…)` is whether there is any.
fn add_queries(environment: &mut Environment<'static>, cells: &Value) {
    let all = cells.clone();
    environment.add_function("only", move |labels: Kwargs| query::only(&all, &labels));
    let all = cells.clone();
    environment.add_function("cells_with", move |labels: Kwargs| query::matching(&all, &labels));
    let all = cells.clone();
    environment
        .add_function("has", move |labels: Kwargs| query::matching(&all, &labels).map(|found| !found.is_empty()));
}

/// `stacks(…)` and `lines(…)` draw, and stand for the chart in the page.
fn add_figures(environment: &mut Environment<'static>, runs: &Arc<Vec<Run>>, files: &Arc<Mutex<Files>>) {
    let (runs, kept) = (Arc::clone(runs), Arc::clone(files));
    environment.add_function("stacks", move |options: Kwargs| keep(&kept, drawing::stacks(&runs, &options)));
    let kept = Arc::clone(files);
    environment.add_function("lines", move |options: Kwargs| keep(&kept, drawing::lines(&options)));
    let kept = Arc::clone(files);
    environment.add_function("ranges", move |options: Kwargs| keep(&kept, drawing::ranges(&options)));
}

fn keep(files: &Mutex<Files>, figure: Result<DrawnFigure, Error>) -> Result<String, Error> {
    let (markdown, new) = figure?;
    files.lock().unwrap_or_else(PoisonError::into_inner).extend(new);
    Ok(markdown)
}

#[cfg(test)]
mod tests;
