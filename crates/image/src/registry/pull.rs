// SPDX-License-Identifier: Apache-2.0
//! A pull: what the reference points to, the manifest for the platform, then the configuration and
//! the layers, several at once, each from the first host that gives it. Nothing gets a name here:
//! the caller names the manifest when all of it is in the store. A pull that is dropped ends at
//! once, and the next one of the same owner goes on where it was.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use model::error::Error;
use tokio::sync::{OnceCell, Semaphore, watch};

use super::Client;
use super::credentials::Credentials;
use super::documents::Fetched;
use super::error::RegistryError;
use super::hosts::Endpoint;
use super::progress::{Meter, Progress, State};
use super::session::{Access, Session};
use super::sink::Sink;
use super::tap::Tap;
use crate::digest::Digest;
use crate::error::ImageError;
use crate::manifest::{Compression, Descriptor, Document, Manifest, check_length, media};
use crate::platform::Platform;
use crate::reference::Reference;
use crate::store::{Pin, Store};

/// How deep indexes may point to indexes.
const DEPTH: usize = 3;
/// How many errors of hosts that were passed over are told.
const MOST_WORDS: usize = 32;

/// What is to be pulled.
#[derive(Clone, Debug)]
pub struct PullRequest {
    /// The image.
    pub reference: Reference,
    /// What it must run on, where it is for several.
    pub platform: Platform,
    /// Shown to the registry itself, never to a mirror. `None`: those of the client's
    /// `config.json`, or none.
    pub credentials: Option<Credentials>,
    /// Whose pull it is: partial blobs and places are the owner's.
    pub owner: String,
    /// The manifest that the owner has by this name now, and has all blobs of. Where the registry
    /// still gives the same one, its blobs are looked at and not proved or fetched anew. Not an
    /// index: another entry of it may name what the owner hasn't got.
    pub known: Option<Digest>,
    /// How long the whole may take.
    pub deadline: Duration,
    /// Asked before the first layer is fetched.
    pub admission: Admission,
    /// Reads layers while they come.
    pub tap: Option<Arc<dyn Tap>>,
}

/// Whether what a manifest points to may be fetched: for a quota. Its refusal ends the pull.
#[derive(Clone)]
pub struct Admission(Arc<Rule>);

type Rule = dyn Fn(&Descriptor, &Manifest) -> Result<(), Error> + Send + Sync;

impl Admission {
    /// Asks `rule` with the manifest and its descriptor.
    pub fn new<F>(rule: F) -> Self
    where
        F: Fn(&Descriptor, &Manifest) -> Result<(), Error> + Send + Sync + 'static,
    {
        Self(Arc::new(rule))
    }
}

impl Default for Admission {
    /// All is admitted.
    fn default() -> Self {
        Self::new(|_, _| Ok(()))
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Admission")
    }
}

/// What was pulled. All of it is in the store.
#[derive(Debug)]
pub struct Pulled {
    /// What the reference points to: the index, where there is one.
    pub target: Descriptor,
    /// The image's manifest.
    pub manifest: Descriptor,
    /// The manifest's content.
    pub content: Manifest,
    /// The host that gave the manifest.
    pub host: String,
    /// Hosts that were passed over, each with its error in words.
    pub passed_over: Vec<String>,
    /// Keep it from being collected until it has a name.
    pub pins: Vec<Pin>,
}

/// Where a blob can be had, and the session there once there is one.
struct Source {
    endpoint: Endpoint,
    session: OnceCell<Session>,
}

/// One pull under way.
struct Run<'a> {
    client: &'a Client,
    store: &'a Store,
    request: &'a PullRequest,
    sources: Vec<Source>,
    /// The source that gave something last.
    preferred: AtomicUsize,
    passed_over: Mutex<Vec<String>>,
    places: Arc<Semaphore>,
    meter: Meter,
}

impl Client {
    /// Pulls an image into the store.
    ///
    /// # Errors
    /// [`RegistryError::Deadline`] for the whole; what every host answered; what the store says.
    pub async fn pull(
        &self,
        store: &Store,
        request: &PullRequest,
        progress: watch::Sender<Progress>,
    ) -> Result<Pulled, RegistryError> {
        let reference = &request.reference;
        let endpoints = self
            .wire
            .hosts
            .to_pull(reference.registry(), reference.repository());
        let run = Run {
            client: self,
            store,
            request,
            sources: endpoints.into_iter().map(Source::new).collect(),
            preferred: AtomicUsize::new(0),
            passed_over: Mutex::default(),
            places: self.shares.of(&request.owner),
            meter: Meter::new(progress),
        };
        let whole = tokio::time::timeout(request.deadline, run.run()).await;
        whole.map_err(|_| RegistryError::Deadline {
            what: format!("the pull of {reference}"),
            after: request.deadline,
        })?
    }
}

impl Source {
    fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            session: OnceCell::new(),
        }
    }
}

