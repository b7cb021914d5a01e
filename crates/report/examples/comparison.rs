//! Writes the comparison of several databases from the records in a folder: `comparison docs/comparison`.

#![expect(clippy::print_stdout, reason = "it says what it wrote")]

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("usage: comparison FOLDER")?;
    for path in overhead_report::comparison::write_comparison(folder)? {
        println!("{}", path.display());
    }
    Ok(())
}
