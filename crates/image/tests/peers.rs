// SPDX-License-Identifier: Apache-2.0
//! Beside Debian's skopeo and umoci: they read what is written here, and what they write is read
//! here, with the same files in the end.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "of a test"
)]

mod support;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use image::config::ImageConfig;
use image::manifest::{Descriptor, Manifest, media};
use image::store::Store;
use image::transfer::{Export, Limits};
use image::unpack::{Options, unpack};
use image::{Digest, Platform};
use support::{Node, tree};

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
}

/// Whether the peers are there, and may give files away.
fn possible() -> bool {
    let missing = ["skopeo", "umoci"]
        .into_iter()
        .find(|name| !testkit::exec::is_there(name));
    match missing {
        Some(name) => testkit::skip(&format!("there is no {name}")),
        None => return support::is_root(),
    }
    false
}

/// An image that umoci has made: two layers, with whiteouts, owners, links and a device.
struct Made {
    folder: tempfile::TempDir,
}

impl Made {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = Self { folder };
        let (layout, tag) = (made.at("layout"), made.layout());
        run("umoci", &["init", "--layout", &layout]);
        run("umoci", &["new", "--image", &tag]);
        let config = [
            "config",
            "--image",
            &tag,
            "--config.entrypoint",
            "/start",
            "--config.env",
            "A=b",
            "--config.exposedports",
            "80/tcp",
            "--config.stopsignal",
            "SIGQUIT",
        ];
        run("umoci", &config);
        made.layer(|root| {
            std::fs::create_dir_all(root.join("etc/sub")).unwrap();
            std::fs::write(root.join("etc/gone"), "1").unwrap();
            std::fs::write(root.join("etc/kept"), "2").unwrap();
            std::fs::hard_link(root.join("etc/kept"), root.join("etc/same")).unwrap();
            std::os::unix::fs::symlink("/etc/kept", root.join("link")).unwrap();
            std::os::unix::fs::chown(root.join("etc/kept"), Some(100_000), Some(7)).unwrap();
            let mode = rustix::fs::Mode::from_raw_mode(0o666);
            let (kind, null) = (
                rustix::fs::FileType::CharacterDevice,
                rustix::fs::makedev(1, 3),
            );
            rustix::fs::mknodat(rustix::fs::CWD, root.join("null"), kind, mode, null).unwrap();
        });
        made.layer(|root| {
            std::fs::remove_file(root.join("etc/gone")).unwrap();
            std::fs::remove_dir(root.join("etc/sub")).unwrap();
            std::fs::write(root.join("etc/new"), "3").unwrap();
        });
        made
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn layout(&self) -> String {
        self.at("layout:one")
    }

    fn bundle(&self) -> PathBuf {
        self.folder.path().join("bundle")
    }

    /// Adds a layer with what `change` does to the root.
    fn layer(&self, change: impl Fn(&Path)) {
        let bundle = self.bundle();
        if bundle.exists() {
            std::fs::remove_dir_all(&bundle).unwrap();
        }
        let bundle = bundle.to_str().unwrap();
        run("umoci", &["unpack", "--image", &self.layout(), bundle]);
        change(&self.bundle().join("rootfs"));
        run("umoci", &["repack", "--image", &self.layout(), bundle]);
    }
}

/// A store with what an archive or a layout holds; its one image.
fn imported(from: &Path) -> (tempfile::TempDir, Store, Descriptor) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("images")).unwrap();
    let import = match from.is_dir() {
        true => store.import_layout(from),
        false => store.import_archive(File::open(from).unwrap(), &Limits::default()),
    };
    let import = import.unwrap();
    let image = import.images[0].descriptor.clone();
    store.tag("", "one", &image).unwrap();
    (folder, store, image)
}

fn manifest(store: &Store, image: &Descriptor) -> (Manifest, ImageConfig) {
    let manifest = store.manifest_for(image, &Platform::ours()).unwrap();
    manifest.check_image().unwrap();
    let config = store.read_document(&manifest.config.digest).unwrap();
    let config = ImageConfig::parse(&config, &manifest).unwrap();
    (manifest, config)
}

/// The layers of an image, each unpacked; each is verified by its diff id.
fn layers(store: &Store, image: &Descriptor) -> Vec<std::collections::BTreeMap<String, Node>> {
    let (manifest, config) = manifest(store, image);
    let unpacked = |(layer, diff_id): (&Descriptor, &Digest)| {
        let folder = tempfile::tempdir().unwrap();
        let root: OwnedFd = File::open(folder.path()).unwrap().into();
        let blob = store.read_blob(&layer.digest).unwrap();
        unpack(blob, root, &Options::new(diff_id)).unwrap();
        tree(folder.path())
    };
    manifest
        .layers
        .iter()
        .zip(&config.diff_ids)
        .map(unpacked)
        .collect()
}

