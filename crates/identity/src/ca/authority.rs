// SPDX-License-Identifier: Apache-2.0
//! The certificate authority of a trust domain: creates its own key and certificate, signs those of
//! nodes and users. Keys are P-256; of a user's key it knows the public half alone.
//!
//! One issuing CA per trust domain, without sub-CAs: the library that verifies certificates knows
//! no URI name constraints, so a sub-CA could not be confined to a part of the names.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber,
    SubjectPublicKeyInfo,
};
use ring::rand::{SecureRandom, SystemRandom};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use crate::authn::spiffe::{InvalidIdentity, SpiffeId, Subject, TrustDomain, serial_text};

/// How long a CA lives.
const CA_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Certificates begin a little in the past, for clocks that disagree a little.
pub(crate) const BACKDATE: Duration = Duration::from_secs(300);
/// The longest signing request, in bytes of PEM.
pub(crate) const MAX_CSR: usize = 16 * 1024;

/// A failure to make or read keys and certificates.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The input can't be used, for the reason that is given.
    #[error("{0}")]
    Invalid(String),
    /// The signing library failed.
    #[error("a certificate can't be made")]
    Signing(#[from] rcgen::Error),
}

impl From<InvalidIdentity> for AuthorityError {
    fn from(error: InvalidIdentity) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// A certificate that this CA has signed.
#[derive(Clone, Debug)]
pub(crate) struct Signed {
    pub(crate) pem: String,
    pub(crate) der: CertificateDer<'static>,
    pub(crate) serial: String,
    /// Seconds since the epoch.
    pub(crate) not_after: i64,
}

/// A CA with its key.
#[derive(Debug)]
pub(crate) struct Authority {
    domain: TrustDomain,
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
    not_before: SystemTime,
    not_after: SystemTime,
}

impl Authority {
    /// A new CA; the second value is its key, PEM.
    pub(crate) fn create(
        domain: &TrustDomain,
        now: SystemTime,
    ) -> Result<(Self, String), AuthorityError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let key_pem = key.serialize_pem();
        let mut params = CertificateParams::default();
        let (serial, number) = new_serial()?;
        // A name of its own: two CAs of one trust domain's name must not be taken for each other,
        // or the wrong one shows as a bad signature instead of an unknown issuer.
        params.distinguished_name = named(&format!("Aurae CA {serial}"));
        params.subject_alt_names = vec![uri(&format!("spiffe://{domain}"))?];
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.serial_number = Some(number);
        set_validity(&mut params, backdated(now), now + CA_LIFETIME);
        let pem = params.self_signed(&key)?.pem();
        Ok((Self::from_pem(&pem, &key_pem)?, key_pem))
    }

    /// The CA of these two files.
    pub(crate) fn from_pem(pem: &str, key: &str) -> Result<Self, AuthorityError> {
        let invalid = |what: &str| AuthorityError::Invalid(what.to_owned());
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| invalid("there is no certificate (PEM) in it"))?;
        let key = KeyPair::from_pem(key)
            .map_err(|_| invalid("there is no private key (PKCS #8, PEM) in it"))?;
        let (_, parsed) = x509_parser::parse_x509_certificate(&certificate)
            .map_err(|_| invalid("its certificate can't be read"))?;
        if parsed.public_key().raw != key.subject_public_key_info() {
            return Err(invalid("its key and its certificate don't belong together"));
        }
        let domain = ca_domain(&parsed)?;
        let time = |t: i64| UNIX_EPOCH + Duration::from_secs(u64::try_from(t).unwrap_or(0));
        let not_before = time(parsed.validity().not_before.timestamp());
        let not_after = time(parsed.validity().not_after.timestamp());
        Ok(Self {
            domain,
            issuer: Issuer::from_ca_cert_der(&certificate, key)?,
            pem: pem.to_owned(),
            not_before,
            not_after,
            certificate,
        })
    }

    pub(crate) fn domain(&self) -> &TrustDomain {
        &self.domain
    }

    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    pub(crate) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Signs a certificate for `subject` and the key, never beyond the CA's own life.
    pub(crate) fn sign(
        &self,
        subject: &Subject,
        key: &impl PublicKeyData,
        now: SystemTime,
        lifetime: Duration,
    ) -> Result<Signed, AuthorityError> {
        if now >= self.not_after {
            return Err(AuthorityError::Invalid(
                "the CA has expired, or the node's clock is wrong".to_owned(),
            ));
        }
        let id = SpiffeId {
            domain: self.domain.clone(),
            subject: subject.clone(),
        };
        let not_after = (now + lifetime).min(self.not_after);
        let (serial, number) = new_serial()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named(&common_name(subject));
        params.subject_alt_names = vec![uri(&id.to_string())?];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if let Subject::Node(name) = subject {
            params
                .extended_key_usages
                .push(ExtendedKeyUsagePurpose::ServerAuth);
            // Go's TLS refuses a server certificate without a DNS name.
            for name in ["localhost", name.as_str()] {
                params.subject_alt_names.push(SanType::DnsName(ia5(name)?));
            }
        }
        params.serial_number = Some(number);
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, backdated(now).max(self.not_before), not_after);
        let certificate = params.signed_by(key, &self.issuer)?;
        Ok(Signed {
            pem: certificate.pem(),
            der: certificate.der().clone(),
            serial,
            not_after: params.not_after.unix_timestamp(),
        })
    }
}

