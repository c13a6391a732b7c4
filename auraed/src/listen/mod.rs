// SPDX-License-Identifier: Apache-2.0
//! The API's doors: a Unix socket, TCP where configured, mutual TLS 1.3 on both.
//!
//! A connection is let in when its certificate is one of our authority's ([`Doorkeeper`], which `identity` is) and
//! there is a place for it. Everything before that is bounded in number and time: half-open handshakes, slow
//! clients and floods cost a place each, for at most the handshake's time-out. What is refused is told why by a TLS
//! alert, which the client gets to read: we half-close and drain instead of resetting.
//!
//! Authorization is not here: it is asked on every request, by `rpc`.

mod slots;
mod stream;

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;

use self::slots::{Slot, Slots};
pub(crate) use self::stream::PeerStream;
use self::stream::Raw;

/// Connections let in that the server has not taken yet.
const DOOR_QUEUE: usize = 16;
/// How long, and for how much, a refused client is listened to so that it can read its alert.
const DRAIN_TIME: Duration = Duration::from_secs(1);
const DRAIN_BYTES: u64 = 64 * 1024;
/// After an accept that failed for want of descriptors or memory: the condition is not an event to wait for.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Decides who is let in.
pub(crate) trait Doorkeeper: Send + Sync + 'static {
    /// Whom it knows a client as.
    type Peer: Clone + Send + Sync + Unpin + 'static;

    /// The settings of TLS as of now: certificates are renewed while connections go on.
    fn tls(&self) -> Arc<rustls::ServerConfig>;
    /// Who has this certificate. `uid` is the local user at the other end of a Unix socket.
    fn admit(&self, leaf: &CertificateDer<'_>, uid: Option<u32>) -> Result<Self::Peer, String>;
    /// The tenant that the connection counts for.
    fn tenant(peer: &Self::Peer) -> &str;
}

/// Where to listen, and how much to bear.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) socket: PathBuf,
    pub(crate) tcp: Vec<SocketAddr>,
    pub(crate) connections: usize,
    pub(crate) connections_per_tenant: usize,
    pub(crate) handshake_timeout: Duration,
}

/// Why a door can't be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    #[error("cannot listen on {path}", path = .0.display())]
    Unix(PathBuf, #[source] io::Error),
    #[error("cannot listen on {0}")]
    Tcp(SocketAddr, #[source] io::Error),
    #[error("{path} is served by another process; stop it, or configure another api.socket", path = .0.display())]
    Taken(PathBuf),
}

/// The doors, open.
pub(crate) struct Doors<D: Doorkeeper> {
    /// Connections as they are let in.
    pub(crate) incoming: ReceiverStream<io::Result<PeerStream<D::Peer>>>,
    /// The tasks behind; dropped, nobody is let in any more.
    pub(crate) tasks: JoinSet<()>,
}

/// Opens the doors.
pub(crate) async fn open<D: Doorkeeper>(
    options: Options,
    keeper: Arc<D>,
) -> Result<Doors<D>, ListenError> {
    let unix = bind_unix(&options.socket).await?;
    let (let_in, incoming) = mpsc::channel(DOOR_QUEUE);
    let slots = Slots::new(options.connections, options.connections_per_tenant);
    let door = Door {
        keeper,
        slots,
        let_in,
        timeout: options.handshake_timeout,
    };
    let mut tasks = JoinSet::new();
    for address in options.tcp {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|e| ListenError::Tcp(address, e))?;
        tasks.spawn(door.clone().serve_tcp(listener));
    }
    tasks.spawn(door.serve_unix(unix));
    Ok(Doors {
        incoming: ReceiverStream::new(incoming),
        tasks,
    })
}

/// Binds the socket, in place of one that nobody serves any more.
async fn bind_unix(path: &Path) -> Result<UnixListener, ListenError> {
    let fail = |e| ListenError::Unix(path.to_owned(), e);
    if path.exists() {
        if UnixStream::connect(path).await.is_ok() {
            return Err(ListenError::Taken(path.to_owned()));
        }
        std::fs::remove_file(path).map_err(fail)?;
    }
    let listener = UnixListener::bind(path).map_err(fail)?;
    // Anybody may knock: the certificate decides.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(fail)?;
    Ok(listener)
}

