//! `docs/run.schema.json`, `docs/run.md` and the same documents of the load are made from the records' doc comments.
//! Every record of a run fits them, both the committed records and the records of all fixtures. With `OVERHEAD_BLESS=1` the documents are
//! written instead.

use serde_json::{Map, Value};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const BEGIN: &str = "<!-- generated from the types of the record: make bless -->\n";
const END: &str = "<!-- end of generated -->\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the records: the name of its documents, the name of its type, and its schema.
fn records() -> [(&'static str, &'static str, Value); 2] {
    let read = |mut schema: Value| {
        readable(&mut schema);
        schema
    };
    [
        ("run", "Run", read(overhead_model::record::schema().to_value())),
        ("bench", "Load", read(overhead_model::load::schema().to_value())),
    ]
}

/// Descriptions in one line, without the links of rustdoc.
fn readable(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(text)) = members.get_mut("description") {
                *text = plain(text);
            }
            members.values_mut().for_each(readable);
        }
        Value::Array(items) => items.iter_mut().for_each(readable),
        _ => {}
    }
}

/// ``[`Class`]`` and ``[`Run`](crate::Run)`` as `` `Class` `` and `` `Run` ``.
fn plain(text: &str) -> String {
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    while let Some(at) = text.find("`](") {
        let Some(end) = text[at..].find(')') else { break };
        text.replace_range(at + 1..=at + end, "");
    }
    text.replace("[`", "`").replace("`]", "`")
}

