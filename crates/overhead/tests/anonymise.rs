//! `analyze --anonymise`: what is written, what is said, and with which status.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

type Outcome = Result<(), Box<dyn Error>>;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name).join("capture.pcap")
}

fn analyze(file: &Path, args: &[&str]) -> Result<Output, Box<dyn Error>> {
    let overhead = env!("CARGO_BIN_EXE_overhead");
    Ok(Command::new(overhead).arg("analyze").arg(file).args(args).env_remove("SSLKEYLOGFILE").output()?)
}

#[test]
fn a_copy_has_the_same_figures_and_says_what_it_is() -> Outcome {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("copy.pcapng");
    let copied = copy.to_string_lossy();
    let selection = ["--db", "redis", "--port", "7379", "--format", "csv"];
    let args = [&selection[..], &["--anonymise", &copied]].concat();
    let made = analyze(&fixture("redis-get-set"), &args)?;
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert_eq!((made.status.code(), said.contains("frames, without user data")), (Some(0), true), "{said}");
    let of_copy = analyze(&copy, &selection)?;
    let names_aside = |output: &Output| String::from_utf8_lossy(&output.stdout).replace("copy.pcapng", "");
    assert_eq!(names_aside(&made).lines().count(), names_aside(&of_copy).lines().count());
    // Nothing is left beside it, and it is not written over.
    assert_eq!(std::fs::read_dir(folder.path())?.count(), 1);
    let again = analyze(&fixture("redis-get-set"), &args)?;
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!((again.status.code(), said.contains("choose another name")), (Some(2), true), "{said}");
    Ok(())
}

#[test]
fn what_was_decrypted_is_not_in_the_copy_and_the_status_says_so() -> Outcome {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("copy.pcapng");
    let file = fixture("redis-tls13");
    let keys = file.with_file_name("keys.log");
    let (copy, keys) = (copy.to_string_lossy(), keys.to_string_lossy());
    let args = ["--db", "redis", "--port", "7379", "--keylog", &keys, "--anonymise", &copy];
    let made = analyze(&file, &args)?;
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert_eq!((made.status.code(), said.contains("encrypted in the copy")), (Some(3), true), "{said}");
    assert!(!said.contains("differs from its original"), "{said}");
    Ok(())
}

#[test]
fn copies_with_one_key_are_the_same_and_with_others_are_not() -> Outcome {
    let folder = tempfile::tempdir()?;
    let key = "000102030405060708090a0b0c0d0e0f";
    let mut copies = Vec::new();
    for args in [&["--anonymise-key", key][..], &["--anonymise-key", key], &[]] {
        let copy = folder.path().join(copies.len().to_string());
        let named = copy.to_string_lossy().into_owned();
        let all = [&["--db", "postgres", "--port", "7432", "--anonymise", &named], args].concat();
        assert_eq!(analyze(&fixture("postgres-session"), &all)?.status.code(), Some(0));
        copies.push(std::fs::read(copy)?);
    }
    assert!(copies[0] == copies[1] && copies[1] != copies[2]);
    Ok(())
}

#[test]
fn a_pipe_cannot_be_copied() -> Outcome {
    let made = analyze(Path::new("-"), &["--anonymise", "/nowhere/copy.pcapng"])?;
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert_eq!((made.status.code(), said.contains("save a pipe to a file first")), (Some(2), true), "{said}");
    Ok(())
}

/// Content of a block of pcapng, or of an option, with what fills it up to four bytes.
fn padded(content: &[u8]) -> Vec<u8> {
    [content, &vec![0; content.len().next_multiple_of(4) - content.len()]].concat()
}

#[test]
fn nothing_that_a_file_says_beside_its_packets_is_in_the_copy() -> Outcome {
    const ARP: &[u8] = &[0, 1, 8, 0, 6, 4, 0, 1];
    let word = b"canary7Zq";
    let option = |kind: u16| [&kind.to_le_bytes()[..], &[9, 0], &padded(word)].concat();
    let block = |kind: u32, inside: &[u8]| {
        let len = (inside.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &len, inside, &len].concat()
    };
    // A section, an interface, names, secrets, a packet of ARP, statistics, and a block of some program's own.
    let frame = [&[2; 12][..], &[8, 6], ARP, &[0; 20], word].concat();
    let len = (frame.len() as u32).to_le_bytes();
    let file = [
        block(
            0x0a0d_0d0a,
            &[&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0], &[0xff; 8][..], &option(1), &option(2), &[0; 4]].concat(),
        ),
        block(1, &[&[1, 0, 0, 0, 0, 0, 4, 0][..], &option(2), &option(3), &option(11), &[0; 4]].concat()),
        block(4, &[&[1, 0, 13, 0, 10, 0, 0, 1][..], &padded(word), &[0; 4], &option(2), &[0; 4]].concat()),
        block(10, &[b"KSLT\x09\0\0\0", &padded(word)[..]].concat()),
        block(6, &[&[0; 12][..], &len, &len, &padded(&frame), &option(1), &[0; 4]].concat()),
        block(5, &[&[0; 12][..], &option(1), &[0; 4]].concat()),
        block(0xbad, &[&[1, 2, 3, 4], &padded(word)[..]].concat()),
    ]
    .concat();
    let folder = tempfile::tempdir()?;
    let [from, copy] = ["capture.pcapng", "copy.pcapng"].map(|name| folder.path().join(name));
    std::fs::write(&from, file)?;
    let said = analyze(&from, &["--db", "redis", "--anonymise", &copy.to_string_lossy()])?;
    let copied = std::fs::read(&copy).map_err(|error| format!("{error}: {said:?}"))?;
    assert!(copied.windows(8).any(|window| window == ARP), "the packet is there");
    assert!(!copied.windows(6).any(|window| window == b"canary"), "{}", copied.escape_ascii());
    Ok(())
}
