// SPDX-License-Identifier: Apache-2.0
//! Real handshakes at real listeners: with our own client, and with a bare TLS client for what ours
//! would never send.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

use client::Address;
use identity::audit::Filter;
use identity::{
    ActionDef, Audience, HANDSHAKE, Identity, Lifetimes, Options as IdentityOptions, Peer,
    Unauthenticated, mint_offline,
};
use model::quota::{Amount, Capacity, Quota};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use store::Store;
use tenants::{Pool, Tenants};
use tokio_rustls::TlsConnector;
use tonic::Code;
use tonic::transport::Server;

use super::*;
use crate::authenticator::Authenticator;

struct NoSink;

impl identity::audit::AuditHeadSink for NoSink {
    fn put(&self, _sequence: u64, _hash: identity::audit::Hash) {}
}

/// A node's identity with its listeners open and a gRPC server behind them that knows no method of
/// ours: a call that gets through is answered UNIMPLEMENTED.
struct House {
    dir: tempfile::TempDir,
    identity: Arc<Identity>,
    socket: PathBuf,
    tasks: JoinSet<()>,
}

const ROOMY: (usize, usize, Duration) = (256, 64, Duration::from_secs(10));

async fn identity_in(dir: &Path) -> Arc<Identity> {
    let store = Store::open(dir).unwrap();
    let options = IdentityOptions {
        state_dir: dir.to_owned(),
        node: "n1".parse().unwrap(),
        trust_domain: "example.test".parse().unwrap(),
        lifetimes: Lifetimes::default(),
        actions: vec![ActionDef {
            name: "runtime.Get",
            audience: Audience::Member,
            mutating: false,
            durable: false,
        }],
        audit: Default::default(),
        audit_head: None,
        audit_sink: Box::new(NoSink),
    };
    Arc::new(Identity::start(options, store).await.unwrap())
}

/// A pool of connections of which each ordinary tenant may have so many.
async fn connections_of(dir: &Path, connections: usize, per_tenant: usize) -> Pool {
    let store = Store::open(dir).unwrap();
    let capacity = Capacity {
        whole: BTreeMap::from([(Quota::Connections, connections as u64)]),
        reserve: 60,
    };
    let tenants = Tenants::start(store, dir, capacity).await.unwrap();
    let amount = Some(Amount::Absolute(per_tenant as u64));
    let permit = identity::Permit::for_tests("tenant.Set", "system".parse().unwrap()).unwrap();
    let set = BTreeMap::from([(Quota::Connections, amount)]);
    tenants
        .set(permit, &"system".parse().unwrap(), &set)
        .await
        .unwrap();
    Pool::new(&tenants, Quota::Connections)
}

impl House {
    async fn open((connections, per_tenant, timeout): (usize, usize, Duration)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let identity = identity_in(dir.path()).await;
        let authenticator = Arc::new(Authenticator::new(identity.clone()).unwrap());
        let socket = dir.path().join("aurae.sock");
        let options = Options {
            socket: socket.clone(),
            tcp: vec![],
            connections: connections_of(dir.path(), connections, per_tenant).await,
            handshake_timeout: timeout,
        };
        let Listeners {
            incoming,
            mut tasks,
        } = open(options, authenticator).await.unwrap();
        let (_reporter, health) = tonic_health::server::health_reporter();
        tasks.spawn(async move {
            let server = Server::builder().add_service(health);
            server.serve_with_incoming(incoming).await.unwrap();
        });
        Self {
            dir,
            identity,
            socket,
            tasks,
        }
    }

    fn target(&self, pki: &Path) -> client::Target {
        client::Target {
            context: None,
            address: Address::Unix(self.socket.clone()),
            ca: pki.join("ca.pem"),
            certificate: pki.join("admin.pem"),
            key: pki.join("admin.key"),
            expected: client::NodeIdentity::default(),
            tenant: String::new(),
        }
    }

    fn pki(&self) -> PathBuf {
        self.dir.path().join("pki")
    }

    /// The status of a call by our own client, or why there is no connection.
    async fn call(&self, pki: &Path) -> Result<Code, client::Error> {
        let node = client::Node::connect(&self.target(pki)).await?;
        let request = node.unary(api::node::v0::GetRequest {});
        Ok(node.node().get(request).await.unwrap_err().code())
    }

    async fn bare(&self, with_certificate: bool) -> io::Result<Vec<u8>> {
        let config = bare_config(&self.pki(), with_certificate);
        let raw = UnixStream::connect(&self.socket).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let mut tls = TlsConnector::from(Arc::new(config))
            .connect(name, raw)
            .await?;
        let mut first = vec![0; 9];
        tls.read_exact(&mut first).await?;
        Ok(first)
    }
}

