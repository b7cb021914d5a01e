//! `seeds FIXTURES CORPUS`: writes the seeds of every fuzz target into a folder of its own, and prints the targets' names.

use overhead_testing::hostile::{Target, seeds};
use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let (Some(fixtures), Some(corpus)) = (arguments.next(), arguments.next()) else {
        return Err("usage: seeds FIXTURES CORPUS".into());
    };
    for target in Target::ALL {
        let folder = corpus.join(target.name());
        fs::create_dir_all(&folder)?;
        for (index, seed) in seeds(target, &fixtures)?.iter().enumerate() {
            fs::write(folder.join(format!("seed-{index:04}")), seed)?;
        }
        println!("{}", target.name());
    }
    Ok(())
}
