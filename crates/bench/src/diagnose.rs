//! Explains why a server did not answer: nothing listens, or it speaks another protocol.

use crate::fault::sentence;
use crate::target::{BenchTarget, ServerEndpoint};
use anyhow::{Error, anyhow};
use overhead_model::Protocol;
use overhead_protocols::facts;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// Time limit per probe, enough for a server on another continent.
const PATIENCE: Duration = Duration::from_millis(700);

/// Returns the error as one sentence, with its cause if a probe finds it.
pub async fn explain(target: &BenchTarget, protocol: Protocol, error: Error) -> Error {
    for server in &target.servers {
        match connect(server, target.timeout).await {
            Err(cause) => return anyhow!("{server}: {cause}: is the server running, and is this its port?"),
            Ok(_) if target.tls.is_some() => {}
            Ok(_) => {
                if let Some(other) = detect_protocol(server).await.filter(|other| *other != protocol) {
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

async fn connect(server: &ServerEndpoint, patience: Duration) -> Result<Box<dyn ServerStream>, String> {
    match timeout(patience, open_stream(server)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Err("connection refused".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no connection within {} s", patience.as_secs_f64())),
    }
}

trait ServerStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ServerStream for S {}

async fn open_stream(server: &ServerEndpoint) -> io::Result<Box<dyn ServerStream>> {
    Ok(match server {
        ServerEndpoint::Tcp { host, port } => Box::new(TcpStream::connect((host.as_str(), *port)).await?),
        ServerEndpoint::Unix(path) => Box::new(UnixStream::connect(path).await?),
    })
}

/// Probes each protocol on a new connection with the smallest request that needs no login.
async fn detect_protocol(server: &ServerEndpoint) -> Option<Protocol> {
    for protocol in Protocol::ALL {
        let answer = timeout(PATIENCE, exchange(server, facts(protocol).greeting)).await;
        if answer.is_ok_and(|answer| answer.is_ok_and(|answer| (facts(protocol).is_greeted)(&answer))) {
            return Some(protocol);
        }
    }
    None
}

async fn exchange(server: &ServerEndpoint, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = open_stream(server).await?;
    stream.write_all(question).await?;
    let mut answer = vec![0; 64];
    let length = stream.read(&mut answer).await?;
    answer.truncate(length);
    Ok(answer)
}
