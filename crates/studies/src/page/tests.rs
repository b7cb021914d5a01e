use super::*;
use crate::cell::Cell;
use serde_json::json;

/// A study of the committed records of two pipelines of Redis.
fn study() -> Study {
    let cells = [(1, "redis-resp-read-1"), (10, "redis-resp-read-10")].map(|(pipeline, name)| {
        let folder = format!("{}/../../docs/comparison/caches/runs/{name}", env!("CARGO_MANIFEST_DIR"));
        let read = |file: &str| std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
        let labels = json!({"server": "redis", "pipeline": pipeline});
        Cell {
            labels: labels.as_object().unwrap().clone(),
            run: overhead_report::load_run(&folder).unwrap(),
            bench: Some(serde_json::from_str(&read("bench.json")).unwrap()),
            tool: None,
        }
    });
    Study { cells: cells.into(), conditions: json!({"cpus_in_use": 0.1}) }
}

fn text(template: &str) -> String {
    render(template, study()).unwrap().text
}

#[test]
fn a_figure_in_a_sentence_is_the_records() {
    let row = &study().cells[0].run.operations.iter().find(|row| row.name == "GET").unwrap().clone();
    let wire = (row.request.accounts.total() + row.response.accounts.total()) as f64 / row.samples() as f64;
    let wanted = format!("**{}** in {}\n", number::bytes(&wire.into()).unwrap(), row.name);
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
        assert!(render(template, study()).is_err(), "{template}");
    }
}

#[test]
fn figures_lie_beside_the_page_that_shows_them() {
    let lines = "{{ lines(name='wire', title='Bytes', shows='Bytes', x='pipeline', y='B', places=[1, 10], note='n.', \
                 lines=[['Redis', [only(pipeline=1).row.wire, none]], ['several', [only(pipeline=1).load.rates, [1, 2, 3] | spread]]]) }}\n\
                 {{ bars(name='cost', title='Cost', shows='Costs', cells=cells_with(server='redis'), labels=['1', '10']) }}";
    let page = render(lines, study()).unwrap();
    assert_eq!(page.text, "![Bytes](figures/wire.svg)\n![Costs](figures/cost.svg)\n");
    let names: Vec<&str> = page.figures.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["wire.svg", "wire.png", "cost.svg", "cost.png"]);
    assert!(render(&format!("{lines}{lines}"), study()).is_err(), "a name twice");
}

#[test]
fn a_page_has_an_end() {
    assert!(render(&"word ".repeat(WORDS + 1), study()).is_err());
    assert_eq!(words("one two\n| in | a | table |\n```\nin code\n```\n![not this](x)\nthree\n"), 3);
}
