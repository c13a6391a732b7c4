// SPDX-License-Identifier: Apache-2.0
//! The client's half of mutual TLS 1.3: the client's certificate, the check of the node's SPIFFE
//! ID, and refusals in words.
//!
//! A node is known by its SPIFFE ID (the one URI name of its certificate,
//! `spiffe://DOMAIN/node/NAME`), never by DNS name or address. In TLS 1.3 a client has finished
//! before the server has looked at its certificate; so the handshake counts as done only when the
//! server's first byte has come (HTTP/2 servers speak first).

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError,
    RootCertStore, SignatureScheme,
};
use tokio::io::AsyncReadExt;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::address::Address;
use crate::credentials::Credentials;
use crate::error::Error;
use crate::stream::{Prefixed, Transport};

/// How much of the server's first bytes is read. HTTP/2's SETTINGS are far smaller.
const FIRST_READ: usize = 4096;

/// The identity that the node must have. Without either field, any node that the CA has certified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeIdentity {
    /// The exact SPIFFE ID, `spiffe://DOMAIN/node/NAME`.
    pub id: Option<String>,
    /// The trust domain of the SPIFFE ID.
    pub trust_domain: Option<String>,
}

impl NodeIdentity {
    /// The difference of that SPIFFE ID from the expected one; `None` where there is none.
    fn problem_with(&self, id: &str) -> Option<String> {
        let Some((domain, name)) = id
            .strip_prefix("spiffe://")
            .and_then(|rest| rest.split_once("/node/"))
        else {
            return Some(format!(
                "it calls itself {id}, which is not a node's SPIFFE ID"
            ));
        };
        if domain.is_empty() || name.is_empty() || domain.contains('/') || name.contains('/') {
            return Some(format!(
                "it calls itself {id}, which is not a node's SPIFFE ID"
            ));
        }
        if let Some(expected) = self.id.as_deref().filter(|expected| *expected != id) {
            return Some(format!("it is {id}, not {expected}"));
        }
        match self.trust_domain.as_deref() {
            Some(expected) if expected != domain => Some(format!(
                "it belongs to trust domain {domain}, not {expected}"
            )),
            _ => None,
        }
    }
}

/// Speaks TLS over `stream` and waits until the server has accepted our certificate.
///
/// # Errors
/// [`Error::Handshake`] with the server's alert, [`Error::UntrustedNode`], [`Error::Credentials`].
pub async fn connect_tls<S: Transport>(
    stream: S,
    address: &Address,
    credentials: &Credentials,
    expected: &NodeIdentity,
) -> Result<Prefixed<TlsStream<S>>, Error> {
    let config = configure(credentials, expected)?;
    let connector = TlsConnector::from(Arc::new(config));
    let mut tls = connector
        .connect(server_name(address), stream)
        .await
        .map_err(|problem| sort(address, &problem))?;
    let mut first = vec![0; FIRST_READ];
    let count = tls
        .read(&mut first)
        .await
        .map_err(|problem| sort(address, &problem))?;
    if count == 0 {
        return Err(refused(
            address,
            "it closed the connection".to_owned(),
            None,
        ));
    }
    first.truncate(count);
    if let Some(words) = goaway(&first) {
        return Err(refused(address, words, Some(GOAWAY_ALERT)));
    }
    Ok(Prefixed::new(first, tls))
}

/// The words of a node that refuses this connection behind the handshake: HTTP/2's GOAWAY right
/// after its SETTINGS. `None` where there is no such frame.
fn goaway(mut frames: &[u8]) -> Option<String> {
    const HEAD: usize = 9;
    const GOAWAY: u8 = 7;
    /// The last stream's number and the error's.
    const FIXED: usize = 8;
    loop {
        let (head, rest) = frames.split_at_checked(HEAD)?;
        let &[a, b, c, kind, ..] = head else {
            return None;
        };
        let length = usize::try_from(u32::from_be_bytes([0, a, b, c])).ok()?;
        let (payload, following) = rest.split_at_checked(length)?;
        if kind == GOAWAY {
            let words = String::from_utf8_lossy(payload.get(FIXED..)?);
            let words: String = words.chars().filter(|c| !c.is_control()).collect();
            return Some(if words.is_empty() {
                "it closed the connection".to_owned()
            } else {
                words
            });
        }
        frames = following;
    }
}

