// SPDX-License-Identifier: Apache-2.0
//! How the node's images are opened, and what is left of them where they can't be: a handle that
//! says why, so that the rest of the node serves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use model::error::{Error, Reason};
use model::quota::Quota;
use tenants::{Pool, Tenants};

use super::cache::Cache;
use super::desk::Desks;
use super::holdings::Holdings;
use super::left;
use super::pressure::{Pressure, Thresholds};
use super::records::{Content, Record};
use super::root::Roots;
use super::{Held, Images, Inner, State, Turns, Unpacker};
use crate::error::Result;
use crate::registry::Client;
use crate::store::Store;

/// What the images of a node need.
#[derive(Debug)]
pub struct Settings {
    /// The store is in its folder `images`.
    pub state_dir: PathBuf,
    /// Talks to registries; or why nothing does. Then there is no pull and no push.
    pub client: std::result::Result<Client, Error>,
    /// Starts the unpacker.
    pub unpacker: Unpacker,
    /// When the disk is too full.
    pub thresholds: Thresholds,
}

/// Below the state directory.
fn folder(state_dir: &Path) -> PathBuf {
    state_dir.join("images")
}

impl Images {
    /// Opens the store below the state directory, and counts what tenants have there already.
    /// Blocks; called before the API is served. Where it fails, [`Images::closed`] is what serves.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub fn open(settings: Settings, tenants: &Tenants) -> Result<Self> {
        let store = Store::open(&folder(&settings.state_dir))?;
        let holdings = Holdings::new(Pool::new(tenants, Quota::ImageBytes));
        let held = held(&store, &holdings);
        let left = left::leftovers(&store, &holdings);
        let layers_dir = store.root().join("layers").into();
        let inner = Arc::new(Inner {
            store,
            holdings,
            transfers: Pool::new(tenants, Quota::ImageTransfers),
            client: settings.client,
            unpacker: settings.unpacker,
            desks: Desks::default(),
            imports: Turns::default(),
            leftovers: Mutex::default(),
            changing: Mutex::default(),
            held: Mutex::new(held),
            roots: Roots::default(),
            cache: Cache::default(),
            pressure: Pressure::new(settings.thresholds),
        });
        for (tenant, hold) in left {
            inner.leave(&tenant, hold);
        }
        Ok(Self {
            layers_dir,
            state: Arc::new(State::Open(inner)),
        })
    }

    /// Images that could not be opened: every call answers `DEGRADED`, with the reason. Nothing of
    /// the disk is touched.
    pub fn closed(state_dir: &Path, why: &str) -> Self {
        Self {
            layers_dir: folder(state_dir).join("layers").into(),
            state: Arc::new(State::Closed(why.to_owned())),
        }
    }

    /// Whether there is a store.
    pub fn are_open(&self) -> bool {
        matches!(*self.state, State::Open(_))
    }

    /// What of the images doesn't work on this node, in words that name the file. `None`: all does.
    pub fn degraded(&self) -> Option<String> {
        match &*self.state {
            State::Closed(why) => Some(format!("images: {why}")),
            State::Open(inner) => {
                let broken = inner.client.as_ref().err();
                broken.map(|error| format!("registries: {}", error.message))
            }
        }
    }

    pub(super) fn inner(&self) -> std::result::Result<&Arc<Inner>, Error> {
        match &*self.state {
            State::Open(inner) => Ok(inner),
            State::Closed(why) => Err(unavailable("images", why)),
        }
    }
}

impl Inner {
    /// What talks to registries.
    pub(super) fn client(&self) -> std::result::Result<&Client, Error> {
        let client = self.client.as_ref();
        client.map_err(|error| unavailable("registries", &error.message))
    }
}

fn unavailable(what: &str, why: &str) -> Error {
    Error::new(Reason::Degraded, format!("this node has no {what}: {why}"))
        .hint("the node's administrator has to mend that and restart the daemon")
}

/// What the store has names for.
fn held(store: &Store, holdings: &Holdings) -> BTreeMap<super::Key, Held> {
    let records = store.names().into_iter().filter_map(Record::of);
    let held = records.map(|record| {
        let content = Content::read(store, &record.manifest);
        let content = content.inspect_err(|error| {
            let image = &record.reference;
            tracing::warn!(%error, image, "an image is damaged; pull it again");
        });
        let kept = content.map(|content| content.kept(store, &record.manifest));
        let hold = holdings.count(&record.tenant, kept.unwrap_or_default());
        let key = (record.tenant.clone(), record.reference.clone());
        let held = Held {
            record,
            _hold: hold,
        };
        (key, held)
    });
    held.collect()
}
