//! Captures UNIX stream sockets: every byte once, in an order in which it can have been written. Skips without the
//! privilege to load BPF programs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use overhead_kernel::{AbsentBytes, Error, StreamBytes, StreamOptions, UnixStreams};
use std::collections::BTreeMap;
use std::io::{IoSlice, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

fn streams(sockets: &[&str], limit: Option<u32>) -> Option<UnixStreams> {
    let sockets = sockets.iter().map(|socket| (*socket).to_owned()).collect();
    match UnixStreams::start(&StreamOptions { sockets, ring_bytes: 64 << 20, limit }) {
        Ok(streams) => Some(streams),
        // A machine that refuses BPF is a skip; programs that the kernel rejects are a failure.
        Err(error @ (Error::Permission(_) | Error::NoBtf(_) | Error::PidNamespace | Error::Attach { .. })) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn listen(dir: &Path, name: &str) -> (String, UnixListener) {
    let path = dir.join(name);
    (path.display().to_string(), UnixListener::bind(&path).unwrap())
}

/// Polls until there are this many bytes or time is up.
fn take(streams: &mut UnixStreams, bytes: u64) -> Vec<StreamBytes> {
    let (mut found, began) = (Vec::<StreamBytes>::new(), Instant::now());
    while found.iter().map(|piece| u64::from(piece.length)).sum::<u64>() < bytes {
        assert!(began.elapsed() < Duration::from_secs(20), "in vain: {:?}", streams.counts());
        if streams.poll(false, |piece| found.push(piece)).unwrap() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    found
}

/// Joins each direction's bytes and checks that none is missing.
fn joined(pieces: &[StreamBytes]) -> BTreeMap<(u64, bool), Vec<u8>> {
    let mut streams = BTreeMap::<(u64, bool), Vec<u8>>::new();
    for piece in pieces {
        let stream = streams.entry((piece.id, piece.to_server)).or_default();
        assert_eq!(stream.len() as u64, piece.offset, "{piece:?}");
        assert_eq!((piece.bytes.len(), piece.absent), (piece.length as usize, None));
        stream.extend(&piece.bytes);
    }
    streams
}

#[test]
fn a_conversation_is_taken_in_its_order_whoever_runs_first() {
    let dir = tempfile::tempdir().unwrap();
    let (path, listener) = listen(dir.path(), "s");
    let Some(mut streams) = streams(&[&path], None) else { return };
    let rounds = 2_000_usize;
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 100];
        for round in 0..rounds {
            stream.read_exact(&mut request[..=round % 100]).unwrap();
            stream.write_all(&[b'a'; 7]).unwrap();
        }
    });
    let mut client = UnixStream::connect(&path).unwrap();
    for round in 0..rounds {
        client.write_all(&vec![b'q'; 1 + round % 100]).unwrap();
        client.read_exact(&mut [0; 7]).unwrap();
    }
    server.join().unwrap();
    let asked: u64 = (0..rounds).map(|round| 1 + round as u64 % 100).sum();
    let pieces = take(&mut streams, asked + 7 * rounds as u64);
    let streams = joined(&pieces);
    assert_eq!(streams.len(), 2);
    assert!(pieces.iter().all(|piece| !piece.is_old && piece.client_pid == std::process::id() && piece.socket == 0));
    let turns: Vec<bool> = pieces.iter().map(|piece| piece.to_server).collect();
    assert_eq!(turns, [true, false].repeat(rounds), "each answer follows its question");
    assert!(pieces.is_sorted_by_key(|piece| piece.time_ns), "no answer is earlier than its question");
}

#[test]
fn sixteen_megabytes_in_one_call_and_many_vectors_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (path, listener) = listen(dir.path(), "s");
    let Some(mut streams) = streams(&[&path], None) else { return };
    let value: Vec<u8> = (0..16_usize << 20).map(|at| ((at * 31) >> 3) as u8).collect();
    let parts: Vec<Vec<u8>> = (0..300_usize).map(|part| vec![part as u8; part * 7]).collect();
    let all: Vec<u8> = value.iter().chain(parts.iter().flatten()).copied().collect();
    let expected = all.len();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = vec![0; expected];
        stream.read_exact(&mut all).unwrap();
    });
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(&value).unwrap();
    let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut slices = slices.as_mut_slice();
    while !slices.is_empty() {
        let written = client.write_vectored(slices).unwrap();
        IoSlice::advance_slices(&mut slices, written);
    }
    let pieces = take(&mut streams, expected as u64);
    server.join().unwrap();
    assert_eq!(joined(&pieces).remove(&(1, true)).unwrap(), all);
    assert_eq!(streams.counts().unwrap().lost, 0);
}

#[test]
fn other_sockets_are_left_alone_and_older_connections_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let (path, listener) = listen(dir.path(), "s");
    let (other, elsewhere) = listen(dir.path(), "t");
    let mut old = UnixStream::connect(&path).unwrap();
    let (mut served, _) = listener.accept().unwrap();
    let Some(mut streams) = streams(&[&path], None) else { return };
    let mut unwanted = UnixStream::connect(&other).unwrap();
    let (_served, _) = elsewhere.accept().unwrap();
    unwanted.write_all(b"nobody's business").unwrap();
    old.write_all(b"early").unwrap();
    served.write_all(b"bird").unwrap();
    let pieces = take(&mut streams, 9);
    assert_eq!(pieces.len(), 2);
    assert!(pieces.iter().all(|piece| piece.is_old));
    assert_eq!(streams.counts().unwrap().calls, 2);
    assert_eq!(streams.open_connections().unwrap().len(), 1);
    drop((old, served));
    assert_eq!(streams.open_connections().unwrap().len(), 0);
}

#[test]
fn abstract_sockets_and_limits() {
    let name = format!("overhead-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let listener = UnixListener::bind_addr(&address).unwrap();
    let Some(mut streams) = streams(&[&format!("@{name}")], Some(100)) else { return };
    let mut client = UnixStream::connect_addr(&address).unwrap();
    let (_served, _) = listener.accept().unwrap();
    client.write_all(&vec![b'x'; 100_000]).unwrap();
    let pieces = take(&mut streams, 100_000);
    let captured: usize = pieces.iter().map(|piece| piece.bytes.len()).sum();
    assert_eq!((captured, pieces[0].absent), (100, Some(AbsentBytes::Limit)));
}

#[test]
fn bytes_out_of_a_file_are_counted_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let (path, listener) = listen(dir.path(), "s");
    let Some(mut streams) = streams(&[&path], None) else { return };
    let file = dir.path().join("file");
    std::fs::write(&file, [b'f'; 5_000]).unwrap();
    let mut client = UnixStream::connect(&path).unwrap();
    let (_served, _) = listener.accept().unwrap();
    // The kernel copies a file to a socket by `sendfile` or `splice`.
    std::io::copy(&mut std::fs::File::open(&file).unwrap(), &mut client).unwrap();
    let pieces = take(&mut streams, 5_000);
    assert!(pieces.iter().all(|piece| matches!(piece.absent, Some(AbsentBytes::Call(_)) | None)), "{pieces:?}");
}
