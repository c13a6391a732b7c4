// SPDX-License-Identifier: Apache-2.0
//! The node's images: which tenant has which, what they take of its quotas, and the transfers that
//! bring and take them. Tenants share bytes; each sees what it pulled or imported itself.
//!
//! ```text
//!  Pull ── quota ── registry::Client ──> store::Ingest ──> unpack (a confined process) ──> layers/
//!  Import ─ quota ─ archive ─────────────────┘                     │
//!                                            names: index.json <───┘ when all of it is there
//! ```
//!
//! It is not the store (which knows owners as opaque strings) and no registry's client. The API of
//! images calls it with the `Permit` of each call; the runtime asks it for the layers of a cell
//! (`root`).

mod archive;
mod cache;
mod desk;
mod fetch;
mod find;
mod holdings;
mod keep;
mod layers;
mod left;
mod open;
mod pressure;
mod pull;
mod push;
mod records;
mod root;
mod transfer;
mod verify;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use identity::Permit;
use model::error::Error;
use model::name::Tenant;
use model::request::Scope;
use model::time::Timestamp;
use tenants::Pool;

use crate::error::{ImageError, Result};
use crate::registry::Client;
use crate::store::Store;

pub use keep::Pruned;
pub use layers::Unpacker;
pub use open::Settings;
pub use pressure::{Relief, Thresholds};
pub use pull::Pull;
pub use push::Push;
pub use records::{Content, Record};
pub use root::{ImageHold, Rooted};
pub use transfer::{Pieces, Transfer};
pub use verify::Verified;

use cache::Cache;
use desk::Desks;
use holdings::{Hold, Holdings};
use pressure::Pressure;
use root::Roots;

/// A handle to the node's images; cheap to clone.
#[derive(Clone, Debug)]
pub struct Images {
    state: Arc<State>,
    layers_dir: Arc<Path>,
}

#[derive(Debug)]
enum State {
    Open(Arc<Inner>),
    /// Why not.
    Closed(String),
}

#[derive(Debug)]
struct Inner {
    store: Store,
    holdings: Holdings,
    transfers: Pool,
    /// Or why there is none.
    client: std::result::Result<Client, Error>,
    unpacker: Unpacker,
    desks: Desks,
    /// One import of a tenant at a time, so that each sees what the others took.
    imports: Turns,
    /// What transfers that ended without a name have left on the disk, and since when.
    leftovers: Mutex<BTreeMap<Tenant, (Timestamp, Hold)>>,
    /// Held by threads that may wait, while names are changed on the disk and then in `held`.
    changing: Mutex<()>,
    /// Never held while the disk works: tasks look into it.
    held: Mutex<BTreeMap<Key, Held>>,
    /// What cells run.
    roots: Roots,
    cache: Cache,
    pressure: Pressure,
}

type Turns = Mutex<BTreeMap<Tenant, Weak<tokio::sync::Mutex<()>>>>;

/// Whose image, and its reference in full.
type Key = (Tenant, String);

/// One image of one tenant.
#[derive(Debug)]
struct Held {
    record: Record,
    /// Gives the quota back with the image.
    _hold: Hold,
}

/// An image with what its manifest says. Without that the disk has lost it, and a pull brings it
/// again.
#[derive(Clone, Debug)]
pub struct Image {
    /// What the tenant calls it.
    pub record: Record,
    /// `linux/amd64`; empty: lost.
    pub platform: String,
    /// Bytes of manifest, configuration and layers; 0: lost.
    pub bytes: u64,
    /// When it was built, as it says itself.
    pub built: Option<String>,
    /// Cells that run it.
    pub cells: u32,
    /// Manifest and configuration, where they were asked for: they may be megabytes.
    pub content: Option<Arc<Content>>,
}

impl Images {
    /// Where the folders of [`Rooted::layers`] are.
    pub fn layers_dir(&self) -> &Path {
        &self.layers_dir
    }

