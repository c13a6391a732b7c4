// SPDX-License-Identifier: Apache-2.0
//! Identity's stories: first and second start, what users may do, revocation under open streams,
//! degraded nodes.

mod lineage;
mod local;
mod revocation_log;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Instant;

use model::name::{ObjectPath, Tenant};
use rcgen::{CertificateParams, KeyPair};

use model::error::{Error, Reason};

use super::audit::{Filter, Hash};
use super::*;
use store::GrantEffect;

struct NoSink;

impl AuditHeadSink for NoSink {
    fn put(&self, _sequence: u64, _hash: Hash) {}
}

fn actions() -> Vec<ActionDef> {
    use Audience::{Administrator, Member};
    let define = |&(name, audience, mutating): &(&'static str, Audience, bool)| ActionDef {
        name,
        audience,
        mutating,
        durable: name.starts_with("identity.") && mutating,
    };
    [
        ("runtime.Run", Member, true),
        ("runtime.Stop", Member, true),
        ("runtime.Get", Member, false),
        ("runtime.List", Member, false),
        ("observe.Logs", Member, false),
        ("identity.WhoAmI", Member, false),
        ("identity.Renew", Member, true),
        ("identity.CreateUser", Administrator, true),
        ("identity.Issue", Administrator, true),
        ("identity.Allow", Administrator, true),
        ("identity.Deny", Administrator, true),
        ("identity.Revoke", Administrator, true),
        ("identity.DisableUser", Administrator, true),
        ("identity.EnableUser", Administrator, true),
        ("identity.ListCertificates", Administrator, false),
        ("identity.Withdraw", Administrator, true),
        ("identity.Explain", Member, false),
        ("identity.Audit", Administrator, false),
        ("node.Shutdown", Administrator, true),
    ]
    .iter()
    .map(define)
    .collect()
}

fn options(dir: &Path, domain: &str) -> Options {
    Options {
        state_dir: dir.to_owned(),
        node: "n1".parse().unwrap(),
        trust_domain: domain.parse().unwrap(),
        lifetimes: Lifetimes::default(),
        actions: actions(),
        audit: AuditLimits::default(),
        audit_head: None,
        audit_sink: Box::new(NoSink),
    }
}

async fn start(dir: &Path) -> Identity {
    let store = Store::open(dir).unwrap();
    Identity::start(options(dir, "example.test"), store)
        .await
        .unwrap()
}

const ROOT: Option<SocketCredentials> = Some(SocketCredentials { uid: 0, pid: 1 });
const NOBODY: Option<SocketCredentials> = Some(SocketCredentials { uid: 65534, pid: 1 });

fn der(pem: &str) -> Vec<u8> {
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;
    CertificateDer::from_pem_slice(pem.as_bytes())
        .unwrap()
        .to_vec()
}

fn csr() -> String {
    let key = KeyPair::generate().unwrap();
    CertificateParams::new(vec!["ignored.test".to_owned()])
        .unwrap()
        .serialize_request(&key)
        .unwrap()
        .pem()
        .unwrap()
}

fn tenant(text: &str) -> Tenant {
    text.parse().unwrap()
}

fn path(text: &str) -> ObjectPath {
    text.parse().unwrap()
}

fn on(of: &str, at: &str) -> Target {
    Target::of(Some(tenant(of)), Some(path(at)))
}

/// A node with an administrator and the users `a/ann` and `b/bob`.
struct World {
    dir: tempfile::TempDir,
    identity: Identity,
    admin: Peer,
    ann: Peer,
    bob: Peer,
}

impl World {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let identity = start(dir.path()).await;
        let pem = std::fs::read_to_string(dir.path().join("pki/admin.pem")).unwrap();
        let admin = identity.peer(&der(&pem), ROOT).unwrap();
        let ann = join(&identity, &admin, "a", "ann", None).await;
        let bob = join(&identity, &admin, "b", "bob", None).await;
        Self {
            dir,
            identity,
            admin,
            ann,
            bob,
        }
    }

    async fn permit(&self, action: &str, target: Target) -> Permit {
        self.identity
            .authorize(&self.admin, action, target)
            .await
            .unwrap()
    }

    async fn reason(&self, peer: &Peer, action: &str, target: Target) -> Option<Reason> {
        let denied = self.identity.authorize(peer, action, target).await.err()?;
        Some(Error::from(denied).reason)
    }

    async fn grant(
        &self,
        user: &Peer,
        effect: GrantEffect,
        action: &str,
        target: &str,
        path: Option<ObjectPath>,
    ) -> Grant {
        let permit = self
            .permit("identity.Allow", Target::of(Some(tenant(target)), None))
            .await;
        let request = GrantRequest {
            user: user.user().clone(),
            effect,
            action: action.into(),
            path,
        };
        self.identity.grant(permit, request).await.unwrap()
    }
}

