//! `--only-command`: takes the frames of the connections that the command's processes opened, and leaves out the others.
//!
//! A SYN names its connection by client port and sequence number, which the kernel noted when it was sent; both survive most
//! address translations. A connection whose SYN is in no frame is found by its ends.

use overhead_dissect::packet::{self, Packet, Segment};
use overhead_kernel::{ConnectionOpener, Error, OpenedConnections, raised};
use overhead_model::Frame;
use overhead_model::record::OnlyCommand;
use overhead_reading::Warnings;
use overhead_report::text::counted;
use std::collections::HashMap;
use std::net::SocketAddr;

/// Connections remembered, at 80 bytes each. Beyond, those left out are forgotten.
const MOST: usize = 1 << 18;
/// Container engines, and the words by which they start processes.
const ENGINES: [&str; 3] = ["docker", "podman", "nerdctl"];
const STARTS: [&str; 3] = ["exec", "run", "compose"];

/// Tells who opened a connection.
pub trait Openers: Send + 'static {
    /// Returns who sent a SYN; `None` if no process of this host did.
    fn by_syn(&self, client_port: u16, sequence: u32) -> Result<Option<ConnectionOpener>, Error>;

    /// Returns whether the command opened the last connection between two ends; `None` if nobody did.
    fn by_ends(&self, client: SocketAddr, server: SocketAddr) -> Result<Option<bool>, Error>;

    /// Returns how many connections the command opened, and how many of any process were not noted.
    fn counts(&self) -> Result<(u64, u64), Error>;

    /// Returns how many connections the command opened after a moment, Unix nanoseconds.
    fn opened_after(&self, time_ns: u64) -> u64;
}

impl Openers for OpenedConnections {
    fn by_syn(&self, client_port: u16, sequence: u32) -> Result<Option<ConnectionOpener>, Error> {
        raised(|| self.opener_of_syn(client_port, sequence))
    }

    fn by_ends(&self, client: SocketAddr, server: SocketAddr) -> Result<Option<bool>, Error> {
        raised(|| self.opened_by_command(client, server))
    }

    fn counts(&self) -> Result<(u64, u64), Error> {
        raised(|| self.counts())
    }

    fn opened_after(&self, time_ns: u64) -> u64 {
        raised(|| self.opened_after(time_ns))
    }
}

/// What is known of a connection.
#[derive(Clone, Copy, Debug)]
struct ConnectionDecision {
    is_taken: bool,
    /// Sequence number of its SYN; `None` if the SYN was not seen.
    syn: Option<u32>,
}

/// Chooses frames by the process that opened their connection.
#[derive(Debug)]
pub struct CommandFilter<O = OpenedConnections> {
    openers: O,
    /// By both ends, the lesser first.
    choices: HashMap<[SocketAddr; 2], ConnectionDecision>,
    /// Connections were forgotten, so that those left out may be met again.
    has_forgotten: bool,
    /// Connections that were taken.
    taken: u64,
    sums: OnlyCommand,
    /// Connections that no process of this host opened since the start, by their SYN.
    foreign: u64,
    /// Frames that could not be assigned: fragments, broken or cut headers.
    unread: u64,
    /// Frames that were left out, and their bytes on the wire.
    left_out: [u64; 2],
    last_ns: u64,
    /// Why the last connection could not be looked up.
    failure: Option<String>,
}

impl<O: Openers> CommandFilter<O> {
    pub fn new(openers: O) -> Self {
        Self {
            openers,
            choices: HashMap::new(),
            has_forgotten: false,
            taken: 0,
            sums: OnlyCommand::default(),
            foreign: 0,
            unread: 0,
            left_out: [0; 2],
            last_ns: 0,
            failure: None,
        }
    }

    /// Returns whether a frame is of none of the command's connections.
    pub fn leaves_out(&mut self, frame: &Frame<'_>) -> bool {
        self.last_ns = self.last_ns.max(frame.time_ns);
        let is_taken = match packet::parse(frame) {
            Packet::Tcp(segment) => self.takes(&segment),
            Packet::Fragment(_) | Packet::Snapped { .. } | Packet::Malformed => {
                self.unread += 1;
                false
            }
            Packet::Udp(_) | Packet::Other => false,
        };
        if !is_taken {
            self.left_out[0] += 1;
            self.left_out[1] += u64::from(frame.wire_len());
        }
        !is_taken
    }

    /// Returns how many frames were left out so far, and their bytes on the wire.
    pub fn left_out(&self) -> [u64; 2] {
        self.left_out
    }

    /// Forgets all connections: after a pause, their ends may be others'.
    pub fn forget(&mut self) {
        self.choices.clear();
        self.has_forgotten = true;
    }

