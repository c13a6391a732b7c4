// SPDX-License-Identifier: Apache-2.0
//! Certificates and keys on disk, and signing requests. A private key is made here and stays here:
//! what goes to a node is a signing request (PKCS #10).

use std::fmt;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::Target;
use crate::error::Error;
use crate::files;

/// The credentials of a connection: the client's certificate and key, and the CA that must have
/// signed the node's.
pub struct Credentials {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) roots: Vec<CertificateDer<'static>>,
    pub(crate) certificate_file: PathBuf,
    pub(crate) key_file: PathBuf,
    pub(crate) ca_file: PathBuf,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("certificate", &self.certificate_file)
            .field("ca", &self.ca_file)
            .finish_non_exhaustive()
    }
}

impl Credentials {
    /// Reads the three files of a target.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Credentials`], with the path.
    pub fn load(target: &Target) -> Result<Self, Error> {
        let key = files::read(&target.key)?;
        let key = PrivateKeyDer::from_pem_slice(&key)
            .map_err(|_| Error::credentials(&target.key, "there is no private key (PEM) in it"))?;
        Ok(Self {
            chain: certificates(&target.certificate)?,
            key,
            roots: certificates(&target.ca)?,
            certificate_file: target.certificate.clone(),
            key_file: target.key.clone(),
            ca_file: target.ca.clone(),
        })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = files::read(path)?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|problem| Error::credentials(path, format!("not PEM: {problem}")))?;
    if certificates.is_empty() {
        return Err(Error::credentials(
            path,
            "there is no certificate (PEM) in it",
        ));
    }
    Ok(certificates)
}

/// A private key that was made here.
pub struct NewKey {
    pair: KeyPair,
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NewKey")
    }
}

impl NewKey {
    /// Makes a key (ECDSA, P-256).
    ///
    /// # Errors
    /// [`Error::Credentials`] when the system gives no randomness.
    pub fn generate() -> Result<Self, Error> {
        let pair = KeyPair::generate().map_err(|problem| on_key(Path::new("new key"), &problem))?;
        Ok(Self { pair })
    }

    /// Reads a key that was made before.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Credentials`].
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = files::read_text(path)?;
        let pair = KeyPair::from_pem(&text).map_err(|problem| on_key(path, &problem))?;
        Ok(Self { pair })
    }

    /// The private key, PKCS #8 as PEM. To be written with [`crate::write_private`].
    pub fn to_pem(&self) -> String {
        self.pair.serialize_pem()
    }

    /// A signing request for it, PEM. The node uses its public key alone; the name is for people.
    ///
    /// # Errors
    /// [`Error::Credentials`] when signing fails.
    pub fn signing_request(&self, name: &str) -> Result<String, Error> {
        let fail = |problem: rcgen::Error| on_key(Path::new("signing request"), &problem);
        let mut params = CertificateParams::new(Vec::new()).map_err(fail)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let request = params.serialize_request(&self.pair).map_err(fail)?;
        request.pem().map_err(fail)
    }
}

fn on_key(path: &Path, problem: &rcgen::Error) -> Error {
    Error::credentials(path, problem.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_kept_and_asked_for_again_without_leaving() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("me.key");
        let key = NewKey::generate().unwrap();
        crate::write_private(&path, key.to_pem().as_bytes()).unwrap();
        let request = NewKey::load(&path).unwrap().signing_request("me").unwrap();
        assert!(request.starts_with("-----BEGIN CERTIFICATE REQUEST-----"));
        assert!(!request.contains("PRIVATE"));
    }

    #[test]
    fn a_file_that_is_no_certificate_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        std::fs::write(&path, "hello").unwrap();
        let message = certificates(&path).unwrap_err().to_string();
        assert!(
            message.contains("ca.pem") && message.contains("no certificate"),
            "{message}"
        );
    }
}
