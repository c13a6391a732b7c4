// SPDX-License-Identifier: Apache-2.0
//! Authentication and authorization of callers: the trust domain's CA, users and grants, Cedar
//! policies, the audit.
//!
//! ```text
//!  handshake ── verify_client ──> Peer ── authorize(peer, action, target) ──> Permit ──> …
//!                                   │          │ check: expired? revoked? disabled?
//!                                   │          │ decide: Cedar over the user's slice
//!                                   └─ ended() │ record: one line of the audit
//! ```
//!
//! It knows no RPC (the actions are a list that the daemon passes in) and no socket
//! (`auraed/listen` does the handshake with [`Identity::server_config`]). The store's rows alone
//! say what a user may do; of a certificate only the name counts.

pub mod audit;
mod authn;
mod authz;
mod ca;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use model::name::Label;
use tokio::sync::{Mutex, watch};

use audit::{Audit, AuditError, AuditHeadSink, AuditLimits, Head};
use authz::actions::Actions;
use authz::directory::Directory;
use authz::policy::Engine;
use ca::authority::Authority;
use ca::certificates::LiveCertificate;
use ca::pki::Pki;
use ca::revocation_log::RevocationLog;
use store::{NodeFacts, Role, Store, StoreError, UserRow, now_ns};

pub use audit::AuditPage;
pub use authn::handshake_failures::{HANDSHAKE, Refusal};
pub use authn::peer::{Peer, SocketCredentials, Unauthenticated};
pub use authn::spiffe::{InvalidIdentity, SpiffeId, Subject, TrustDomain, UserKey};
pub use authz::actions::{ActionDef, Audience};
pub use authz::authorize::Denied;
pub use authz::grants::{Explanation, GrantRequest};
pub use authz::permit::{self, Permit};
pub use authz::policy::{Grant, PolicyError, Scope};
pub use authz::standing::Standing;
pub use authz::target::{Effect, Reach, Target};
pub use authz::users::{UserView, WhoAmI};
pub use ca::authority::AuthorityError;
pub use ca::issue::Issued;
pub use ca::offline::{MintError, Minted, mint_offline};
pub use ca::pki::PkiError;
pub use ca::revoke::CertificateView;

/// How long certificates live.
#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// How long a certificate of the node lives.
    pub node: Duration,
    /// Users': the default, and the longest that can be asked for.
    pub user: Duration,
    /// The administrator's file under the state directory.
    pub administrator: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        Self {
            node: DAY,
            user: DAY,
            administrator: 365 * DAY,
        }
    }
}

/// The options that identity is started with.
pub struct Options {
    /// Holds `pki/` and `audit/`.
    pub state_dir: PathBuf,
    /// The node's name, as in its SPIFFE ID.
    pub node: Label,
    /// The trust domain of a new CA; an existing CA must be of the same.
    pub trust_domain: TrustDomain,
    /// How long certificates live.
    pub lifetimes: Lifetimes,
    /// All actions, one row per method of the API.
    pub actions: Vec<ActionDef>,
    /// The bounds of the audit's files.
    pub audit: AuditLimits,
    /// The head of the audit that node-init keeps, which the file must reach.
    pub audit_head: Option<Head>,
    /// Gets the audit's head after each commit.
    pub audit_sink: Box<dyn AuditHeadSink>,
}

/// Why identity can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file under `pki/`.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// The database can't be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The audit can't be opened.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The actions or the built-in policies.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A name isn't valid.
    #[error(transparent)]
    Name(#[from] InvalidIdentity),
    /// The server's TLS can't be configured.
    #[error("TLS can't be set up: {0}")]
    Tls(String),
    /// The configured trust domain isn't the CA's.
    #[error(
        "node.trust_domain is {configured}, but the CA in {file} is of {found}: configure {found}, or \
         move the folder pki away to make a new CA (every certificate must then be issued again)"
    )]
    OtherTrustDomain {
        /// The trust domain of the configuration.
        configured: String,
        /// The trust domain of the CA's certificate.
        found: String,
        /// The path of the CA's certificate.
        file: PathBuf,
    },
}

