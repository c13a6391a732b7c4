// SPDX-License-Identifier: Apache-2.0
//! What is sent as `Authorization`: from a challenge and credentials to a header, by way of a token
//! server where the challenge is Bearer (distribution's "Token Authentication Specification" and
//! "OAuth2 Token Authentication"), and a bounded cache of what was got. The cache is keyed by the
//! credentials too: no caller gets what another caller's credentials opened.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use reqwest::Url;
use serde::Deserialize;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::challenge::Challenge;
use super::credentials::{Credentials, Secret, basic};
use super::error::{RegistryError, presentable};
use super::hosts::Host;
use super::payload::Payload;
use super::wire::{Ask, Wire, redirect};

/// The longest answer of a token server, in bytes.
const LONGEST: u64 = 256 << 10;
/// How long a token is good for where its server doesn't say, and the least that is believed.
const LEAST: Duration = Duration::from_secs(60);
/// The longest that a token is kept.
const MOST: Duration = Duration::from_secs(3600);
/// The most entries of the cache.
const ENTRIES: usize = 512;
/// The most scopes of one request.
const MOST_SCOPES: usize = 8;

/// Whose header it is, and for what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) host: String,
    pub(crate) fingerprint: [u8; 32],
    /// What is asked for, e.g. `repository:a/b:pull`.
    pub(crate) scopes: Vec<String>,
}

/// A header and until when it is used.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) value: Secret,
    until: Option<Instant>,
}

impl Header {
    fn is_good(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

type Slot = Arc<tokio::sync::Mutex<Option<Header>>>;

/// All headers that were got.
#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<HashMap<Key, Slot>>);

impl Cache {
    /// The place of a key. Its lock is held while a header is got, so that many requests at once
    /// ask the token server once.
    pub(crate) fn slot(&self, key: &Key) -> Slot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= ENTRIES && !slots.contains_key(key) {
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        slots.entry(key.clone()).or_default().clone()
    }
}

/// The header in a slot, where it is still good.
pub(crate) async fn current(slot: &Slot) -> Option<Header> {
    slot.lock().await.clone().filter(Header::is_good)
}

/// Gets a header that answers the challenges of a registry. `stale` is the one that it has just
/// refused; another request may have got a new one since.
///
/// # Errors
/// [`RegistryError::Refused`] where there is nothing to show, and what the token server's answer
/// means.
pub(crate) async fn renew(
    wire: &Wire,
    slot: &Slot,
    stale: Option<&Header>,
    wish: &Wish<'_>,
) -> Result<Header, RegistryError> {
    let mut held = slot.lock().await;
    let other = held.clone().filter(Header::is_good);
    let other = other.filter(|it| stale.is_none_or(|stale| it.value != stale.value));
    if let Some(header) = other {
        return Ok(header);
    }
    *held = None;
    let header = answer(wire, wish).await?;
    *held = Some(header.clone());
    Ok(header)
}

/// What is to be opened, and with what.
#[derive(Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) host: &'a Host,
    pub(crate) credentials: &'a Credentials,
    pub(crate) scopes: &'a [String],
    pub(crate) challenges: &'a [Challenge],
    pub(crate) what: &'a str,
}

impl Wish<'_> {
    fn refused(&self, problem: String) -> RegistryError {
        RegistryError::Refused {
            host: self.host.name.clone(),
            what: self.what.to_owned(),
            problem,
        }
    }
}

async fn answer(wire: &Wire, wish: &Wish<'_>) -> Result<Header, RegistryError> {
    let host = wish.host;
    let plain = host.settings.plain_http && !host.settings.credentials_over_plain_http;
    if plain && wish.credentials.are_secret() {
        return Err(RegistryError::PlainCredentials {
            host: host.name.clone(),
        });
    }
    let of = |scheme: &str| wish.challenges.iter().find(|it| it.scheme == scheme);
    match (of("bearer"), of("basic"), wish.credentials) {
        (Some(_), _, Credentials::Registry(token)) => Ok(Header {
            value: Secret::new(format!("Bearer {}", token.expose())),
            until: None,
        }),
        (Some(bearer), _, _) => fetch(wire, wish, bearer).await,
        (None, Some(_), Credentials::Basic { username, password }) => Ok(Header {
            value: basic(username, password),
            until: None,
        }),
        (None, Some(_), credentials) => {
            let shown = credentials.shown();
            Err(wish.refused(format!(
                "it wants a name and a password, and was asked {shown}"
            )))
        }
        (None, None, _) => {
            Err(wish.refused("it names neither Bearer nor Basic as a way in".to_owned()))
        }
    }
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    token: Option<Secret>,
    #[serde(default)]
    access_token: Option<Secret>,
    #[serde(default)]
    expires_in: Option<u64>,
}

