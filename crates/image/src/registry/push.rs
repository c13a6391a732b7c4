// SPDX-License-Identifier: Apache-2.0
//! A push: what a manifest or an index points to, bottom up, so that a registry never has a
//! document whose content it lacks. How one blob gets there is `upload`'s. Only the registry's own
//! server is written to, never a mirror.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Semaphore, watch};

use super::Client;
use super::credentials::Credentials;
use super::error::RegistryError;
use super::progress::{Meter, Progress, State};
use super::session::{Access, Session};
use super::upload::Way;
use crate::digest::Digest;
use crate::error::ImageError;
use crate::manifest::{Descriptor, Document, MAX_ENTRIES, media};
use crate::reference::Reference;
use crate::store::{Pin, Store};

/// How deep indexes may point to indexes.
const DEPTH: usize = 3;

/// What is to be pushed.
#[derive(Clone, Debug)]
pub struct PushRequest {
    /// Where to, by tag or digest.
    pub reference: Reference,
    /// The manifest or index, which is in the store with all that it points to.
    pub target: Digest,
    /// Shown to the registry. `None`: those of the client's `config.json`, or none.
    pub credentials: Option<Credentials>,
    /// Whose push it is.
    pub owner: String,
    /// Other repositories of the same registry that may have the blobs already; each is tried in
    /// turn.
    pub mount_from: Vec<String>,
    /// How long the whole may take.
    pub deadline: Duration,
}

/// What was pushed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Blobs that the registry had in that repository.
    pub present: usize,
    /// Blobs that it took over from another of its repositories.
    pub mounted: usize,
    /// Blobs that were sent.
    pub sent: usize,
    /// Manifests and indexes that were stored.
    pub documents: usize,
}

/// A document of the store.
struct Item {
    descriptor: Descriptor,
    bytes: Vec<u8>,
    blobs: Vec<Descriptor>,
}

impl Client {
    /// Pushes an image of the store.
    ///
    /// # Errors
    /// [`ImageError::NotFound`] for what the store lacks (an index of which only one platform was
    /// pulled); what the registry answers; [`RegistryError::Deadline`].
    pub async fn push(
        &self,
        store: &Store,
        request: &PushRequest,
        progress: watch::Sender<Progress>,
    ) -> Result<Pushed, RegistryError> {
        let reference = &request.reference;
        let endpoint = self
            .wire
            .hosts
            .to_push(reference.registry(), reference.repository());
        let run = async {
            let items = self.gather(store, &request.target).await?;
            let given = request.credentials.as_ref();
            let mounts = request.mount_from.clone();
            let session = self.session(&endpoint, given, Access::Push, mounts).await?;
            let run = Run {
                client: self,
                store,
                request,
                session,
                places: self.shares.of(&request.owner),
                meter: Meter::new(progress),
            };
            run.run(&items).await
        };
        let whole = tokio::time::timeout(request.deadline, run).await;
        whole.map_err(|_| RegistryError::Deadline {
            what: format!("the push of {reference}"),
            after: request.deadline,
        })?
    }

    async fn gather(&self, store: &Store, target: &Digest) -> Result<Vec<Item>, RegistryError> {
        let (store, target) = (store.clone(), target.clone());
        let gathered = tokio::task::spawn_blocking(move || {
            let mut items = Vec::new();
            gather(&store, &target, DEPTH, &mut HashSet::new(), &mut items)?;
            Ok::<_, RegistryError>(items)
        });
        gathered.await.map_err(|_| RegistryError::Stopped)?
    }
}

/// Reads a document and all below it, what is below first.
fn gather(
    store: &Store,
    digest: &Digest,
    depth: usize,
    seen: &mut HashSet<Digest>,
    items: &mut Vec<Item>,
) -> Result<(), RegistryError> {
    if !seen.insert(digest.clone()) {
        return Ok(());
    }
    if seen.len() > MAX_ENTRIES {
        return Err(ImageError::TooMuch {
            what: "the manifests of an image".to_owned(),
            limit: MAX_ENTRIES.to_string(),
        }
        .into());
    }
    let bytes = store.read_document(digest)?;
    let (media_type, blobs) = match Document::parse(&bytes, None)? {
        Document::Manifest(manifest) => {
            let blobs: Vec<_> = manifest.blobs().cloned().collect();
            (manifest.media_type, blobs)
        }
        Document::Index(index) => {
            let below = depth.checked_sub(1).ok_or_else(|| {
                let problem = format!("indexes that point to indexes more than {DEPTH} deep");
                ImageError::document(format!("manifest {digest}"), problem)
            })?;
            for entry in &index.manifests {
                gather(store, &entry.digest, below, seen, items)?;
            }
            (index.media_type, Vec::new())
        }
    };
    for blob in &blobs {
        let foreign = [media::FOREIGN_LAYER, media::DOCKER_FOREIGN_LAYER];
        if !blob.urls.is_empty() || foreign.iter().any(|it| blob.media_type.starts_with(it)) {
            let digest = blob.digest.clone();
            return Err(RegistryError::ForeignLayer { digest });
        }
    }
    let size = super::wire::length(&bytes);
    items.push(Item {
        descriptor: Descriptor::new(media_type, digest.clone(), size),
        bytes,
        blobs,
    });
    Ok(())
}

struct Run<'a> {
    client: &'a Client,
    store: &'a Store,
    request: &'a PushRequest,
    session: Session,
    places: Arc<Semaphore>,
    meter: Meter,
}

impl Run<'_> {
    async fn run(&self, items: &[Item]) -> Result<Pushed, RegistryError> {
        let _pins = self.pins(items);
        self.meter.host(&self.session.host.name);
        let mut seen = HashSet::new();
        let blobs = items.iter().flat_map(|it| &it.blobs);
        let blobs: Vec<_> = blobs.filter(|it| seen.insert(&it.digest)).collect();
        self.meter.expect(blobs.iter().copied());
        let mut pushed = Pushed::default();
        let mut ways: FuturesUnordered<_> = blobs.into_iter().map(|it| self.blob(it)).collect();
        while let Some(way) = ways.next().await {
            match way? {
                Way::Present => pushed.present += 1,
                Way::Mounted => pushed.mounted += 1,
                Way::Sent => pushed.sent += 1,
            }
        }
        drop(ways);
        for item in items {
            let top = item.descriptor.digest == self.request.target;
            let tag = self.request.reference.tag().filter(|_| top);
            let wanted = tag.map_or_else(|| item.descriptor.digest.to_string(), str::to_owned);
            let bytes = item.bytes.clone().into();
            self.session
                .put_manifest(&wanted, &item.descriptor, bytes)
                .await?;
            pushed.documents += 1;
        }
        Ok(pushed)
    }

    fn pins(&self, items: &[Item]) -> Vec<Pin> {
        let documents = items.iter().map(|it| &it.descriptor);
        let all = documents.chain(items.iter().flat_map(|it| &it.blobs));
        all.map(|it| self.store.pin(&it.digest)).collect()
    }

    async fn blob(&self, blob: &Descriptor) -> Result<Way, RegistryError> {
        let _place = self.client.shares.take(&self.places).await?;
        let way = self
            .session
            .upload(self.store, blob, &self.request.mount_from, &self.meter);
        let way = way.await?;
        let state = match way {
            Way::Present | Way::Mounted => State::Present,
            Way::Sent => State::Done,
        };
        self.meter.set(&blob.digest, state, blob.size);
        Ok(way)
    }
}
