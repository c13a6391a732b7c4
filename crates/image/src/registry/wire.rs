// SPDX-License-Identifier: Apache-2.0
//! One HTTP exchange with a host: TLS as configured, redirects by our rules, a bound on how long
//! the host may be silent. Authorization is handed in and leaves for the registry's own origin
//! alone. Knows nothing of tokens, retries or the protocol above (`session`).
//!
//! Where a registry points to (a redirect, an upload's location, a token server) is followed when
//! it is the registry's own origin, a host with a table of its own in the hosts file, or a host
//! with a public address.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use reqwest::{Request, Response, Url};

use super::Options;
use super::address::{Anywhere, PrivateAddress, PublicOnly, is_public};
use super::credentials::Secret;
use super::error::{RegistryError, presentable};
use super::hosts::{Host, Hosts};
use super::payload::Payload;
use super::tls;

/// How many redirects of one request are followed.
const MOST_REDIRECTS: usize = 5;

/// The connections to all hosts.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) hosts: Hosts,
    pub(crate) options: Options,
    configured: HashMap<String, reqwest::Client>,
    open: reqwest::Client,
    /// Connects to public addresses alone.
    guarded: reqwest::Client,
}

/// What is sent.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) payload: Payload,
    /// For errors: `manifest v1 of library/nginx`.
    pub(crate) what: String,
}

impl Wire {
    /// Prepares a client for each host of the file and for all others.
    ///
    /// # Errors
    /// [`RegistryError::Config`] for a CA, certificate or key that isn't one.
    pub(crate) fn new(hosts: Hosts, options: Options) -> Result<Self, RegistryError> {
        let roots = tls::system_roots();
        let default = super::hosts::Settings::default();
        let build = |settings, guarded| -> Result<reqwest::Client, RegistryError> {
            let mut builder = reqwest::Client::builder()
                .tls_backend_preconfigured(tls::configure(settings, &roots)?)
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .no_proxy()
                .referer(false)
                .connect_timeout(options.connect)
                .user_agent(concat!("aurae/", env!("CARGO_PKG_VERSION")));
            builder = match guarded {
                true => builder.dns_resolver(PublicOnly),
                false => builder.dns_resolver(Anywhere),
            };
            builder.build().map_err(|problem| RegistryError::Config {
                path: "TLS".into(),
                problem: chain(&problem),
            })
        };
        let configured = hosts
            .configured()
            .map(|host| Ok((host.name.clone(), build(&host.settings, false)?)))
            .collect::<Result<_, RegistryError>>()?;
        Ok(Self {
            configured,
            open: build(&default, false)?,
            guarded: build(&default, true)?,
            hosts,
            options,
        })
    }

    /// Sends a request and follows where it leads. The answer may have any status but a redirect's.
    ///
    /// # Errors
    /// What keeps an answer from coming: unreachable, untrusted, slow, or a redirect that isn't
    /// followed.
    pub(crate) async fn exchange(
        &self,
        registry: &Host,
        ask: &Ask,
        authorization: Option<&Secret>,
    ) -> Result<Response, RegistryError> {
        let mut url = ask.url.clone();
        for _ in 0..=MOST_REDIRECTS {
            let own = url.origin() == origin_of(registry);
            let shown = authorization.filter(|_| own);
            let response = self.hop(registry, ask, &url, shown).await?;
            if !is_redirect(response.status()) {
                return Ok(response);
            }
            let refuse = |to: &str, problem: &str| redirect(registry, to, problem);
            if !matches!(ask.method, Method::GET | Method::HEAD) {
                return Err(refuse("another place", "only what is read is redirected"));
            }
            let location = response
                .headers()
                .get(LOCATION)
                .and_then(|it| it.to_str().ok());
            let location = location.ok_or_else(|| refuse("nowhere", "it has no Location"))?;
            url = join(&url, location).ok_or_else(|| refuse("nowhere", "it is not a URL"))?;
        }
        let problem = format!("more than {MOST_REDIRECTS} redirects");
        Err(redirect(registry, &shown_origin(&url), &problem))
    }

    /// Sends a request that must be answered where it was sent to.
    ///
    /// # Errors
    /// What keeps an answer from coming. A redirect is an answer here.
    pub(crate) async fn exchange_once(
        &self,
        registry: &Host,
        ask: &Ask,
        authorization: Option<&Secret>,
    ) -> Result<Response, RegistryError> {
        self.hop(registry, ask, &ask.url, authorization).await
    }

    /// Whether a URL is of the registry's own origin.
    pub(crate) fn is_own(&self, registry: &Host, url: &Url) -> bool {
        url.origin() == origin_of(registry)
    }

    async fn hop(
        &self,
        registry: &Host,
        ask: &Ask,
        url: &Url,
        authorization: Option<&Secret>,
    ) -> Result<Response, RegistryError> {
        let client = self.admit(registry, url)?;
        let name = authority(url);
        let mut request = Request::new(ask.method.clone(), url.clone());
        *request.headers_mut() = ask.headers.clone();
        if let Some(secret) = authorization {
            request
                .headers_mut()
                .insert(AUTHORIZATION, sensitive(registry, ask, secret)?);
        }
        let sent = Arc::new(AtomicU64::new(0));
        if let Some((body, length)) = ask.payload.body(&sent) {
            request
                .headers_mut()
                .insert(http::header::CONTENT_LENGTH, length.into());
            *request.body_mut() = Some(body);
        }
        tokio::select! {
            answer = client.execute(request) => {
                answer.map_err(|problem| match find::<PrivateAddress>(&problem) {
                    Some(_) => redirect(registry, &name, &private(&registry.name, &name)),
                    None => self.classify(&name, &ask.what, &problem),
                })
            }
            () = self.silence(&sent) => Err(self.slow(&name, &ask.what)),
        }
    }

