//! Programs that outlive their process, against what this test sends. Skips without root or a kernel with BTF.

#![allow(clippy::unwrap_used, clippy::panic)]

#[allow(dead_code)]
mod child;

use overhead_kernel::{FollowedTraffic, FollowerPosition, PinFolder, SocketTotals, TcpFollower};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time: until a started `mount` runs, it has the locks of all tests.
static ALONE: Mutex<()> = Mutex::new(());

/// A BPF file system of its own.
struct Pins {
    folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Pins {
    /// Returns `None` without root.
    fn new() -> Option<Self> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", "bpf", "bpf"]).arg(folder.path()).output().unwrap();
        let is_root = mounted.status.success();
        if !is_root {
            println!("skipped: {}", String::from_utf8_lossy(&mounted.stderr));
        }
        is_root.then(|| Self { folder, _alone: alone })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("pins")
    }

    fn refusal(&self) -> String {
        PinFolder::open(&self.path()).unwrap_err().to_string()
    }

    /// Starts a follower, and returns why it did not take another over. Both locks of the folder are released when it is dropped.
    fn start(
        &self,
        port: u16,
        position: Option<FollowerPosition>,
    ) -> Option<((TcpFollower, PinFolder), Option<String>)> {
        let pins = PinFolder::open(&self.path()).unwrap();
        let (follower, reason) = child::or_skip(TcpFollower::start_pinned(&[port], &pins, position))?;
        Some(((follower, pins), reason))
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(self.folder.path()).status().unwrap();
    }
}

struct Exchange {
    listener: TcpListener,
    port: u16,
}

impl Exchange {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        Self { listener, port }
    }

    fn connect(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        (client, self.listener.accept().unwrap().0)
    }
}

fn send((client, server): &mut (TcpStream, TcpStream), bytes: usize) {
    client.write_all(&vec![b'x'; bytes]).unwrap();
    server.read_exact(&mut vec![0; bytes]).unwrap();
}

/// Adds what the server on this port received.
fn add(port: u16, sum: &mut SocketTotals, traffic: &FollowedTraffic) {
    let of_server = traffic.groups.iter().filter(|(group, _)| group.is_server && group.local.port() == port);
    of_server.for_each(|(_, grown)| sum.add(grown));
}

/// A process that ends after any step loses nothing, and nothing counts twice.
#[test]
fn each_byte_counts_once_wherever_a_process_is_killed() {
    let Some(pins) = Pins::new() else { return };
    let exchange = Exchange::new();
    let Some(((mut follower, mut folder), reason)) = pins.start(exchange.port, None) else { return };
    assert_eq!(reason.unwrap(), "no pinned programs were found");
    let (mut saved, mut position) = (SocketTotals::default(), follower.position().unwrap());
    let mut long = exchange.connect();
    let (mut sent, mut opened) = (0, 1);
    // Readings before and after the position is saved: `r` reads, `p` peeks, `s` saves.
    for steps in ["", "s", "rs", "r", "ps", "p", "rsp", "rspsr", "rsr", "psrs", "rpps", "rsrp", "rspsrs"] {
        let mut sums = saved;
        for step in steps.chars() {
            send(&mut long, 1_000);
            sent += 1_000;
            match step {
                'r' => add(exchange.port, &mut sums, &follower.read().unwrap()),
                'p' => add(exchange.port, &mut sums, &follower.peek().unwrap()),
                _ => (saved, position) = (sums, follower.position().unwrap()),
            }
        }
        drop((follower, folder));
        // Nobody runs. One connection goes on, another one is opened and closed.
        send(&mut long, 10);
        let mut short = exchange.connect();
        send(&mut short, 7);
        drop(short);
        (sent, opened) = (sent + 17, opened + 1);
        let reason;
        ((follower, folder), reason) = pins.start(exchange.port, position.clone()).unwrap();
        assert_eq!(reason, None, "{steps}");
    }
    for _ in 0..2 {
        add(exchange.port, &mut saved, &follower.read().unwrap());
    }
    assert_eq!((saved.received.payload_bytes, saved.opened, saved.closed), (sent, opened, opened - 1));
    drop(long);
}