    fn takes(&mut self, segment: &Segment<'_>) -> bool {
        let (source, destination) = (canonical(segment.source), canonical(segment.destination));
        let ends = if source < destination { [source, destination] } else { [destination, source] };
        let syn = (segment.flags.syn && !segment.flags.ack).then_some(segment.seq);
        if let Some(choice) = self.choices.get(&ends).filter(|choice| syn.is_none() || choice.syn == syn) {
            return choice.is_taken;
        }
        let opener = match syn {
            Some(sequence) => self.openers.by_syn(source.port(), sequence),
            None => self.find_by_ends(source, destination),
        };
        let opener = opener.unwrap_or_else(|error| {
            self.failure = Some(error.to_string());
            self.sums.undetermined += 1;
            None
        });
        let is_taken = opener.is_some_and(|opener| opener.is_command);
        if opener.is_none_or(|opener| !opener.is_known) && (syn.is_some() || !self.has_forgotten) {
            self.taken += u64::from(is_taken);
            self.sums.left_out += u64::from(!is_taken);
            self.foreign += u64::from(opener.is_none() && syn.is_some());
        }
        if self.choices.len() >= MOST {
            self.choices.retain(|_, choice| choice.is_taken);
            self.has_forgotten = true;
        }
        self.choices.insert(ends, ConnectionDecision { is_taken, syn });
        is_taken
    }

    /// Looks up a connection whose SYN was not seen; either end may be the client.
    fn find_by_ends(&self, one: SocketAddr, other: SocketAddr) -> Result<Option<ConnectionOpener>, Error> {
        let owner = self.openers.by_ends(one, other)?;
        let owner = if owner.is_some() { owner } else { self.openers.by_ends(other, one)? };
        Ok(owner.map(|is_command| ConnectionOpener { is_command, is_known: false }))
    }

    /// Returns the sums, and reports what was left out. `is_whole` states that the whole run was captured, not windows.
    pub fn finish(mut self, is_whole: bool, warnings: &mut Warnings) -> OnlyCommand {
        if self.unread > 0 {
            warnings.partial(format!(
                "{} were left out, because their connection could not be read: they are fragments of IP packets, or their headers are broken or cut off; capture whole frames with -s 0",
                counted(self.unread, "frame")
            ));
        }
        match self.openers.counts() {
            Ok((opened, lost)) => {
                self.sums.undetermined += lost;
                let missing = opened.saturating_sub(self.taken);
                if opened == 0 && self.foreign > 0 {
                    warnings.remark(format!(
                        "the command opened no connection to these ports, and no process of this host opened {}: they come from other hosts, or an address translation changed their port, so name with --port also the one that the command connects to",
                        counted(self.foreign, "connection")
                    ));
                }
                if is_whole && missing > 0 {
                    self.report_missing(missing.saturating_sub(self.openers.opened_after(self.last_ns)), warnings);
                }
            }
            Err(error) => self.failure = Some(error.to_string()),
        }
        if let Some(failure) = self.failure {
            warnings.partial(format!("connections could not be looked up in the kernel: {failure}"));
        }
        if self.has_forgotten && self.sums.left_out > 0 {
            warnings.remark("the number of connections left out is a lower bound");
        }
        warnings.warn_of_only_command(self.sums);
        self.sums
    }

    /// Reports connections of the command that were not captured, or are among those that no process here opened.
    fn report_missing(&mut self, missing: u64, warnings: &mut Warnings) {
        let hidden = missing.min(self.foreign);
        self.sums.undetermined += hidden;
        if missing > 0 {
            let may = if hidden > 0 {
                ", or an address translation lies between: capture on the client's side of it"
            } else {
                ""
            };
            warnings.remark(format!(
                "{} of the command to these ports were not captured: they use another interface, or the filter leaves them out{may}",
                counted(missing, "connection")
            ));
        }
    }
}

/// Warns of a command that has a container engine start processes.
pub fn caution(command: &[String]) -> Option<String> {
    let name = |word: &String| word.rsplit('/').next().map(str::to_owned).unwrap_or_default();
    let at = command.iter().position(|word| ENGINES.contains(&name(word).as_str()))?;
    let start = command[at..].iter().find(|word| STARTS.contains(&word.as_str()))?;
    Some(format!(
        "warning: `{} {start}` may have a daemon start its processes, which are then not the command's: --only-command leaves their connections out; select them with -f 'host ADDRESS' instead",
        name(&command[at])
    ))
}

