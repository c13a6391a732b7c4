// SPDX-License-Identifier: Apache-2.0
//! A client of registries: pull and push by the OCI distribution specification 1.1 and Docker's
//! registry API 2, into and out of the store. It is the only async part of this crate.
//!
//! ```text
//!  pull, push          one image: from which host, in which order, several blobs at once
//!  documents, blobs,   what the protocol has: manifests; blobs in, through sink; blobs out
//!   upload
//!  session             one repository with one caller's credentials: authorization, retries
//!  token, credentials, who asks, and what is shown for it
//!   docker_config, helper, challenge
//!  wire, answer        one exchange: TLS, redirects, silence; hosts, tls, address are its rules
//! ```
//!
//! A registry is not trusted: every body is bounded, every digest and size verified while it is
//! written, every place that it points to checked; who sends slower than [`Options::slowest`] is
//! given up. It knows no tenants: an owner is a string by which partial blobs and places are kept
//! apart.

mod address;
mod answer;
mod backoff;
mod blobs;
mod challenge;
mod credentials;
mod docker_config;
mod documents;
mod error;
mod helper;
mod hosts;
mod pace;
mod payload;
mod policy;
mod progress;
mod pull;
mod push;
mod session;
mod shares;
mod sink;
mod tap;
mod tls;
mod token;
mod upload;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use backoff::Backoff;
pub use credentials::{Credentials, Secret};
pub use docker_config::DockerConfig;
pub use error::RegistryError;
pub use helper::Helpers;
pub use hosts::Hosts;
pub use policy::{Decision, PullPolicy};
pub use progress::{Blob, Progress, State};
pub use pull::{Admission, PullRequest, Pulled};
pub use push::{PushRequest, Pushed};
pub use tap::{Feed, Tap};

use docker_config::Found;
use hosts::Endpoint;
use session::{Access, Parts, Session};
use shares::Shares;
use token::Cache;
use wire::Wire;

use crate::digest::Digest;
use crate::manifest::Descriptor;
use crate::reference::Reference;

/// What bounds the client.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's `config.json`, read anew for each pull. `None`: anonymous, but for a request's
    /// own credentials.
    pub docker_config: Option<PathBuf>,
    /// The credential helpers that `docker_config` may name.
    pub helpers: Helpers,
    /// How often a host is asked again.
    pub backoff: Backoff,
    /// How long a connection may take, TLS included.
    pub connect: Duration,
    /// How long a host may send and take nothing; at least one second.
    pub idle: Duration,
    /// The least that a host must send, in bytes per second, over each stretch of `idle`.
    pub slowest: u64,
    /// How many blobs are moved at once, of all owners.
    pub at_once: usize,
    /// How many of them may be one owner's.
    pub per_owner: usize,
    /// Blobs that are larger are pushed in chunks of this size, in bytes.
    pub chunk: u64,
    /// The most that the layers of an image may have together, in bytes, as the registry has them.
    pub image_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            docker_config: None,
            helpers: Helpers::default(),
            backoff: Backoff::default(),
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            slowest: 1 << 10,
            at_once: 32,
            per_owner: 6,
            chunk: 64 << 20,
            image_bytes: 64 << 30,
        }
    }
}

/// Talks to registries. One for the whole node: connections, tokens and places are shared.
#[derive(Debug)]
pub struct Client {
    wire: Arc<Wire>,
    cache: Arc<Cache>,
    shares: Shares,
}

impl Client {
    /// Prepares the connections; opens none.
    ///
    /// # Errors
    /// [`RegistryError::Config`] for a certificate or key that isn't one.
    pub fn new(hosts: Hosts, options: Options) -> Result<Self, RegistryError> {
        let shares = Shares::new(options.at_once, options.per_owner);
        Ok(Self {
            wire: Arc::new(Wire::new(hosts, options)?),
            cache: Arc::default(),
            shares,
        })
    }

    /// The digest that a reference has at its registry now.
    ///
    /// # Errors
    /// What the registry answers; for a registry with mirrors, the server's answer.
    pub async fn resolve(
        &self,
        reference: &Reference,
        credentials: Option<&Credentials>,
    ) -> Result<Digest, RegistryError> {
        let session = self.reader(reference, credentials).await?;
        let wanted = reference.wanted();
        match session.head_manifest(&wanted).await? {
            Some(digest) => Ok(digest),
            None => {
                let fetched = session.manifest(&wanted, reference.digest()).await?;
                Ok(fetched.descriptor.digest)
            }
        }
    }

    /// What refers to a manifest of that repository: signatures, attestations.
    ///
    /// # Errors
    /// What the registry answers.
    pub async fn referrers(
        &self,
        reference: &Reference,
        subject: &Digest,
        credentials: Option<&Credentials>,
    ) -> Result<Vec<Descriptor>, RegistryError> {
        self.reader(reference, credentials)
            .await?
            .referrers(subject)
            .await
    }

    async fn reader(
        &self,
        reference: &Reference,
        credentials: Option<&Credentials>,
    ) -> Result<Session, RegistryError> {
        let (registry, repository) = (reference.registry(), reference.repository());
        let endpoint = self.wire.hosts.to_push(registry, repository);
        self.session(&endpoint, credentials, Access::Pull, Vec::new())
            .await
    }

    /// A session at one host, with the caller's credentials or those of `config.json`.
    async fn session(
        &self,
        endpoint: &Endpoint,
        given: Option<&Credentials>,
        access: Access,
        mounts: Vec<String>,
    ) -> Result<Session, RegistryError> {
        let credentials = match given.filter(|_| !endpoint.mirror) {
            Some(given) => given.clone(),
            None => self.configured(endpoint).await?,
        };
        Ok(Session::new(Parts {
            wire: self.wire.clone(),
            cache: self.cache.clone(),
            host: endpoint.host.clone(),
            repository: endpoint.repository.clone(),
            mirror: endpoint.mirror,
            credentials,
            access,
            mounts,
        }))
    }

    async fn configured(&self, endpoint: &Endpoint) -> Result<Credentials, RegistryError> {
        let Some(path) = self.wire.options.docker_config.clone() else {
            return Ok(Credentials::Anonymous);
        };
        let read = tokio::task::spawn_blocking(move || DockerConfig::load(&path));
        let config = read.await.map_err(|_| RegistryError::Stopped)??;
        match config.find(&endpoint.host.name, &endpoint.repository)? {
            None => Ok(Credentials::Anonymous),
            Some(Found::Here(credentials)) => Ok(credentials),
            Some(Found::Helper { name, server }) => {
                self.wire.options.helpers.get(&name, &server).await
            }
        }
    }
}