#[test]
fn what_umoci_has_made_is_unpacked_alike() {
    if !possible() {
        return;
    }
    let made = Made::new();
    let (_folder, store, image) = imported(Path::new(&made.at("layout")));
    let (_, config) = manifest(&store, &image);
    assert_eq!(
        (config.run.entrypoint, config.run.env.len()),
        (vec!["/start".to_owned()], 1)
    );
    assert_eq!(config.run.stop_signal, "SIGQUIT");
    let layers = layers(&store, &image);
    assert_eq!(layers.len(), 2);
    let kept = &layers[0]["etc/kept"];
    assert_eq!(
        (kept.owner, kept.links, kept.data.as_slice()),
        ((100_000, 7), 2, &b"2"[..])
    );
    assert_eq!(layers[0]["null"].device, rustix::fs::makedev(1, 3));
    for gone in ["etc/gone", "etc/sub"] {
        assert_eq!(
            (layers[1][gone].kind.as_str(), layers[1][gone].device),
            ("character", 0)
        );
    }
    assert_eq!(layers[1]["etc/new"].data, b"3");
    // One on the other, as a lower layer would be, is the root that umoci unpacks.
    let mut merged = layers[0].clone();
    merged.extend(layers[1].clone());
    merged.retain(|_, node| node.kind != "character" || node.device != 0);
    let root = tree(&made.bundle().join("rootfs"));
    let names = |tree: &std::collections::BTreeMap<String, Node>| {
        tree.iter()
            .map(|(path, node)| (path.clone(), node.data.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&merged), names(&root));
}

/// Its layers end with their last file's data: no padding, no blocks of zeros.
#[test]
fn what_umoci_has_inserted_is_unpacked_and_leaves_folders_alone() {
    if !possible() {
        return;
    }
    let made = Made::new();
    let file = made.at("file");
    std::fs::write(&file, "new").unwrap();
    for to in ["/tmp/file", "/etc/file"] {
        run("umoci", &["insert", "--image", &made.layout(), &file, to]);
    }
    let (_folder, store, image) = imported(Path::new(&made.at("layout")));
    let layers = layers(&store, &image);
    assert_eq!(layers.len(), 4);
    for (layer, path) in [(2, "tmp/file"), (3, "etc/file")] {
        assert_eq!(layers[layer][path].data, b"new");
    }
}

#[test]
fn skopeo_reads_what_is_written_here() {
    if !possible() {
        return;
    }
    let made = Made::new();
    let (folder, store, image) = imported(Path::new(&made.at("layout")));
    let export = Export {
        descriptor: image.clone(),
        names: vec!["docker.io/library/one:1".to_owned()],
    };
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let docker = File::create(at("docker.tar")).unwrap();
    store
        .export_docker(std::slice::from_ref(&export), &Platform::ours(), docker)
        .unwrap();
    let oci = File::create(at("oci.tar")).unwrap();
    store
        .export_archive(std::slice::from_ref(&export), oci)
        .unwrap();
    store
        .export_layout(&[export], &folder.path().join("layout"))
        .unwrap();
    let name = "docker.io/library/one:1";
    let expected = layers(&store, &image);
    for (number, source) in [
        format!("docker-archive:{}:{name}", at("docker.tar")),
        format!("oci-archive:{}:{name}", at("oci.tar")),
        format!("oci:{}:{name}", at("layout")),
        // The store itself is a layout.
        format!("oci:{}:one", store.root().to_str().unwrap()),
    ]
    .iter()
    .enumerate()
    {
        let copy = at(&format!("copy-{number}"));
        run(
            "skopeo",
            &[
                "copy",
                "--insecure-policy",
                source,
                &format!("oci:{copy}:x"),
            ],
        );
        let (_folder, other, copied) = imported(Path::new(&copy));
        assert_eq!(layers(&other, &copied), expected, "{source}");
    }
}

#[test]
fn what_skopeo_writes_is_read_here() {
    if !possible() {
        return;
    }
    let made = Made::new();
    let (_folder, store, image) = imported(Path::new(&made.at("layout")));
    let expected = layers(&store, &image);
    let from = format!("oci:{}", made.layout());
    for (kind, path, options) in [
        ("docker-archive", "docker.tar", &[][..]),
        ("oci-archive", "oci.tar", &[]),
        ("oci", "zstd", &["--dest-compress-format", "zstd"]),
        ("oci", "docker-types", &["--format", "v2s2"]),
    ] {
        let path = made.at(path);
        let to = match kind {
            "docker-archive" => format!("{kind}:{path}:a/b:1"),
            _ => format!("{kind}:{path}:one"),
        };
        let arguments = [&["copy", "--insecure-policy"][..], options, &[&from, &to]].concat();
        run("skopeo", &arguments);
        let (_folder, other, copied) = imported(Path::new(&path));
        assert_eq!(layers(&other, &copied), expected, "{kind} {options:?}");
        let (manifest, _) = manifest(&other, &copied);
        // It is what was asked for, and not the image as it was before.
        let layer = &manifest.layers[0].media_type;
        assert_eq!(
            layer.ends_with("+zstd"),
            options.contains(&"zstd"),
            "{layer}"
        );
        let docker = manifest.media_type == media::DOCKER_MANIFEST;
        assert_eq!(docker, options.contains(&"v2s2"));
    }
}