struct Door<D: Doorkeeper> {
    keeper: Arc<D>,
    slots: Slots,
    let_in: mpsc::Sender<io::Result<PeerStream<D::Peer>>>,
    timeout: Duration,
}

impl<D: Doorkeeper> Clone for Door<D> {
    fn clone(&self) -> Self {
        Self {
            keeper: self.keeper.clone(),
            slots: self.slots.clone(),
            let_in: self.let_in.clone(),
            timeout: self.timeout,
        }
    }
}

impl<D: Doorkeeper> Door<D> {
    async fn serve_unix(self, listener: UnixListener) {
        let mut visits = JoinSet::new();
        loop {
            let accepted = listener.accept().await.map(|(stream, _)| {
                let uid = stream.peer_cred().ok().map(|credentials| credentials.uid());
                (Raw::Unix(stream), uid)
            });
            self.welcome(accepted, &mut visits).await;
        }
    }

    async fn serve_tcp(self, listener: TcpListener) {
        let mut visits = JoinSet::new();
        loop {
            let accepted = listener.accept().await.map(|(stream, _)| {
                // Answers are small and waited for.
                let _best_effort = stream.set_nodelay(true);
                (Raw::Tcp(stream), None)
            });
            self.welcome(accepted, &mut visits).await;
        }
    }

    async fn welcome(&self, accepted: io::Result<(Raw, Option<u32>)>, visits: &mut JoinSet<()>) {
        while visits.try_join_next().is_some() {}
        match accepted {
            // Without a place the connection is dropped at once: holding it would be what it may not have.
            Ok((raw, uid)) => {
                if let Some(slot) = self.slots.take(uid) {
                    visits.spawn(self.clone().visit(raw, uid, slot));
                }
            }
            Err(error) => {
                tracing::warn!(%error, "listen: cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }

    async fn visit(self, raw: Raw, uid: Option<u32>, slot: Slot) {
        let Some(_handshake) = self.slots.handshakes.take(uid) else {
            return;
        };
        let acceptor = TlsAcceptor::from(self.keeper.tls());
        match tokio::time::timeout(self.timeout, acceptor.accept(raw).into_fallible()).await {
            Ok(Ok(tls)) => self.admit(tls, uid, slot).await,
            Ok(Err((error, raw))) => {
                tracing::debug!(%error, ?uid, "listen: handshake refused");
                part(raw).await;
            }
            Err(_late) => tracing::debug!(?uid, "listen: handshake took too long"),
        }
    }

    async fn admit(&self, tls: TlsStream<Raw>, uid: Option<u32>, slot: Slot) {
        let leaf = tls
            .get_ref()
            .1
            .peer_certificates()
            .and_then(<[_]>::first)
            .cloned();
        let admitted = match leaf {
            Some(leaf) => self.keeper.admit(&leaf, uid),
            None => Err("no certificate".to_owned()),
        };
        let peer = match admitted {
            Ok(peer) => peer,
            Err(reason) => return tracing::info!(%reason, ?uid, "listen: not let in"),
        };
        let tenant = D::tenant(&peer).to_owned();
        let Some(of_tenant) = self.slots.tenants.take(tenant.clone()) else {
            return tracing::info!(%tenant, "listen: the tenant has as many connections as it may");
        };
        let stream = PeerStream {
            tls,
            peer,
            _slot: slot,
            _of_tenant: of_tenant,
        };
        // The server ends before its doors do only at shutdown.
        let _closing = self.let_in.send(Ok(stream)).await;
    }
}

/// Lets a refused client read its alert: no more from us, and its own words read away, within bounds.
async fn part(mut raw: Raw) {
    let drain = async {
        raw.shutdown().await?;
        tokio::io::copy(&mut (&mut raw).take(DRAIN_BYTES), &mut tokio::io::sink()).await
    };
    let _either_way_it_ends = tokio::time::timeout(DRAIN_TIME, drain).await;
}
