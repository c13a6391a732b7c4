// SPDX-License-Identifier: Apache-2.0
//! The server's half of mutual TLS 1.3: the configuration, and the check of a client's certificate.
//!
//! An expired certificate that the CA has signed for a user passes the handshake, so that the
//! caller gets an error with words (`UNAUTHENTICATED`, `CERT_EXPIRED`) instead of an alert;
//! `authorize` refuses each of its requests, as it does those with a revoked certificate. Every
//! other invalid certificate is refused here with an alert.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};

use super::spiffe::{CertificateFacts, Subject, TrustDomain};
use crate::{Identity, StartError};

impl Identity {
    /// TLS 1.3 with client certificates, HTTP/2, the node's live certificate, and no resumption: a
    /// resumed session would skip the look at a revoked certificate.
    ///
    /// # Errors
    /// The CA's certificate isn't accepted as a root, which a test of this crate excludes.
    pub fn server_config(&self) -> Result<ServerConfig, StartError> {
        let tls = |e: &dyn fmt::Display| StartError::Tls(e.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots
            .add(self.authority.certificate().clone())
            .map_err(|e| tls(&e))?;
        let chain = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
            .build()
            .map_err(|e| tls(&e))?;
        let verifier = UserVerifier {
            chain,
            domain: self.authority.domain().clone(),
            provider: provider.clone(),
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| tls(&e))?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_cert_resolver(self.certificate.clone());
        config.alpn_protocols = vec![b"h2".to_vec()];
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(config)
    }
}

struct UserVerifier {
    chain: Arc<dyn ClientCertVerifier>,
    domain: TrustDomain,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for UserVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserVerifier")
            .field("domain", &self.domain)
            .finish_non_exhaustive()
    }
}

impl UserVerifier {
    /// The name must be a user's, of this trust domain.
    fn check_name(&self, facts: &CertificateFacts) -> Result<(), Error> {
        let user = matches!(facts.id.subject, Subject::User(_));
        if user && facts.id.domain == self.domain {
            return Ok(());
        }
        // The alert is access_denied.
        Err(Error::InvalidCertificate(
            CertificateError::ApplicationVerificationFailure,
        ))
    }
}

// The last three methods are those of the client's `NodeVerifier`, too: of another trait, each one
// call. A crate below both sides that knew TLS would cost more than it saves.
impl ClientCertVerifier for UserVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let facts = CertificateFacts::from_der(leaf);
        let verified = match self.chain.verify_client_cert(leaf, intermediates, now) {
            // Expired, and nothing else, if it was good at its last moment.
            Err(Error::InvalidCertificate(
                CertificateError::Expired | CertificateError::ExpiredContext { .. },
            )) => {
                let last = facts
                    .as_ref()
                    .ok()
                    .and_then(|f| u64::try_from(f.not_after).ok());
                let last = std::time::Duration::from_secs(last.unwrap_or(0));
                let then = UnixTime::since_unix_epoch(last);
                self.chain.verify_client_cert(leaf, intermediates, then)?
            }
            // The CA's word on when it was is better than a clock that was set back.
            Err(Error::InvalidCertificate(CertificateError::NotValidYetContext {
                not_before,
                ..
            })) => self
                .chain
                .verify_client_cert(leaf, intermediates, not_before)?,
            other => other?,
        };
        let facts = facts.map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        self.check_name(&facts)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // Never asked: only TLS 1.3 is configured.
        Err(Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