async fn fetch(
    wire: &Wire,
    wish: &Wish<'_>,
    challenge: &Challenge,
) -> Result<Header, RegistryError> {
    let realm = challenge.get("realm").unwrap_or_default();
    let realm = Url::parse(realm).map_err(|_| RegistryError::Malformed {
        host: wish.host.name.clone(),
        what: wish.what.to_owned(),
        problem: format!("its token server is no URL: {:?}", presentable(realm)),
    })?;
    let server = wire.host_of(&realm);
    let plain = realm.scheme() == "http" && !server.settings.credentials_over_plain_http;
    if plain && wish.credentials.are_secret() {
        return Err(RegistryError::PlainCredentials {
            host: server.name.clone(),
        });
    }
    let ask = request(wish, challenge, realm);
    wire.admit(wish.host, &ask.url)?;
    let shown = match wish.credentials {
        Credentials::Basic { username, password } => Some(basic(username, password)),
        _ => None,
    };
    let response = wire.exchange_once(wish.host, &ask, shown.as_ref()).await?;
    let status = response.status();
    if status != StatusCode::OK {
        return Err(failed(wire, wish, &server, response).await);
    }
    let body = Zeroizing::new(wire.body(response, &ask.what, LONGEST).await?);
    let malformed = |problem: &str| RegistryError::Malformed {
        host: server.name.clone(),
        what: ask.what.clone(),
        problem: problem.to_owned(),
    };
    let token: Token = serde_json::from_slice(&body).map_err(|_| malformed("not JSON"))?;
    let filled = |it: Option<Secret>| it.filter(|it| !it.is_empty());
    let value = filled(token.token).or(filled(token.access_token));
    let value = value.ok_or_else(|| malformed("it has no token"))?;
    let given = token
        .expires_in
        .map_or(LEAST, Duration::from_secs)
        .clamp(LEAST, MOST);
    Ok(Header {
        value: Secret::new(format!("Bearer {}", value.expose())),
        // A tenth less: it must still be good when it arrives.
        until: Some(Instant::now() + given * 9 / 10),
    })
}

/// A GET with the scopes in its query; with a refresh token the POST of OAuth2.
fn request(wish: &Wish<'_>, challenge: &Challenge, realm: Url) -> Ask {
    let mut pairs: Vec<(&str, String)> = Vec::new();
    if let Some(service) = challenge.get("service") {
        pairs.push(("service", service.to_owned()));
    }
    let scopes = scopes(challenge, wish.scopes);
    let mut url = realm;
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let what = format!("a token for {}", wish.what);
    if let Credentials::Identity(token) = wish.credentials {
        pairs.push(("grant_type", "refresh_token".to_owned()));
        pairs.push(("client_id", "aurae".to_owned()));
        pairs.push(("scope", scopes.join(" ")));
        pairs.push(("refresh_token", token.expose().to_owned()));
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, form);
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        let body = form.extend_pairs(pairs).finish();
        return Ask {
            method: Method::POST,
            url,
            headers,
            payload: Payload::Bytes(body.into()),
            what,
        };
    }
    if let Credentials::Basic { username, .. } = wish.credentials {
        pairs.push(("account", username.clone()));
    }
    pairs.push(("client_id", "aurae".to_owned()));
    pairs.extend(scopes.into_iter().map(|scope| ("scope", scope)));
    url.query_pairs_mut().extend_pairs(pairs);
    Ask {
        method: Method::GET,
        url,
        headers,
        payload: Payload::None,
        what,
    }
}

