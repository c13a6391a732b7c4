// SPDX-License-Identifier: Apache-2.0
//! Unpacks the layers of one transfer that aren't there yet: several at once, each in a process of
//! its own within the tenant's quotas (`desk`), and while their blobs still come. Dropped, it ends
//! the processes that are under way; what they have made goes with them.
//!
//! A layer that is read while it comes gets its place only when its blob is whole and verified.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use model::error::Error;
use model::name::Tenant;
use tenants::Taken;
use tokio::task::JoinHandle;

use super::Inner;
use super::desk::{Desk, Share};
use super::holdings::Kept;
use super::left::Left;
use super::pull::DEADLINE;
use super::records::Content;
use crate::digest::Digest;
use crate::error::{ImageError, Result};
use crate::registry::Feed;
use crate::store::{Layer, Store};
use crate::unpack::{ENTRY_BYTES, Growth, Killer, Options, Source, Unpacking};

/// How long one layer may take, once its blob is there.
pub(super) const LIMIT: Duration = Duration::from_secs(60 * 60);

/// How `auraed unpack` is started for a tenant: the program, its first arguments, its group.
#[derive(Clone)]
pub struct Unpacker(Arc<Make>);

type Make = dyn Fn(&Tenant) -> std::result::Result<Command, Error> + Send + Sync;

impl Unpacker {
    /// `make` gives a command that calls [`crate::unpack::command`] with the argument that is
    /// added to it. It may block.
    pub fn new<F>(make: F) -> Self
    where
        F: Fn(&Tenant) -> std::result::Result<Command, Error> + Send + Sync + 'static,
    {
        Self(Arc::new(make))
    }

    /// The command for a tenant.
    pub(super) fn start(&self, tenant: &Tenant) -> std::result::Result<Command, Error> {
        (self.0)(tenant)
    }
}

impl fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unpacker")
    }
}

/// What is told of a layer, by its blob.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// So many bytes of the blob were read.
    Read(u64),
    /// It is unpacked.
    Done,
}

/// Hears of each layer's steps.
pub(super) type Told = Arc<dyn Fn(&Digest, Step) + Send + Sync>;

/// See the module.
pub(super) struct Layers(pub(super) Arc<Work>);

/// What the tasks of one transfer share.
pub(super) struct Work {
    inner: Arc<Inner>,
    tenant: Tenant,
    /// The transfer's place goes when the last of the work is over.
    _place: Arc<Taken>,
    desk: Arc<Desk>,
    told: Told,
    runtime: tokio::runtime::Handle,
    /// The image's layers, by blob.
    wanted: Mutex<BTreeMap<Digest, Wanted>>,
    tasks: Mutex<Tasks>,
}

#[derive(Clone, Debug)]
struct Wanted {
    diff_id: Digest,
    bytes: u64,
}

#[derive(Default)]
struct Tasks {
    by_blob: BTreeMap<Digest, Task>,
    /// Nothing is begun any more.
    ended: bool,
}

/// A layer that is being unpacked.
struct Task {
    end: JoinHandle<Result<Layer>>,
    cancel: Arc<Cancel>,
}

/// Ends a layer's process, also one that is yet to be started.
#[derive(Debug, Default)]
struct Cancel(Mutex<(bool, Option<Killer>)>);

impl Cancel {
    /// Keeps a process until it is to be ended, or says that it is.
    fn keep(&self, killer: Killer) -> Result<()> {
        let mut this = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match this.0 {
            true => Err(given_up()),
            false => {
                this.1 = Some(killer);
                Ok(())
            }
        }
    }

    fn end(&self) {
        let mut this = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        this.0 = true;
        this.1 = None;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.cancel.end();
        self.end.abort();
    }
}

impl Drop for Layers {
    fn drop(&mut self) {
        let tasks = {
            let mut tasks = self.0.tasks();
            tasks.ended = true;
            std::mem::take(&mut tasks.by_blob)
        };
        drop(tasks);
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}

fn given_up() -> ImageError {
    ImageError::Busy {
        what: "the layer".to_owned(),
        by: "its transfer was given up".to_owned(),
    }
}

impl Layers {
    /// For a transfer of a tenant. Called by a task of the runtime.
    pub(super) fn new(inner: &Arc<Inner>, tenant: &Tenant, place: &Arc<Taken>, told: Told) -> Self {
        Self(Arc::new(Work {
            inner: Arc::clone(inner),
            tenant: tenant.clone(),
            _place: Arc::clone(place),
            desk: inner.desks.of(tenant),
            told,
            runtime: tokio::runtime::Handle::current(),
            wanted: Mutex::default(),
            tasks: Mutex::default(),
        }))
    }

