//! Why a server did not answer: nothing listens, or what listens there speaks another protocol.

use crate::fault::sentence;
use crate::target::{Address, Target};
use anyhow::{Error, anyhow};
use overhead_model::Protocol;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long each question may take. A server on the other side of the world answers within this.
const PATIENCE: Duration = Duration::from_millis(700);

/// The error in one sentence, with its cause where that can be found out.
pub async fn explain(target: &Target, protocol: Protocol, error: Error) -> Error {
    for server in &target.servers {
        match connect(server, target.timeout).await {
            Err(cause) => return anyhow!("{server}: {cause}: is the server running, and is this its port?"),
            Ok(_) if target.tls.is_some() => {}
            Ok(_) => {
                if let Some(other) = speaks(server).await.filter(|other| *other != protocol) {
                    return anyhow!(
                        "{server} speaks the protocol of {}, not that of {}",
                        system_of(other),
                        system_of(protocol)
                    );
                }
            }
        }
    }
    let servers: Vec<String> = target.servers.iter().map(ToString::to_string).collect();
    let (servers, sentence) = (servers.join(", "), sentence(&error));
    if sentence.contains(&servers) { anyhow!(sentence) } else { anyhow!("{servers}: {sentence}") }
}

async fn connect(server: &Address, patience: Duration) -> Result<TcpStream, String> {
    let address = (server.host.as_str(), server.port);
    match timeout(patience, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Err("connection refused".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no connection within {} s", patience.as_secs_f64())),
    }
}

/// Asks in each protocol in turn, on a connection of its own, the smallest thing that its servers answer without a login.
async fn speaks(server: &Address) -> Option<Protocol> {
    for protocol in Protocol::ALL {
        let answer = timeout(PATIENCE, ask(server, question(protocol))).await;
        if answer.is_ok_and(|answer| answer.is_ok_and(|answer| answers(protocol, &answer))) {
            return Some(protocol);
        }
    }
    None
}

async fn ask(server: &Address, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((server.host.as_str(), server.port)).await?;
    stream.write_all(question).await?;
    let mut answer = vec![0; 64];
    let length = stream.read(&mut answer).await?;
    answer.truncate(length);
    Ok(answer)
}

fn question(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Resp => b"PING\r\n",
        // OPTIONS in version 4, stream 0, no body.
        Protocol::Cql => b"\x04\0\0\0\x05\0\0\0\0",
        // SSLRequest, answered by one letter.
        Protocol::Pgwire => b"\0\0\0\x08\x04\xd2\x16\x2f",
        // OP_MSG, request 1: { hello: 1, $db: "admin" }.
        Protocol::Mongo => {
            b"\x34\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\0\x1f\0\0\0\x10hello\0\x01\0\0\0\x02$db\0\x06\0\0\0admin\0\0"
        }
    }
}

fn answers(protocol: Protocol, answer: &[u8]) -> bool {
    match protocol {
        Protocol::Resp => {
            answer.starts_with(b"+PONG") || answer.starts_with(b"-NOAUTH") || answer.starts_with(b"-DENIED")
        }
        Protocol::Cql => answer.len() >= 9 && answer[0] == 0x84 && matches!(answer[4], 0 | 6),
        Protocol::Pgwire => matches!(answer, [b'S' | b'N', ..]) && answer.len() == 1,
        Protocol::Mongo => answer.len() >= 16 && answer[8..12] == [1, 0, 0, 0] && answer[12..16] == [0xdd, 7, 0, 0],
    }
}

fn system_of(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Resp => "Redis",
        Protocol::Cql => "Cassandra (CQL)",
        Protocol::Pgwire => "PostgreSQL",
        Protocol::Mongo => "MongoDB",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_questions_have_the_length_that_they_say() {
        let hello = question(Protocol::Mongo);
        assert_eq!(hello.len(), usize::from(hello[0]));
        assert_eq!(hello.len() - 21, usize::from(hello[21]));
        assert_eq!(question(Protocol::Pgwire).len(), usize::from(question(Protocol::Pgwire)[3]));
    }

    #[test]
    fn answers_are_told_apart() {
        let answers_to = |answer: &[u8]| {
            let speaking = Protocol::ALL.into_iter().filter(|protocol| answers(*protocol, answer));
            speaking.collect::<Vec<_>>()
        };
        assert_eq!(answers_to(b"+PONG\r\n"), [Protocol::Resp]);
        assert_eq!(answers_to(b"N"), [Protocol::Pgwire]);
        assert_eq!(answers_to(b"\x84\0\0\0\x06\0\0\0\0"), [Protocol::Cql]);
        assert_eq!(answers_to(b"\x40\0\0\0\x05\0\0\0\x01\0\0\0\xdd\x07\0\0"), [Protocol::Mongo]);
        assert_eq!(answers_to(b"HTTP/1.1 400 Bad Request"), []);
        assert_eq!(answers_to(b""), []);
    }
}