fn bare_config(pki: &Path, with_certificate: bool) -> ClientConfig {
    let certificate = |name: &str| CertificateDer::from_pem_file(pki.join(name)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate("ca.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots);
    if !with_certificate {
        return builder.with_no_client_auth();
    }
    let key = PrivateKeyDer::from_pem_file(pki.join("admin.key")).unwrap();
    builder
        .with_client_auth_cert(vec![certificate("admin.pem")], key)
        .unwrap()
}

fn alert_of(error: client::Error) -> String {
    match error {
        client::Error::Handshake { alert, problem, .. } => {
            format!("{} / {problem}", alert.unwrap_or("none"))
        }
        other => format!("{other}"),
    }
}

#[tokio::test]
async fn who_has_our_certificate_is_let_in_and_known() {
    let house = House::open(ROOMY).await;
    assert_eq!(house.call(&house.pki()).await.unwrap(), Code::Unimplemented);
    let first = house.bare(true).await.unwrap();
    assert_eq!(first[3], 4, "the server speaks first: SETTINGS");
}

#[tokio::test]
async fn no_certificate_and_a_wrong_ca_are_refused_with_an_alert_that_has_a_name() {
    let house = House::open(ROOMY).await;
    let none = house.bare(false).await.unwrap_err();
    assert!(none.to_string().contains("CertificateRequired"), "{none}");

    let other = tempfile::tempdir().unwrap();
    drop(identity_in(other.path()).await);
    let theirs = other.path().join("pki");
    let untrusted = house.call(&theirs).await.unwrap_err();
    assert!(
        matches!(untrusted, client::Error::UntrustedNode { .. }),
        "{untrusted}"
    );
    // Trusting our CA, but with their certificate.
    std::fs::copy(house.pki().join("ca.pem"), theirs.join("ca.pem")).unwrap();
    let alert = alert_of(house.call(&theirs).await.unwrap_err());
    assert!(alert.starts_with("unknown_ca"), "{alert}");
    // And 50 times, since alerts that lose a race against the close were the trap.
    for _ in 0..50 {
        let alert = alert_of(house.call(&theirs).await.unwrap_err());
        assert!(alert.starts_with("unknown_ca"), "{alert}");
    }
}

#[tokio::test]
async fn a_refused_handshake_is_on_record_and_counted() {
    let house = House::open(ROOMY).await;
    let other = tempfile::tempdir().unwrap();
    drop(identity_in(other.path()).await);
    let theirs = other.path().join("pki");
    std::fs::copy(house.pki().join("ca.pem"), theirs.join("ca.pem")).unwrap();
    for _ in 0..20 {
        house.call(&theirs).await.unwrap_err();
        house.bare(false).await.unwrap_err();
    }
    let mut plain = UnixStream::connect(&house.socket).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let _alert = plain.read_to_end(&mut Vec::new()).await;
    // A client that disconnects without sending anything was not refused.
    drop(UnixStream::connect(&house.socket).await.unwrap());

    house.identity.audit().flush();
    let audit = house.identity.audit();
    let all = audit
        .reader()
        .read(&Filter::default(), audit.head().sequence, 1000);
    let lines: Vec<_> = all.unwrap().into_iter().map(|(entry, _)| entry).collect();
    let own = std::fs::metadata(&house.socket).unwrap().uid();
    for (actor, counts, words) in [
        ("unix: certificate refused", vec![1, 19], "UnknownIssuer"),
        ("unix: no certificate", vec![1, 19], "no certificates"),
        ("unix: not our protocol", vec![1], "corrupt message"),
    ] {
        let of: Vec<_> = lines.iter().filter(|e| e.actor == actor).collect();
        assert_eq!(
            of.iter().map(|e| e.count).collect::<Vec<_>>(),
            counts,
            "{lines:?}"
        );
        for line in of {
            assert!(!line.allowed && line.uid == Some(own));
            assert!(line.note.contains(words), "{line:?}");
        }
    }
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert!(lines.iter().all(|e| e.action == HANDSHAKE));
    assert!(audit.reader().verify(audit.head()).unwrap().intact);
}

#[tokio::test]
async fn a_nodes_certificate_is_refused() {
    let house = House::open(ROOMY).await;
    let borrowed = tempfile::tempdir().unwrap();
    for (from, to) in [
        ("ca.pem", "ca.pem"),
        ("node.pem", "admin.pem"),
        ("node.key", "admin.key"),
    ] {
        std::fs::copy(house.pki().join(from), borrowed.path().join(to)).unwrap();
    }
    let alert = alert_of(house.call(borrowed.path()).await.unwrap_err());
    assert!(alert.starts_with("access_denied"), "{alert}");
}

#[tokio::test]
async fn an_expired_certificate_of_ours_is_let_in_to_be_told_so() {
    let house = House::open(ROOMY).await;
    mint_offline(house.dir.path(), Duration::from_secs(1)).unwrap();
    tokio::time::sleep(Duration::from_millis(2100)).await;
    assert_eq!(house.call(&house.pki()).await.unwrap(), Code::Unimplemented);
    let leaf = CertificateDer::from_pem_file(house.pki().join("admin.pem")).unwrap();
    let peer: Peer = house.identity.peer(&leaf, None).unwrap();
    let why = house.identity.check(&peer).unwrap_err();
    assert!(matches!(why, Unauthenticated::Expired { .. }), "{why}");
}

#[tokio::test]
async fn no_session_is_resumed() {
    let house = House::open(ROOMY).await;
    let config = Arc::new(bare_config(&house.pki(), true));
    for _ in 0..3 {
        let raw = UnixStream::connect(&house.socket).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut tls = TlsConnector::from(config.clone())
            .connect(name, raw)
            .await
            .unwrap();
        tls.read_exact(&mut [0; 9]).await.unwrap();
        let kind = tls.get_ref().1.handshake_kind().unwrap();
        assert_eq!(kind, rustls::HandshakeKind::Full);
    }
}

#[tokio::test]
async fn one_connection_too_many_is_told_so() {
    let house = House::open((64, 2, Duration::from_secs(10))).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(
            client::Node::connect(&house.target(&house.pki()))
                .await
                .unwrap(),
        );
    }
    let refused = alert_of(house.call(&house.pki()).await.unwrap_err());
    assert!(
        refused.contains("the tenant system uses 2 of its 2 of the quota connections"),
        "{refused}"
    );
    drop(held);
    let deadline = Instant::now() + Duration::from_secs(30);
    while house.call(&house.pki()).await.is_err() {
        assert!(Instant::now() < deadline, "places come back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn silent_and_slow_clients_are_dropped_and_harm_no_other() {
    let house = House::open((64, 64, Duration::from_secs(30))).await;
    let mut silent = Vec::new();
    for n in 0..200 {
        let mut stream = UnixStream::connect(&house.socket).await.unwrap();
        if n % 2 == 0 {
            // The beginning of a ClientHello, and nothing more.
            stream.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
        }
        silent.push(stream);
    }
    let start = Instant::now();
    assert_eq!(house.call(&house.pki()).await.unwrap(), Code::Unimplemented);
    // Not only once the silent ones were dropped.
    assert!(
        start.elapsed() < Duration::from_secs(29),
        "{:?}",
        start.elapsed()
    );
    for mut stream in silent {
        let mut alert = [0; 64];
        let closed = tokio::time::timeout(Duration::from_secs(60), stream.read(&mut alert));
        let read = closed.await.expect("closed in time");
        assert!(matches!(read, Ok(0 | 7) | Err(_)), "{read:?}");
    }
    assert!(!house.tasks.is_empty());
}

#[tokio::test]
async fn a_flood_of_connections_displaces_itself() {
    let house = House::open((64, 64, Duration::from_secs(20))).await;
    let mut flood = Vec::new();
    // Descriptors at both ends are this process's.
    for _ in 0..700 {
        match UnixStream::connect(&house.socket).await {
            Ok(stream) => flood.push(stream),
            Err(_) => break,
        }
    }
    let start = Instant::now();
    assert_eq!(house.call(&house.pki()).await.unwrap(), Code::Unimplemented);
    assert!(
        start.elapsed() < Duration::from_secs(15),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn a_stale_socket_is_replaced_a_live_one_and_a_file_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("aurae.sock");
    drop(bind_unix(&path).await.unwrap());
    assert!(path.exists(), "stale");
    let _live = bind_unix(&path).await.unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
    assert!(matches!(
        bind_unix(&path).await.unwrap_err(),
        ListenError::Taken(_)
    ));
    let file = dir.path().join("precious");
    std::fs::write(&file, "x").unwrap();
    assert!(matches!(
        bind_unix(&file).await.unwrap_err(),
        ListenError::NoSocket(_)
    ));
    assert!(file.exists());
}

#[tokio::test]
async fn who_never_begins_http_loses_the_connection() {
    let house = House::open(ROOMY).await;
    let config = Arc::new(bare_config(&house.pki(), true));
    let raw = UnixStream::connect(&house.socket).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = TlsConnector::from(config).connect(name, raw).await.unwrap();
    let mut all = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(60), tls.read_to_end(&mut all));
    let _eof_or_reset = closed.await.expect("closed in time");
}
