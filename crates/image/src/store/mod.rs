// SPDX-License-Identifier: Apache-2.0
//! The node's images on disk: blobs by digest, names, unpacked layers. The folder is itself an OCI
//! layout, so that other tools can read it, and so that losing everything else loses names at most.
//!
//! ```text
//!  STATE/images/    0700, root's
//!    oci-layout, index.json     the layout; index.json: owner and name -> manifest
//!    blobs/ALGORITHM/HEX        whole, verified and on disk, or absent
//!    ingest/ALGORITHM-HEX[.S].N what has come of a blob, by scope; resumed, verified at the end
//!    aside/ALGORITHM-HEX        a blob that the disk has changed; goes after a day
//!    pending/HEX                what a transfer brings whose image has no name yet
//!    layers/ALGORITHM-HEX/      an unpacked layer, by its diff id; whole or absent
//!    work/                      what is in the making; emptied at start
//!    lock                       one process has the store open
//! ```
//!
//! Every step that makes something visible is one `rename` of what is on disk already. A crash
//! between two of them leaves files that the next [`Store::open`] removes or that go on.
//!
//! All calls block. What is *pinned* ([`Store::pin`]) is not collected while the pin lives.

mod aside;
mod blobs;
mod collect;
mod compare;
mod files;
mod ingest;
mod layers;
mod names;
mod parents;
mod pending;
mod pins;
mod repair;
mod spool;
#[cfg(test)]
mod tests;
mod verify;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::error::{ImageError, Result};

pub use collect::{Collected, Disk, InUse, Policy};
pub(crate) use files::layout_version;
pub use ingest::{Ingest, MAX_INGESTS_PER_DIGEST};
pub use layers::{Layer, Making};
pub(crate) use names::NAME as NAME_ANNOTATION;
pub use names::{MAX_NAMES, MAX_NAMES_PER_OWNER, MAX_NOTES, MAX_OWNER, Named};
pub use pending::Pending;
pub use pins::{Pin, PinSet};
pub use repair::Repair;
pub(crate) use spool::Sealed;
pub use verify::Damage;

use ingest::Claims;
use names::Names;
use pins::Pins;

/// A handle to the store; cheap to clone. The last one that goes unlocks the folder.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    repaired: Repair,
    opened: SystemTime,
    names: Mutex<Names>,
    claims: Mutex<Claims>,
    pins: Arc<Mutex<Pins>>,
    /// Held while names are changed or what has none is removed, so that no name is given to what
    /// is about to go.
    roots: Mutex<()>,
    /// Numbers the folders of `work/`.
    /// Held while what is kept of a layer is changed.
    noting: Mutex<()>,
    works: AtomicU64,
    /// Held for its lock alone.
    _lock: File,
}

/// A panic of another holder leaves these maps whole: each is changed by one call.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// Opens or creates the store in `root`, and repairs what a crash has left there.
    ///
    /// # Errors
    /// [`ImageError::Busy`] where another process has it open; [`ImageError::Corrupt`] for a layout
    /// of another version; [`ImageError::Io`] and [`ImageError::DiskFull`] for what the disk says.
    pub fn open(root: &Path) -> Result<Self> {
        for folder in [
            "",
            "blobs/sha256",
            "blobs/sha512",
            "ingest",
            "aside",
            "pending",
            "layers",
            "work",
        ] {
            files::create_private(&root.join(folder))?;
        }
        let lock = files::lock(&root.join("lock"))?;
        files::check_layout(&root.join("oci-layout"))?;
        let mut repaired = repair::run(root)?;
        let names = Names::load(&root.join("index.json"), &mut repaired)?;
        Ok(Self {
            inner: Arc::new(Inner {
                root: root.to_path_buf(),
                repaired,
                opened: SystemTime::now(),
                names: Mutex::new(names),
                claims: Mutex::default(),
                pins: Arc::default(),
                roots: Mutex::default(),
                noting: Mutex::default(),
                works: AtomicU64::new(0),
                _lock: lock,
            }),
        })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.inner.root
    }

    /// What opening it has mended.
    pub fn repaired(&self) -> &Repair {
        &self.inner.repaired
    }
}