    /// The images of a tenant, or of all that the permit shows, by tenant and reference.
    ///
    /// # Errors
    /// A store that can't be read.
    pub async fn list(
        &self,
        permit: Permit,
        scope: Scope,
    ) -> std::result::Result<Vec<Image>, Error> {
        let shown =
            |record: &Record| scope.includes(&record.tenant) && permit.shows_tenant(&record.tenant);
        let records: Vec<_> = {
            let held = self.inner()?.lock();
            let records = held.values().map(|held| &held.record);
            records.filter(|record| shown(record)).cloned().collect()
        };
        self.blocking(move |inner| {
            let summaries = records.into_iter().map(|record| Image {
                content: None,
                ..inner.read(record)
            });
            Ok(summaries.collect())
        })
        .await
    }

    /// One image.
    ///
    /// # Errors
    /// `NOT_FOUND`, with the reference in full.
    pub async fn get(
        &self,
        permit: Permit,
        tenant: &Tenant,
        reference: &str,
    ) -> std::result::Result<Image, Error> {
        permit.demand_tenant(tenant)?;
        let record = self.inner()?.find(tenant, reference)?;
        self.blocking(move |inner| Ok(inner.read(record))).await
    }

    /// Keeps an image from pruning, or no longer.
    ///
    /// # Errors
    /// `NOT_FOUND`; the store can't be written.
    pub async fn pin(
        &self,
        permit: Permit,
        tenant: &Tenant,
        reference: &str,
        pinned: bool,
    ) -> std::result::Result<Image, Error> {
        permit.demand_tenant(tenant)?;
        let record = self.inner()?.find(tenant, reference)?;
        self.blocking(move |inner| {
            let record = inner.change(&record, |record| record.pinned = pinned)?;
            Ok(inner.read(record))
        })
        .await
    }

    /// Disk work, on a thread that may wait.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, Error> {
        let inner = Arc::clone(self.inner()?);
        let done = tokio::task::spawn_blocking(move || work(&inner)).await;
        let ended = |error| Error::internal(format!("the disk's thread has failed: {error}"));
        done.map_err(ended)?.map_err(Error::from)
    }
}

/// This moment, as records have it.
fn now() -> Timestamp {
    SystemTime::now().into()
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tenant's image of exactly this name.
    fn record(&self, tenant: &Tenant, reference: &str) -> Option<Record> {
        let key = (tenant.clone(), reference.to_owned());
        self.lock().get(&key).map(|held| held.record.clone())
    }

    fn read(&self, record: Record) -> Image {
        let content = Content::read(&self.store, &record.manifest).ok();
        self.image(record, content.map(Arc::new))
    }

    fn image(&self, record: Record, content: Option<Arc<Content>>) -> Image {
        let said = content.as_ref();
        Image {
            cells: self.cells_of(&record),
            record,
            platform: said.map(|it| it.platform().to_string()).unwrap_or_default(),
            bytes: said.map_or(0, |it| it.bytes()),
            built: said.and_then(|it| it.config.created.clone()),
            content,
        }
    }

    /// How many cells of its tenant run an image, by whatever name.
    fn cells_of(&self, record: &Record) -> u32 {
        self.roots.cells(&record.tenant, &record.manifest.digest)
    }

    /// Changes what is noted of an image, on the disk first. Of an image that has been pulled anew
    /// meanwhile, the new one's notes are changed.
    fn change(&self, record: &Record, change: impl FnOnce(&mut Record)) -> Result<Record> {
        let _one_at_a_time = self.changing();
        let current = self.record(&record.tenant, &record.reference);
        let mut changed = current.ok_or_else(|| ImageError::NotFound {
            what: format!("image {:?}", record.reference),
        })?;
        change(&mut changed);
        changed.write(&self.store)?;
        let key = (changed.tenant.clone(), changed.reference.clone());
        if let Some(held) = self.lock().get_mut(&key) {
            held.record = changed.clone();
        }
        Ok(changed)
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tenant's turn to import.
    fn turn_to_import(&self, tenant: &Tenant) -> Arc<tokio::sync::Mutex<()>> {
        turn_of(&self.imports, tenant)
    }
}

fn turn_of(turns: &Turns, tenant: &Tenant) -> Arc<tokio::sync::Mutex<()>> {
    let mut turns = turns.lock().unwrap_or_else(PoisonError::into_inner);
    turns.retain(|_, turn| turn.strong_count() > 0);
    if let Some(turn) = turns.get(tenant).and_then(Weak::upgrade) {
        return turn;
    }
    let turn = Arc::default();
    turns.insert(tenant.clone(), Arc::downgrade(&turn));
    turn
}
