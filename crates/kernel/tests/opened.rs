//! Checks whose connections are a command's. Skips without root or a kernel with BTF.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod child;

use overhead_kernel::{OpenedConnections, own_network_namespace};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

/// Run as the command, this program connects so often, each time in the child of the process before.
const ADDRESS: &str = "OVERHEAD_TEST_ADDRESS";
const GENERATIONS: &str = "OVERHEAD_TEST_GENERATIONS";

fn command(address: SocketAddr, generations: u32) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", "this_program_as_a_command"]);
    command.env(ADDRESS, address.to_string()).env(GENERATIONS, generations.to_string());
    command
}

#[test]
#[expect(clippy::zombie_processes, reason = "the child becomes an orphan on purpose")]
fn this_program_as_a_command() {
    let (Ok(address), Ok(generations)) = (std::env::var(ADDRESS), std::env::var(GENERATIONS)) else { return };
    let (address, generations) = (address.parse().unwrap(), generations.parse::<u32>().unwrap());
    TcpStream::connect(address).unwrap();
    if generations > 1 {
        command(address, generations - 1).spawn().unwrap();
    }
}

#[test]
fn connections_of_a_command_and_its_orphans_are_told_from_others() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let opened = child::or_skip(OpenedConnections::start(&[server.port()], own_network_namespace()));
    let Some(opened) = opened else { return };
    let own = TcpStream::connect(server).unwrap().local_addr().unwrap();
    assert_eq!(listener.accept().unwrap().1, own);
    assert!(command(server, 3).status().unwrap().success());
    let theirs = [(); 3].map(|()| listener.accept().unwrap().1);
    assert_eq!(opened.opened_by_command(own, server).unwrap(), Some(false));
    assert_eq!(theirs.map(|client| opened.opened_by_command(client, server).unwrap()), [Some(true); 3]);
    assert_eq!(opened.opened_by_command(server, own).unwrap(), None, "the client is the other end");
    assert_eq!(opened.counts().unwrap(), (3, 0));
    assert_eq!((opened.opened_after(0), opened.opened_after(u64::MAX)), (3, 0));
    assert_eq!(opened.opener_of_syn(own.port(), 7).unwrap(), None);
}
