//! Tests with the committed record of a real load.

use super::*;
use crate::figure::ReportOptions;
use crate::number::grouped;
use overhead_files::OutputFolder;
use std::fs;
use std::path::PathBuf;

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/records/redis-resp-read-1-load/bench.json")
}

#[test]
fn a_load_is_told_from_other_records() {
    assert!(read_load(&committed()).unwrap().is_some());
    let run = committed().parent().unwrap().join("../redis-resp-read-1/run.json");
    assert!(run.is_file() && read_load(&run).unwrap().is_none());
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    assert!(read_load(&schema).unwrap().is_none());
}

#[test]
fn a_report_has_the_rates_of_the_record_and_replaces_an_earlier_one_alone() {
    let path = std::env::temp_dir().join(format!("overhead-load-{}", std::process::id()));
    let folder = OutputFolder::open_or_make(&path, 0o777, None).unwrap();
    let load = read_load(&committed()).unwrap().unwrap();
    let files = write_load(&load, &folder, &ReportOptions::default()).unwrap();
    let names: Vec<&str> = files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
    assert_eq!(names, LOAD_FILES);
    assert_eq!(replaced_by_load(&folder), None);
    let page = fs::read_to_string(path.join("index.html")).unwrap();
    let tables = fs::read_to_string(path.join("report.md")).unwrap();
    for result in &load.results {
        let rate = grouped(result.summary.unwrap().per_second.round() as u64);
        assert!(page.contains(&format!("<td>{rate}</td>")) && tables.contains(&rate), "{rate}");
    }
    let (_, json) = page.split_once("data-kind=\"bench\"").unwrap();
    let json = json.split_once('>').unwrap().1.split_once("</script>").unwrap().0;
    assert_eq!(serde_json::from_str::<Load>(json).unwrap(), load);
    fs::write(path.join("index.html"), "mine").unwrap();
    assert_eq!(replaced_by_load(&folder), Some("index.html"));
    fs::remove_dir_all(path).unwrap();
}
