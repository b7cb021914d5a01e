//! How a template finds cells: by their labels, and never by chance.

use minijinja::value::{Kwargs, Value};
use minijinja::{Error, ErrorKind};

/// Returns the cells that have all of these labels.
///
/// # Errors
///
/// [`ErrorKind::InvalidOperation`] if none has: a value that was not measured is a mistake in the template or a
/// study that did not run to its end.
pub(crate) fn matching(cells: &Value, labels: &Kwargs) -> Result<Vec<Value>, Error> {
    let mut wanted: Vec<(&str, Value)> = Vec::new();
    for name in labels.args() {
        wanted.push((name, labels.get(name)?));
    }
    let mut found = Vec::new();
    for cell in cells.try_iter()? {
        let mut is_wanted = true;
        for (name, value) in &wanted {
            is_wanted &= cell.get_attr(name)? == *value;
        }
        if is_wanted {
            found.push(cell);
        }
    }
    Ok(found)
}

/// Returns the one cell that has all of these labels.
///
/// # Errors
///
/// [`ErrorKind::InvalidOperation`] if none or several have them.
pub(crate) fn only(cells: &Value, labels: &Kwargs) -> Result<Value, Error> {
    let mut found = matching(cells, labels)?;
    match (found.pop(), found.len()) {
        (Some(cell), 0) => Ok(cell),
        (None, _) => Err(error(format!("no cell with {labels:?} was measured"))),
        (Some(_), more) => Err(error(format!("{} cells with {labels:?}: say which", more + 1))),
    }
}

/// An error with a message.
pub(crate) fn error(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}
