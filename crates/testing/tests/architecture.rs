//! The drawing of the crates in `docs/architecture.md` is that of the manifests, and no arrow points up.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Crates by name, with the crates of this workspace that each is built from.
fn crates() -> BTreeMap<String, Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline", "--locked"])
        .current_dir(root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let short = |name: &Value| {
        let name = name.as_str().unwrap();
        name.strip_prefix("overhead-").unwrap_or(name).to_owned()
    };
    let packages = metadata["packages"].as_array().unwrap();
    let names: Vec<String> = packages.iter().map(|package| short(&package["name"])).collect();
    let built_from = |package: &Value| {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let mut crates: Vec<String> = dependencies
            .filter(|dependency| dependency["kind"].is_null() && dependency["path"].is_string())
            .map(|dependency| short(&dependency["name"]))
            .collect();
        crates.sort();
        crates.dedup();
        crates
    };
    names.into_iter().zip(packages.iter().map(built_from)).filter(|(name, _)| name != "benches").collect()
}

/// The lines `crate ──▶ crates` of the drawing, in its order.
fn drawing() -> Vec<(String, Vec<String>)> {
    let text = include_str!("../../../docs/architecture.md");
    let section = text.split("\n## Crates\n").nth(1).unwrap();
    let block = section.split("```").nth(1).unwrap();
    let lines = block.lines().skip(1).filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let (name, crates) = line.split_once("──▶").unwrap_or((line, ""));
            let mut crates: Vec<String> =
                crates.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
            crates.sort();
            (name.trim().to_owned(), crates)
        })
        .collect()
}

#[test]
fn the_drawing_shows_the_crates_and_what_they_are_built_from() {
    let drawn: BTreeMap<_, _> = drawing().into_iter().collect();
    let crates = crates();
    for (name, built_from) in &crates {
        let line = format!("{name} ──▶ {}", built_from.join(", "));
        assert_eq!(drawn.get(name), Some(built_from), "docs/architecture.md, Crates: draw `{line}`");
    }
    assert_eq!(drawn.len(), crates.len(), "docs/architecture.md, Crates: a crate is drawn that does not exist");
}

#[test]
fn no_arrow_points_up() {
    let drawing = drawing();
    for (at, (name, built_from)) in drawing.iter().enumerate() {
        for below in built_from {
            let place = drawing.iter().position(|(other, _)| other == below);
            assert!(place.is_some_and(|place| place > at), "{name} stands on {below}, so its line comes before");
        }
    }
}