/// The public key of a signing request whose owner has proved to hold its private half. All else
/// that the request asks for is ignored: the node decides what the certificate says.
pub(crate) fn key_of_request(pem: &str) -> Result<SubjectPublicKeyInfo, AuthorityError> {
    let invalid = |what: &str| AuthorityError::Invalid(what.to_owned());
    if pem.len() > MAX_CSR {
        return Err(invalid("is longer than 16 KiB"));
    }
    let der = rustls_pki_types::CertificateSigningRequestDer::from_pem_slice(pem.as_bytes())
        .map_err(|_| invalid("must be a signing request (PKCS #10) in PEM"))?;
    let (rest, request) = X509CertificationRequest::from_der(&der)
        .map_err(|_| invalid("is not a well-formed signing request (PKCS #10)"))?;
    if !rest.is_empty() {
        return Err(invalid("has bytes after the signing request"));
    }
    request
        .verify_signature()
        .map_err(|_| invalid("is not signed with the key that it names"))?;
    let key = SubjectPublicKeyInfo::from_der(request.certification_request_info.subject_pki.raw)
        .map_err(|_| invalid("has a key of an unknown kind; use ECDSA P-256"))?;
    let algorithm = key.algorithm();
    let accepted = [
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ED25519,
    ];
    if !accepted.contains(&algorithm) {
        return Err(invalid(
            "has a key that is not ECDSA P-256, P-384 or Ed25519",
        ));
    }
    Ok(key)
}

fn ca_domain(
    certificate: &x509_parser::prelude::X509Certificate<'_>,
) -> Result<TrustDomain, AuthorityError> {
    let names = certificate.subject_alternative_name();
    let uris = names.iter().flatten().flat_map(|n| &n.value.general_names);
    let domain = uris
        .filter_map(|name| match name {
            x509_parser::prelude::GeneralName::URI(uri) => uri.strip_prefix("spiffe://"),
            _ => None,
        })
        .next();
    match domain {
        Some(domain) => Ok(domain.parse()?),
        None => Err(AuthorityError::Invalid(
            "its certificate names no trust domain (a URI name spiffe://DOMAIN)".to_owned(),
        )),
    }
}

fn common_name(subject: &Subject) -> String {
    match subject {
        Subject::Node(name) => format!("node {name}"),
        Subject::User(user) => user.to_string(),
    }
}

fn named(text: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    // X.520 bounds common names to 64 characters.
    let short: String = text.chars().take(64).collect();
    name.push(DnType::CommonName, short);
    name
}

fn uri(text: &str) -> Result<SanType, AuthorityError> {
    Ok(SanType::URI(ia5(text)?))
}

fn ia5(text: &str) -> Result<Ia5String, AuthorityError> {
    Ia5String::try_from(text).map_err(AuthorityError::Signing)
}

/// 127 random bits, as RFC 5280 wants them: positive and at most 20 bytes.
fn new_serial() -> Result<(String, SerialNumber), AuthorityError> {
    let mut bytes = [0u8; 16];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| AuthorityError::Invalid("the kernel gives no random numbers".to_owned()))?;
    if let Some(first) = bytes.first_mut() {
        *first = (*first & 0x7f) | 0x40;
    }
    Ok((serial_text(&bytes), SerialNumber::from_slice(&bytes)))
}

fn set_validity(params: &mut CertificateParams, from: SystemTime, to: SystemTime) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    // Certificates count whole seconds.
    let whole = |t: SystemTime| {
        Duration::from_secs(t.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
    };
    params.not_before = epoch + whole(from);
    params.not_after = epoch + whole(to);
}

fn backdated(now: SystemTime) -> SystemTime {
    now.checked_sub(BACKDATE).unwrap_or(UNIX_EPOCH)
}