async fn join(
    identity: &Identity,
    admin: &Peer,
    of: &str,
    name: &str,
    lifetime: Option<Duration>,
) -> Peer {
    let target = || Target::of(Some(tenant(of)), None);
    let permit = identity
        .authorize(admin, "identity.CreateUser", target())
        .await
        .unwrap();
    let _there_already = identity
        .create_user(permit, name.parse().unwrap(), false)
        .await;
    let permit = identity
        .authorize(admin, "identity.Issue", target())
        .await
        .unwrap();
    let issued = identity
        .issue(permit, name.parse().unwrap(), &csr(), lifetime)
        .await
        .unwrap();
    assert_eq!(
        issued.spiffe_id,
        format!("spiffe://example.test/tenant/{of}/user/{name}")
    );
    identity
        .peer(&der(&issued.certificate_pem), NOBODY)
        .unwrap()
}

#[tokio::test]
async fn a_first_start_makes_private_credentials_and_a_second_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    drop(start(dir.path()).await);
    let names = [
        "ca.pem",
        "ca.key",
        "node.pem",
        "node.key",
        "admin.pem",
        "admin.key",
    ];
    let read = |name: &str| std::fs::read_to_string(dir.path().join("pki").join(name)).unwrap();
    let before: Vec<String> = names.iter().map(|n| read(n)).collect();
    for name in names {
        let file = dir.path().join("pki").join(name);
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    drop(start(dir.path()).await);
    let after: Vec<String> = names.iter().map(|n| read(n)).collect();
    assert_eq!(before, after);

    let store = Store::open(dir.path()).unwrap();
    let other = Identity::start(options(dir.path(), "other.test"), store)
        .await
        .unwrap_err();
    assert!(other.to_string().contains("of example.test"), "{other}");
    std::fs::remove_file(dir.path().join("pki/ca.key")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let lost = Identity::start(options(dir.path(), "example.test"), store)
        .await
        .unwrap_err();
    assert!(lost.to_string().contains("ca.key"), "{lost}");
}

#[tokio::test]
async fn the_nodes_certificate_is_a_spiffe_id_with_dns_names() {
    let world = World::new().await;
    let pem = std::fs::read_to_string(world.dir.path().join("pki/node.pem")).unwrap();
    let bytes = der(&pem);
    let (_, certificate) = x509_parser::parse_x509_certificate(&bytes).unwrap();
    let names = certificate.subject_alternative_name().unwrap().unwrap();
    let names: Vec<String> = names
        .value
        .general_names
        .iter()
        .map(|n| n.to_string())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names[0].contains("spiffe://example.test/node/n1"));
    assert!(names[1].contains("localhost") && names[2].contains("n1"));
    let error = world.identity.peer(&bytes, ROOT).unwrap_err();
    assert!(error.to_string().contains("is a node"), "{error}");
}

#[tokio::test]
async fn a_lost_database_keeps_the_administrator_and_forgets_the_users() {
    let world = World::new().await;
    let (ann, admin) = (world.ann.clone(), world.admin.clone());
    let dir = world.dir;
    drop(world.identity);
    for name in ["aurae.db", "aurae.db-wal", "aurae.db-shm"] {
        let _ = std::fs::remove_file(dir.path().join(name));
    }
    let identity = start(dir.path()).await;
    identity.check(&admin).unwrap();
    let why = identity.check(&ann).unwrap_err();
    assert!(matches!(why, Unauthenticated::Unknown { .. }), "{why}");
}

