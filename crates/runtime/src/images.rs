// SPDX-License-Identifier: Apache-2.0
//! The images of cells that live: held, so that their layers stay, and let go when a cell has
//! ended. What an image is, who has it and where it comes from is the port's ([`Images`]); the
//! runtime keeps its digest and what it says of programs in the cell's record, so that a daemon
//! that comes back needs neither to go on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use identity::permit::Permit;
use model::cell::CellSpec;
use model::container::Defaults;
use model::error::{Error, Reason};
use model::name::{Tenant, Uid};
use model::object::ObjectRef;
use model::status::Object;
use serde::{Deserialize, Serialize};

use crate::ports::{Images, Layers, Root};
use crate::{Runtime, Shared};

/// The image of a cell, in its record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct OfImage {
    /// Of the manifest.
    pub(crate) digest: String,
    #[serde(default)]
    pub(crate) defaults: Defaults,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Held {
    images: OnceLock<Arc<dyn Images>>,
    /// By cell.
    held: Mutex<HashMap<Uid, Hold>>,
}

/// Keeps an image as long as it lives.
pub(crate) type Hold = Arc<dyn std::any::Any + Send + Sync>;

impl Held {
    /// The image that a spec names, as far as it names one.
    pub(crate) async fn resolve(
        &self,
        tenant: &Tenant,
        spec: &CellSpec,
    ) -> Result<Option<Root>, Error> {
        let container = spec.container.as_ref().filter(|c| c.has_image());
        let Some(container) = container else {
            return Ok(None);
        };
        let Some(images) = self.images.get() else {
            return Err(Error::new(
                Reason::Degraded,
                "the node's images are not there yet",
            ));
        };
        let root = images.root(tenant, &container.image).await;
        let root = root.map_err(|error| match error.reason {
            Reason::NotFound => error.hint("pull it first, or run with a pull policy that may"),
            _ => error,
        })?;
        root.defaults.check_weight()?;
        Ok(Some(root))
    }

    /// Keeps the image of a cell that begins.
    pub(crate) fn hold(&self, cell: Uid, hold: Hold) {
        self.lock().insert(cell, hold);
    }

    /// The cell has ended.
    pub(crate) fn let_go(&self, cell: Uid) {
        // Dropped outside of the lock: it may do more than forget.
        let held = self.lock().remove(&cell);
        drop(held);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Uid, Hold>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runtime {
    /// Says where images come from, and holds those of the cells that an earlier daemon made. Until
    /// then no container can be made.
    pub async fn set_images(&self, images: Arc<dyn Images>) {
        if self.shared.images.images.set(images).is_err() {
            tracing::error!("images are set twice");
            return;
        }
        for cell in self.shared.index.living_cells() {
            self.shared.hold_again(cell).await;
        }
    }
}

impl Runtime {
    /// The user that the image of a container says; empty: none.
    ///
    /// # Errors
    /// `NOT_FOUND`, or where the image can't be read.
    pub async fn image_user(&self, permit: Permit, target: &ObjectRef) -> Result<String, Error> {
        permit.demand_tenant(&target.tenant)?;
        let object = self.shared.index.get(target)?;
        let (Object::Cell(cell), Some(images)) = (&*object, self.shared.images.images.get()) else {
            return Ok(String::new());
        };
        if cell.image_digest.is_empty() {
            return Ok(String::new());
        }
        let root = images.root(&target.tenant, &cell.image_digest).await?;
        Ok(root.defaults.user)
    }
}

impl Shared {
    /// Holds the image of a cell that an earlier daemon made. Where that fails the cell goes on:
    /// the kernel keeps what is mounted, and only a removal of its layers would be seen there.
    pub(crate) async fn hold_again(&self, uid: Uid) {
        let (Some(object), Some(images)) = (self.index.by_uid(uid), self.images.images.get())
        else {
            return;
        };
        let Object::Cell(cell) = &*object else {
            return;
        };
        if cell.image_digest.is_empty() {
            return;
        }
        let digest = &cell.image_digest;
        match images.root_again(&cell.meta.tenant, digest).await {
            Ok(hold) => self.images.hold(uid, hold),
            Err(error) => {
                tracing::error!(%uid, digest, %error, "the image of a cell can't be kept");
            }
        }
        // It may have ended meanwhile, and have let go of nothing.
        let ended = |object: Arc<Object>| object.state().is_final();
        if self.index.by_uid(uid).is_none_or(ended) {
            self.images.let_go(uid);
        }
    }
}

impl Root {
    /// What goes into the record of a cell of it.
    pub(crate) fn of_image(&self) -> OfImage {
        OfImage {
            digest: self.digest.clone(),
            defaults: self.defaults.clone(),
        }
    }

    /// Where its layers are.
    pub(crate) fn layers(&self) -> &Layers {
        &self.layers
    }
}
