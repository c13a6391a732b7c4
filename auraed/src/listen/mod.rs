// SPDX-License-Identifier: Apache-2.0
//! The API's listeners: a Unix socket, TCP where configured, mutual TLS 1.3 on both.
//!
//! A connection is accepted when its certificate is of the node's CA ([`Authenticate`], implemented
//! with `identity`) and its tenant's quota has room. Before that it is bounded in number and time
//! ([`admission`]): half-open handshakes, slow clients and floods hold little, and not for long. A
//! refused client can read the reason, because the listener half-closes and drains instead of
//! resetting: a TLS alert where the handshake fails, an HTTP/2 GOAWAY where the quota is used up.
//!
//! Authorization is not here: `rpc` asks for it on every request.

mod admission;
mod stream;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use identity::{Refusal, SocketCredentials};
use model::name::Tenant;
use rustls::pki_types::CertificateDer;
use tenants::Pool;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;

pub(crate) use self::admission::Source;
use self::admission::{Admission, Pending};
pub(crate) use self::stream::PeerStream;
use self::stream::Raw;

/// Connections let in that the server has not taken yet.
const ACCEPTED_QUEUE: usize = 16;
/// How long, and for how much, a refused client is listened to so that it can read why.
const DRAIN_TIME: Duration = Duration::from_secs(1);
const DRAIN_BYTES: u64 = 64 * 1024;
/// A socket's name until it serves; no longer than any that can be configured beside it.
const NEW_SOCKET: &str = ".new";
/// After an accept that failed for want of descriptors or memory: the condition is not an event to
/// wait for.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// HTTP/2's ENHANCE_YOUR_CALM (gRPC: RESOURCE_EXHAUSTED) and INADEQUATE_SECURITY
/// (PERMISSION_DENIED).
const CALM: u8 = 0xb;
const INADEQUATE: u8 = 0xc;

/// Resolves when the certificate of a peer counts no longer.
pub(crate) type Ending = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Decides which connections are accepted.
pub(crate) trait Authenticate: Send + Sync + 'static {
    /// An authenticated client.
    type Peer: Clone + Send + Sync + Unpin + 'static;

    /// The settings of TLS as of now: certificates are renewed while connections go on.
    fn tls(&self) -> Arc<rustls::ServerConfig>;
    /// The peer that has this certificate. `socket` is the local process at the other end of a Unix
    /// socket.
    fn admit(
        &self,
        leaf: &CertificateDer<'_>,
        socket: Option<SocketCredentials>,
    ) -> Result<Self::Peer, String>;
    /// A connection was refused.
    fn rejected(&self, source: Source, refusal: Refusal, words: &str);
    /// The tenant that the connection counts for.
    fn tenant(peer: &Self::Peer) -> &Tenant;
    /// Resolves when the certificate of the peer counts no longer: the connection is closed soon
    /// after.
    fn ending(&self, peer: &Self::Peer) -> Ending;
}

/// Where to listen, and how much to bear.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) socket: PathBuf,
    pub(crate) tcp: Vec<SocketAddr>,
    /// Where connections that were let in count.
    pub(crate) connections: Pool,
    pub(crate) handshake_timeout: Duration,
}

/// Why a listener can't be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    #[error("cannot listen on {path}", path = .0.display())]
    Unix(PathBuf, #[source] io::Error),
    #[error("cannot listen on {0}")]
    Tcp(SocketAddr, #[source] io::Error),
    #[error(
        "{path} is served by another process; stop it, or configure another api.socket",
        path = .0.display()
    )]
    Taken(PathBuf),
    #[error(
        "{path} is there and is no socket; move it away, or configure another api.socket",
        path = .0.display()
    )]
    NoSocket(PathBuf),
}

/// The open listeners and their tasks.
pub(crate) struct Listeners<D: Authenticate> {
    /// Connections as they are let in.
    pub(crate) incoming: ReceiverStream<io::Result<PeerStream<D::Peer>>>,
    /// The tasks behind; dropped, no connection is accepted any more.
    pub(crate) tasks: JoinSet<()>,
}