impl Run<'_> {
    async fn run(&self) -> Result<Pulled, RegistryError> {
        let mut pins = Vec::new();
        let top = self.top(&mut pins).await?;
        let target = top.descriptor.clone();
        let (manifest, content) = self.manifest(top, &mut pins).await?;
        let known = self.request.known.as_ref() == Some(&manifest.digest);
        self.check(&content)?;
        let admitted = (self.request.admission.0)(&manifest, &content);
        admitted.map_err(RegistryError::NotAdmitted)?;
        self.meter.expect(content.blobs());
        let mut seen = HashSet::new();
        if let Some(tap) = &self.request.tap {
            // It says what the layers are, without which none can be read.
            pins.push(self.blob(&content.config, known).await?);
            seen.insert(content.config.digest.clone());
            self.tell(tap, &manifest).await?;
        }
        let mut blobs: FuturesUnordered<_> = content
            .blobs()
            .filter(|blob| seen.insert(blob.digest.clone()))
            .map(|blob| self.blob(blob, known))
            .collect();
        while let Some(pin) = blobs.next().await {
            pins.push(pin?);
        }
        drop(blobs);
        let used = self.sources.get(self.preferred.load(Ordering::Relaxed));
        Ok(Pulled {
            target,
            manifest,
            content,
            host: used.map_or_else(String::new, |it| it.endpoint.host.name.clone()),
            passed_over: self.lock().clone(),
            pins,
        })
    }

    async fn tell(&self, tap: &Arc<dyn Tap>, manifest: &Descriptor) -> Result<(), RegistryError> {
        let (tap, manifest) = (Arc::clone(tap), manifest.clone());
        let told = tokio::task::spawn_blocking(move || tap.image(&manifest));
        let told = told.await.map_err(|_| RegistryError::Stopped)?;
        told.map_err(RegistryError::NotAdmitted)
    }

    /// What the reference points to.
    async fn top(&self, pins: &mut Vec<Pin>) -> Result<Fetched, RegistryError> {
        let reference = &self.request.reference;
        let digest = reference.digest();
        self.document(&reference.wanted(), digest, pins).await
    }

    /// The manifest for the platform, through indexes.
    async fn manifest(
        &self,
        top: Fetched,
        pins: &mut Vec<Pin>,
    ) -> Result<(Descriptor, Manifest), RegistryError> {
        let mut here = top;
        for _ in 0..DEPTH {
            let index = match here.document {
                Document::Manifest(manifest) => return Ok((here.descriptor, manifest)),
                Document::Index(index) => index,
            };
            let chosen = self.request.platform.choose(&index.manifests)?;
            check_length(&format!("manifest {}", chosen.digest), chosen.size)?;
            let wanted = chosen.digest.to_string();
            here = self.document(&wanted, Some(&chosen.digest), pins).await?;
            if here.descriptor.size != chosen.size {
                return Err(ImageError::WrongSize {
                    digest: chosen.digest.clone(),
                    expected: chosen.size,
                    found: here.descriptor.size,
                }
                .into());
            }
        }
        let problem = format!("indexes that point to indexes more than {DEPTH} deep");
        Err(ImageError::document(format!("manifest {}", here.descriptor.digest), problem).into())
    }

    /// Fetches a document from the first host that gives it, and stores it.
    async fn document(
        &self,
        wanted: &str,
        expected: Option<&Digest>,
        pins: &mut Vec<Pin>,
    ) -> Result<Fetched, RegistryError> {
        let mut failed = Vec::new();
        for (at, source) in self.order() {
            if expected.is_none() && !source.endpoint.tags {
                continue;
            }
            match self.document_from(source, wanted, expected).await {
                Ok(fetched) => {
                    self.prefer(at, source);
                    pins.push(self.put(&fetched).await?);
                    return Ok(fetched);
                }
                Err(problem) => self.pass_over(source, problem, &mut failed)?,
            }
        }
        Err(RegistryError::everywhere(
            self.request.reference.to_string(),
            failed,
        ))
    }

    async fn document_from(
        &self,
        source: &Source,
        wanted: &str,
        expected: Option<&Digest>,
    ) -> Result<Fetched, RegistryError> {
        let session = self.session(source).await?;
        if expected.is_some() {
            return session.manifest(wanted, expected).await;
        }
        // By its digest, which caches on the way can keep; and the tag can't move in between.
        match session.head_manifest(wanted).await? {
            Some(digest) => session.manifest(&digest.to_string(), Some(&digest)).await,
            None => session.manifest(wanted, None).await,
        }
    }

    async fn put(&self, fetched: &Fetched) -> Result<Pin, RegistryError> {
        let store = self.store.clone();
        let (digest, bytes) = (fetched.descriptor.digest.clone(), fetched.bytes.clone());
        let put = tokio::task::spawn_blocking(move || store.put(&digest, &bytes));
        Ok(put.await.map_err(|_| RegistryError::Stopped)??)
    }

    /// What can be refused before the first layer is fetched.
    fn check(&self, manifest: &Manifest) -> Result<(), RegistryError> {
        for layer in &manifest.layers {
            let foreign = [media::FOREIGN_LAYER, media::DOCKER_FOREIGN_LAYER];
            if !layer.urls.is_empty() || foreign.iter().any(|it| layer.media_type.starts_with(it)) {
                return Err(RegistryError::ForeignLayer {
                    digest: layer.digest.clone(),
                });
            }
        }
        manifest.check_image()?;
        let config = &manifest.config;
        check_length(&format!("configuration {}", config.digest), config.size)?;
        let whole = manifest
            .blobs()
            .fold(0, |sum: u64, it| sum.saturating_add(it.size));
        let limit = self.client.wire.options.image_bytes;
        if whole > limit {
            return Err(ImageError::TooMuch {
                what: format!("an image of {whole} bytes"),
                limit: format!("{limit} bytes"),
            }
            .into());
        }
        Ok(())
    }

    /// Brings one blob from the first host that gives it.
    async fn blob(&self, blob: &Descriptor, known: bool) -> Result<Pin, RegistryError> {
        let _place = self.client.shares.take(&self.places).await?;
        let mut failed = Vec::new();
        for (at, source) in self.order() {
            match self.blob_from(source, blob, known).await {
                Ok(pin) => {
                    self.prefer(at, source);
                    if let Some(tap) = &self.request.tap {
                        tap.came(&blob.digest);
                    }
                    return Ok(pin);
                }
                Err(problem) => self.pass_over(source, problem, &mut failed)?,
            }
        }
        Err(RegistryError::everywhere(
            format!("blob {}", blob.digest),
            failed,
        ))
    }

    async fn blob_from(
        &self,
        source: &Source,
        blob: &Descriptor,
        known: bool,
    ) -> Result<Pin, RegistryError> {
        let session = self.session(source).await?;
        let pin = self.store.pin(&blob.digest);
        if self.store.contains(&blob.digest) {
            session.head_blob(blob).await?;
            if known || session.prove(self.store, blob).await? {
                self.meter.set(&blob.digest, State::Present, blob.size);
                return Ok(pin);
            }
        }
        match self.bring(session, blob).await {
            // A part of it was of an earlier attempt, which may have been told wrong bytes.
            Err((_, true)) => self
                .bring(session, blob)
                .await
                .map_err(|(problem, _)| problem),
            other => other.map_err(|(problem, _)| problem),
        }
    }

    /// Downloads a blob. The flag of an error says whether beginning anew is worth trying.
    async fn bring(
        &self,
        session: &Session,
        blob: &Descriptor,
    ) -> Result<Pin, (RegistryError, bool)> {
        let scope = format!(
            "{} {}/{}",
            self.request.owner,
            self.request.reference.registry(),
            self.request.reference.repository()
        );
        let plain = |problem| (problem, false);
        let tap = self.request.tap.clone();
        let mut sink = Sink::open(self.store, &scope, blob, tap)
            .await
            .map_err(plain)?;
        self.meter.set(&blob.digest, State::Moving, sink.offset());
        if let Err(problem) = session.download(blob, &mut sink, &self.meter).await {
            sink.close().await;
            return Err(plain(problem));
        }
        let resumed = sink.is_resumed();
        match sink.finish().await {
            Ok(pin) => {
                let is_layer = Compression::of_media_type(&blob.media_type).is_some();
                let is_read = self.request.tap.is_some() && is_layer;
                self.meter.came(&blob.digest, is_read);
                Ok(pin)
            }
            Err(RegistryError::Image(ImageError::WrongDigest { expected, found })) => {
                let lie = RegistryError::Lie {
                    host: session.host.name.clone(),
                    digest: expected,
                    problem: format!("it sent bytes with the digest {found}"),
                };
                Err((lie, resumed))
            }
            Err(problem) => Err(plain(problem)),
        }
    }

    async fn session<'s>(&self, source: &'s Source) -> Result<&'s Session, RegistryError> {
        let make = || async {
            let given = self.request.credentials.as_ref();
            self.client
                .session(&source.endpoint, given, Access::Pull, Vec::new())
                .await
        };
        source.session.get_or_try_init(make).await
    }

    /// The sources, from the preferred one on; then those before it.
    fn order(&self) -> impl Iterator<Item = (usize, &Source)> {
        let first = self.preferred.load(Ordering::Relaxed);
        let all = self.sources.iter().enumerate();
        all.clone().skip(first).chain(all.take(first))
    }

    fn prefer(&self, at: usize, source: &Source) {
        self.preferred.store(at, Ordering::Relaxed);
        self.meter.host(&source.endpoint.host.name);
    }

    /// Notes that a host has failed, or returns the error where the next one can't do better.
    fn pass_over(
        &self,
        source: &Source,
        problem: RegistryError,
        failed: &mut Vec<RegistryError>,
    ) -> Result<(), RegistryError> {
        if !problem.is_of_the_host() {
            return Err(problem);
        }
        if self.sources.len() > 1 {
            tracing::info!(host = source.endpoint.host.name, %problem, "a host is passed over");
            let mut passed_over = self.lock();
            let words = problem.to_string();
            if passed_over.len() < MOST_WORDS && !passed_over.contains(&words) {
                passed_over.push(words);
            }
        }
        failed.push(problem);
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.passed_over
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
