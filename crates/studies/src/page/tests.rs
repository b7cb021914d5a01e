use super::*;
use crate::cell::Cell;
use std::path::Path;

/// The records of this study, as they are committed.
fn committed(study: &str) -> String {
    crate::records::packed(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/comparison").join(study)).unwrap()
}

/// A study of the committed records of two pipelines of Redis.
fn study() -> Study {
    let is_wanted = |line: &&str| {
        ["conditions.json", "runs/redis-resp-read-1/", "runs/redis-resp-read-10/"]
            .iter()
            .any(|path| line.starts_with(&format!("{{\"path\":\"{path}")))
    };
    let lines: Vec<String> = committed("caches").lines().filter(is_wanted).map(str::to_owned).collect();
    crate::records::study(&lines.join("\n")).unwrap()
}

fn page(template: &str) -> Result<Pages> {
    render(&[("README.md".to_owned(), template.to_owned())], study())
}

fn text(template: &str) -> String {
    page(template).unwrap().texts.remove(0).1
}

#[test]
fn a_figure_in_a_sentence_is_the_records() {
    let row = &study().cells[0].run.operations.iter().find(|row| row.name == "GET").unwrap().clone();
    let wire = (row.request.accounts.total() + row.response.accounts.total()) as f64 / row.samples() as f64;
    let wanted = format!("**{}** in {}\n", overhead_report::text::number::bytes_label(wire), row.name);
    assert_eq!(text("**{{ only(pipeline=1).row.wire | bytes }}** in {{ only(pipeline=1).row.name }}"), wanted);
}

#[test]
fn accounts_headers_and_frames_add_up_to_the_wire() {
    for cell in study().cells.iter().map(Cell::value) {
        let row = &cell["row"];
        let sum = |row: &serde_json::Value| {
            row["accounts"].as_object().unwrap().values().map(|bytes| bytes.as_f64().unwrap()).sum::<f64>()
        };
        let number = |name: &str| row[name].as_f64().unwrap();
        assert!((sum(row) - number("payload")).abs() < 1e-6);
        assert!((number("payload") + number("headers") - number("wire")).abs() < 1e-6);
        let fields: f64 = ["request", "response"]
            .iter()
            .flat_map(|side| row[side]["fields"].as_array().unwrap())
            .map(|field| field["bytes"].as_f64().unwrap())
            .sum();
        assert!((fields - number("payload")).abs() < 1e-6, "{fields}");
    }
}

/// Two frames of 66 bytes of headers for each turn, whoever shares them.
#[test]
fn frames_are_divided_among_those_that_share_them() {
    for (cell, operations) in study().cells.iter().map(Cell::value).zip([1.0, 10.0]) {
        let frames = cell["row"]["frames"].as_f64().unwrap();
        assert!((frames * operations - 2.0).abs() < 0.01, "{frames}");
        assert!((cell["row"]["headers"].as_f64().unwrap() - 66.0 * frames).abs() < 0.7);
    }
}

#[test]
fn what_was_not_measured_is_an_error_and_not_an_empty_place() {
    for template in [
        "{{ only(pipeline=25).row.wire | bytes }}",
        "{{ only(server='redis').row.wire | bytes }}",
        "{{ only(pipeline=1).row.wires | bytes }}",
        "{{ only(pipeline=1).row.name | bytes }}",
        "{{ nothing }}",
    ] {
        assert!(page(template).is_err(), "{template}");
    }
}

#[test]
fn figures_lie_beside_the_page_that_shows_them() {
    let lines = "{{ lines(name='wire', title='Bytes', shows='Bytes', x='pipeline', y='B', places=[1, 10], note='n.', \
                 lines=[['Redis', [only(pipeline=1).row.wire, none]], ['several', [only(pipeline=1).load.rates, [1, 2, 3] | spread]]]) }}\n\
                 {{ stacks(name='cost', title='Cost', shows='Costs', note='n.', cells=cells_with(server='redis'), labels=['1', '10']) }}";
    let made = page(lines).unwrap();
    for shown in ["srcset=\"figures/wire-phone.svg\"", "![Costs](figures/cost.svg)</picture>"] {
        assert!(made.texts[0].1.contains(shown), "{}", made.texts[0].1);
    }
    let names: Vec<&str> = made.figures.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["wire.svg", "wire.png", "wire-phone.svg", "cost.svg", "cost.png", "cost-phone.svg"]);
    assert!(page(&format!("{lines}{lines}")).is_err(), "a name twice");
    let few = lines.replace("labels=['1', '10']", "labels=['1']");
    assert!(page(&few).is_err(), "a label for each cell");
}

#[test]
fn a_page_has_an_end_and_its_tables_have_none() {
    let long = "word | ".repeat(WORDS / 2) + "more";
    assert!(page(&long).is_err());
    assert!(render(&[(TABLES.to_owned(), long)], study()).is_ok());
}

/// Each committed page and drawing matches its template and records. After a change of either: `lab/comparison --render`.
#[test]
fn committed_pages_are_those_of_their_records() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;
    for entry in std::fs::read_dir(root.join("docs/comparison")).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.is_dir() {
            continue;
        }
        let name = folder.file_name().unwrap().to_str().unwrap();
        let templates = crate::templates(&root.join(format!("lab/studies/{name}.md.jinja"))).unwrap();
        let made = render(&templates, crate::records::study(&committed(name)).unwrap()).unwrap();
        for (page, text) in made.texts {
            let committed = std::fs::read_to_string(folder.join(&page)).unwrap();
            assert!(committed == text, "{name}/{page} is not what its template says: lab/comparison --render {name}");
            count += 1;
        }
        for (figure, drawn) in made.figures {
            let committed = std::fs::read(folder.join("figures").join(&figure)).unwrap();
            // Which library compresses the pixels depends on what else is built.
            let is_same = Path::new(&figure).extension().is_some_and(|end| end == "png") || committed == drawn;
            assert!(is_same, "{name}/{figure} is not what its records say: lab/comparison --render {name}");
        }
    }
    assert!(count > 5, "{count} pages");
}
