// SPDX-License-Identifier: Apache-2.0
//! Documents of images as registries and archives give them, the names that people write, and the
//! file that says how registries are reached: what is accepted is within its bounds, means one
//! thing, and is written as it reads. Run by the fuzz target of this name and by `image`'s tests.

use std::path::Path;

use image::config::ImageConfig;
use image::manifest::{Document, MAX_BLOB, MAX_ENTRIES, MAX_LAYERS, Manifest};
use image::registry::Hosts;
use image::{Descriptor, Digest, Platform, Reference};

/// Holds for any bytes.
pub(crate) fn check(bytes: &[u8]) {
    documents(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        names(text);
        let _ = Hosts::parse(text, Path::new("registries.toml"));
    }
}

fn documents(bytes: &[u8]) {
    match Document::parse(bytes, None) {
        Ok(Document::Manifest(manifest)) => {
            assert!(manifest.layers.len() <= MAX_LAYERS);
            assert!(manifest.blobs().all(|blob| blob.size <= MAX_BLOB));
            // Who announces an index where a manifest comes lies.
            let other = Document::parse(bytes, Some(image::manifest::media::INDEX));
            assert!(!matches!(other, Ok(Document::Index(_))));
            let _ = manifest.check_image();
        }
        Ok(Document::Index(index)) => {
            assert!(index.manifests.len() <= MAX_ENTRIES);
            assert!(index.manifests.iter().all(|entry| entry.size <= MAX_BLOB));
            if let Ok(chosen) = Platform::ours().choose(&index.manifests) {
                assert!(index.manifests.contains(chosen));
            }
        }
        Err(_) => {}
    }
    for layers in 0..3 {
        if let Ok(config) = ImageConfig::parse(bytes, &of(layers)) {
            assert_eq!(config.diff_ids.len(), layers);
            let run = &config.run;
            let words = run.entrypoint.iter().chain(&run.cmd).chain(&run.env);
            assert!(words.chain([&run.user]).all(|word| !word.contains('\0')));
            let platform = config.platform();
            assert_eq!(platform.clone().normalised(), platform);
        }
    }
}

/// A manifest of so many layers.
fn of(layers: usize) -> Manifest {
    let blob = Descriptor::new("", Digest::of(b""), 0);
    Manifest {
        media_type: String::new(),
        config: blob.clone(),
        layers: vec![blob; layers],
        subject: None,
        artifact_type: None,
        annotations: std::collections::BTreeMap::new(),
    }
}

fn names(text: &str) {
    if let Ok(reference) = text.parse::<Reference>() {
        let written = reference.to_string();
        assert_eq!(written.parse::<Reference>().as_ref().ok(), Some(&reference));
        let familiar = reference.familiar();
        assert_eq!(
            familiar.parse::<Reference>().ok(),
            Some(reference),
            "{familiar}"
        );
    }
    if let Ok(digest) = text.parse::<Digest>() {
        assert_eq!(digest.to_string(), text);
        assert_eq!(Digest::from_file_name(&digest.file_name()), Some(digest));
    }
    if let Ok(platform) = text.parse::<Platform>() {
        let written = platform.to_string();
        assert_eq!(
            written.parse::<Platform>().ok(),
            Some(platform),
            "{written}"
        );
    }
}