    /// Waits until every layer is unpacked, and counts each for the tenant. The layers stay as long
    /// as what is answered.
    ///
    /// # Errors
    /// What the unpacker refuses; `LIMIT_EXCEEDED` where the unpacked layers don't fit.
    pub(super) async fn all(
        &self,
        content: &Content,
        left: &Left,
    ) -> std::result::Result<Vec<Layer>, Error> {
        self.0.want(content);
        let pairs = content.layers();
        pairs.iter().for_each(|(blob, _)| self.0.came(blob));
        let mut layers = Vec::new();
        for (blob, _) in pairs {
            let task = self.0.tasks().by_blob.remove(&blob);
            let Some(mut task) = task else {
                continue;
            };
            let ended = tokio::time::timeout(LIMIT, &mut task.end).await;
            let late = |_| Error::internal(format!("layer {blob} wasn't unpacked in {LIMIT:?}"));
            let failed = |error| Error::internal(format!("unpacking has failed: {error}"));
            let layer = match ended.map_err(late)?.map_err(failed)? {
                Err(error) if is_worth_more(&error) => self.0.alone(&blob).await?,
                other => other?,
            };
            left.grow(Kept::Layer(layer.diff_id.clone()), layer.summary.counted())?;
            layers.push(layer);
            (self.0.told)(&blob, Step::Done);
        }
        Ok(layers)
    }
}

/// Whether a layer may be unpacked with more room, or from its whole blob.
fn is_worth_more(error: &ImageError) -> bool {
    matches!(
        error,
        ImageError::TooMuch { .. } | ImageError::NotFound { .. }
    )
}

impl Work {
    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what the layers are.
    pub(super) fn want(&self, content: &Content) {
        let sizes = content.blobs();
        let pairs = content.layers().into_iter().map(|(blob, diff_id)| {
            let bytes = sizes.get(&blob).copied().unwrap_or_default();
            (blob, Wanted { diff_id, bytes })
        });
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        *wanted = pairs.collect();
    }

    fn wanted(&self, blob: &Digest) -> Option<Wanted> {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.get(blob).cloned()
    }

    pub(super) fn store(&self) -> &Store {
        &self.inner.store
    }

    fn room(&self) -> u64 {
        self.inner.holdings.room(&self.tenant)
    }

    /// Begins to unpack a blob that still comes. `None`: later, when it has come.
    pub(super) fn begin(self: &Arc<Self>, blob: &Digest, file: File) -> Option<Box<dyn Feed>> {
        let wanted = self.wanted(blob)?;
        let mut tasks = self.tasks();
        // Of an attempt that was cut.
        tasks.by_blob.remove(blob);
        if tasks.ended || self.inner.store.layer_of(&wanted.diff_id, blob).is_some() {
            return None;
        }
        let share = self.desk.try_share(self.room(), wanted.bytes)?;
        let cancel = Arc::new(Cancel::default());
        let (sender, started) = mpsc::channel();
        let (this, of, stop) = (Arc::clone(self), blob.clone(), Arc::clone(&cancel));
        // The process ends with the thread that starts it: so it is the one that awaits it, and
        // not this one, which ends with the download.
        let end = self.runtime.spawn_blocking(move || {
            let source = Source::Growing(file);
            let mut unpacking = this.start(&wanted.diff_id, &share, source)?;
            stop.keep(unpacking.killer())?;
            // Without a receiver the growth is dropped, which ends it.
            let _ = sender.send(unpacking.growth());
            let told = &mut |read| (this.told)(&of, Step::Read(read));
            let layer = unpacking.finish_told(DEADLINE + LIMIT, told)?;
            this.inner.store.note_blob(&layer, &of)?;
            Ok(layer)
        });
        // Why it isn't is found out when the blob has come.
        let growth = started.recv().ok().flatten()?;
        tasks.by_blob.insert(blob.clone(), Task { end, cancel });
        Some(Box::new(Streamed(growth)))
    }

