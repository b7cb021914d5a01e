use super::*;

const FILES: [(&str, &str); 4] = [
    ("conditions.json", "{\n  \"servers\": {\"redis\": \"Redis 7\"}\n}\n"),
    ("runs/b/cell.json", "{\"text\":\"a \\\"path\\\" \\n\",\"large\":18446744073709551615}\n"),
    ("runs/b/run.json", "{\"mean\":0.30000000000000004}\n"),
    ("runs/b-load/tool.json", "{\"rate\":1e3}\n"),
];

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in FILES {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

#[test]
fn records_are_packed_and_unpacked_as_they_were_written() {
    let folder = folder();
    let lines = measured(folder.path()).unwrap().unwrap();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (_, text) = FILES.iter().find(|(path, _)| line["path"] == *path).unwrap();
        assert_eq!(line["record"], serde_json::from_str::<Value>(text).unwrap());
    }
    pack(folder.path(), &lines).unwrap();
    assert_eq!(packed(folder.path()).unwrap(), lines);
    assert_eq!(measured(folder.path()).unwrap(), None, "only the packed file is left");

    unpack(folder.path(), folder.path()).unwrap();
    for (path, text) in &FILES[1..] {
        assert_eq!(fs::read_to_string(folder.path().join(path)).unwrap(), *text);
    }
    assert_eq!(measured(folder.path()).unwrap().unwrap(), lines);
}

#[test]
fn a_line_without_a_record_and_a_path_outside_are_refused() {
    assert!(study("{\"path\":\"conditions.json\"}").is_err());
    let folder = tempfile::tempdir().unwrap();
    pack_lines(folder.path(), "{\"path\":\"../elsewhere\",\"record\":{}}\n");
    assert!(unpack(folder.path(), folder.path()).is_err());
}

fn pack_lines(folder: &Path, lines: &str) {
    fs::write(folder.join(PACKED), zstd::bulk::compress(lines.as_bytes(), 1).unwrap()).unwrap();
}
