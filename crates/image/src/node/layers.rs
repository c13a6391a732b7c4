// SPDX-License-Identifier: Apache-2.0
//! Unpacks the layers of an image that aren't there yet, some at once, each in a process of its own
//! within the tenant's quotas.

use std::fmt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use model::error::Error;
use model::name::Tenant;

use super::Images;
use super::holdings::{Hold, Kept};
use super::records::Content;
use crate::digest::Digest;
use crate::store::{Layer, Store};
use crate::unpack::{Options, Source, Unpacking};

/// Layers of one image that are unpacked at once.
const AT_ONCE: usize = 2;
/// How long one layer may take.
const LIMIT: Duration = Duration::from_secs(60 * 60);

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
}

impl fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unpacker")
    }
}

impl Images {
    /// Sees to it that every layer is unpacked, and counts them for the tenant. `told` hears of
    /// each layer that is begun and done. The layers stay as long as the second of the pair does.
    ///
    /// # Errors
    /// What the unpacker refuses; `LIMIT_EXCEEDED` where the unpacked layers don't fit.
    pub(super) async fn unpacked(
        &self,
        tenant: &Tenant,
        mut hold: Hold,
        content: &Content,
        told: &(impl Fn(&Digest, bool) + Sync),
    ) -> Result<(Hold, Vec<Layer>), Error> {
        let pairs = content.layers();
        let unpacked = stream::iter(pairs.into_iter().map(|(blob, diff_id)| async move {
            told(&blob, false);
            let layer = self.layer(tenant, blob.clone(), diff_id).await?;
            told(&blob, true);
            Ok::<_, Error>(layer)
        }));
        let layers: Vec<Layer> = unpacked.buffer_unordered(AT_ONCE).try_collect().await?;
        let sizes = layers.iter();
        let sizes = sizes.map(|layer| (Kept::Layer(layer.diff_id.clone()), layer.summary.bytes));
        hold.grow(sizes)?;
        Ok((hold, layers))
    }

    async fn layer(&self, tenant: &Tenant, blob: Digest, diff_id: Digest) -> Result<Layer, Error> {
        let room = self.inner.holdings.room(tenant);
        let (inner, tenant) = (Arc::clone(&self.inner), tenant.clone());
        let unpacking = tokio::task::spawn_blocking(move || {
            if let Some(layer) = inner.store.layer(&diff_id) {
                return Ok(layer);
            }
            let command = inner.unpacker.0(&tenant)?;
            unpack(&inner.store, command, &blob, &diff_id, room)
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
) -> Result<Layer, Error> {
    let mut options = Options::new(diff_id);
    options.max_bytes = options.max_bytes.min(room);
    let source = Source::Blob(store.read_blob(blob)?);
    let unpacking = Unpacking::start(store, command, &options, source)?;
    Ok(unpacking.finish(LIMIT)?)
}