/// A later version may have other programs for the same tables.
#[test]
fn programs_that_differ_are_replaced_without_a_gap() {
    let Some(pins) = Pins::new() else { return };
    let exchange = Exchange::new();
    let Some((first, _)) = pins.start(exchange.port, None) else { return };
    let position = first.0.position().unwrap();
    let layout = fs::read_dir(pins.path()).unwrap().next().unwrap().unwrap().path();
    let [change, reset] = ["link_change_state", "link_send_reset"].map(|name| layout.join(name));
    let links = || [&change, &reset].map(|link| fs::metadata(link).unwrap().ino());
    let mut long = exchange.connect();
    send(&mut long, 100);
    let before = links();
    drop(first);
    drop(pins.start(exchange.port, position.clone()).unwrap());
    assert_eq!(links(), before, "the same programs go on");
    // Each link has the program of the other.
    let between = layout.join("link_between");
    for (from, to) in [(&change, &between), (&reset, &change), (&between, &reset)] {
        fs::rename(from, to).unwrap();
    }
    let ((mut follower, _), reason) = pins.start(exchange.port, position).unwrap();
    assert_eq!((reason, links().map(|link| before.contains(&link))), (None, [false; 2]));
    send(&mut long, 10);
    drop(long);
    let mut sums = SocketTotals::default();
    for _ in 0..2 {
        add(exchange.port, &mut sums, &follower.read().unwrap());
    }
    assert_eq!((sums.received.payload_bytes, sums.opened, sums.closed), (110, 1, 1));
}

#[test]
fn programs_of_others_are_replaced_with_a_reason() {
    let Some(pins) = Pins::new() else { return };
    let exchange = Exchange::new();
    let Some((first, _)) = pins.start(exchange.port, None) else { return };
    let position = first.0.position().unwrap();
    assert!(pins.refusal().contains("another agent uses"));
    drop(first);
    let (second, reason) = pins.start(exchange.port, None).unwrap();
    assert_eq!(reason.unwrap(), "the pinned programs belong to another state");
    drop(second);
    let (third, reason) = pins.start(exchange.port, position.clone()).unwrap();
    assert_eq!(reason.unwrap(), "the pinned programs belong to another state");
    drop(third);
    let layout = fs::read_dir(pins.path()).unwrap().next().unwrap().unwrap().path();
    fs::rename(&layout, pins.path().join("tables-0")).unwrap();
    let (mut last, reason) = pins.start(exchange.port, position).unwrap();
    let reason = reason.unwrap();
    assert_eq!(reason, "the pinned programs are of another version, whose tables have another layout");
    assert!(layout.exists() && !pins.path().join("tables-0").exists());
    send(&mut exchange.connect(), 9);
    let mut sums = SocketTotals::default();
    add(exchange.port, &mut sums, &last.0.read().unwrap());
    assert_eq!((sums.received.payload_bytes, sums.opened), (9, 1), "the old programs no longer count");
    drop(last);
    fs::remove_dir_all(pins.path()).unwrap();
    assert!(pins.folder.path().exists(), "rm -r removes them");
}

#[test]
fn a_folder_that_others_can_change_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = PinFolder::open(&folder.path().join("pins")).unwrap_err().to_string();
    let place = folder.path().display();
    assert_eq!(refusal, format!("{place} is not a BPF file system: run mount -t bpf bpf {place}"));
    let Some(pins) = Pins::new() else { return };
    fs::create_dir(pins.path()).unwrap();
    fs::set_permissions(pins.path(), Permissions::from_mode(0o777)).unwrap();
    assert!(pins.refusal().contains("run chmod go-w"));
    std::os::unix::fs::chown(pins.path(), Some(60_001), None).unwrap();
    assert!(pins.refusal().contains("belongs to user 60001"));
}