#[tokio::test]
async fn tenants_have_their_own_and_see_nothing_of_others() {
    let world = World::new().await;
    let (ann, bob, admin) = (&world.ann, &world.bob, &world.admin);
    for action in ["runtime.Run", "runtime.Stop", "runtime.Get", "observe.Logs"] {
        assert_eq!(
            world.reason(ann, action, on("a", "web")).await,
            None,
            "{action}"
        );
        assert_eq!(
            world.reason(admin, action, on("a", "web")).await,
            None,
            "{action}"
        );
        let hidden = world.reason(bob, action, on("a", "web")).await;
        assert_eq!(hidden, Some(Reason::NotFound), "{action}");
    }
    let everybody = world
        .reason(ann, "runtime.List", Target::every_tenant())
        .await;
    assert_eq!(everybody, Some(Reason::PermissionDenied));
    let everybody = world.permit("runtime.List", Target::every_tenant()).await;
    assert!(everybody.every_tenant() && everybody.is_administrator());
    let shutdown = world.reason(ann, "node.Shutdown", Target::own()).await;
    assert_eq!(shutdown, Some(Reason::PermissionDenied));
    let defect = world.reason(ann, "runtime.Nothing", Target::own()).await;
    assert_eq!(defect, Some(Reason::Internal));
}

#[tokio::test]
async fn a_user_of_the_system_tenant_is_no_administrator_by_that() {
    let world = World::new().await;
    let sys = join(&world.identity, &world.admin, "system", "sys", None).await;
    let denied = world
        .reason(&sys, "identity.CreateUser", Target::own())
        .await;
    assert_eq!(denied, Some(Reason::PermissionDenied));
    assert_eq!(
        world.reason(&sys, "runtime.Get", on("a", "web")).await,
        Some(Reason::NotFound)
    );
}

#[tokio::test]
async fn grants_take_effect_at_once_deny_wins_and_withdrawing_undoes() {
    let world = World::new().await;
    let bob = &world.bob;
    let at = || on("a", "web/nginx");
    let allow = world
        .grant(bob, GrantEffect::Allow, "runtime", "a", Some(path("web")))
        .await;
    assert_eq!(world.reason(bob, "runtime.Stop", at()).await, None);
    assert_eq!(
        world.reason(bob, "runtime.Stop", on("a", "web-2")).await,
        Some(Reason::NotFound)
    );
    assert_eq!(
        world.reason(bob, "observe.Logs", at()).await,
        Some(Reason::NotFound)
    );
    let deny = world
        .grant(bob, GrantEffect::Deny, "runtime.Stop", "a", None)
        .await;
    assert_eq!(
        world.reason(bob, "runtime.Stop", at()).await,
        Some(Reason::NotFound)
    );
    assert_eq!(world.reason(bob, "runtime.Get", at()).await, None);

    let permit = world.permit("identity.Explain", Target::own()).await;
    let target = tenant("a");
    let explain = |action: &str| {
        let at = path("web/nginx");
        let user = bob.user();
        world
            .identity
            .explain(&permit, user, action, Some(&target), Some(&at))
            .unwrap()
    };
    let stop = explain("runtime.Stop");
    assert_eq!(
        (stop.allowed, &stop.policies[..]),
        (false, &[deny.id.clone()][..])
    );
    assert_eq!(
        explain("runtime.Get").policies,
        std::slice::from_ref(&allow.id)
    );
    let nothing = explain("observe.Logs");
    assert!(nothing.policies.is_empty() && nothing.explanation.contains("no policy permits"));

    let permit = world.permit("identity.Withdraw", Target::own()).await;
    world.identity.withdraw(permit, &deny.id).await.unwrap();
    assert_eq!(world.reason(bob, "runtime.Stop", at()).await, None);
    let permit = world.permit("identity.Withdraw", Target::own()).await;
    let again = world.identity.withdraw(permit, &deny.id).await.unwrap_err();
    assert_eq!(again.reason, Reason::NotFound);
    // Of the own tenant, a refusal is no secret.
    world
        .grant(bob, GrantEffect::Deny, "runtime.Stop", "b", None)
        .await;
    let own = world.reason(bob, "runtime.Stop", on("b", "web")).await;
    assert_eq!(own, Some(Reason::PermissionDenied));
}

#[tokio::test]
async fn grants_survive_a_restart() {
    let world = World::new().await;
    world
        .grant(&world.bob, GrantEffect::Allow, "runtime.Get", "a", None)
        .await;
    let (dir, bob) = (world.dir, world.bob);
    drop(world.identity);
    let identity = start(dir.path()).await;
    identity
        .authorize(&bob, "runtime.Get", on("a", "web"))
        .await
        .unwrap();
}

