//! Reads the writer's files back, with this crate and with tshark if installed.

// Test helpers fail by panicking.
use crate::support::*;
use overhead_capture::{FileSource, KernelStats, PcapngWriter, WriteError, WriterOptions};
use overhead_model::frame::{Frame, LinkType};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Ethernet, IPv4, TCP from port 40000 to 6379 with nine bytes of payload, all from documentation address space.
const FRAME: [u8; 63] = [
    2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 49, 0, 1, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
    0x9c, 0x40, 0x18, 0xeb, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0, b'P', b'I', b'N', b'G', b'\r',
    b'\n', b'a', b'b', b'c',
];

fn frame(time_ns: u64, bytes: &[u8]) -> Frame<'_> {
    Frame { time_ns, link: LinkType::ETHERNET, original_len: 63, interface: 0, bytes }
}

fn options() -> WriterOptions {
    WriterOptions {
        interface: "eth0".into(),
        snaplen: 60,
        filter: "tcp port 6379".into(),
        ..WriterOptions::new(LinkType::ETHERNET)
    }
}

const STATS: KernelStats = KernelStats { received: 12, dropped: 3, interface_dropped: 4 };

fn written(path: &Path) {
    let mut writer = PcapngWriter::new("out.pcapng", std::fs::File::create(path).unwrap(), &options()).unwrap();
    writer.write(&frame(1_700_000_000_123_456_789, &FRAME)).unwrap();
    writer.write(&frame(1_700_000_001_000_000_001, &FRAME[..60])).unwrap();
    assert_eq!(writer.frames(), 2);
    writer.finish(Some(&STATS)).unwrap();
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("overhead-capture-{}-{name}", std::process::id()))
}

#[test]
fn our_own_reader_reads_it() {
    let path = scratch("own.pcapng");
    written(&path);
    let (frames, end, source) = drain(FileSource::open(&path).unwrap());
    let expected =
        [owned(1_700_000_000_123_456_789, 1, 63, 0, &FRAME), owned(1_700_000_001_000_000_001, 1, 63, 0, &FRAME[..60])];
    assert_eq!(frames, expected);
    assert_eq!(end.cut, None);
    assert_eq!(source.recorded_drops(), Some(7));
    assert_eq!(source.interfaces()[0].name.as_deref(), Some("eth0"));
    assert_eq!(source.interfaces()[0].snaplen, 60);
    std::fs::remove_file(path).unwrap();
}

/// Returns a program's output; `None`, with a line on standard error, if it is not installed.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            eprintln!("skipped: {program} does not run here ({error})");
            None
        }
    }
}

#[test]
fn tshark_reads_it() {
    let path = scratch("tshark.pcapng");
    written(&path);
    let name = path.to_str().unwrap();
    let fields = ["frame.time_epoch", "frame.len", "frame.cap_len", "frame.interface_name", "tcp.dstport"];
    let mut arguments = vec!["-n", "-r", name, "-T", "fields"];
    arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
    if let Some(text) = output("tshark", &arguments) {
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "1700000000.123456789\t63\t63\teth0\t6379");
        assert_eq!(lines[1], "1700000001.000000001\t63\t60\teth0\t6379");
    }
    if let Some(text) = output("capinfos", &[name]) {
        let expected = concat!("overhead ", env!("CARGO_PKG_VERSION"));
        for part in [expected, "Name = eth0", "nanoseconds (9)", "Filter string", "tcp port 6379"] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_frame_of_another_link_type_is_refused() {
    let mut writer = PcapngWriter::new("out.pcapng", Vec::new(), &options()).unwrap();
    let error = writer.write(&Frame { link: LinkType::RAW, ..frame(0, &FRAME) }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "out.pcapng holds EN10MB frames and cannot take one of RAW: write each link type to its own file"
    );
}

#[test]
fn a_long_text_is_cut_at_a_character() {
    let long = WriterOptions { comment: "ä".repeat(40_000), filter: "é".repeat(40_000), ..options() };
    let mut writer = PcapngWriter::new("memory", Vec::new(), &long).unwrap();
    writer.write(&frame(1, &FRAME)).unwrap();
    assert_eq!(frames(&writer.finish(None).unwrap()).len(), 1);
}

/// A pipe whose reader went away.
struct Broken;

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_broken_pipe_can_be_told_from_other_errors() {
    let mut writer = PcapngWriter::new("standard output", Broken, &options()).unwrap();
    writer.write(&frame(1, &FRAME)).unwrap();
    let error = writer.flush().unwrap_err();
    assert!(error.is_broken_pipe() && matches!(error, WriteError::Write { .. }), "{error}");
}