/// Identity, running. Shared by all requests.
pub struct Identity {
    node: Label,
    lifetimes: ArcSwap<Lifetimes>,
    authority: Authority,
    pki: Pki,
    actions: Actions,
    engine: Engine,
    store: Store,
    audit: Audit,
    revocation_log: RevocationLog,
    directory: ArcSwap<Directory>,
    /// Held while the store and the snapshot are changed, so that both see changes in one order.
    changing: Mutex<()>,
    /// Counts snapshots; streams wait for its changes.
    changes: watch::Sender<u64>,
    certificate: Arc<LiveCertificate>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// Opens the files and the database; at a first start creates the CA, the node's certificate
    /// and the administrator with credentials.
    ///
    /// # Errors
    /// [`StartError`]: a file of `pki`, the database or the audit can't be used, or the CA is of
    /// another trust domain. It names the file and what to do.
    pub async fn start(options: Options, store: Store) -> Result<Self, StartError> {
        let pki = Pki::open(&options.state_dir)?;
        let authority = open_authority(&pki, &options.trust_domain)?;
        let certificate = LiveCertificate::start(&pki, &authority, &options)?;
        first_administrator(&pki, &authority, &store, options.lifetimes.administrator).await?;
        note_facts(&store, &options.node, authority.domain()).await?;
        let actions = Actions::new(options.actions);
        let engine = Engine::new(&actions)?;
        let revocation_log = RevocationLog::reconcile(&pki, &store, now_ns()).await?;
        let directory = Directory::load(&store).await?;
        let audit = Audit::open(
            &options.state_dir,
            options.audit,
            options.audit_head,
            options.audit_sink,
        )?;
        Ok(Self {
            node: options.node,
            lifetimes: ArcSwap::from_pointee(options.lifetimes),
            authority,
            pki,
            actions,
            engine,
            store,
            audit,
            revocation_log,
            directory: ArcSwap::from_pointee(directory),
            changing: Mutex::new(()),
            changes: watch::Sender::new(0),
            certificate: Arc::new(certificate),
        })
    }

    /// The trust domain of the node's CA.
    pub fn trust_domain(&self) -> &TrustDomain {
        self.authority.domain()
    }

    /// Uses other lifetimes from now on (a reloaded configuration).
    pub fn set_lifetimes(&self, lifetimes: Lifetimes) {
        self.lifetimes.store(Arc::new(lifetimes));
    }

    /// The audit, for its health and its head.
    pub fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Publishes a new snapshot; the caller holds `changing`.
    fn publish(&self, directory: Directory) {
        self.directory.store(Arc::new(directory));
        self.changes.send_modify(|n| *n += 1);
    }
}

fn open_authority(pki: &Pki, domain: &TrustDomain) -> Result<Authority, StartError> {
    let Some(authority) = pki.authority()? else {
        let made = pki.create_authority(domain, SystemTime::now())?;
        tracing::info!(%domain, "made the CA of a new trust domain");
        return Ok(made);
    };
    if authority.domain() != domain {
        return Err(StartError::OtherTrustDomain {
            configured: domain.to_string(),
            found: authority.domain().to_string(),
            file: pki.file("ca.pem"),
        });
    }
    Ok(authority)
}

/// The administrator's row and files. The row comes back after a lost database; the files are made
/// once, and renewed while they are there: an administrator may remove them, and they stay away.
async fn first_administrator(
    pki: &Pki,
    authority: &Authority,
    store: &Store,
    lifetime: Duration,
) -> Result<(), StartError> {
    let key = UserKey::administrator()?;
    let row = UserRow {
        tenant: key.tenant.to_string(),
        name: key.name.to_string(),
        role: Some(Role::Administrator),
        disabled: false,
        created_ns: now_ns(),
    };
    store.add_user(row).await?;
    let first = store.node_facts().await?.is_none() && pki.read("admin.pem")?.is_none();
    let due = pki
        .pair("admin")?
        .is_some_and(|p| p.is_due(SystemTime::now()));
    if first || due {
        pki.renew("admin", authority, &Subject::User(key), lifetime)?;
    }
    Ok(())
}

async fn note_facts(store: &Store, node: &Label, domain: &TrustDomain) -> Result<(), StoreError> {
    let facts = NodeFacts {
        node: node.to_string(),
        trust_domain: domain.to_string(),
    };
    if store.node_facts().await?.as_ref() == Some(&facts) {
        return Ok(());
    }
    store.put_node_facts(facts).await
}
