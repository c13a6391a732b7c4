// SPDX-License-Identifier: Apache-2.0
//! One repository at one host with one caller's credentials: requests with authorization, a fresh
//! one after a 401, and retries. What is asked for is the business of `documents`, `blobs` and
//! `push`.

use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderMap, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use reqwest::{Response, Url};

use super::backoff::{Backoff, retry_after};
use super::challenge::{self, Challenge};
use super::credentials::Credentials;
use super::error::RegistryError;
use super::hosts::Host;
use super::payload::Payload;
use super::token::{self, Cache, Header, Key, Wish};
use super::wire::{Ask, Wire};

/// How often a mirror is asked: behind it there is another host.
const MIRROR_ATTEMPTS: u32 = 2;

/// What a session may do in its repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading blobs and manifests.
    Pull,
    /// Read and write.
    Push,
}

/// One repository at one host.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) wire: Arc<Wire>,
    pub(crate) host: Arc<Host>,
    pub(crate) repository: String,
    pub(crate) backoff: Backoff,
    credentials: Arc<Credentials>,
    cache: Arc<Cache>,
    scopes: Vec<String>,
}

/// What a session is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) wire: Arc<Wire>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) host: Arc<Host>,
    pub(crate) repository: String,
    pub(crate) mirror: bool,
    pub(crate) credentials: Credentials,
    pub(crate) access: Access,
    /// Repositories that blobs are mounted from.
    pub(crate) mounts: Vec<String>,
}

impl Session {
    pub(crate) fn new(parts: Parts) -> Self {
        let actions = match parts.access {
            Access::Pull => "pull",
            Access::Push => "pull,push",
        };
        let mut scopes = vec![format!("repository:{}:{actions}", parts.repository)];
        scopes.extend(
            parts
                .mounts
                .iter()
                .map(|it| format!("repository:{it}:pull")),
        );
        let mut backoff = parts.wire.options.backoff;
        if parts.mirror {
            backoff.attempts = backoff.attempts.min(MIRROR_ATTEMPTS);
        }
        Self {
            wire: parts.wire,
            host: parts.host,
            repository: parts.repository,
            backoff,
            credentials: Arc::new(parts.credentials),
            cache: parts.cache,
            scopes,
        }
    }

    /// A request for a path below the repository, e.g. `manifests/latest`.
    ///
    /// # Errors
    /// [`RegistryError::Malformed`] where the whole is no URL.
    pub(crate) fn ask(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
    ) -> Result<Ask, RegistryError> {
        let what = format!("{path} of {}", self.repository);
        let url = format!(
            "{}://{}/v2/{}/{path}",
            self.host.scheme(),
            self.host.name,
            self.repository
        );
        let url = Url::parse(&url).map_err(|problem| self.malformed(&what, problem.to_string()))?;
        Ok(Ask {
            method,
            url,
            headers,
            payload: Payload::None,
            what,
        })
    }

    /// A request for a place that the registry named, relative to where it was asked.
    ///
    /// # Errors
    /// [`RegistryError::Malformed`] where that is no URL.
    pub(crate) fn ask_at(
        &self,
        asked: &Ask,
        response: &Response,
        method: Method,
    ) -> Result<Ask, RegistryError> {
        let location = response.headers().get(http::header::LOCATION);
        let location = location.and_then(|it| it.to_str().ok());
        let url = location.and_then(|it| super::wire::join(response.url(), it));
        let wrong = || self.malformed(&asked.what, "its Location is missing or no URL");
        Ok(Ask {
            method,
            url: url.ok_or_else(wrong)?,
            headers: HeaderMap::new(),
            payload: Payload::None,
            what: asked.what.clone(),
        })
    }

    pub(crate) fn malformed(&self, what: &str, problem: impl Into<String>) -> RegistryError {
        RegistryError::Malformed {
            host: self.host.name.clone(),
            what: what.to_owned(),
            problem: problem.into(),
        }
    }

