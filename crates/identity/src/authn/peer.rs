// SPDX-License-Identifier: Apache-2.0
//! The authenticated caller at the other end of a connection. A `Peer` exists only for a
//! certificate that the handshake has verified. For every request it is checked again that the
//! certificate still counts, and open streams end when it doesn't.

use std::sync::Arc;
use std::time::Duration;

use model::error::{Error, Reason};

use super::spiffe::{CertificateFacts, InvalidIdentity, Subject, UserKey};
use crate::Identity;

/// How often an open stream looks at the clock: it must end within a second of its peer, also when
/// the clock was set meanwhile.
const CLOCK_CHECK: Duration = Duration::from_millis(500);
/// Between the last look at a certificate and its end, within the second that clocks here count in.
const SOON: Duration = Duration::from_millis(100);
/// How often an idle connection looks at the clock. It sends no data, and each of its requests is
/// checked, so this is rare.
const COARSE_CLOCK_CHECK: Duration = Duration::from_secs(30);

/// The process at a Unix socket's other end, as the kernel says (`SO_PEERCRED`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketCredentials {
    /// The user id of the process that connected.
    pub uid: u32,
    /// Its process id then; 0 where the kernel doesn't say.
    pub pid: i32,
}

/// An authenticated caller; cheap to clone, as every request does.
#[derive(Clone, Debug)]
pub struct Peer {
    pub(crate) user: Arc<UserKey>,
    pub(crate) id: Arc<str>,
    pub(crate) serial: Arc<str>,
    /// When the certificate was signed, seconds since the epoch.
    pub(crate) issued: i64,
    pub(crate) not_after: i64,
    pub(crate) socket: Option<SocketCredentials>,
}

impl Peer {
    /// The SPIFFE ID of the certificate.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The user of the certificate.
    pub fn user(&self) -> &UserKey {
        &self.user
    }

    /// The certificate's serial number, hexadecimal.
    pub fn serial(&self) -> &str {
        &self.serial
    }

    /// The certificate's end, seconds since the epoch.
    pub fn not_after(&self) -> i64 {
        self.not_after
    }

    /// The other end's process, where it came over a Unix socket.
    pub fn socket(&self) -> Option<SocketCredentials> {
        self.socket
    }

    pub(crate) fn is_root(&self) -> bool {
        self.socket.is_some_and(|s| s.uid == 0)
    }
}

/// Why a caller with a certificate of ours is not served.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unauthenticated {
    /// The certificate has expired.
    #[error("the certificate {serial} of {user} has expired")]
    Expired {
        /// The user that the certificate names.
        user: String,
        /// The certificate's serial number, hexadecimal.
        serial: String,
    },
    /// The certificate was revoked.
    #[error("the certificate {serial} of {user} was revoked{}", because(.reason))]
    Revoked {
        /// The user that the certificate names.
        user: String,
        /// The certificate's serial number, hexadecimal.
        serial: String,
        /// Why, for people; may be empty.
        reason: String,
    },
    /// The user was disabled.
    #[error("the user {user} was disabled")]
    Disabled {
        /// The user that the certificate names.
        user: String,
    },
    /// The node's store has no such user.
    #[error("the node knows no user {user}")]
    Unknown {
        /// The user that the certificate names.
        user: String,
    },
}

fn because(reason: &str) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!(": {reason}")
    }
}

impl Unauthenticated {
    /// The reason's name, for the audit line's field of policies.
    pub(crate) fn name(&self) -> &'static str {
        self.reason().as_str()
    }

    fn reason(&self) -> Reason {
        match self {
            Self::Expired { .. } => Reason::CertExpired,
            Self::Revoked { .. } => Reason::CertRevoked,
            Self::Disabled { .. } => Reason::UserDisabled,
            Self::Unknown { .. } => Reason::CertInvalid,
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Expired { .. } => {
                "ask an administrator for a new one; root on the node can run `auraed credentials`"
            }
            Self::Revoked { .. } => "ask an administrator for a new one",
            Self::Disabled { .. } => "ask an administrator",
            Self::Unknown { .. } => {
                "ask an administrator to create the user (the node may have lost its database)"
            }
        }
    }
}

