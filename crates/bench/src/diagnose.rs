//! Why a server did not answer: nothing listens, or what listens there speaks another protocol.

use crate::fault::sentence;
use crate::target::{Address, Target};
use anyhow::{Error, anyhow};
use overhead_model::Protocol;
use overhead_protocols::facts;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
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
                        other.title(),
                        protocol.title()
                    );
                }
            }
        }
    }
    let servers: Vec<String> = target.servers.iter().map(ToString::to_string).collect();
    let (servers, sentence) = (servers.join(", "), sentence(&error));
    if sentence.contains(&servers) { anyhow!(sentence) } else { anyhow!("{servers}: {sentence}") }
}

async fn connect(server: &Address, patience: Duration) -> Result<Box<dyn Stream>, String> {
    match timeout(patience, reach(server)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Err("connection refused".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no connection within {} s", patience.as_secs_f64())),
    }
}

/// What can be written to and read from.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn reach(server: &Address) -> io::Result<Box<dyn Stream>> {
    Ok(match server {
        Address::Tcp { host, port } => Box::new(TcpStream::connect((host.as_str(), *port)).await?),
        Address::Unix(path) => Box::new(UnixStream::connect(path).await?),
    })
}

/// Asks in each protocol in turn, on a connection of its own, the smallest thing that its servers answer without a login.
async fn speaks(server: &Address) -> Option<Protocol> {
    for protocol in Protocol::ALL {
        let answer = timeout(PATIENCE, ask(server, facts(protocol).greeting)).await;
        if answer.is_ok_and(|answer| answer.is_ok_and(|answer| (facts(protocol).is_greeted)(&answer))) {
            return Some(protocol);
        }
    }
    None
}

async fn ask(server: &Address, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = reach(server).await?;
    stream.write_all(question).await?;
    let mut answer = vec![0; 64];
    let length = stream.read(&mut answer).await?;
    answer.truncate(length);
    Ok(answer)
}