    /// Begins to unpack a blob that has come, unless that has begun.
    pub(super) fn came(self: &Arc<Self>, blob: &Digest) {
        let Some(wanted) = self.wanted(blob) else {
            return;
        };
        let mut tasks = self.tasks();
        if tasks.ended || tasks.by_blob.contains_key(blob) {
            return;
        }
        let cancel = Arc::new(Cancel::default());
        let (this, of, stop) = (Arc::clone(self), blob.clone(), Arc::clone(&cancel));
        let end = self.runtime.spawn(async move {
            let room = || this.room();
            let share = this.desk.share(room, wanted.bytes).await?;
            this.from_blob(&of, &wanted.diff_id, share, &stop).await
        });
        tasks.by_blob.insert(blob.clone(), Task { end, cancel });
    }

    /// Unpacks a layer with all the room that there is.
    async fn alone(self: &Arc<Self>, blob: &Digest) -> std::result::Result<Layer, Error> {
        let wanted = self.wanted(blob);
        let wanted = wanted.ok_or_else(|| Error::internal("a layer of no image"))?;
        let cancel = Arc::new(Cancel::default());
        let (this, of, stop) = (Arc::clone(self), blob.clone(), Arc::clone(&cancel));
        let end = self.runtime.spawn(async move {
            let share = this.desk.all(|| this.room()).await?;
            this.from_blob(&of, &wanted.diff_id, share, &stop).await
        });
        let mut task = Task { end, cancel };
        let failed = |error| Error::internal(format!("unpacking has failed: {error}"));
        let layer = (&mut task.end).await.map_err(failed)?;
        layer.map_err(|error| match error {
            ImageError::TooMuch { .. } => {
                let full = self.inner.holdings.full(&self.tenant);
                full.unwrap_or_else(|| error.into())
            }
            error => error.into(),
        })
    }

    async fn from_blob(
        self: &Arc<Self>,
        blob: &Digest,
        diff_id: &Digest,
        share: Share,
        cancel: &Arc<Cancel>,
    ) -> Result<Layer> {
        let (this, cancel) = (Arc::clone(self), Arc::clone(cancel));
        let (of, diff_id) = (blob.clone(), diff_id.clone());
        let done = self.runtime.spawn_blocking(move || {
            let store = &this.inner.store;
            if let Some(layer) = store.layer_of(&diff_id, &of) {
                return Ok(layer);
            }
            let source = Source::Blob(store.read_blob(&of)?);
            let unpacking = this.start(&diff_id, &share, source)?;
            cancel.keep(unpacking.killer())?;
            let told = &mut |read| (this.told)(&of, Step::Read(read));
            let layer = unpacking.finish_told(LIMIT, told);
            let layer = layer.or_else(|error| this.blame(&of, error))?;
            store.note_blob(&layer, &of)?;
            Ok(layer)
        });
        done.await.map_err(|_| given_up())?
    }

    fn start(&self, diff_id: &Digest, share: &Share, source: Source) -> Result<Unpacking> {
        let mut options = Options::new(diff_id);
        options.max_bytes = options.max_bytes.min(share.bytes);
        options.max_entries = options.max_entries.min(share.bytes / ENTRY_BYTES);
        let command = self.inner.unpacker.start(&self.tenant);
        let command = command.map_err(|error| ImageError::Io {
            doing: "start the unpacker below",
            path: self.inner.store.root().to_owned(),
            source: std::io::Error::other(error.message.clone()),
        })?;
        Unpacking::start(&self.inner.store, command, &options, source)
    }

    /// Whether it is the disk that has changed a blob: then the next pull brings it again.
    fn blame(&self, blob: &Digest, error: ImageError) -> Result<Layer> {
        let store = &self.inner.store;
        let is_of_bytes = matches!(
            error,
            ImageError::Layer { .. } | ImageError::WrongDigest { .. }
        );
        if !is_of_bytes || store.is_sound(blob)? {
            return Err(error);
        }
        store.set_aside(blob)?;
        Err(ImageError::Corrupt {
            path: store.root().to_owned(),
            problem: format!("blob {blob} was changed on the disk and is put aside: pull again"),
        })
    }
}

/// The way to an unpacker.
struct Streamed(Growth);

impl Feed for Streamed {
    fn grown(&mut self, bytes: u64) {
        self.0.grown(bytes);
    }

    fn whole(self: Box<Self>, bytes: u64) {
        self.0.whole(bytes);
    }
}