    /// Sends a request that may be sent again, until it succeeds or there is no point in trying.
    ///
    /// # Errors
    /// Everything but a success (2xx).
    pub(crate) async fn send(&self, ask: &Ask) -> Result<Response, RegistryError> {
        let mut failures = 0;
        loop {
            let problem = match self.once(ask).await {
                Err(problem) if problem.is_passing() => problem,
                other => return other,
            };
            failures += 1;
            self.wait(failures, problem).await?;
        }
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// The last attempt's, when there is none left.
    pub(crate) async fn wait(
        &self,
        failures: u32,
        problem: RegistryError,
    ) -> Result<(), RegistryError> {
        let Some(pause) = self.backoff.pause(failures, problem.retry_after()) else {
            return Err(problem);
        };
        tracing::debug!(%problem, ?pause, failures, "the registry is asked again");
        // A host that failed announces its recovery by no event.
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// Sends a request; twice where the first one's authorization is refused.
    ///
    /// # Errors
    /// Everything but a success (2xx).
    pub(crate) async fn once(&self, ask: &Ask) -> Result<Response, RegistryError> {
        let slot = self.cache.slot(&Key {
            host: self.host.name.clone(),
            fingerprint: self.credentials.fingerprint(),
            scopes: self.scopes.clone(),
        });
        let shown = token::current(&slot).await;
        let response = self.exchange(ask, shown.as_ref()).await?;
        if !self.is_challenge(&response) {
            return self.judge(ask, response).await;
        }
        let challenges = self.challenges(ask, &response)?;
        drop(response);
        let wish = Wish {
            host: &self.host,
            credentials: &self.credentials,
            scopes: &self.scopes,
            challenges: &challenges,
            what: &ask.what,
        };
        let fresh = token::renew(&self.wire, &slot, shown.as_ref(), &wish).await?;
        let response = self.exchange(ask, Some(&fresh)).await?;
        self.judge(ask, response).await
    }

    async fn exchange(&self, ask: &Ask, shown: Option<&Header>) -> Result<Response, RegistryError> {
        self.wire
            .exchange(&self.host, ask, shown.map(|it| &it.value))
            .await
    }

    /// Whether it is the registry itself that wants to know who asks, not a host that it points to.
    fn is_challenge(&self, response: &Response) -> bool {
        let own = self.wire.is_own(&self.host, response.url());
        response.status() == StatusCode::UNAUTHORIZED && own
    }

    fn challenges(&self, ask: &Ask, answer: &Response) -> Result<Vec<Challenge>, RegistryError> {
        let mut all = Vec::new();
        for header in answer.headers().get_all(WWW_AUTHENTICATE) {
            let wrong = |problem| self.malformed(&ask.what, problem);
            let text = header
                .to_str()
                .map_err(|_| wrong("a challenge that isn't ASCII".into()))?;
            all.extend(challenge::parse(text).map_err(wrong)?);
        }
        Ok(all)
    }

    /// A success, or the error that stands for the status.
    async fn judge(&self, ask: &Ask, response: Response) -> Result<Response, RegistryError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let host = super::wire::authority(response.url());
        let retry_after = wanted_pause(&response);
        let words = self.wire.words(response).await;
        let what = ask.what.clone();
        Err(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => RegistryError::Refused {
                host,
                what,
                problem: format!(
                    "asked {}, it answered {status} {words}",
                    self.credentials.shown()
                )
                .trim_end()
                .to_owned(),
            },
            StatusCode::NOT_FOUND => RegistryError::NotFound { host, what },
            _ => RegistryError::Answer {
                host,
                what,
                status: status.as_u16(),
                problem: if words.is_empty() {
                    words
                } else {
                    format!(": {words}")
                },
                retry_after,
            },
        })
    }
}

/// `Retry-After` of an answer.
pub(crate) fn wanted_pause(response: &Response) -> Option<Duration> {
    let header = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    retry_after(header, jiff::Timestamp::now())
}