/// SNI carries a name for the server's use only: the SPIFFE ID is what is checked.
fn server_name(address: &Address) -> ServerName<'static> {
    let named = match address {
        Address::Tcp { host, .. } => ServerName::try_from(host.clone()).ok(),
        Address::Unix(_) => None,
    };
    named.unwrap_or(ServerName::IpAddress(std::net::Ipv6Addr::LOCALHOST.into()))
}

fn configure(credentials: &Credentials, expected: &NodeIdentity) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = NodeVerifier {
        roots: roots(credentials)?,
        provider: provider.clone(),
        expected: expected.clone(),
    };
    let problem = |problem: TlsError| {
        let text = match problem {
            TlsError::InconsistentKeys(_) => {
                format!(
                    "the key is not that of {}",
                    credentials.certificate_file.display()
                )
            }
            other => other.to_string(),
        };
        Error::credentials(&credentials.key_file, text)
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(problem)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_auth_cert(credentials.chain.clone(), credentials.key.clone_key())
        .map_err(problem)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    // A resumed session would skip the node's look at a revoked certificate.
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn roots(credentials: &Credentials) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in &credentials.roots {
        roots
            .add(certificate.clone())
            .map_err(|problem| Error::credentials(&credentials.ca_file, problem.to_string()))?;
    }
    Ok(roots)
}

fn sort(address: &Address, problem: &io::Error) -> Error {
    let Some(tls) = problem
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<TlsError>())
    else {
        return refused(address, format!("the connection broke ({problem})"), None);
    };
    match tls {
        TlsError::AlertReceived(alert) => {
            let name = alert_name(*alert);
            refused(
                address,
                format!("{} ({name})", alert_words(*alert)),
                Some(name),
            )
        }
        TlsError::InvalidCertificate(problem) => Error::UntrustedNode {
            address: address.clone(),
            problem: certificate_problem(problem),
        },
        other => refused(address, other.to_string(), None),
    }
}

/// In place of an alert's name. A node that sends it accepts no more connections; it is not being
/// restarted.
pub(crate) const GOAWAY_ALERT: &str = "goaway";

fn refused(address: &Address, problem: String, alert: Option<&'static str>) -> Error {
    Error::Handshake {
        address: address.clone(),
        problem,
        alert,
    }
}

fn certificate_problem(problem: &CertificateError) -> String {
    match problem {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "our CA did not issue its certificate".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired (is this machine's clock right?)".to_owned()
        }
        CertificateError::Other(other) => other.to_string(),
        other => other.to_string(),
    }
}

/// As RFC 8446 spells it.
fn alert_name(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::CertificateRequired => "certificate_required",
        AlertDescription::UnknownCA => "unknown_ca",
        AlertDescription::BadCertificate => "bad_certificate",
        AlertDescription::UnsupportedCertificate => "unsupported_certificate",
        AlertDescription::CertificateRevoked => "certificate_revoked",
        AlertDescription::CertificateExpired => "certificate_expired",
        AlertDescription::CertificateUnknown => "certificate_unknown",
        AlertDescription::AccessDenied => "access_denied",
        AlertDescription::DecryptError => "decrypt_error",
        AlertDescription::ProtocolVersion => "protocol_version",
        AlertDescription::HandshakeFailure => "handshake_failure",
        AlertDescription::NoApplicationProtocol => "no_application_protocol",
        AlertDescription::InternalError => "internal_error",
        _ => "alert",
    }
}

fn alert_words(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::CertificateRequired => "it demands a client certificate",
        AlertDescription::UnknownCA => "its CA did not issue our certificate",
        AlertDescription::CertificateRevoked => "our certificate is revoked",
        AlertDescription::CertificateExpired => "our certificate has expired",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown => "it does not accept our certificate",
        AlertDescription::AccessDenied => "it denies us access",
        AlertDescription::DecryptError => "our signature doesn't match our certificate",
        AlertDescription::ProtocolVersion => "it speaks another version of TLS",
        AlertDescription::NoApplicationProtocol => "it doesn't speak HTTP/2",
        AlertDescription::InternalError => "it failed inside",
        _ => "it gave an alert",
    }
}

