// SPDX-License-Identifier: Apache-2.0
//! Images for the tests, in a store of their own. Their layers are bytes that can't be foreseen:
//! a registry doesn't look into them.

use image::Digest;
use image::manifest::{Descriptor, Document, media};
use image::store::{Pin, Store};
use serde_json::json;

/// What all test images are for.
pub(crate) const PLATFORM: &str = "linux/amd64";

/// An image in a store.
pub(crate) struct Image {
    pub(crate) store: Store,
    pub(crate) target: Digest,
    pub(crate) layers: Vec<Descriptor>,
    pins: Vec<Pin>,
    _folder: tempfile::TempDir,
}

/// Bytes that a compressor or a liar can't guess; the same ones for the same seed.
pub(crate) fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

impl Image {
    /// An image with a layer of each of these sizes.
    pub(crate) fn new(seed: u64, sizes: &[usize]) -> Self {
        let (folder, store) = super::empty();
        let mut image = Self {
            target: Digest::of(b""),
            layers: Vec::new(),
            pins: Vec::new(),
            store,
            _folder: folder,
        };
        image.target = image.add(seed, sizes, "amd64").digest;
        image
    }

    /// An index with an image for each of two platforms.
    pub(crate) fn index(seed: u64, sizes: &[usize]) -> Self {
        let mut image = Self::new(seed, sizes);
        let mut first = image.descriptor();
        first.platform = Some("linux/amd64".parse().unwrap());
        let mut second = image.add(seed + 1, &[1000], "arm64");
        second.platform = Some("linux/arm64/v8".parse().unwrap());
        let index = json!({
            "schemaVersion": 2,
            "mediaType": media::INDEX,
            "manifests": [second, first],
        });
        image.target = image.put(media::INDEX, index.to_string().as_bytes()).digest;
        image
    }

    fn descriptor(&self) -> Descriptor {
        let bytes = self.store.read_document(&self.target).unwrap();
        let size = u64::try_from(bytes.len()).unwrap();
        Descriptor::new(media::MANIFEST, self.target.clone(), size)
    }

    fn add(&mut self, seed: u64, sizes: &[usize], architecture: &str) -> Descriptor {
        let layer = format!("{}+gzip", media::LAYER);
        let layers: Vec<Descriptor> = sizes
            .iter()
            .zip(seed * 1000..)
            .map(|(size, seed)| self.put(&layer, &bytes(seed, *size)))
            .collect();
        let ids: Vec<String> = layers.iter().map(|it| it.digest.to_string()).collect();
        let config = json!({
            "os": "linux",
            "architecture": architecture,
            "config": {"Cmd": ["/bin/true"]},
            "rootfs": {"type": "layers", "diff_ids": ids},
        });
        let config = self.put(media::CONFIG, config.to_string().as_bytes());
        self.layers.extend(layers.iter().cloned());
        let manifest = manifest(&config, &layers);
        self.put(media::MANIFEST, manifest.as_bytes())
    }

    pub(crate) fn put(&mut self, media_type: &str, bytes: &[u8]) -> Descriptor {
        let (descriptor, pin) = self.store.put_new(media_type, bytes).unwrap();
        self.pins.push(pin);
        descriptor
    }

    /// The manifest's or index's bytes.
    pub(crate) fn document(&self) -> Vec<u8> {
        self.store.read_document(&self.target).unwrap()
    }

    /// A blob's bytes.
    pub(crate) fn blob(&self, digest: &Digest) -> Option<Vec<u8>> {
        use std::io::Read as _;
        let mut bytes = Vec::new();
        self.store
            .read_blob(digest)
            .ok()?
            .read_to_end(&mut bytes)
            .unwrap();
        Some(bytes)
    }

    /// Asserts that a store has all of the image for the tests' platform, byte for byte.
    pub(crate) fn assert_whole_in(&self, store: &Store) {
        let mut digest = self.target.clone();
        loop {
            let bytes = store.read_document(&digest).unwrap();
            match Document::parse(&bytes, None).unwrap() {
                Document::Index(index) => {
                    let platform = PLATFORM.parse::<image::Platform>().unwrap();
                    digest = platform.choose(&index.manifests).unwrap().digest.clone();
                }
                Document::Manifest(manifest) => {
                    for blob in manifest.blobs() {
                        use std::io::Read as _;
                        let mut found = Vec::new();
                        store
                            .read_blob(&blob.digest)
                            .unwrap()
                            .read_to_end(&mut found)
                            .unwrap();
                        assert_eq!(Digest::of(&found), blob.digest);
                    }
                    return;
                }
            }
        }
    }
}

/// A manifest's text.
pub(crate) fn manifest(config: &Descriptor, layers: &[Descriptor]) -> String {
    json!({
        "schemaVersion": 2,
        "mediaType": media::MANIFEST,
        "config": config,
        "layers": layers,
    })
    .to_string()
}