/// Opens the listeners and begins to accept.
pub(crate) async fn open<D: Authenticate>(
    options: Options,
    authenticator: Arc<D>,
) -> Result<Listeners<D>, ListenError> {
    let unix = bind_unix(&options.socket).await?;
    let (let_in, incoming) = mpsc::channel(ACCEPTED_QUEUE);
    let acceptor = Acceptor {
        authenticator,
        admission: Admission::default(),
        connections: options.connections,
        let_in,
        timeout: options.handshake_timeout,
    };
    let mut tasks = JoinSet::new();
    for address in options.tcp {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|e| ListenError::Tcp(address, e))?;
        tasks.spawn(acceptor.clone().serve_tcp(listener));
    }
    tasks.spawn(acceptor.serve_unix(unix));
    Ok(Listeners {
        incoming: ReceiverStream::new(incoming),
        tasks,
    })
}

/// Binds the socket, in place of one that no process serves any more.
async fn bind_unix(path: &Path) -> Result<UnixListener, ListenError> {
    let fail = |e| ListenError::Unix(path.to_owned(), e);
    match std::fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => {
            return Err(ListenError::NoSocket(path.to_owned()));
        }
        Ok(_) => match UnixStream::connect(path).await {
            // Only this says that no process listens; a full queue, for one, says that one does.
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {}
            _ => return Err(ListenError::Taken(path.to_owned())),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(fail(e)),
    }
    // Beside it, and then in its place: a client finds the old one or the new one.
    let new = path.with_file_name(NEW_SOCKET);
    match std::fs::remove_file(&new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(fail(e)),
        _ => {}
    }
    let listener = UnixListener::bind(&new).map_err(fail)?;
    // Every local user may connect: the certificate decides.
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o666)).map_err(fail)?;
    std::fs::rename(&new, path).map_err(fail)?;
    Ok(listener)
}

struct Acceptor<D: Authenticate> {
    authenticator: Arc<D>,
    admission: Admission,
    connections: Pool,
    let_in: mpsc::Sender<io::Result<PeerStream<D::Peer>>>,
    timeout: Duration,
}

impl<D: Authenticate> Clone for Acceptor<D> {
    fn clone(&self) -> Self {
        Self {
            authenticator: self.authenticator.clone(),
            admission: self.admission.clone(),
            connections: self.connections.clone(),
            let_in: self.let_in.clone(),
            timeout: self.timeout,
        }
    }
}

/// A connection that was accepted.
struct Accepted {
    raw: Raw,
    source: Source,
    socket: Option<SocketCredentials>,
}

impl Accepted {
    fn local(stream: UnixStream) -> Self {
        let socket = stream.peer_cred().ok().map(|c| SocketCredentials {
            uid: c.uid(),
            pid: c.pid().unwrap_or(0),
        });
        Self {
            raw: Raw::Unix(stream),
            source: socket.map_or(Source::Unknown, |s| Source::User(s.uid)),
            socket,
        }
    }
}