#[tokio::test]
async fn no_user_grants_more_than_it_has() {
    let world = World::new().await;
    let ann = &world.ann;
    for action in [
        "identity.Allow",
        "identity.Issue",
        "identity.Deny",
        "identity.Revoke",
    ] {
        world
            .grant(ann, GrantEffect::Allow, action, "a", None)
            .await;
    }
    let grant = |user: &UserKey, effect, action: &str| GrantRequest {
        user: user.clone(),
        effect,
        action: action.into(),
        path: None,
    };
    let permit = || {
        world
            .identity
            .authorize(ann, "identity.Allow", Target::own())
    };
    let own = grant(ann.user(), GrantEffect::Allow, "runtime.Stop");
    world
        .identity
        .grant(permit().await.unwrap(), own)
        .await
        .unwrap();
    for action in ["identity", "node.Shutdown", "node", "identity.CreateUser"] {
        let request = grant(ann.user(), GrantEffect::Allow, action);
        let error = world
            .identity
            .grant(permit().await.unwrap(), request)
            .await
            .unwrap_err();
        assert_eq!(error.reason, Reason::PermissionDenied, "{action}");
    }
    let foreign = grant(world.bob.user(), GrantEffect::Allow, "runtime.Stop");
    let error = world
        .identity
        .grant(permit().await.unwrap(), foreign)
        .await
        .unwrap_err();
    assert_eq!(error.reason, Reason::NotFound);
    let unknown = grant(ann.user(), GrantEffect::Allow, "runtime.Nothing\"");
    let error = world
        .identity
        .grant(permit().await.unwrap(), unknown)
        .await
        .unwrap_err();
    assert_eq!(error.field.as_deref(), Some("action"));
}

#[tokio::test]
async fn a_delegate_in_the_system_tenant_cant_become_an_administrator() {
    let world = World::new().await;
    let sys = join(&world.identity, &world.admin, "system", "sys", None).await;
    world
        .grant(&sys, GrantEffect::Allow, "identity", "system", None)
        .await;
    let permit = world
        .identity
        .authorize(&sys, "identity.Issue", Target::own())
        .await
        .unwrap();
    let issue = world
        .identity
        .issue(permit, "admin".parse().unwrap(), &csr(), None)
        .await;
    assert_eq!(issue.unwrap_err().reason, Reason::PermissionDenied);
    let permit = world
        .identity
        .authorize(&sys, "identity.DisableUser", Target::own())
        .await;
    let disable = world
        .identity
        .disable_user(permit.unwrap(), "admin".parse().unwrap())
        .await;
    assert_eq!(disable.unwrap_err().reason, Reason::PermissionDenied);
}

#[tokio::test]
async fn the_administrator_cant_be_locked_out() {
    let world = World::new().await;
    let permit = world.permit("identity.DisableUser", Target::own()).await;
    let error = world
        .identity
        .disable_user(permit, "admin".parse().unwrap())
        .await
        .unwrap_err();
    assert_eq!(error.reason, Reason::PermissionDenied);
    let permit = world.permit("identity.Deny", Target::own()).await;
    let request = GrantRequest {
        user: world.admin.user().clone(),
        effect: GrantEffect::Deny,
        action: "identity".into(),
        path: None,
    };
    let error = world.identity.grant(permit, request).await.unwrap_err();
    assert_eq!(error.reason, Reason::PermissionDenied);

    let permit = world.permit("identity.Revoke", Target::own()).await;
    world
        .identity
        .revoke(permit, world.admin.serial(), "lost")
        .await
        .unwrap();
    let refused = world
        .reason(&world.admin, "runtime.List", Target::own())
        .await;
    assert_eq!(refused, Some(Reason::CertRevoked));
    let minted = mint_offline(world.dir.path(), Duration::from_secs(3600)).unwrap();
    let pem = std::fs::read_to_string(minted.certificate).unwrap();
    let admin = world.identity.peer(&der(&pem), ROOT).unwrap();
    assert_eq!(
        world.reason(&admin, "runtime.List", Target::own()).await,
        None
    );
    let nowhere = tempfile::tempdir().unwrap();
    let error = mint_offline(nowhere.path(), Duration::from_secs(1)).unwrap_err();
    assert!(error.to_string().contains("there is no CA"), "{error}");
}

