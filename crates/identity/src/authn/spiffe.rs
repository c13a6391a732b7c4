// SPDX-License-Identifier: Apache-2.0
//! SPIFFE IDs, parsed once: a node's or a user's, nothing else. And the facts that the node needs
//! of a certificate, read from its DER.

use std::fmt;
use std::str::FromStr;

use crate::ca::authority::BACKDATE;
use model::name::{Label, Tenant};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Why something is not an identity of ours, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidIdentity(pub(crate) String);

fn invalid<T>(words: impl Into<String>) -> Result<T, InvalidIdentity> {
    Err(InvalidIdentity(words.into()))
}

/// The trust domain of SPIFFE IDs: 1 to 255 of `a-z`, `0-9`, `.`, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TrustDomain(String);

impl TrustDomain {
    /// The domain as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TrustDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TrustDomain {
    type Err = InvalidIdentity;

    fn from_str(text: &str) -> Result<Self, InvalidIdentity> {
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-_".contains(&b);
        if text.is_empty() || text.len() > 255 || !text.bytes().all(fits) {
            return invalid(format!(
                "{text:?} is not a trust domain: 1 to 255 of a-z, 0-9, '.', '-' and '_'"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

/// A user of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UserKey {
    /// The tenant that the user belongs to.
    pub tenant: Tenant,
    /// The user's name in it.
    pub name: Label,
}

impl UserKey {
    /// `system/admin`: the administrator that is created at the first start. No policy can deny it
    /// anything.
    ///
    /// # Errors
    /// Only if the built-in name `admin` were no label.
    pub fn administrator() -> Result<Self, InvalidIdentity> {
        match "admin".parse() {
            Ok(name) => Ok(Self {
                tenant: Tenant::system(),
                name,
            }),
            Err(e) => invalid(e.to_string()),
        }
    }
}

impl fmt::Display for UserKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.name)
    }
}

/// The owner of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// `spiffe://DOMAIN/node/NAME`.
    Node(Label),
    /// `spiffe://DOMAIN/tenant/T/user/U`.
    User(UserKey),
}

/// The SPIFFE ID of a node or of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpiffeId {
    /// The trust domain whose CA signed.
    pub domain: TrustDomain,
    /// The node or user that it names.
    pub subject: Subject,
}

impl fmt::Display for SpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spiffe://{}", self.domain)?;
        match &self.subject {
            Subject::Node(name) => write!(f, "/node/{name}"),
            Subject::User(user) => write!(f, "/tenant/{}/user/{}", user.tenant, user.name),
        }
    }
}

impl FromStr for SpiffeId {
    type Err = InvalidIdentity;

    fn from_str(text: &str) -> Result<Self, InvalidIdentity> {
        let fail = || InvalidIdentity(format!("{text:?} is not a SPIFFE ID of a node or a user"));
        let rest = text.strip_prefix("spiffe://").ok_or_else(fail)?;
        let parts: Vec<&str> = rest.split('/').collect();
        let (domain, subject) = match parts.as_slice() {
            [domain, "node", name] => (domain, Subject::Node(name.parse().map_err(|_| fail())?)),
            [domain, "tenant", tenant, "user", name] => {
                let user = UserKey {
                    tenant: tenant.parse().map_err(|_| fail())?,
                    name: name.parse().map_err(|_| fail())?,
                };
                (domain, Subject::User(user))
            }
            _ => return Err(fail()),
        };
        Ok(Self {
            domain: domain.parse()?,
            subject,
        })
    }
}

/// The fields of a certificate that the node reads. Only their form is checked here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertificateFacts {
    /// The one URI name.
    pub id: SpiffeId,
    /// Lower-case hexadecimal, without leading zeros of the encoding.
    pub serial: String,
    /// When it was signed, seconds since the epoch.
    pub issued: i64,
    /// Seconds since the epoch.
    pub not_before: i64,
    /// Seconds since the epoch; invalid after it.
    pub not_after: i64,
}

impl CertificateFacts {
    /// Reads DER.
    ///
    /// # Errors
    /// The bytes are no X.509 certificate, it hasn't exactly one URI name, or that is no SPIFFE ID
    /// of a node or user.
    pub(crate) fn from_der(der: &[u8]) -> Result<Self, InvalidIdentity> {
        let Ok((_, certificate)) = X509Certificate::from_der(der) else {
            return invalid("it is not an X.509 certificate");
        };
        let Ok(Some(names)) = certificate.subject_alternative_name() else {
            return invalid("the certificate has no SPIFFE ID");
        };
        let mut uris = names.value.general_names.iter().filter_map(|n| match n {
            GeneralName::URI(uri) => Some(*uri),
            _ => None,
        });
        let id = match (uris.next(), uris.next()) {
            (Some(uri), None) => uri.parse()?,
            (None, _) => return invalid("the certificate has no SPIFFE ID"),
            (Some(_), Some(_)) => return invalid("the certificate has more than one URI name"),
        };
        Ok(Self {
            id,
            serial: serial_text(certificate.raw_serial()),
            issued: issued(certificate.validity().not_before.timestamp()),
            not_before: certificate.validity().not_before.timestamp(),
            not_after: certificate.validity().not_after.timestamp(),
        })
    }
}

/// Certificates begin [`BACKDATE`] before they are signed.
fn issued(not_before: i64) -> i64 {
    not_before.saturating_add(i64::try_from(BACKDATE.as_secs()).unwrap_or(0))
}

/// A serial number as it is written everywhere: hexadecimal, lower case, no leading zero bytes.
pub(crate) fn serial_text(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes.iter().skip_while(|b| **b == 0) {
        // Writing into a String can't fail.
        let _never = write!(text, "{byte:02x}");
    }
    text
}

/// Normalises a serial as a user types it: hexadecimal, colons allowed.
pub(crate) fn parse_serial(text: &str) -> Result<String, InvalidIdentity> {
    let digits: String = text
        .chars()
        .filter(|c| *c != ':')
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let even = if digits.len() % 2 == 1 {
        format!("0{digits}")
    } else {
        digits
    };
    let hex = even.bytes().all(|b| b.is_ascii_hexdigit());
    if !hex || even.is_empty() || even.len() > 40 {
        return invalid("must be a serial number: up to 20 bytes in hexadecimal");
    }
    let mut significant = even.as_str();
    while let Some(rest) = significant.strip_prefix("00") {
        significant = rest;
    }
    Ok(significant.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_and_nothing_else_parses() {
        for text in [
            "spiffe://aurae.internal/node/n1",
            "spiffe://d/tenant/system/user/admin",
        ] {
            assert_eq!(text.parse::<SpiffeId>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "spiffe://d",
            "spiffe://d/node/",
            "spiffe://d/node/a/b",
            "spiffe:///node/a",
            "spiffe://D/node/a",
            "spiffe://d/tenant/t/user/U",
            "spiffe://d/tenant/t/user/u/",
            "spiffe://d/tenant/t/admin/u",
            "https://d/node/a",
            "spiffe://d/node/a?x",
        ] {
            assert!(wrong.parse::<SpiffeId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn serials_are_normalised() {
        assert_eq!(parse_serial("00:AB:cd").unwrap(), "abcd");
        assert_eq!(parse_serial("abc").unwrap(), "0abc");
        assert!(parse_serial("xy").is_err());
        assert!(parse_serial("").is_err());
        assert!(parse_serial(&"a".repeat(42)).is_err());
    }
}