impl<D: Authenticate> Acceptor<D> {
    async fn serve_unix(self, listener: UnixListener) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = listener
                .accept()
                .await
                .map(|(stream, _)| Accepted::local(stream));
            self.take(accepted, &mut connections).await;
        }
    }

    async fn serve_tcp(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = listener.accept().await.map(|(stream, address)| {
                // Answers are small and waited for.
                let _best_effort = stream.set_nodelay(true);
                Accepted {
                    raw: Raw::Tcp(stream),
                    source: Source::Address(address.ip()),
                    socket: None,
                }
            });
            self.take(accepted, &mut connections).await;
        }
    }

    async fn take(&self, accepted: io::Result<Accepted>, connections: &mut JoinSet<()>) {
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok(connection) => {
                let pending = self.admission.pending(connection.source);
                connections.spawn(self.clone().serve(connection, pending));
            }
            Err(error) => {
                tracing::warn!(%error, "listen: cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }

    async fn serve(self, connection: Accepted, pending: Pending) {
        let source = connection.source;
        // A handshake costs milliseconds: those of one source have turns beside others'.
        let share = self.connections.tenants().share_of_stranger(source.payer());
        tokio::select! {
            () = share.run(self.handshake(connection)) => {}
            () = pending.displaced() => {
                tracing::debug!(?source, "listen: displaced by newer connections");
            }
        }
    }

    async fn handshake(&self, connection: Accepted) {
        let Accepted {
            raw,
            source,
            socket,
        } = connection;
        let acceptor = TlsAcceptor::from(self.authenticator.tls());
        let handshake = async {
            // Until the client has begun to speak, it costs no more than its descriptor.
            match raw.readable().await {
                Ok(()) => acceptor.accept(raw).into_fallible().await,
                Err(error) => Err((error, raw)),
            }
        };
        match tokio::time::timeout(self.timeout, handshake).await {
            Ok(Ok(tls)) => self.admit(tls, source, socket).await,
            Ok(Err((error, raw))) => {
                tracing::debug!(%error, ?source, "listen: handshake refused");
                if let Some(refusal) = refusal(&error) {
                    self.authenticator
                        .rejected(source, refusal, &error.to_string());
                }
                drain(raw).await;
            }
            Err(_late) => {
                let words = "the handshake took too long";
                self.authenticator.rejected(source, Refusal::TooLate, words);
            }
        }
    }

    async fn admit(&self, tls: TlsStream<Raw>, source: Source, socket: Option<SocketCredentials>) {
        let certificates = tls.get_ref().1.peer_certificates();
        let admitted = match certificates.and_then(<[_]>::first) {
            Some(leaf) => self.authenticator.admit(leaf, socket),
            None => Err("no certificate".to_owned()),
        };
        let peer = match admitted {
            Ok(peer) => peer,
            Err(reason) => {
                tracing::info!(%reason, ?socket, "listen: refused");
                self.authenticator
                    .rejected(source, Refusal::Certificate, &reason);
                return reject(tls, INADEQUATE, &reason).await;
            }
        };
        let tenant = D::tenant(&peer);
        let place = match self.connections.take(tenant, 1) {
            Ok(place) => place,
            Err(full) => {
                tracing::info!("listen: {}", full.message);
                return reject(tls, CALM, &full.message).await;
            }
        };
        let ending = self.authenticator.ending(&peer);
        let share = self.connections.tenants().share(tenant);
        let stream = PeerStream::new(tls, peer, place, share, ending);
        // The server ends before its listeners do only at shutdown.
        let _closing = self.let_in.send(Ok(stream)).await;
    }
}

/// The reason of a handshake that the node refused; `None` where the client went away, or refused
/// the node.
fn refusal(error: &io::Error) -> Option<Refusal> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    match error {
        rustls::Error::AlertReceived(_) => None,
        rustls::Error::NoCertificatesPresented => Some(Refusal::NoCertificate),
        rustls::Error::InvalidCertificate(_) => Some(Refusal::Certificate),
        _ => Some(Refusal::Protocol),
    }
}

/// Says why in HTTP/2's terms, which every gRPC client turns into a status, and parts.
async fn reject(mut tls: TlsStream<Raw>, code: u8, words: &str) {
    let message = goaway(code, words);
    let said = async {
        tls.write_all(&message).await?;
        tls.flush().await
    };
    let _either_way_it_ends = tokio::time::timeout(DRAIN_TIME, said).await;
    drain(tls).await;
}

/// An empty SETTINGS frame, as a server must begin, and GOAWAY.
fn goaway(code: u8, words: &str) -> Vec<u8> {
    let words: Vec<u8> = words.bytes().take(200).collect();
    // 200 and 8 fit a byte.
    let length = u8::try_from(words.len() + 8).unwrap_or(8);
    let mut message = vec![0, 0, 0, 4, 0, 0, 0, 0, 0];
    message.extend([0, 0, length, 7, 0, 0, 0, 0, 0]);
    message.extend([0, 0, 0, 0, 0, 0, 0, code]);
    message.extend(words);
    message
}

/// Lets a refused client read why: no more from us, and its own words read away, within bounds.
async fn drain<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    let drain = async {
        stream.shutdown().await?;
        let mut bounded = (&mut stream).take(DRAIN_BYTES);
        tokio::io::copy(&mut bounded, &mut tokio::io::sink()).await
    };
    let _either_way_it_ends = tokio::time::timeout(DRAIN_TIME, drain).await;
}
