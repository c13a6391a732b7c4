// SPDX-License-Identifier: Apache-2.0
//! Unpacks the layers of an image that aren't there yet, each in a process of its own within the
//! tenant's quotas. One layer of a tenant at a time: so the next one sees what the last one took.

use std::fmt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use model::error::Error;
use model::name::Tenant;
use tenants::Taken;

use super::Images;
use super::holdings::Kept;
use super::left::Left;
use super::records::Content;
use crate::digest::Digest;
use crate::error::ImageError;
use crate::store::{Layer, Store};
use crate::unpack::{ENTRY_BYTES, Options, Source, Unpacking};

/// How long one layer may take.
pub(super) const LIMIT: Duration = Duration::from_secs(60 * 60);

/// How `auraed unpack` is started for a tenant: the program, its first arguments, its group.
#[derive(Clone)]
pub struct Unpacker(Arc<Make>);

type Make = dyn Fn(&Tenant) -> Result<Command, Error> + Send + Sync;

impl Unpacker {
    /// `make` gives a command that calls [`crate::unpack::command`] with the argument that is
    /// added to it. It may block.
    pub fn new<F>(make: F) -> Self
    where
        F: Fn(&Tenant) -> Result<Command, Error> + Send + Sync + 'static,
    {
        Self(Arc::new(make))
    }

    /// The command for a tenant.
    pub(super) fn start(&self, tenant: &Tenant) -> Result<Command, Error> {
        (self.0)(tenant)
    }
}

impl fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unpacker")
    }
}

impl Images {
    /// Sees to it that every layer is unpacked, one after the other, and counts each for the tenant
    /// before the next. `told` hears of each layer that is begun and done. The layers stay as long
    /// as what is answered. `place` goes when the last of the work is over, also where
    /// the caller has gone before.
    ///
    /// # Errors
    /// What the unpacker refuses; `LIMIT_EXCEEDED` where the unpacked layers don't fit.
    pub(super) async fn unpacked(
        &self,
        left: &Left,
        content: &Content,
        place: &Arc<Taken>,
        told: &(impl Fn(&Digest, bool) + Sync),
    ) -> Result<Vec<Layer>, Error> {
        let turn = self.inner()?.turn(&left.tenant);
        let _turn = turn.lock().await;
        let mut layers = Vec::new();
        for (blob, diff_id) in content.layers() {
            told(&blob, false);
            let layer = self.layer(&left.tenant, &blob, diff_id, place).await?;
            left.grow(Kept::Layer(layer.diff_id.clone()), layer.summary.counted())?;
            layers.push(layer);
            told(&blob, true);
        }
        Ok(layers)
    }

    async fn layer(
        &self,
        tenant: &Tenant,
        blob: &Digest,
        diff_id: Digest,
        place: &Arc<Taken>,
    ) -> Result<Layer, Error> {
        let room = self.inner()?.holdings.room(tenant);
        let (inner, place) = (Arc::clone(self.inner()?), Arc::clone(place));
        let (tenant, blob) = (tenant.clone(), blob.clone());
        let unpacking = tokio::task::spawn_blocking(move || {
            let _place = place;
            if let Some(layer) = inner.store.layer_of(&diff_id, &blob) {
                return Ok(layer);
            }
            let command = inner.unpacker.start(&tenant)?;
            let layer = unpack(&inner.store, command, &blob, &diff_id, room);
            layer.map_err(|error| match error {
                ImageError::TooMuch { .. } => {
                    inner.holdings.full(&tenant).unwrap_or_else(|| error.into())
                }
                error => error.into(),
            })
        });
        let ended = |error| Error::internal(format!("unpacking has failed: {error}"));
        unpacking.await.map_err(ended)?
    }
}

fn unpack(
    store: &Store,
    command: Command,
    blob: &Digest,
    diff_id: &Digest,
    room: u64,
) -> std::result::Result<Layer, ImageError> {
    let mut options = Options::new(diff_id);
    options.max_bytes = options.max_bytes.min(room);
    options.max_entries = options.max_entries.min(room / ENTRY_BYTES);
    let source = Source::Blob(store.read_blob(blob)?);
    let unpacking = Unpacking::start(store, command, &options, source)?;
    let layer = unpacking.finish(LIMIT)?;
    store.note_blob(&layer, blob)?;
    Ok(layer)
}
