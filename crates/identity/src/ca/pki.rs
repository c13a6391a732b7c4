// SPDX-License-Identifier: Apache-2.0
//! The files of `STATE_DIR/pki`: the CA, the node's and the administrator's keys and certificates.
//! All are 0600, and each is replaced as a whole, so that no reader and no crash ever sees a half
//! of one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::authority::{Authority, AuthorityError};
use crate::authn::spiffe::{CertificateFacts, Subject, TrustDomain};

/// A failure with one of the files.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// It can't be read or written.
    #[error("{file} can't be {what}: {source}")]
    Io {
        /// The file's path.
        file: PathBuf,
        /// `read` or `written`.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Its content can't be used.
    #[error("{file}: {problem}")]
    Content {
        /// The file's path.
        file: PathBuf,
        /// The defect, and what to do.
        problem: String,
    },
}

/// The folder `STATE_DIR/pki`.
#[derive(Clone, Debug)]
pub(crate) struct Pki {
    dir: PathBuf,
}

/// A key with its certificate, as they are on disk.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) key_pem: String,
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) facts: CertificateFacts,
}

impl Pki {
    /// Makes the folder, 0700, where it isn't there.
    pub(crate) fn open(state_dir: &Path) -> Result<Self, PkiError> {
        let dir = state_dir.join("pki");
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir);
        made.map_err(|source| PkiError::Io {
            file: dir.clone(),
            what: "made",
            source,
        })?;
        Ok(Self { dir })
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn content(&self, name: &str, problem: impl ToString) -> PkiError {
        PkiError::Content {
            file: self.file(name),
            problem: problem.to_string(),
        }
    }

    pub(crate) fn read(&self, name: &str) -> Result<Option<String>, PkiError> {
        let file = self.file(name);
        match fs::read_to_string(&file) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(PkiError::Io {
                file,
                what: "read",
                source,
            }),
        }
    }

    /// Replaces the file and has it on disk when it returns.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), PkiError> {
        self.replace(name, text).map_err(|source| PkiError::Io {
            file: self.file(name),
            what: "written",
            source,
        })
    }

    fn replace(&self, name: &str, text: &str) -> io::Result<()> {
        let new = self.file(&format!(".{name}.new"));
        // Left behind by a crash, perhaps with another mode.
        match fs::remove_file(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, self.file(name))?;
        File::open(&self.dir)?.sync_all()
    }

    /// The CA of the files; `None` at a first start.
    pub(crate) fn authority(&self) -> Result<Option<Authority>, PkiError> {
        let Some(certificate) = self.read("ca.pem")? else {
            return Ok(None);
        };
        let Some(key) = self.read("ca.key")? else {
            let problem = "is missing beside ca.pem; restore it, or move the folder pki away to \
                           make a new CA (every certificate must then be issued again)";
            return Err(self.content("ca.key", problem));
        };
        let authority = Authority::from_pem(&certificate, &key);
        authority.map(Some).map_err(|e| self.content("ca.pem", e))
    }

    /// Makes and stores a CA. The certificate is written last: a CA exists when its certificate
    /// does.
    pub(crate) fn create_authority(
        &self,
        domain: &TrustDomain,
        now: SystemTime,
    ) -> Result<Authority, PkiError> {
        let made = Authority::create(domain, now);
        let (authority, key) = made.map_err(|e| self.content("ca.pem", e))?;
        self.write("ca.key", &key)?;
        self.write("ca.pem", authority.pem())?;
        Ok(authority)
    }

    /// The pair NAME.pem and NAME.key; `None` where it isn't complete or can't be read as one.
    pub(crate) fn pair(&self, name: &str) -> Result<Option<Pair>, PkiError> {
        let pem = self.read(&format!("{name}.pem"))?;
        let key = self.read(&format!("{name}.key"))?;
        let Some((pem, key_pem)) = pem.zip(key) else {
            return Ok(None);
        };
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).ok();
        let facts = certificate.and_then(|c| Some((CertificateFacts::from_der(&c).ok()?, c)));
        let key = KeyPair::from_pem(&key_pem).is_ok();
        Ok(facts.filter(|_| key).map(|(facts, certificate)| Pair {
            key_pem,
            certificate,
            facts,
        }))
    }

    /// Signs a new NAME.pem, for the key that is there or, without one, for a new key.
    pub(crate) fn renew(
        &self,
        name: &str,
        authority: &Authority,
        subject: &Subject,
        lifetime: Duration,
    ) -> Result<Pair, PkiError> {
        let (pem_name, key_name) = (format!("{name}.pem"), format!("{name}.key"));
        let fail = |e: AuthorityError| self.content(&pem_name, e);
        let known = self
            .read(&key_name)?
            .and_then(|k| KeyPair::from_pem(&k).ok());
        let key = match known {
            Some(key) => key,
            None => {
                let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
                    .map_err(|e| fail(AuthorityError::Signing(e)))?;
                self.write(&key_name, &key.serialize_pem())?;
                key
            }
        };
        let signed = authority
            .sign(subject, &key, SystemTime::now(), lifetime)
            .map_err(fail)?;
        self.write(&pem_name, &signed.pem)?;
        let facts =
            CertificateFacts::from_der(&signed.der).map_err(|e| self.content(&pem_name, e))?;
        Ok(Pair {
            key_pem: key.serialize_pem(),
            certificate: signed.der,
            facts,
        })
    }
}

impl Pair {
    /// Whether two thirds of the certificate's life are over, at `now`.
    pub(crate) fn is_due(&self, now: SystemTime) -> bool {
        now >= self.due()
    }

    /// When two thirds are over.
    pub(crate) fn due(&self) -> SystemTime {
        let life = self.facts.not_after.saturating_sub(self.facts.not_before);
        let due = self.facts.not_after.saturating_sub(life / 3);
        UNIX_EPOCH + Duration::from_secs(u64::try_from(due).unwrap_or(0))
    }
}