#[tokio::test]
async fn open_streams_learn_of_revocation_disabling_and_expiry_within_a_second() {
    let world = World::new().await;
    let within = |peer: Peer| {
        let identity = &world.identity;
        async move { tokio::time::timeout(Duration::from_secs(20), identity.ended(&peer)).await }
    };
    let (ended, ()) = tokio::join!(within(world.ann.clone()), async {
        let permit = world.permit("identity.Revoke", Target::own()).await;
        let upper = world.ann.serial().to_uppercase();
        world.identity.revoke(permit, &upper, "").await.unwrap();
    });
    assert!(matches!(ended.unwrap(), Unauthenticated::Revoked { .. }));
    let (ended, ()) = tokio::join!(within(world.bob.clone()), async {
        let permit = world
            .permit("identity.DisableUser", Target::of(Some(tenant("b")), None))
            .await;
        world
            .identity
            .disable_user(permit, "bob".parse().unwrap())
            .await
            .unwrap();
    });
    assert!(matches!(ended.unwrap(), Unauthenticated::Disabled { .. }));
    assert_eq!(
        world
            .reason(&world.bob, "runtime.Get", on("b", "web"))
            .await,
        Some(Reason::UserDisabled)
    );

    let soon = Some(Duration::from_secs(3));
    let brief = join(&world.identity, &world.admin, "c", "cat", soon).await;
    assert_eq!(
        world.reason(&brief, "runtime.Get", on("c", "web")).await,
        None
    );
    let ended = tokio::time::timeout(Duration::from_secs(20), world.identity.ended(&brief)).await;
    assert!(matches!(ended.unwrap(), Unauthenticated::Expired { .. }));
    let expired = world.reason(&brief, "runtime.Get", on("c", "web")).await;
    assert_eq!(expired, Some(Reason::CertExpired));
}

#[tokio::test]
async fn requests_to_sign_are_checked() {
    let world = World::new().await;
    let issue = |csr: String, lifetime: Option<u64>| {
        let world = &world;
        async move {
            let permit = world
                .permit("identity.Issue", Target::of(Some(tenant("a")), None))
                .await;
            let lifetime = lifetime.map(Duration::from_secs);
            let name = "ann".parse().unwrap();
            world
                .identity
                .issue(permit, name, &csr, lifetime)
                .await
                .map_err(|e| e.field.clone())
        }
    };
    let field = |name: &str| Some(name.to_owned());
    assert_eq!(
        issue("nonsense".into(), None).await.unwrap_err(),
        field("csr_pem")
    );
    assert_eq!(
        issue("x".repeat(20_000), None).await.unwrap_err(),
        field("csr_pem")
    );
    assert_eq!(issue(csr(), Some(0)).await.unwrap_err(), field("lifetime"));
    assert_eq!(
        issue(csr(), Some(25 * 3600)).await.unwrap_err(),
        field("lifetime")
    );
    // Another key under the same signature: the sender hasn't proved that it holds it.
    let (one, two) = (csr(), csr());
    let pem = |text: &str| {
        use rustls_pki_types::CertificateSigningRequestDer;
        use rustls_pki_types::pem::PemObject;
        CertificateSigningRequestDer::from_pem_slice(text.as_bytes())
            .unwrap()
            .to_vec()
    };
    let (mut forged, other) = (pem(&one), pem(&two));
    let differ = forged.iter().zip(&other).position(|(a, b)| a != b).unwrap();
    forged[differ] ^= 0xff;
    let forged = rustls_pki_types_pem(&forged);
    assert_eq!(issue(forged, None).await.unwrap_err(), field("csr_pem"));

    let good = issue(csr(), Some(60)).await.unwrap();
    let (_, parsed) = x509_parser::pem::parse_x509_pem(good.certificate_pem.as_bytes()).unwrap();
    let certificate = parsed.parse_x509().unwrap();
    let names = certificate.subject_alternative_name().unwrap().unwrap();
    assert_eq!(
        names.value.general_names.len(),
        1,
        "only the SPIFFE ID, nothing of the request"
    );
}

fn rustls_pki_types_pem(der: &[u8]) -> String {
    use std::fmt::Write;
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::from("-----BEGIN CERTIFICATE REQUEST-----\n");
    for chunk in der.chunks(3) {
        let bytes = [
            chunk[0],
            *chunk.get(1).unwrap_or(&0),
            *chunk.get(2).unwrap_or(&0),
        ];
        let n = u32::from(bytes[0]) << 16 | u32::from(bytes[1]) << 8 | u32::from(bytes[2]);
        for i in 0..4 {
            let c = ALPHABET[(n >> (18 - 6 * i) & 63) as usize] as char;
            write!(text, "{}", if i <= chunk.len() { c } else { '=' }).unwrap();
        }
    }
    text + "\n-----END CERTIFICATE REQUEST-----\n"
}

