// SPDX-License-Identifier: Apache-2.0
//! TLS to registries: TLS 1.2 and 1.3 by rustls with ring, the system's CAs and those of the host's
//! settings, and a client certificate where one is configured. Certificates are always verified.
//! Reads files; opens no connection.

use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::error::RegistryError;
use super::hosts::Settings;

/// The longest file of certificates or of a key, in bytes.
const LONGEST: u64 = 1 << 20;

/// The system's CA certificates, read once for all hosts.
pub(crate) fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // A bundle has certificates now and then that webpki can't read; the others count.
    let loaded = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(loaded.certs);
    roots
}

/// The configuration for a host.
///
/// # Errors
/// [`RegistryError::Config`] names the file that can't be read or isn't what it should be.
pub(crate) fn configure(
    settings: &Settings,
    system: &RootCertStore,
) -> Result<ClientConfig, RegistryError> {
    let mut roots = if settings.system_roots {
        system.clone()
    } else {
        RootCertStore::empty()
    };
    for path in &settings.ca {
        for certificate in certificates(path)? {
            let added = roots.add(certificate);
            added.map_err(|problem| config(path, problem.to_string()))?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|problem| config(Path::new("TLS"), problem.to_string()))?
        .with_root_certificates(roots);
    let mut made = match (&settings.client_certificate, &settings.client_key) {
        (Some(certificate), Some(key)) => builder
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
            .map_err(|problem| config(key, problem.to_string()))?,
        _ => builder.with_no_client_auth(),
    };
    made.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(made)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, RegistryError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|problem| config(path, format!("not PEM: {problem}")))?;
    if found.is_empty() {
        return Err(config(path, "has no certificate in PEM".to_owned()));
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, RegistryError> {
    let text = zeroize::Zeroizing::new(read(path)?);
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|problem| config(path, format!("has no private key in PEM: {problem}")))
}

fn read(path: &Path) -> Result<Vec<u8>, RegistryError> {
    use std::io::Read as _;
    let wrong = |problem: std::io::Error| config(path, problem.to_string());
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(wrong)?;
    file.take(LONGEST + 1)
        .read_to_end(&mut text)
        .map_err(wrong)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > LONGEST {
        return Err(config(path, format!("longer than {LONGEST} bytes")));
    }
    Ok(text)
}

fn config(path: &Path, problem: String) -> RegistryError {
    RegistryError::Config {
        path: path.to_owned(),
        problem,
    }
}