/// The scopes that the registry asks for, and ours that it does not know of (where a blob is
/// mounted from).
fn scopes(challenge: &Challenge, ours: &[String]) -> Vec<String> {
    let asked = challenge.get("scope").unwrap_or_default().split(' ');
    let mut all: Vec<String> = asked
        .filter(|it| !it.is_empty())
        .map(str::to_owned)
        .collect();
    for scope in ours {
        if !all.contains(scope) {
            all.push(scope.clone());
        }
    }
    all.truncate(MOST_SCOPES);
    all
}

async fn failed(
    wire: &Wire,
    wish: &Wish<'_>,
    server: &Host,
    response: reqwest::Response,
) -> RegistryError {
    let status = response.status();
    let retry_after = super::session::wanted_pause(&response);
    if status.is_redirection() {
        return redirect(wish.host, &server.name, "a token server must not redirect");
    }
    let words = wire.words(response).await;
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        let shown = wish.credentials.shown();
        let problem = format!(
            "the token server {} gave no token {shown}: {words}",
            server.name
        );
        return wish.refused(problem);
    }
    RegistryError::Answer {
        host: server.name.clone(),
        what: format!("a token for {}", wish.what),
        status: status.as_u16(),
        problem: if words.is_empty() {
            words
        } else {
            format!(": {words}")
        },
        retry_after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(scope: &str) -> Challenge {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Challenge {
            scheme: "bearer".to_owned(),
            parameters: vec![pair("service", "a&b"), pair("scope", scope)],
        }
    }

    fn wish<'a>(credentials: &'a Credentials, host: &'a Host, scopes: &'a [String]) -> Wish<'a> {
        Wish {
            host,
            credentials,
            scopes,
            challenges: &[],
            what: "manifest",
        }
    }

    fn host() -> Host {
        Host {
            name: "r.example".to_owned(),
            settings: super::super::hosts::Settings::default(),
            configured: false,
        }
    }

    #[test]
    fn a_token_is_asked_for_as_the_specification_says() {
        let credentials = Credentials::Basic {
            username: "a b".to_owned(),
            password: Secret::new("hunter2"),
        };
        let host = host();
        let scopes = [
            "repository:x/y:pull".to_owned(),
            "repository:z:pull".to_owned(),
        ];
        let wish = wish(&credentials, &host, &scopes);
        let realm = Url::parse("https://auth.example/token?keep=1").unwrap();
        let ask = request(&wish, &challenge("repository:x/y:pull"), realm);
        assert_eq!(
            ask.url.query().unwrap(),
            "keep=1&service=a%26b&account=a+b&client_id=aurae\
             &scope=repository%3Ax%2Fy%3Apull&scope=repository%3Az%3Apull"
        );
        assert_eq!(ask.method, Method::GET);
    }

    #[test]
    fn an_identity_token_goes_into_a_body_and_never_into_a_url() {
        let credentials = Credentials::Identity(Secret::new("hunter2"));
        let host = host();
        let wish = wish(&credentials, &host, &[]);
        let realm = Url::parse("https://auth.example/token").unwrap();
        let ask = request(&wish, &challenge("s"), realm);
        assert_eq!((ask.method, ask.url.query()), (Method::POST, None));
        let Payload::Bytes(body) = ask.payload else {
            panic!("no body")
        };
        let expected: &[u8] =
            b"service=a%26b&grant_type=refresh_token&client_id=aurae&scope=s&refresh_token=hunter2";
        assert_eq!(&body[..], expected);
    }

    #[test]
    fn the_cache_is_bounded_and_keeps_credentials_apart() {
        let cache = Cache::default();
        let key = |number: usize| Key {
            host: "h".to_owned(),
            fingerprint: Credentials::Identity(Secret::new(number.to_string())).fingerprint(),
            scopes: vec![],
        };
        let held = cache.slot(&key(0));
        for number in 0..ENTRIES * 3 {
            cache.slot(&key(number));
        }
        assert!(cache.0.lock().unwrap().len() <= ENTRIES);
        assert!(Arc::ptr_eq(&held, &cache.slot(&key(0))));
        assert!(!Arc::ptr_eq(&held, &cache.slot(&key(1))));
    }
}
