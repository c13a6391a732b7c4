// SPDX-License-Identifier: Apache-2.0
//! A new administrator's certificate for a process that can read the CA's key: root on the node,
//! with or without a daemon. `auraed credentials` calls it, so that root is never locked out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::pki::{Pki, PkiError};
use super::revocation_log;
use crate::authn::spiffe::{InvalidIdentity, Subject, UserKey};

/// The certificate that was signed, and its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minted {
    /// The path of the certificate's file.
    pub certificate: PathBuf,
    /// The path of the key's file.
    pub key: PathBuf,
    /// The path of the CA's file.
    pub ca: PathBuf,
    /// The administrator's SPIFFE ID.
    pub spiffe_id: String,
    /// The certificate's serial number, hexadecimal.
    pub serial: String,
    /// Seconds since the epoch.
    pub not_after: i64,
    /// The user was disabled; the daemon enables it at its next start.
    pub enabled_at_start: bool,
}

/// Why no certificate was signed.
#[derive(Debug, thiserror::Error)]
pub enum MintError {
    /// One of the files of `pki`.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// There is no CA yet.
    #[error("there is no CA in {0}: start `auraed` once, it makes one")]
    NoAuthority(PathBuf),
    /// A name in the CA's certificate.
    #[error(transparent)]
    Name(#[from] InvalidIdentity),
}

/// Signs a new `pki/admin.pem`, with a new key where there is none. Where `system/admin` is
/// disabled, the daemon enables it at its next start.
///
/// # Errors
/// [`MintError::NoAuthority`]: the daemon was never started. [`MintError::Pki`]: a file of `pki`
/// can't be read or written.
pub fn mint_offline(state_dir: &Path, lifetime: Duration) -> Result<Minted, MintError> {
    let dir = state_dir.join("pki");
    if !dir.join("ca.pem").exists() {
        return Err(MintError::NoAuthority(dir));
    }
    let pki = Pki::open(state_dir)?;
    let Some(authority) = pki.authority()? else {
        return Err(MintError::NoAuthority(dir));
    };
    let user = UserKey::administrator()?;
    let enabled_at_start = revocation_log::says_disabled(&pki, &user)?;
    if enabled_at_start {
        revocation_log::enable_later(&pki, &user)?;
    }
    let subject = Subject::User(user);
    let pair = pki.renew("admin", &authority, &subject, lifetime)?;
    Ok(Minted {
        certificate: pki.file("admin.pem"),
        key: pki.file("admin.key"),
        ca: pki.file("ca.pem"),
        spiffe_id: pair.facts.id.to_string(),
        serial: pair.facts.serial,
        not_after: pair.facts.not_after,
        enabled_at_start,
    })
}