fn canonical(end: SocketAddr) -> SocketAddr {
    SocketAddr::new(end.ip().to_canonical(), end.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use overhead_model::LinkType;

    /// The command opens from port 1, another process from 2, and both had connections from 3 and 4.
    struct Known {
        opened: u64,
    }

    impl Openers for Known {
        fn by_syn(&self, client_port: u16, sequence: u32) -> Result<Option<ConnectionOpener>, Error> {
            let is_known = sequence % 10 == 9;
            Ok((client_port < 5 && sequence < 100)
                .then_some(ConnectionOpener { is_command: client_port % 2 == 1, is_known }))
        }

        fn by_ends(&self, client: SocketAddr, _: SocketAddr) -> Result<Option<bool>, Error> {
            Ok((client.port() < 5).then_some(client.port() % 2 == 1))
        }

        fn counts(&self) -> Result<(u64, u64), Error> {
            Ok((self.opened, 0))
        }

        fn opened_after(&self, _: u64) -> u64 {
            0
        }
    }

    const SYN: u8 = 2;
    const ACK: u8 = 16;

    /// A frame between this port and the server's.
    fn is_taken(filter: &mut CommandFilter<Known>, [from, to]: [u16; 2], flags: u8, sequence: u32) -> bool {
        let mut bytes = [0; 54];
        bytes[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        bytes[17] = 40;
        (bytes[23], bytes[46], bytes[47]) = (6, 0x50, flags);
        bytes[34..36].copy_from_slice(&from.to_be_bytes());
        bytes[36..38].copy_from_slice(&to.to_be_bytes());
        bytes[38..42].copy_from_slice(&sequence.to_be_bytes());
        let frame = Frame { time_ns: 1, link: LinkType::ETHERNET, original_len: 54, interface: 0, bytes: &bytes };
        !filter.leaves_out(&frame)
    }

    fn finished(filter: CommandFilter<Known>) -> (OnlyCommand, Vec<String>, u8) {
        let mut warnings = Warnings::default();
        let sums = filter.finish(true, &mut warnings);
        let (said, status) = warnings.settle();
        (sums, said, status)
    }

    #[test]
    fn frames_go_with_the_opener_of_their_connection() {
        let mut filter = CommandFilter::new(Known { opened: 2 });
        assert!(is_taken(&mut filter, [1, 80], SYN, 10));
        assert!(is_taken(&mut filter, [80, 1], SYN | ACK, 20));
        assert!(!is_taken(&mut filter, [2, 80], SYN, 11));
        assert!(!is_taken(&mut filter, [2, 80], SYN, 11), "a repeated SYN is no connection more");
        assert!(!is_taken(&mut filter, [80, 2], ACK, 21));
        assert!(is_taken(&mut filter, [80, 3], ACK, 22), "its SYN was not captured");
        assert!(!is_taken(&mut filter, [4, 80], ACK, 23));
        assert!(!is_taken(&mut filter, [5, 80], ACK, 24), "older than the capture");
        // Others take the port over, and the other side of an address translation has the same SYN.
        assert!(!is_taken(&mut filter, [1, 80], SYN, 100));
        assert!(!is_taken(&mut filter, [80, 1], ACK, 30));
        assert!(is_taken(&mut filter, [1, 81], SYN, 19));
        assert_eq!(filter.left_out(), [7, 7 * 54]);
        let (sums, said, status) = finished(filter);
        assert_eq!((sums, status), (OnlyCommand { left_out: 4, undetermined: 0 }, 0));
        assert_eq!(said, ["4 connections of other processes were left out (--only-command)"]);
    }

    #[test]
    fn connections_of_nobody_may_be_the_commands_if_it_misses_some() {
        let mut filter = CommandFilter::new(Known { opened: 3 });
        assert!(is_taken(&mut filter, [1, 80], SYN, 10));
        assert!(!is_taken(&mut filter, [7, 80], SYN, 10));
        let (sums, said, status) = finished(filter);
        assert_eq!((sums, status), (OnlyCommand { left_out: 1, undetermined: 1 }, overhead_model::exit::PARTIAL));
        assert!(said[0].starts_with("2 connections of the command to these ports were not captured"), "{said:?}");
        assert!(said[2].starts_with("the owner of 1 connection could not be determined"), "{said:?}");
    }

    #[test]
    fn connections_of_nobody_may_come_from_another_port_if_the_command_opened_none() {
        let mut filter = CommandFilter::new(Known { opened: 0 });
        assert!(!is_taken(&mut filter, [7, 80], SYN, 10));
        let (sums, said, status) = finished(filter);
        assert_eq!((sums.left_out, status), (1, overhead_model::exit::COMPLETE));
        assert!(said[0].contains("an address translation changed their port"), "{said:?}");
    }

    #[test]
    fn a_container_engine_is_cautioned_of() {
        let cautioned = |line: &str| caution(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).is_some();
        assert!(cautioned("docker exec cache redis-benchmark"));
        assert!(cautioned("sudo /usr/bin/podman run --rm image"));
        assert!(!cautioned("docker ps"));
        assert!(!cautioned("redis-benchmark run"));
    }
}
