//! The page, the tables and the charts of a sweep.

use super::figures::figures;
use super::render::{document, remarks};
use super::sections::{CELLS, sections};
use super::sentences::{method, sentences};
use super::summary::Sweep;
use crate::document::{Document, Section};
use crate::error::ReportError;
use crate::figure::{Plot, ReportOptions};
use crate::page::{PAGE_FILE, PageTable, PageWarning, WebPage, conditions, embedded_runs, made_by};
use crate::report_folder::{self, ReportFile, TABLES_FILE};
use crate::run::RunGroup;
use crate::summary::{listed, systems};

/// First words of the tables of every sweep.
pub(crate) const HEADING: &str = "# Sweep: ";

/// Returns the files of a sweep: tables, page and charts.
pub(crate) fn contents(groups: &[RunGroup], options: &ReportOptions) -> Result<Vec<ReportFile>, ReportError> {
    let sweep = Sweep::new(groups, &options.axes).map_err(ReportError::Axes)?;
    let runs = || groups.iter().flat_map(|group| &group.runs);
    let system = listed(&systems(runs().map(|named| &named.run)));
    let heading = options.title.clone().unwrap_or_else(|| title(&sweep, &system));
    let figures = figures(&sweep);
    let mut tables = Document::default();
    for sentence in sentences(&sweep) {
        tables.prose(sentence);
    }
    for (name, figure) in &figures {
        tables.figure(name, &figure.y_title);
    }
    tables.append(document(&sweep));
    tables.prose(method(&sweep, groups));
    let lead = options.title.clone().unwrap_or(system);
    let plots = figures.into_iter().map(|(name, figure)| (name, Plot::Panels(figure)));
    let (charts, images) = report_folder::drawn(&lead, plots, options.style())?;
    let table = |(at, section): (usize, Section)| {
        let mut table = PageTable::from_section(&format!("table-{at}"), section);
        table.notes.push(CELLS.to_owned());
        table
    };
    let of_group = |group: &RunGroup| {
        let mut facts = conditions(group.runs.first()?);
        facts.name.clone_from(&group.name);
        Some(facts)
    };
    let page = WebPage {
        title: heading.clone(),
        sentences: sentences(&sweep),
        warnings: remarks(&sweep).into_iter().map(|text| PageWarning { of: String::new(), text }).collect(),
        charts,
        tables: sections(&sweep).into_iter().enumerate().map(table).collect(),
        method: method(&sweep, groups),
        conditions: groups.iter().filter_map(of_group).collect(),
        records: embedded_runs(runs())?,
        tool: runs().next().map_or_else(String::new, |named| made_by(&named.run)),
        theme: options.page_theme(),
        ..WebPage::default()
    };
    let tables = format!("{HEADING}{heading}\n\n{}", tables.markdown());
    let files = [(TABLES_FILE, tables.into_bytes()), (PAGE_FILE, page.render()?.into_bytes())];
    Ok(files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).chain(images).collect())
}

/// Returns a title such as `Redis 7.0.15 and PostgreSQL 15: by depth and size`.
fn title(sweep: &Sweep, system: &str) -> String {
    let parameters = sweep.keys.x.iter().chain(&sweep.keys.facet).map(|key| key.name.clone());
    let parameters = listed(&parameters.collect::<Vec<_>>());
    match (system, &*parameters) {
        (system, "") => system.to_owned(),
        ("", parameters) => format!("By {parameters}"),
        (system, parameters) => format!("{system}: by {parameters}"),
    }
}