    /// Ends when nothing was sent for the time that a host may be silent.
    async fn silence(&self, sent: &AtomicU64) {
        let mut before = sent.load(Ordering::Relaxed);
        loop {
            // It is the deadline of an event, and begins anew while an upload moves.
            tokio::time::sleep(self.options.idle).await;
            let now = sent.load(Ordering::Relaxed);
            if now == before {
                return;
            }
            before = now;
        }
    }

    /// The client for a place that a registry named, by the rules of this module's header.
    ///
    /// # Errors
    /// [`RegistryError::Redirect`] says what would have to be configured.
    pub(crate) fn admit(
        &self,
        registry: &Host,
        url: &Url,
    ) -> Result<&reqwest::Client, RegistryError> {
        let name = authority(url);
        let host = self.host_of(url);
        let refuse = |problem: &str| redirect(registry, &shown_origin(url), problem);
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(refuse("only http and https are spoken"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refuse("the URL has a user's name or password"));
        }
        if url.scheme() == "http" && !host.settings.plain_http {
            let problem =
                format!("it is plain HTTP, without `plain_http = true` in [host.{name:?}]");
            return Err(refuse(&problem));
        }
        if let Some(client) = self.configured.get(&host.name) {
            return Ok(client);
        }
        let own = url.origin() == origin_of(registry);
        let named = own && (registry.configured || !self.hosts.public_only);
        if named || !own && registry.settings.redirects_to_private {
            return Ok(&self.open);
        }
        let host = url.host_str().unwrap_or_default();
        let literal = host.trim_matches(['[', ']']).parse::<IpAddr>();
        if literal.is_ok_and(|address| !is_public(address)) {
            return Err(refuse(&private(&registry.name, &name)));
        }
        Ok(&self.guarded)
    }

    /// The settings for a URL's host.
    pub(crate) fn host_of(&self, url: &Url) -> Arc<Host> {
        let host = self.hosts.host(&authority(url));
        if host.configured {
            return host;
        }
        // A table may name the default port.
        let port = url.port_or_known_default().unwrap_or_default();
        let named = self
            .hosts
            .host(&format!("{}:{port}", url.host_str().unwrap_or_default()));
        if named.configured { named } else { host }
    }

    /// Turns what reqwest met into an error by its cause.
    pub(crate) fn classify(
        &self,
        host: &str,
        what: &str,
        problem: &reqwest::Error,
    ) -> RegistryError {
        let host = host.to_owned();
        if let Some(tls) = find::<rustls::Error>(problem) {
            let problem = tls.to_string();
            return RegistryError::Untrusted { host, problem };
        }
        if problem.is_timeout() && problem.is_connect() {
            return RegistryError::Unreachable {
                host,
                problem: format!("no connection within {:?}", self.options.connect),
            };
        }
        if problem.is_timeout() {
            return self.slow(&host, what);
        }
        let problem = chain(problem);
        RegistryError::Unreachable { host, problem }
    }

    pub(crate) fn slow(&self, host: &str, what: &str) -> RegistryError {
        RegistryError::Slow {
            host: host.to_owned(),
            what: what.to_owned(),
            after: self.options.idle,
        }
    }
}

pub(crate) fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// A location, which may be relative. A fragment is not sent.
pub(crate) fn join(base: &Url, location: &str) -> Option<Url> {
    let mut url = base.join(location).ok()?;
    url.set_fragment(None);
    Some(url)
}

/// `host`, or `host:port` where it isn't the scheme's own.
pub(crate) fn authority(url: &Url) -> String {
    let port = url.port().map_or(String::new(), |port| format!(":{port}"));
    format!("{}{port}", url.host_str().unwrap_or_default())
}

fn origin_of(host: &Host) -> url::Origin {
    let url = Url::parse(&format!("{}://{}/", host.scheme(), host.name));
    url.map_or_else(|_| url::Origin::new_opaque(), |url| url.origin())
}

fn shown_origin(url: &Url) -> String {
    presentable(&format!("{}://{}", url.scheme(), authority(url)))
}

fn private(registry: &str, target: &str) -> String {
    format!(
        "it is at a private address; a table [host.{target:?}] allows it, or \
         `redirects_to_private = true` in [host.{registry:?}]"
    )
}

pub(crate) fn redirect(registry: &Host, target: &str, problem: &str) -> RegistryError {
    RegistryError::Redirect {
        host: registry.name.clone(),
        target: target.to_owned(),
        problem: problem.to_owned(),
    }
}

fn sensitive(host: &Host, ask: &Ask, secret: &Secret) -> Result<HeaderValue, RegistryError> {
    let mut value =
        HeaderValue::try_from(secret.expose()).map_err(|_| RegistryError::Malformed {
            host: host.name.clone(),
            what: ask.what.clone(),
            problem: "the token or name has characters that no header can have".to_owned(),
        })?;
    value.set_sensitive(true);
    Ok(value)
}

/// The first error of this type among the causes, also where an I/O error wraps it.
fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        let inner = error
            .downcast_ref::<std::io::Error>()
            .and_then(|it| it.get_ref());
        if let Some(inner) = inner {
            let inner: &(dyn StdError + 'static) = inner;
            if let Some(found) = find::<T>(inner) {
                return Some(found);
            }
        }
        next = error.source();
    }
    None
}

/// The innermost cause in words. The outer ones repeat the URL, whose query can hold secrets.
fn chain(error: &dyn StdError) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    presentable(&last.to_string())
}
