// SPDX-License-Identifier: Apache-2.0
//! `aurae pod port-forward`: each connection here becomes one call, and there a connection within
//! the pod.

use std::net::{Ipv4Addr, Ipv6Addr};

use api::pod::v0::dial_request::Message;
use api::pod::v0::{DialEof, DialRequest, DialStart};
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::pods;
use crate::failure::{Failure, INTERRUPTED};
use crate::output::note;
use crate::session::Session;

const EXAMPLES: &str = "\
Examples:
  aurae pod port-forward web 8080:80
  aurae pod port-forward web 5432
  aurae pod port-forward web :80        any free port here

Goes on until Ctrl-C.";

/// The most bytes of one message.
const PIECE: usize = 32 << 10;
/// Connections at the same time; more wait.
const MOST: usize = 128;

/// `aurae pod port-forward`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ForwardArgs {
    /// The pod
    #[arg(value_name = "POD")]
    name: String,
    /// PORT, HERE:PORT, or :PORT for any free port here
    #[arg(required = true, value_name = "PORT", value_parser = parse_ports)]
    ports: Vec<Ports>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ports {
    here: u16,
    there: u16,
}

fn parse_ports(text: &str) -> Result<Ports, String> {
    let (here, there) = text.split_once(':').unwrap_or((text, text));
    let number = |text: &str| match text.parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("{text:?} is no port: a number from 1 to 65535")),
    };
    Ok(Ports {
        here: if here.is_empty() { 0 } else { number(here)? },
        there: number(there)?,
    })
}

/// Listens until it is interrupted.
pub(super) async fn run(session: &Session, args: &ForwardArgs) -> Result<u8, Failure> {
    let mut listening = Vec::new();
    for ports in &args.ports {
        let listeners = listen(ports.here).await;
        let failed = |e| Failure::new(format!("port {} here: {e}", ports.here));
        for listener in listeners.map_err(failed)? {
            let here = listener.local_addr().map_err(failed)?;
            note(&format!(
                "{here} leads to port {} of {}",
                ports.there, args.name
            ));
            listening.push(accept(session, &args.name, listener, ports.there));
        }
    }
    tokio::select! {
        _ = join_all(listening) => Ok(0),
        _ = tokio::signal::ctrl_c() => Ok(INTERRUPTED),
    }
}

/// On both loopback addresses, with the same port.
async fn listen(port: u16) -> std::io::Result<Vec<TcpListener>> {
    let first = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let port = first.local_addr()?.port();
    // A machine without IPv6 has the other one.
    let second = TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await;
    Ok(std::iter::once(first).chain(second).collect())
}

async fn accept(session: &Session, pod: &str, listener: TcpListener, port: u16) {
    let mut connections = JoinSet::new();
    loop {
        if connections.len() >= MOST {
            connections.join_next().await;
        }
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else {
            // This one connection broke, or there are no descriptors: some end.
            connections.join_next().await;
            continue;
        };
        let start = DialStart {
            r#ref: Some(session.reference(pod)),
            port: port.into(),
        };
        let client = pods(&session.node);
        connections.spawn(async move {
            if let Err(failure) = forward(client, start, stream).await {
                note(&format!("a connection to port {port}: {failure}"));
            }
        });
    }
}

type Client = api::pod::v0::pods_client::PodsClient<tonic::transport::Channel>;

async fn forward(mut client: Client, start: DialStart, stream: TcpStream) -> Result<(), String> {
    let (read, mut write) = stream.into_split();
    let start = request(Message::Start(start));
    let requests = stream::once(async { start }).chain(pieces(read));
    let answers = client.dial(requests).await;
    let mut answers = answers
        .map_err(|status| status.message().to_owned())?
        .into_inner();
    loop {
        match answers.message().await {
            Ok(Some(answer)) => {
                let written = write.write_all(&answer.data).await;
                written.map_err(|e| e.to_string())?;
            }
            Ok(None) => return write.shutdown().await.map_err(|e| e.to_string()),
            Err(status) => return Err(status.message().to_owned()),
        }
    }
}

fn request(message: Message) -> DialRequest {
    DialRequest {
        message: Some(message),
    }
}

/// What is sent here, and its end. The stream stays open then: its end would be the connection's.
fn pieces(read: OwnedReadHalf) -> impl futures_util::Stream<Item = DialRequest> {
    let sent = stream::unfold(Some(read), |read| async move {
        let mut read = read?;
        let mut data = Vec::with_capacity(PIECE);
        match read.read_buf(&mut data).await {
            Ok(count) if count > 0 => Some((request(Message::Data(data)), Some(read))),
            Ok(_) | Err(_) => Some((request(Message::Eof(DialEof {})), None)),
        }
    });
    sent.chain(stream::pending())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_written_as_for_kubectl() {
        let ports = |here, there| Ok(Ports { here, there });
        assert_eq!(parse_ports("8080:80"), ports(8080, 80));
        assert_eq!(parse_ports("80"), ports(80, 80));
        assert_eq!(parse_ports(":80"), ports(0, 80));
        for wrong in ["", "a", "1:", "0:80", "80:0", "70000", "1:2:3"] {
            assert!(parse_ports(wrong).is_err(), "{wrong}");
        }
    }
}
