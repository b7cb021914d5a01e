//! Passes the versions of the drivers from the lock file to the code: drivers do not expose them.

use std::path::Path;
use std::{env, fs};

const DRIVERS: [&str; 7] =
    ["redis", "tokio-postgres", "scylla", "mongodb", "reqwest", "async-memcached", "mysql_async"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lock = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    let lock = fs::read_to_string(lock)?;
    for driver in DRIVERS {
        let version = version_of(&lock, driver).ok_or_else(|| format!("Cargo.lock has no package {driver}"))?;
        println!("cargo::rustc-env=DRIVER_{}={version}", driver.replace('-', "_").to_uppercase());
    }
    Ok(())
}

fn version_of<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}
