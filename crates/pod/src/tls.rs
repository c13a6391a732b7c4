// SPDX-License-Identifier: Apache-2.0
//! TLS to a container that is probed. As for the kubelet, its certificate is not verified: a probe
//! asks whether the program serves, within the pod's own network, and tells it no secret.

use std::sync::Arc;

use model::pod::probe::Http;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error as TlsError, SignatureScheme};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::reach::Stream;

/// Shakes hands on a connection.
///
/// # Errors
/// In words: why there is no TLS.
pub(crate) async fn connect(
    stream: Box<dyn Stream>,
    http: &Http,
) -> Result<TlsStream<Box<dyn Stream>>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Unverified(provider)))
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let connected = connector.connect(name(http), stream).await;
    connected.map_err(|e| format!("TLS: {e}"))
}

/// The name that the server is asked for: that of the header `Host`, where there is one.
fn name(http: &Http) -> ServerName<'static> {
    let header = http.headers.iter();
    let mut hosts = header.filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    let named = hosts.next().map(|(_, value)| value.as_str());
    let named = named.and_then(|value| {
        let name = value.split_once(':').map_or(value, |(name, _)| name);
        ServerName::try_from(name.to_owned()).ok()
    });
    let local = std::net::IpAddr::from(std::net::Ipv4Addr::LOCALHOST);
    named.unwrap_or_else(|| ServerName::from(http.host.unwrap_or(local)))
}

/// Takes every certificate; who has it must have its key.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