impl From<Unauthenticated> for Error {
    fn from(error: Unauthenticated) -> Self {
        Error::new(error.reason(), error.to_string()).hint(error.hint())
    }
}

impl Identity {
    /// The caller that a verified certificate speaks for.
    ///
    /// # Errors
    /// The certificate is of another trust domain, or a node's: nodes don't call nodes. Or it can't
    /// be read.
    pub fn peer(
        &self,
        certificate: &[u8],
        socket: Option<SocketCredentials>,
    ) -> Result<Peer, InvalidIdentity> {
        let facts = CertificateFacts::from_der(certificate)?;
        if facts.id.domain != *self.authority.domain() {
            let words = format!(
                "{} is not of trust domain {}",
                facts.id,
                self.authority.domain()
            );
            return Err(InvalidIdentity(words));
        }
        let id = facts.id.to_string();
        match facts.id.subject {
            Subject::User(user) => Ok(Peer {
                user: Arc::new(user),
                id: id.into(),
                serial: facts.serial.into(),
                issued: facts.issued,
                not_after: facts.not_after,
                socket,
            }),
            Subject::Node(_) => Err(InvalidIdentity(format!("{id} is a node, not a user"))),
        }
    }

    /// Whether requests of this caller are served at this moment.
    ///
    /// # Errors
    /// Why they aren't: see [`Unauthenticated`].
    pub fn check(&self, peer: &Peer) -> Result<(), Unauthenticated> {
        let directory = self.directory.load();
        let user = || peer.user.to_string();
        if let Some(reason) = directory.revoked.get(&*peer.serial) {
            return Err(Unauthenticated::Revoked {
                user: user(),
                serial: peer.serial.to_string(),
                reason: reason.to_string(),
            });
        }
        if !directory.issued_in_time(&peer.user, peer.issued) {
            return Err(Unauthenticated::Revoked {
                user: user(),
                serial: peer.serial.to_string(),
                reason: "every certificate of the user up to a moment was".to_owned(),
            });
        }
        if now_seconds() > peer.not_after {
            return Err(Unauthenticated::Expired {
                user: user(),
                serial: peer.serial.to_string(),
            });
        }
        match directory.accounts.get(&*peer.user) {
            None => Err(Unauthenticated::Unknown { user: user() }),
            Some(account) if account.disabled => Err(Unauthenticated::Disabled { user: user() }),
            Some(_) => Ok(()),
        }
    }

    /// Waits until requests of this caller are no longer served, and says why. For streams: race it
    /// against the next message. Answers within a second of revocation, expiry or disabling.
    pub async fn ended(&self, peer: &Peer) -> Unauthenticated {
        self.ended_checking(peer, CLOCK_CHECK).await
    }

    /// [`Identity::ended`] for whole connections: it wakes up seldom, so that idle ones cost
    /// nothing. It may be half a minute late only after the clock was set.
    pub async fn ended_coarsely(&self, peer: &Peer) -> Unauthenticated {
        self.ended_checking(peer, COARSE_CLOCK_CHECK).await
    }

    async fn ended_checking(&self, peer: &Peer, every: Duration) -> Unauthenticated {
        let mut changes = self.changes.subscribe();
        loop {
            if let Err(why) = self.check(peer) {
                return why;
            }
            let left = u64::try_from(peer.not_after.saturating_add(1) - now_seconds()).unwrap_or(0);
            let every = every.min(Duration::from_secs(left)).max(SOON);
            tokio::select! {
                // The sender lives as long as `self`.
                _ = changes.changed() => {}
                () = tokio::time::sleep(every) => {}
            }
        }
    }
}

/// Whole seconds since 1970, as certificates count time.
fn now_seconds() -> i64 {
    store::now_ns() / 1_000_000_000
}
