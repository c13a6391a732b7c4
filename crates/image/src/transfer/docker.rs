// SPDX-License-Identifier: Apache-2.0
//! Docker archives: a `manifest.json` that names the configuration, the layers and the tags of each
//! image (Moby's `image/tarexport`). They have no manifest in the sense of a registry: one is made.

use std::io::Read as _;

use serde::{Deserialize, Serialize};

use super::Imported;
use super::import::{Archive, Piece};
use crate::config::ImageConfig;
use crate::error::{ImageError, Result};
use crate::manifest::{Descriptor, MAX_LAYERS, media, null};
use crate::store::Store;

/// The most images of an archive.
const MAX_IMAGES: usize = 1000;

/// An entry of `manifest.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Item {
    pub(super) config: String,
    #[serde(default, deserialize_with = "null")]
    pub(super) repo_tags: Vec<String>,
    #[serde(default, deserialize_with = "null")]
    pub(super) layers: Vec<String>,
}

/// An OCI manifest, as it is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewManifest {
    schema_version: u32,
    media_type: &'static str,
    config: Descriptor,
    layers: Vec<Descriptor>,
}

/// The images of a docker archive.
pub(super) fn images(store: &Store, archive: &mut Archive) -> Result<Vec<Imported>> {
    let refuse = |problem: String| ImageError::document("the archive's manifest.json", problem);
    let Some(bytes) = archive.documents.get("manifest.json") else {
        let problem = "it has neither oci-layout nor manifest.json: it is no archive of images";
        return Err(ImageError::document("the archive", problem));
    };
    let items: Vec<Item> = serde_json::from_slice(bytes)
        .map_err(|error| refuse(format!("it can't be read: {error}")))?;
    if items.len() > MAX_IMAGES {
        return Err(ImageError::TooMuch {
            what: "the number of images in the archive".to_owned(),
            limit: MAX_IMAGES.to_string(),
        });
    }
    items
        .into_iter()
        .map(|item| image(store, archive, item))
        .collect()
}

fn image(store: &Store, archive: &mut Archive, item: Item) -> Result<Imported> {
    let config = archive.piece(&item.config)?.clone();
    let read = ImageConfig::read(&store.read_document(&config.digest)?)?;
    let count = item.layers.len();
    if count != read.diff_ids.len() || count > MAX_LAYERS {
        let ids = read.diff_ids.len();
        let problem = format!(
            "{count} layers of {:?}, whose rootfs.diff_ids are {ids}",
            item.config
        );
        return Err(ImageError::document("the archive's manifest.json", problem));
    }
    let layers: Result<Vec<Descriptor>> = item
        .layers
        .iter()
        .map(|path| {
            archive
                .piece(path)
                .cloned()
                .and_then(|piece| layer(store, piece))
        })
        .collect();
    let manifest = NewManifest {
        schema_version: 2,
        media_type: media::MANIFEST,
        config: Descriptor::new(media::CONFIG, config.digest, config.size),
        layers: layers?,
    };
    let bytes = serde_json::to_vec(&manifest)
        .map_err(|error| ImageError::document("the new manifest", error.to_string()))?;
    let (descriptor, pin) = store.put_new(media::MANIFEST, &bytes)?;
    archive.brought.insert(descriptor.digest.clone());
    archive.pins.push(pin);
    Ok(Imported {
        descriptor: Descriptor {
            platform: Some(read.platform()),
            ..descriptor
        },
        names: item.repo_tags,
    })
}

/// A layer, with the media type that its first bytes say.
fn layer(store: &Store, piece: Piece) -> Result<Descriptor> {
    let mut magic = Vec::new();
    let read = store
        .read_blob(&piece.digest)?
        .take(4)
        .read_to_end(&mut magic);
    read.map_err(|error| ImageError::io("read", store.root(), error))?;
    let media_type = match magic.as_slice() {
        [0x1f, 0x8b, ..] => format!("{}+gzip", media::LAYER),
        [0x28, 0xb5, 0x2f, 0xfd] => format!("{}+zstd", media::LAYER),
        _ => media::LAYER.to_owned(),
    };
    Ok(Descriptor::new(media_type, piece.digest, piece.size))
}