/// Checks the chain against our CA, and the SPIFFE ID instead of a host name.
struct NodeVerifier {
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
    expected: NodeIdentity,
}

impl fmt::Debug for NodeVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeVerifier")
            .field("expected", &self.expected)
            .finish_non_exhaustive()
    }
}

impl NodeVerifier {
    fn check_identity(&self, certificate: &CertificateDer<'_>) -> Result<(), String> {
        let parsed =
            webpki::EndEntityCert::try_from(certificate).map_err(|problem| problem.to_string())?;
        let mut names = parsed.valid_uri_names();
        match (names.next(), names.next()) {
            (Some(id), None) => self.expected.problem_with(id).map_or(Ok(()), Err),
            (None, _) => Err("its certificate has no SPIFFE ID".to_owned()),
            (Some(_), Some(_)) => Err("its certificate has more than one SPIFFE ID".to_owned()),
        }
    }
}

// The last three methods are those of the node's `UserVerifier`, too; see there why.
impl ServerCertVerifier for NodeVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let leaf = ParsedCertificate::try_from(end_entity)?;
        let at = |time| {
            verify_server_cert_signed_by_trust_anchor(
                &leaf,
                &self.roots,
                intermediates,
                time,
                self.provider.signature_verification_algorithms.all,
            )
        };
        match at(now) {
            // The CA's word on when it was is better than a clock that was set back, as one
            // without a battery is: else the node couldn't be reached to set it.
            Err(TlsError::InvalidCertificate(CertificateError::NotValidYetContext {
                not_before,
                ..
            })) => at(not_before)?,
            other => other?,
        }
        self.check_identity(end_entity).map_err(|problem| {
            let wrapped = rustls::OtherError(Arc::new(io::Error::other(problem)));
            TlsError::InvalidCertificate(CertificateError::Other(wrapped))
        })?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        // Never asked: only TLS 1.3 is configured.
        Err(TlsError::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(expected: &NodeIdentity, id: &str) -> Option<String> {
        expected.problem_with(id)
    }

    #[test]
    fn any_node_will_do_when_none_is_named_but_no_user() {
        let any = NodeIdentity::default();
        assert_eq!(problem(&any, "spiffe://home/node/a"), None);
        for wrong in [
            "spiffe://home/tenant/t/user/u",
            "https://home/node/a",
            "spiffe:///node/a",
            "spiffe://home/node/",
            "spiffe://home/node/a/b",
            "spiffe://home/x/node/a",
        ] {
            assert!(problem(&any, wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn a_goaway_is_found_behind_the_settings_and_nowhere_else() {
        let settings = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100];
        assert_eq!(goaway(&settings), None);
        assert_eq!(goaway(&settings[..12]), None);
        assert_eq!(goaway(&[]), None);
        let mut away = settings.to_vec();
        away.extend([0, 0, 13, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11]);
        away.extend(b"fu\x1bl");
        assert_eq!(goaway(&away), None, "not whole yet");
        away.push(b'l');
        assert_eq!(goaway(&away).as_deref(), Some("full"));
    }

    #[test]
    fn a_named_node_or_domain_must_match() {
        let named = NodeIdentity {
            id: Some("spiffe://home/node/a".into()),
            trust_domain: None,
        };
        assert_eq!(problem(&named, "spiffe://home/node/a"), None);
        assert!(
            problem(&named, "spiffe://home/node/b")
                .unwrap()
                .contains("not spiffe://home/node/a")
        );
        let domain = NodeIdentity {
            id: None,
            trust_domain: Some("home".into()),
        };
        assert_eq!(problem(&domain, "spiffe://home/node/b"), None);
        assert!(
            problem(&domain, "spiffe://away/node/b")
                .unwrap()
                .contains("away")
        );
    }
}
