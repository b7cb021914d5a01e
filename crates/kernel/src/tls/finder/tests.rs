use super::*;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Returns the first of these files that is there.
fn file(paths: &[&str]) -> Option<Vec<u8>> {
    let bytes = paths.iter().find_map(|path| fs::read(path).ok());
    bytes.is_none().then(|| println!("skipped: none of {paths:?} is installed"));
    bytes
}

fn convention(bytes: &[u8]) -> Option<CallingConvention> {
    key_log_function(bytes).unwrap().map(|function| function.convention)
}

#[test]
fn stripped_libraries_have_one_function() {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"];
    for name in ["libssl.so.3", "libgnutls.so.30", "android/libssl.so.0"] {
        let paths = folders.map(|folder| format!("{folder}/{name}"));
        let Some(bytes) = file(&paths.each_ref().map(String::as_str)) else { continue };
        assert_eq!(convention(&bytes), Some(CallingConvention::C), "{name}");
    }
}

#[test]
fn a_part_of_a_function_is_not_the_function() {
    let mangled = "_ZN4bssl14ssl_log_secretEPK6ssl_stPKcNS_4SpanIKhEE";
    assert!(is_named(mangled));
    assert!(!is_named(&format!("{mangled}.cold")));
}

#[test]
fn a_file_without_labels_has_none() {
    assert_eq!(key_log_function(b"\x7fELF"), Ok(None));
}

/// Returns a library with a function of this body, which `calls` passes labels to; `None` without gcc.
fn library(folder: &Path, body: &str, calls: &[&str]) -> Option<Vec<u8>> {
    let (source, made) = (folder.join("library.c"), folder.join("library.so"));
    let parameters = "(void *ssl, const char *label, void *secret, unsigned long len)";
    let text = format!("int log_secret{parameters}; int trace{parameters}; {body}\n{}", calls.join("\n"));
    fs::write(&source, text).unwrap();
    let compiled = Command::new("gcc")
        .args(["-O1", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-s", "-o"])
        .args([&made, &source])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        println!("skipped: there is no gcc");
        return None;
    }
    Some(fs::read(&made).unwrap())
}

/// Two functions: the key log's starts with `ud2` or `udf`.
const BODY: &str =
    "__asm__(\".text\\n.globl log_secret, trace\\n.hidden log_secret, trace\\nlog_secret: .inst1\\ntrace: .inst2\");";
const MASTER_CALL: &str = "int old(void *s, void *k) { return 1 + log_secret(s, \"CLIENT_RANDOM\", k, 48); }";
const TRAFFIC_CALL: &str =
    "int next(void *s, void *k) { return 1 + log_secret(s, \"CLIENT_TRAFFIC_SECRET_0\", k, 32); }";
const OTHER_CALL: &str = "int more(void *s, void *k) { return 1 + trace(s, \"CLIENT_RANDOM\", k, 48); }";
const DATA: &str = "const char kept[] = \"CLIENT_RANDOM\";";

fn body() -> String {
    if cfg!(target_arch = "x86_64") {
        BODY.replace(".inst1", ".byte 0xb8,1,2,3,4,0xc3").replace(".inst2", ".byte 0xb8,5,6,7,8,0xc3")
    } else {
        BODY.replace(".inst1", "mov w0, #0x1234\\nret").replace(".inst2", "mov w0, #0x5678\\nret")
    }
}

#[test]
fn two_kinds_of_evidence_must_agree() {
    let folder = tempfile::tempdir().unwrap();
    let found = |calls: &[&str]| library(folder.path(), &body(), calls).map(|bytes| key_log_function(&bytes));
    let Some(both) = found(&[MASTER_CALL, TRAFFIC_CALL]) else { return };
    assert!(both.is_ok_and(|function| function.is_some()));
    assert_eq!(found(&[MASTER_CALL]), Some(Err(ALONE)), "one label only");
    assert_eq!(found(&[MASTER_CALL, TRAFFIC_CALL, OTHER_CALL]), Some(Err(SEVERAL)), "the label is passed twice");
    assert_eq!(found(&[DATA, TRAFFIC_CALL]), Some(Err(UNUSED)), "the label is only data");
}

#[test]
fn the_offset_is_that_of_the_functions_first_instruction() {
    let folder = tempfile::tempdir().unwrap();
    let Some(bytes) = library(folder.path(), &body(), &[MASTER_CALL, TRAFFIC_CALL]) else { return };
    let function = key_log_function(&bytes).unwrap().unwrap();
    let first: &[u8] =
        if cfg!(target_arch = "x86_64") { &[0xb8, 1, 2, 3, 4, 0xc3] } else { &0x5282_4680_u32.to_le_bytes() };
    assert!(bytes[function.offset as usize..].starts_with(first));
}

/// `lea rsi, [rip]` of the label, then a call that is 0x100 bytes ahead, on aarch64.
#[test]
fn labels_of_aarch64_are_found_by_page_and_offset() {
    // adrp x1, +1 page; add x1, x1, #0x10; bl +0x100
    let words: [u32; 3] = [0xb000_0001, 0x9100_4021, 0x9400_0040];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let code = LoadedSegment { address: 0x40_0000, offset: 0, bytes: &bytes, is_code: true };
    let found = references_of_arm(&code, &[0x40_1010]);
    assert_eq!(found.iter().map(|found| (found.end, found.register)).collect::<Vec<_>>(), [(8, 1)]);
    assert_eq!(callee_of_arm(&code, 8), Some(0x40_0108));
}
