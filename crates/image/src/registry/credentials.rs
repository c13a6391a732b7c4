// SPDX-License-Identifier: Apache-2.0
//! What a registry is shown: nothing, a name with a password, or a token. Where they come from is
//! `docker_config`'s and the caller's; what they are exchanged for is `token`'s. Secrets are wiped
//! from memory when they are dropped, and are never shown.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

/// A password or a token. Its `Debug` says no more than that there is one.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a secret over.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(Zeroizing::new(secret.into()))
    }

    /// The secret itself, to send it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(Self::new)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// What is shown to one registry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// Nothing: what the registry lets everyone read.
    #[default]
    Anonymous,
    /// A name and a password, for the registry itself or for its token server.
    Basic {
        /// The user's name.
        username: String,
        /// The password.
        password: Secret,
    },
    /// A refresh token (`identitytoken` of `config.json`), for the token server alone.
    Identity(Secret),
    /// A bearer token (`registrytoken` of `config.json`), for the registry itself as it is.
    Registry(Secret),
}

impl Credentials {
    /// Whether there is something that must not be read on the way.
    pub(crate) fn are_secret(&self) -> bool {
        !matches!(self, Self::Anonymous)
    }

    /// Which credentials were used, for an error: never a secret.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Anonymous => "without credentials".to_owned(),
            Self::Basic { username, .. } => format!("as {username:?}"),
            Self::Identity(_) => "with an identity token".to_owned(),
            Self::Registry(_) => "with a registry token".to_owned(),
        }
    }

    /// A hash by which the tokens that were got with these credentials are kept apart from others'.
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        let (kind, name, secret) = match self {
            Self::Anonymous => ("anonymous", "", ""),
            Self::Basic { username, password } => ("basic", username.as_str(), password.expose()),
            Self::Identity(token) => ("identity", "", token.expose()),
            Self::Registry(token) => ("registry", "", token.expose()),
        };
        let mut hash = Sha256::new();
        for part in [kind, name, secret] {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }
}

/// The value of `Authorization` for the scheme Basic (RFC 7617).
pub(crate) fn basic(username: &str, password: &Secret) -> Secret {
    let pair = Zeroizing::new(format!("{username}:{}", password.expose()));
    Secret::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_shown() {
        let credentials = Credentials::Basic {
            username: "ada".to_owned(),
            password: Secret::new("hunter2"),
        };
        let shown = format!("{credentials:?} {}", credentials.shown());
        assert!(
            shown.contains("ada") && !shown.contains("hunter2"),
            "{shown}"
        );
    }

    #[test]
    fn other_credentials_have_another_fingerprint() {
        let basic = |username: &str, password: &str| Credentials::Basic {
            username: username.to_owned(),
            password: Secret::new(password),
        };
        let all = [
            Credentials::Anonymous,
            basic("a", "bc"),
            basic("ab", "c"),
            basic("", ""),
            Credentials::Identity(Secret::new("x")),
            Credentials::Registry(Secret::new("x")),
        ];
        for (at, one) in all.iter().enumerate() {
            let same = all
                .iter()
                .position(|it| it.fingerprint() == one.fingerprint());
            assert_eq!(same, Some(at));
        }
    }

    #[test]
    fn basic_is_encoded_as_rfc_7617_shows_it() {
        let header = basic("Aladdin", &Secret::new("open sesame"));
        assert_eq!(header.expose(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    }
}