#[tokio::test]
async fn every_decision_is_a_line_of_an_intact_audit() {
    let world = World::new().await;
    world
        .identity
        .authorize(&world.ann, "runtime.Stop", on("a", "web").request("r1"))
        .await
        .unwrap();
    for _ in 0..50 {
        world
            .identity
            .authorize(&world.bob, "runtime.Stop", on("a", "web"))
            .await
            .unwrap_err();
    }
    let permit = world.permit("identity.Audit", Target::own()).await;
    let filter = Filter {
        action: Some("runtime.Stop".into()),
        ..Filter::default()
    };
    let page = world.identity.read_audit(permit, filter).await.unwrap();
    let seen: Vec<_> = page
        .lines
        .iter()
        .map(|(e, _)| {
            (
                e.actor.rsplit('/').next().unwrap(),
                e.allowed,
                e.count,
                &*e.request_id,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("ann", true, 1, "r1"),
            ("bob", false, 1, ""),
            ("bob", false, 49, "")
        ]
    );
    let allowed = &page.lines[0].0;
    assert_eq!(
        (allowed.uid, &allowed.policies[..]),
        (Some(65534), &["builtin.tenant".to_owned()][..])
    );
    let permit = world.permit("identity.Audit", Target::own()).await;
    let verdict = world.identity.verify_audit(permit).await.unwrap();
    assert!(verdict.intact, "{verdict:?}");
}

#[tokio::test]
async fn with_a_broken_audit_only_root_as_administrator_changes_things() {
    let world = World::new().await;
    let identity = &world.identity;
    // Her tenant's lines are in a file of their own.
    let before = identity.authorize(&world.ann, "runtime.Run", Target::own());
    before.await.unwrap();
    identity.audit().break_for_test("/dev/full");
    let root = &world.admin;
    let mut remote = root.clone();
    remote.socket = NOBODY;
    let reason = async |peer: &Peer, action: &str| {
        let denied = identity
            .authorize(peer, action, Target::own())
            .await
            .err()?;
        Some(Error::from(denied).reason)
    };
    assert_eq!(
        reason(&world.ann, "runtime.Run").await,
        Some(Reason::Degraded)
    );
    assert_eq!(reason(&remote, "runtime.Run").await, Some(Reason::Degraded));
    assert_eq!(reason(root, "runtime.Run").await, None);
    let mut ann_as_root = world.ann.clone();
    ann_as_root.socket = ROOT;
    assert_eq!(
        reason(&ann_as_root, "runtime.Run").await,
        Some(Reason::Degraded)
    );
    assert_eq!(
        reason(&world.ann, "runtime.Get").await,
        None,
        "reads are served"
    );
    assert!(identity.audit().health().degraded().is_some());
}

#[tokio::test]
async fn the_node_renews_its_certificate_while_serving() {
    let dir = tempfile::tempdir().unwrap();
    let mut short = options(dir.path(), "example.test");
    short.lifetimes.node = Duration::from_secs(1);
    let identity = Identity::start(short, Store::open(dir.path()).unwrap())
        .await
        .unwrap();
    let file = dir.path().join("pki/node.pem");
    let first = std::fs::read_to_string(&file).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let renewed = async {
        while std::fs::read_to_string(&file).unwrap() == first {
            assert!(Instant::now() < deadline);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = identity.keep_certificates() => unreachable!(),
        () = renewed => {}
    }
}

/// Not a benchmark, but it shows the figure, and a decision that asked the disk would fail it.
#[tokio::test]
async fn an_authorized_request_costs_microseconds() {
    let world = World::new().await;
    let rounds = 2000;
    let start = Instant::now();
    for _ in 0..rounds {
        let target = on("a", "web/nginx");
        world
            .identity
            .authorize(&world.ann, "runtime.Run", target)
            .await
            .unwrap();
    }
    let each = start.elapsed() / rounds;
    eprintln!("authorize, with its audit line: {each:?}");
    assert!(each < Duration::from_millis(20), "{each:?}");
}