/// Compares a document with what it should be, or writes it.
fn check(path: &Path, wanted: &str) {
    if std::env::var_os("OVERHEAD_BLESS").is_some() {
        return fs::write(path, wanted).unwrap();
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    assert!(found == wanted, "{} is not what the types say: make bless, and read what it wrote", path.display());
}

#[test]
fn the_published_schema_is_that_of_the_types() {
    for (document, _, schema) in records() {
        let path = root().join(format!("docs/{document}.schema.json"));
        check(&path, &(serde_json::to_string_pretty(&schema).unwrap() + "\n"));
    }
}

/// Results of verbs that are no records: their documents are the schemas alone.
#[test]
fn the_published_schemas_of_results_are_those_of_the_types() {
    let schemas = [
        ("advise", schemars::schema_for!(overhead_advise::Advice)),
        ("compare", schemars::schema_for!(overhead_report::compare::Comparisons)),
        ("explain", overhead::explanation_schema()),
    ];
    for (verb, schema) in schemas {
        let mut schema = schema.to_value();
        readable(&mut schema);
        let path = root().join(format!("docs/{verb}.schema.json"));
        check(&path, &(serde_json::to_string_pretty(&schema).unwrap() + "\n"));
    }
}

/// What the verbs print fits them.
#[test]
fn results_fit_their_published_schemas() {
    let capture = |name: &str| root().join(format!("fixtures/{name}/capture.pcap")).display().to_string();
    let (rows, pipeline) = (capture("postgres-by-the-row"), capture("postgres-pipeline"));
    for (verb, files) in [("advise", vec![&rows]), ("compare", vec![&rows, &pipeline]), ("explain", vec![&rows])] {
        let overhead = env!("CARGO_BIN_EXE_overhead");
        let options = ["--db", "postgres", "--port", "7432", "--format", "json"];
        let printed = Command::new(overhead).arg(verb).args(files).args(options).output().unwrap();
        let result: Value = serde_json::from_slice(&printed.stdout).unwrap();
        let schema: Value =
            serde_json::from_slice(&fs::read(root().join(format!("docs/{verb}.schema.json"))).unwrap()).unwrap();
        let errors = unfit(&result, &schema);
        let shown: Vec<String> = errors.iter().map(|error| error.chars().rev().take(200).collect()).collect();
        assert!(errors.is_empty(), "{verb}, backwards: {shown:#?}");
    }
}

#[test]
fn each_field_of_the_record_is_documented() {
    for (document, name, schema) in records() {
        let path = root().join(format!("docs/{document}.md"));
        let page = fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(BEGIN).unwrap();
        let (_, after) = rest.split_once(END).unwrap();
        let mut fields = String::from("\n");
        section(&mut fields, name, &schema);
        let definitions = schema["$defs"].as_object().unwrap();
        for (name, definition) in definitions.iter().filter(|(name, _)| !name.starts_with("Measured")) {
            section(&mut fields, name, definition);
        }
        check(&path, &format!("{before}{BEGIN}{fields}{END}{after}"));
    }
}

/// A type: what it is, and its fields or values.
fn section(out: &mut String, name: &str, definition: &Value) {
    let said = description(definition);
    assert!(!said.is_empty(), "{name} is not documented");
    writeln!(out, "### {name}\n\n{said}\n").unwrap();
    if let Some(properties) = definition["properties"].as_object() {
        out.push_str("| field | type | meaning |\n| :-- | :-- | :-- |\n");
        for (field, about) in properties {
            let said = if name == "Amounts" { format!("Bytes posted to `{field}`.") } else { description(about) };
            assert!(!said.is_empty(), "{name}.{field} is not documented");
            writeln!(out, "| `{field}` | {} | {} |", kind(about), said.replace('|', "\\|")).unwrap();
        }
        out.push('\n');
    }
    let values = definition["oneOf"].as_array();
    for value in values.into_iter().flatten() {
        writeln!(out, "- `{}`: {}", value["const"].as_str().unwrap(), description(value)).unwrap();
    }
    if values.is_some() {
        out.push('\n');
    }
}

fn description(about: &Value) -> String {
    about["description"].as_str().unwrap_or_default().to_owned()
}

/// Returns the type of a field in words, with a link if it has a section.
fn kind(about: &Value) -> String {
    if let Some(name) = about["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return named(name);
    }
    if let Some(choices) = about["anyOf"].as_array() {
        return choices.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    let types: Vec<&str> = match &about["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => vec!["any"],
    };
    let words = types.into_iter().map(|word| match word {
        "array" => format!("list of {}", kind(&about["items"])),
        "object" => format!("object of {} by name", kind(&about["additionalProperties"])),
        word => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" or ")
}

/// `Measured_for_uint64` is a number or its absence.
fn named(name: &str) -> String {
    match name.strip_prefix("Measured_for_").or_else(|| name.strip_prefix("Measured")) {
        None => format!("[{name}](#{})", name.to_ascii_lowercase()),
        Some("uint64" | "int64" | "") => "integer or `{\"unavailable\": reason}`".to_owned(),
        Some("double") => "number or `{\"unavailable\": reason}`".to_owned(),
        Some(of) => format!("[{of}](#{}) or `{{\"unavailable\": reason}}`", of.to_ascii_lowercase()),
    }
}

/// The schema as it is published.
fn published() -> Value {
    serde_json::from_str(&fs::read_to_string(root().join("docs/run.schema.json")).unwrap()).unwrap()
}

/// Adds what does not fit a schema, with its place. Knows the keywords of JSON Schema 2020-12 that the published schema uses,
/// and takes any other for a fault of the schema, so that none is passed over.
fn faults(value: &Value, schema: &Value, root: &Value, at: &str, found: &mut Vec<String>) {
    for (keyword, wanted) in schema.as_object().into_iter().flatten() {
        match keyword.as_str() {
            "$ref" => {
                let target = root.pointer(wanted.as_str().unwrap().trim_start_matches('#')).unwrap();
                faults(value, target, root, at, found);
            }
            "anyOf" | "oneOf" => {
                let fits = wanted.as_array().unwrap().iter().filter(|choice| {
                    let mut own = Vec::new();
                    faults(value, choice, root, at, &mut own);
                    own.is_empty()
                });
                let fits = fits.count();
                if fits == 0 || (keyword == "oneOf" && fits > 1) {
                    found.push(format!("{at}: fits {fits} of {keyword}"));
                }
            }
            "properties" | "additionalProperties" | "items" | "propertyNames" => {
                for (name, part, wanted) in parts(value, keyword, schema) {
                    faults(&part, wanted, root, &format!("{at}/{name}"), found);
                }
            }
            keyword if !fits(value, keyword, wanted) => found.push(format!("{at}: {value} against {keyword} {wanted}")),
            _ => {}
        }
    }
}

/// The parts of a value that a keyword is about, each with its schema.
fn parts<'a>(value: &Value, keyword: &str, schema: &'a Value) -> Vec<(String, Value, &'a Value)> {
    let wanted = &schema[keyword];
    let members = || value.as_object().into_iter().flatten();
    match keyword {
        "properties" => {
            let of = |(name, about): (&String, &'a Value)| Some((name.clone(), value.get(name)?.clone(), about));
            wanted.as_object().unwrap().iter().filter_map(of).collect()
        }
        "additionalProperties" => {
            let more = members().filter(|(name, _)| schema["properties"].get(name).is_none());
            more.map(|(name, member)| (name.clone(), member.clone(), wanted)).collect()
        }
        "propertyNames" => members().map(|(name, _)| (name.clone(), Value::from(name.as_str()), wanted)).collect(),
        _ => {
            let items = value.as_array().into_iter().flatten().enumerate();
            items.map(|(number, item)| (number.to_string(), item.clone(), wanted)).collect()
        }
    }
}

/// Whether a value fits a keyword that is about the value itself.
fn fits(value: &Value, keyword: &str, wanted: &Value) -> bool {
    let bound = |beyond: fn(f64, f64) -> bool| !value.as_f64().zip(wanted.as_f64()).is_some_and(|(v, w)| beyond(v, w));
    match keyword {
        "$schema" | "$defs" | "title" | "description" | "default" | "format" => true,
        "type" => match wanted {
            Value::Array(names) => names.iter().any(|name| is_of(value, name.as_str().unwrap())),
            name => is_of(value, name.as_str().unwrap()),
        },
        "const" => value == wanted,
        "enum" => wanted.as_array().unwrap().contains(value),
        "minimum" => bound(|value, least| value < least),
        "maximum" => bound(|value, most| value > most),
        "required" => value.as_object().is_none_or(|members| {
            wanted.as_array().unwrap().iter().all(|name| members.contains_key(name.as_str().unwrap()))
        }),
        "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= wanted.as_u64().unwrap()),
        "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= wanted.as_u64().unwrap()),
        keyword => panic!("the schema uses {keyword}, which this test does not know"),
    }
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        name => panic!("the schema has a type {name}"),
    }
}

fn unfit(record: &Value, schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    faults(record, schema, schema, "", &mut found);
    found
}

/// The records of all fixtures, by their names.
fn recorded() -> Vec<(String, Value)> {
    let mut records = Vec::new();
    for entry in fs::read_dir(root().join("fixtures")).unwrap() {
        let case = entry.unwrap().path();
        let capture = ["capture.pcap", "capture.pcapng"].into_iter().find(|name| case.join(name).is_file());
        let Some(capture) = capture else { continue };
        let args = fs::read_to_string(case.join("args")).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_overhead"))
            .args(["analyze", capture, "--format", "json", "--fields"])
            .args(args.split_whitespace())
            .env_remove("SSLKEYLOGFILE")
            .current_dir(&case)
            .output()
            .unwrap();
        records.push((case.display().to_string(), serde_json::from_slice(&output.stdout).unwrap()));
    }
    records
}

/// The records of this name that studies have packed, of real runs.
fn committed(name: &str) -> Vec<(String, Value)> {
    let mut records = Vec::new();
    for entry in fs::read_dir(root().join("docs/comparison")).unwrap() {
        let Ok(packed) = fs::File::open(entry.unwrap().path().join("records.jsonl.zst")) else { continue };
        let lines = String::from_utf8(zstd::decode_all(packed).unwrap()).unwrap();
        for mut line in lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            let path = line["path"].as_str().unwrap().to_owned();
            if Path::new(&path).ends_with(name) {
                records.push((path, line["record"].take()));
            }
        }
    }
    records
}

#[test]
fn every_record_fits_the_published_schema() {
    if std::env::var_os("OVERHEAD_BLESS").is_some() {
        return;
    }
    let schema = published();
    let records: Vec<(String, Value)> = recorded().into_iter().chain(committed("run.json")).collect();
    assert!(records.len() > 60, "{} records", records.len());
    for (name, record) in &records {
        let unfit = unfit(record, &schema);
        assert!(unfit.is_empty(), "{name}: {unfit:?}");
    }
}

#[test]
fn every_record_of_a_load_fits_its_published_schema() {
    let [.., (_, _, schema)] = records();
    let records = committed("bench.json");
    assert!(records.len() > 20, "{} records", records.len());
    for (name, record) in &records {
        let unfit = unfit(record, &schema);
        assert!(unfit.is_empty(), "{name}: {unfit:?}");
    }
    let mut broken = records[0].1.clone();
    broken["results"][0]["clients"] = Value::from("one");
    assert_eq!(unfit(&broken, &schema).len(), 1);
}

/// A schema that accepts anything would pass the test above.
#[test]
fn what_is_no_record_does_not_fit_the_published_schema() {
    if std::env::var_os("OVERHEAD_BLESS").is_some() {
        return;
    }
    let schema = published();
    // A run that counted without packets has no operations to damage.
    let has_operations = |record: &Value| !record["operations"].as_array().unwrap().is_empty();
    let (_, record) = committed("run.json").into_iter().find(|(_, record)| has_operations(record)).unwrap();
    assert!(unfit(&record, &schema).is_empty());
    let damages: [fn(&mut Map<String, Value>); 5] = [
        |record| drop(record.remove("ledger")),
        |record| record["source"]["frames"] = Value::from("many"),
        |record| record["operations"][0]["class"] = Value::from("homework"),
        |record| record["operations"][0]["request"]["accounts"]["data"] = Value::from(-1),
        |record| record["source"]["kernel_drops"] = Value::Null,
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let mut damaged = record.clone();
        damage(damaged.as_object_mut().unwrap());
        assert!(!unfit(&damaged, &schema).is_empty(), "damage {number}");
    }
}
