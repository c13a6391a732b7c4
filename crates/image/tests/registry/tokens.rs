// SPDX-License-Identifier: Apache-2.0
//! A token server as `docker-registry` wants it: JSON web tokens signed with ES256, the signer's
//! certificate in `x5c`. `ada` (password `secret`) may do everything, everyone may read what is
//! below `public/`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{CertificateParams, KeyPair};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

use super::hostile::{Content, Hostile, Request, reply};
use super::peer::Setup;

const SERVICE: &str = "registry.test";
const ISSUER: &str = "tokens.test";
/// `ada:secret`.
const ADA: &str = "Basic YWRhOnNlY3JldA==";

/// A token server until this is dropped.
pub(crate) struct Tokens {
    server: Hostile,
    /// How many tokens it gave.
    pub(crate) given: Arc<AtomicUsize>,
    certificate: String,
}

impl Tokens {
    pub(crate) fn start() -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::default().self_signed(&key).unwrap();
        let signer = Signer {
            pair: EcdsaKeyPair::from_pkcs8(
                &ECDSA_P256_SHA256_FIXED_SIGNING,
                &key.serialize_der(),
                &SystemRandom::new(),
            )
            .unwrap(),
            certificate: STANDARD.encode(certificate.der()),
        };
        let given = Arc::new(AtomicUsize::new(0));
        let counter = given.clone();
        let server = Hostile::start(Content::default(), move |request, out| {
            let shown = request.header("authorization");
            if shown.is_some_and(|it| it != ADA) {
                reply(out, request, "401 Unauthorized", &[], b"");
                return true;
            }
            counter.fetch_add(1, Ordering::Relaxed);
            let token = signer.token(&access(request, shown.is_some()));
            let body = json!({"token": token, "expires_in": 300}).to_string();
            reply(out, request, "200 OK", &[], body.as_bytes());
            true
        });
        Self {
            server,
            given,
            certificate: certificate.pem(),
        }
    }

    pub(crate) fn name(&self) -> String {
        self.server.name()
    }

    /// What `docker-registry` is told of it.
    pub(crate) fn setup(&self, folder: &Path) -> Setup {
        let path = folder.join("tokens.pem");
        std::fs::write(&path, &self.certificate).unwrap();
        let auth = format!(
            "  token:\n    realm: http://{}/token\n    service: {SERVICE}\n    issuer: {ISSUER}\n    \
             rootcertbundle: {}\n",
            self.name(),
            path.display()
        );
        Setup {
            auth,
            ..Setup::default()
        }
    }

    /// How many requests asked for this scope, as it stands in the query.
    pub(crate) fn asked(&self, part: &str) -> usize {
        self.server.count(part)
    }
}

/// What the scopes of a request's query get.
fn access(request: &Request, is_ada: bool) -> Vec<Value> {
    let url = pairs(&request.path);
    let scopes = url.iter().filter(|(name, _)| name == "scope");
    let granted = scopes.filter_map(|(_, scope)| {
        let mut parts = scope.splitn(3, ':');
        let (kind, name, actions) = (parts.next()?, parts.next()?, parts.next()?);
        let actions: Vec<&str> = actions
            .split(',')
            .filter(|action| is_ada || *action == "pull" && name.starts_with("public/"))
            .collect();
        Some(json!({"type": kind, "name": name, "actions": actions}))
    });
    granted.collect()
}

/// The pairs of a query.
fn pairs(path: &str) -> Vec<(String, String)> {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    url::form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect()
}

struct Signer {
    pair: EcdsaKeyPair,
    certificate: String,
}

impl Signer {
    fn token(&self, access: &[Value]) -> String {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs();
        let header = json!({"typ": "JWT", "alg": "ES256", "x5c": [self.certificate]});
        let claims = json!({
            "iss": ISSUER, "sub": "ada", "aud": SERVICE, "jti": now.to_string(),
            "exp": now + 300, "nbf": now - 10, "iat": now, "access": access,
        });
        let encode = |it: &Value| URL_SAFE_NO_PAD.encode(it.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&claims));
        let signature = self
            .pair
            .sign(&SystemRandom::new(), signed.as_bytes())
            .unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}
