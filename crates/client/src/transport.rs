// SPDX-License-Identifier: Apache-2.0
//! A connection to a node and its typed clients. The first connection is made at once, so that its
//! own error is returned; a lost one is made again when a call needs it.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use api::identity::v0::identity_client::IdentityClient;
use api::node::v0::node_client::NodeClient;
use api::observe::v0::observe_client::ObserveClient;
use api::runtime::v0::runtime_client::RuntimeClient;
use api::tenant::v0::tenant_client::TenantClient;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};
use tonic::Request;
use tonic::transport::{Channel, Endpoint};

use crate::address::Address;
use crate::config::Target;
use crate::credentials::Credentials;
use crate::error::Error;
use crate::line::Line;
use crate::stream::Transport;
use crate::tls::connect_tls;

/// How long a connection may take, handshake included.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
/// How long a unary call may take by default.
pub const RPC_DEADLINE: Duration = Duration::from_secs(30);
/// The largest answer that is read: a page of 1,000 objects with large specs fits.
const MAX_ANSWER: usize = 64 << 20;
const KEEPALIVE: Duration = Duration::from_secs(10);
/// How long a socket that is there may refuse: init starts a daemon that has died again at once.
const RESTART: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

type Stream = TokioIo<Box<dyn Transport>>;

/// A node that the client is connected to; clones share the connection.
#[derive(Clone, Debug)]
pub struct Node {
    channel: Channel,
    line: Line,
    deadline: Duration,
}

impl Node {
    /// Connects, with TLS and both certificates checked. A daemon that is being started again is
    /// waited for, up to ten seconds.
    ///
    /// # Errors
    /// [`Error`], by cause: no socket, no permission, a refused handshake, another node.
    pub async fn connect(target: &Target) -> Result<Self, Error> {
        let line = Line::default();
        let first = establish_over_a_restart(target, &line).await?;
        let first = Arc::new(Mutex::new(Some(TokioIo::new(first))));
        let target = Arc::new(target.clone());
        let again = line.clone();
        let connector = tower::service_fn(move |_| {
            reuse_or_establish(first.clone(), target.clone(), again.clone())
        });
        let channel = Endpoint::from_static("http://node.aurae")
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE)
            .connect_with_connector_lazy(connector);
        Ok(Self {
            channel,
            line,
            deadline: RPC_DEADLINE,
        })
    }

    /// Sets how long unary calls may take.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// A request with the deadline of unary calls.
    pub fn unary<T>(&self, message: T) -> Request<T> {
        self.within(message, self.deadline)
    }

    /// A request with a deadline of its own, which is sent to the node too.
    pub fn within<T>(&self, message: T, deadline: Duration) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(deadline);
        request
    }

    /// Whether the node has hung up, as the kernel knows at this moment: what is sent on a stream
    /// now would be lost. Before the next call there is a new connection.
    pub fn has_hung_up(&self) -> bool {
        self.line.has_hung_up()
    }

    /// The connection itself, for services that have no typed client here.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// A client of the service `Runtime`.
    pub fn runtime(&self) -> RuntimeClient<Channel> {
        RuntimeClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// A client of the service `Observe`.
    pub fn observe(&self) -> ObserveClient<Channel> {
        ObserveClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// A client of the service `Identity`.
    pub fn identity(&self) -> IdentityClient<Channel> {
        IdentityClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Tenants and their quotas.
    pub fn tenant(&self) -> TenantClient<Channel> {
        TenantClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// A client of the service `Node`.
    pub fn node(&self) -> NodeClient<Channel> {
        NodeClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }
}

/// The connection that was made to begin with, and a new one whenever that is gone. A node ends a
/// connection on which nothing comes for ten seconds, which the first call of a program may take.
async fn reuse_or_establish(
    first: Arc<Mutex<Option<Stream>>>,
    target: Arc<Target>,
    line: Line,
) -> Result<Stream, Error> {
    let ready = first.lock().unwrap_or_else(PoisonError::into_inner).take();
    match ready {
        Some(stream) if !line.has_hung_up() => Ok(stream),
        _ => establish_over_a_restart(&target, &line)
            .await
            .map(TokioIo::new),
    }
}

/// Connects; again, while the socket is there but its daemon isn't, or died while we shook hands.
async fn establish_over_a_restart(
    target: &Target,
    line: &Line,
) -> Result<Box<dyn Transport>, Error> {
    let deadline = Instant::now() + RESTART;
    let mut pause = FIRST_PAUSE;
    let mut restarting = false;
    loop {
        let problem = match establish(target, line).await {
            Ok(stream) => return Ok(stream),
            Err(problem) => problem,
        };
        restarting |= is_restarting(&target.address, &problem);
        if !restarting || !problem.is_transient() || Instant::now() >= deadline {
            return Err(problem);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn is_restarting(address: &Address, problem: &Error) -> bool {
    let local = matches!(address, Address::Unix(_));
    let died = match problem {
        Error::ConnectionRefused { .. } | Error::Handshake { alert: None, .. } => true,
        // The socket's queue is full for a moment; or the daemon that was to take us from it died.
        Error::Connect { problem, .. } => matches!(
            problem.kind(),
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::ConnectionReset
        ),
        _ => false,
    };
    local && died
}

async fn establish(target: &Target, line: &Line) -> Result<Box<dyn Transport>, Error> {
    let address = &target.address;
    let connected = async {
        // First, so that a node that isn't there is reported before credentials that aren't.
        let (stream, socket) = open(address, line).await?;
        let credentials = Credentials::load(target)?;
        let tls = connect_tls(stream, address, &credentials, &target.expected).await?;
        Ok(tls.keeping(socket))
    };
    let stream = in_time(address, connected).await?;
    Ok(Box::new(stream))
}

async fn open(address: &Address, line: &Line) -> Result<(Box<dyn Transport>, Arc<OwnedFd>), Error> {
    let fail = |problem| Error::connect(address, problem);
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(fail)?;
            let socket = line.watch(&stream).map_err(fail)?;
            Ok((Box::new(stream), socket))
        }
        Address::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port))
                .await
                .map_err(fail)?;
            stream.set_nodelay(true).map_err(fail)?;
            let socket = line.watch(&stream).map_err(fail)?;
            Ok((Box::new(stream), socket))
        }
    }
}

async fn in_time<T>(
    address: &Address,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(CONNECT_DEADLINE, work).await {
        Ok(done) => done,
        Err(_) => Err(Error::Deadline {
            address: address.clone(),
            after: CONNECT_DEADLINE,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error as IoError, ErrorKind};

    use super::*;

    #[test]
    fn a_daemon_that_dies_while_it_is_called_is_waited_for() {
        let unix: Address = "unix:///run/aurae/aurae.sock".parse().unwrap();
        let tcp: Address = "https://node1:7443".parse().unwrap();
        let of = |address: &Address, kind| Error::connect(address, IoError::from(kind));
        for kind in [
            ErrorKind::ConnectionRefused,
            ErrorKind::ConnectionReset,
            ErrorKind::WouldBlock,
        ] {
            assert!(is_restarting(&unix, &of(&unix, kind)), "{kind:?}");
            assert!(!is_restarting(&tcp, &of(&tcp, kind)), "{kind:?}");
        }
        for kind in [ErrorKind::NotFound, ErrorKind::PermissionDenied] {
            assert!(!is_restarting(&unix, &of(&unix, kind)), "{kind:?}");
        }
    }
}
