// SPDX-License-Identifier: Apache-2.0
//! Writes images: as an OCI layout with every platform that the store has, or as a docker archive
//! with one.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::path::Path;

use serde::Serialize;

use super::Export;
use super::docker::Item;
use super::sink::{Folder, Sink, Stream};
use crate::config::ImageConfig;
use crate::digest::Digest;
use crate::error::{ImageError, Result};
use crate::manifest::{Descriptor, Document, Manifest, media};
use crate::platform::Platform;
use crate::store::{NAME_ANNOTATION, Pin, Store};
use crate::unpack::tar::TarStream;

/// The `index.json` that is written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    schema_version: u32,
    media_type: &'static str,
    manifests: Vec<Descriptor>,
}

impl Store {
    /// Writes an OCI layout into a folder, which must be new or empty.
    ///
    /// # Errors
    /// [`ImageError::NotFound`], [`ImageError::Document`] for an image that isn't whole;
    /// [`ImageError::Busy`] for a folder with something in it; [`ImageError::DiskFull`],
    /// [`ImageError::Io`].
    pub fn export_layout(&self, images: &[Export], folder: &Path) -> Result<()> {
        self.layout_to(images, Folder::new(folder)?)
    }

    /// Writes an OCI layout as a tar stream.
    ///
    /// # Errors
    /// Those of [`Store::export_layout`].
    pub fn export_archive(&self, images: &[Export], to: impl Write) -> Result<()> {
        self.layout_to(images, Stream::new(to))
    }

    fn layout_to(&self, images: &[Export], mut sink: impl Sink) -> Result<()> {
        let text = br#"{"imageLayoutVersion":"1.0.0"}"#;
        put(&mut sink, "oci-layout", text)?;
        let index = Index {
            schema_version: 2,
            media_type: media::INDEX,
            manifests: images.iter().flat_map(entries).collect(),
        };
        put(&mut sink, "index.json", &json(&index)?)?;
        let (blobs, _pins) = self.all_of(images)?;
        for blob in blobs {
            let digest = &blob.digest;
            let path = format!("blobs/{}/{}", digest.algorithm().as_str(), digest.hex());
            sink.file(&path, blob.size, &mut self.read_blob(digest)?)?;
        }
        sink.end()
    }

    /// Everything that these images lead to and that is there, each once, pinned.
    fn all_of(&self, images: &[Export]) -> Result<(Vec<Descriptor>, Vec<Pin>)> {
        let mut seen: HashSet<Digest> = HashSet::new();
        let (mut blobs, mut pins) = (Vec::new(), Vec::new());
        for image in images {
            let there = self.follow(&image.descriptor, &mut |store, blob| {
                let pin = store.pin(&blob.digest);
                if !store.contains(&blob.digest) {
                    return Ok(false);
                }
                if seen.insert(blob.digest.clone()) {
                    blobs.push(blob.clone());
                    pins.push(pin);
                }
                Ok(true)
            })?;
            if !there {
                let what = format!("manifest {}", image.descriptor.digest);
                return Err(ImageError::NotFound { what });
            }
        }
        Ok((blobs, pins))
    }

    /// Writes a docker archive with the images' manifests for `platform`. Layers are written as
    /// plain tar streams, as `docker save` does; each is verified by its diff id on the way.
    ///
    /// # Errors
    /// [`ImageError::NoPlatform`], [`ImageError::WrongDigest`], and those of
    /// [`Store::export_layout`].
    pub fn export_docker(
        &self,
        images: &[Export],
        platform: &Platform,
        to: impl Write,
    ) -> Result<()> {
        let mut sink = Stream::new(to);
        let (_, _pins) = self.all_of(images)?;
        let mut items = Vec::new();
        let mut written: HashSet<String> = HashSet::new();
        for image in images {
            let manifest = self.manifest_for(&image.descriptor, platform)?;
            manifest.check_image()?;
            let bytes = self.read_document(&manifest.config.digest)?;
            let config = ImageConfig::parse(&bytes, &manifest)?;
            let config_path = format!("{}.json", manifest.config.digest.hex());
            if written.insert(config_path.clone()) {
                put(&mut sink, &config_path, &bytes)?;
            }
            let mut layers = Vec::new();
            for (layer, diff_id) in manifest.layers.iter().zip(&config.diff_ids) {
                let path = format!("{}.tar", diff_id.hex());
                if written.insert(path.clone()) {
                    self.plain_layer(&mut sink, &path, layer, diff_id)?;
                }
                layers.push(path);
            }
            items.push(Item {
                config: config_path,
                repo_tags: image.names.clone(),
                layers,
            });
        }
        put(&mut sink, "manifest.json", &json(&items)?)?;
        sink.end()
    }

    /// A layer without its packing: read twice, because tar wants the size first.
    fn plain_layer(
        &self,
        sink: &mut impl Sink,
        path: &str,
        layer: &Descriptor,
        diff_id: &Digest,
    ) -> Result<()> {
        let open = || {
            let file = self.read_blob(&layer.digest)?;
            let stream = TarStream::open(file, diff_id.algorithm(), u64::MAX);
            stream.map_err(|error| error.of_layer(diff_id))
        };
        let mut first = open()?;
        first
            .drain(&mut vec![0; 128 << 10])
            .map_err(|error| error.of_layer(diff_id))?;
        let (size, found) = first.finish();
        if found != *diff_id {
            let expected = diff_id.clone();
            return Err(ImageError::WrongDigest { expected, found });
        }
        sink.file(path, size, &mut AsRead(open()?))
    }

    /// The manifest of an image for a platform.
    ///
    /// # Errors
    /// [`ImageError::NoPlatform`], [`ImageError::NotFound`], [`ImageError::Document`],
    /// [`ImageError::Io`].
    pub fn manifest_for(&self, image: &Descriptor, platform: &Platform) -> Result<Manifest> {
        let mut at = image.clone();
        // As deep as indexes may lie in each other.
        for _ in 0..4 {
            let bytes = self.read_document(&at.digest)?;
            match Document::parse(&bytes, Some(&at.media_type))? {
                Document::Manifest(manifest) => return Ok(manifest),
                Document::Index(index) => at = platform.choose(&index.manifests)?.clone(),
            }
        }
        let name = format!("index {}", image.digest);
        Err(ImageError::document(
            name,
            "its indexes are more than 4 deep",
        ))
    }
}

/// The entries of `index.json` for an image: one for each name.
fn entries(image: &Export) -> Vec<Descriptor> {
    let named = |name: &String| {
        let mut descriptor = image.descriptor.clone();
        descriptor
            .annotations
            .insert(NAME_ANNOTATION.to_owned(), name.clone());
        descriptor
    };
    match image.names.as_slice() {
        [] => vec![image.descriptor.clone()],
        names => names.iter().map(named).collect(),
    }
}

fn put(sink: &mut impl Sink, path: &str, mut bytes: &[u8]) -> Result<()> {
    sink.file(path, bytes.len() as u64, &mut bytes)
}

fn json(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|error| ImageError::document("the new document", error.to_string()))
}

struct AsRead<'a>(TarStream<'a>);

impl Read for AsRead<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer).map_err(std::io::Error::other)
    }
}
