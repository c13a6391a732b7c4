// SPDX-License-Identifier: Apache-2.0
//! A state directory, images that are put into it by hand, and the node's handle to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use identity::Permit;
use image::manifest::media;
use image::node::{Images, Settings, Unpacker};
use image::registry::{Client, Hosts, Options};
use image::store::Store;
use image::{Descriptor, Digest, ImageError};
use model::name::Tenant;
use model::quota::{Capacity, Quota};
use tenants::Tenants;

use crate::support::gzip;

/// More than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What the node has for images.
pub(crate) const BYTES: u64 = 1 << 30;

pub(crate) struct Bed {
    folder: tempfile::TempDir,
    pub(crate) runtime: tokio::runtime::Runtime,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::at(folder)
    }

    fn at(folder: tempfile::TempDir) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        Self { folder, runtime }
    }

    pub(crate) fn state(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn at_images(&self, path: &str) -> PathBuf {
        self.state().join("images").join(path)
    }

    /// The store, as soon as no node has it: the note of a use may still be written.
    pub(crate) fn store(&self) -> Store {
        let begun = Instant::now();
        loop {
            match Store::open(&self.at_images("")) {
                Err(ImageError::Busy { .. }) if begun.elapsed() < PATIENCE => {
                    std::thread::yield_now();
                }
                opened => return opened.unwrap(),
            }
        }
    }

    /// The node as it starts.
    pub(crate) fn open(&self) -> (Images, Tenants) {
        let tenants = self.tenants();
        let images = Images::open(self.settings(), &tenants).unwrap();
        (images, tenants)
    }

    pub(crate) fn settings(&self) -> Settings {
        let none = self.state().join("registries.toml");
        let client = Client::new(Hosts::load(&none).unwrap(), Options::default());
        Settings {
            state_dir: self.state().to_owned(),
            client: client.unwrap(),
            unpacker: Unpacker::new(|_| {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.arg("unpack");
                Ok(command)
            }),
        }
    }

    pub(crate) fn tenants(&self) -> Tenants {
        let capacity = Capacity {
            whole: BTreeMap::from([(Quota::ImageBytes, BYTES), (Quota::ImageTransfers, 16)]),
            reserve: 100,
        };
        let database = store::Store::open(self.state()).unwrap();
        let tenants = Tenants::start(database, self.state(), capacity);
        self.runtime.block_on(tenants).unwrap()
    }
}

pub(crate) fn ann() -> Tenant {
    "ann".parse().unwrap()
}

pub(crate) fn permit() -> Permit {
    Permit::for_tests("image.Remove", ann()).unwrap()
}

/// What a tenant's images take of its quota.
pub(crate) fn used(tenants: &Tenants) -> u64 {
    tenants.used(&ann())[&Quota::ImageBytes]
}

/// A name of `ann`'s in full.
pub(crate) fn full(name: &str) -> String {
    format!("docker.io/library/{name}:latest")
}

/// Puts an image of these tar streams (lowest first) into a store, and lets `ann` call it `name`.
/// Nothing is unpacked. Its manifest.
pub(crate) fn put(store: &Store, name: &str, layers: &[Vec<u8>]) -> Digest {
    put_for(store, name, "amd64", layers)
}

pub(crate) fn put_for(store: &Store, name: &str, machine: &str, layers: &[Vec<u8>]) -> Digest {
    let diff_ids: Vec<Digest> = layers.iter().map(|tar| Digest::of(tar)).collect();
    let config = serde_json::json!({
        "os": "linux", "architecture": machine,
        "config": {"Entrypoint": ["/main"], "Cmd": ["serve"], "Env": ["A=b"], "User": "7:8"},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    });
    let blobs = layers
        .iter()
        .map(|tar| blob(store, media::LAYER, &gzip(tar)));
    let layers: Vec<Descriptor> = blobs.collect();
    let manifest = serde_json::json!({
        "schemaVersion": 2, "mediaType": media::MANIFEST, "layers": layers,
        "config": blob(store, media::CONFIG, config.to_string().as_bytes()),
    });
    let manifest = blob(store, media::MANIFEST, manifest.to_string().as_bytes());
    // An hour and more ago, so that a use is noted.
    let notes = BTreeMap::from([("io.aurae.pulled".to_owned(), "1000".to_owned())]);
    store
        .tag_noted("ann", &full(name), &manifest, notes)
        .unwrap();
    manifest.digest
}

fn blob(store: &Store, media_type: &str, bytes: &[u8]) -> Descriptor {
    let digest = Digest::of(bytes);
    store.put(&digest, bytes).unwrap();
    Descriptor::new(media_type, digest, bytes.len() as u64)
}
