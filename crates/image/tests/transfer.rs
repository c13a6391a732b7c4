// SPDX-License-Identifier: Apache-2.0
//! Images in and out of a store: archives made by hand, fair and hostile, and round trips.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "of a test"
)]

mod support;

use std::path::Path;

use image::manifest::{Descriptor, media};
use image::store::Store;
use image::transfer::{Export, Import, Limits};
use image::{Digest, ImageError, Platform};
use support::{Tar, gzip};

struct Bed {
    _folder: tempfile::TempDir,
    store: Store,
}

fn bed() -> Bed {
    let folder = tempfile::tempdir().unwrap();
    Bed {
        store: Store::open(&folder.path().join("images")).unwrap(),
        _folder: folder,
    }
}

fn import(store: &Store, archive: &[u8]) -> Result<Import, ImageError> {
    store.import_archive(archive, &Limits::default())
}

fn layer(name: &str) -> Vec<u8> {
    Tar::new().file(name, name.as_bytes()).end()
}

fn config(layers: &[&[u8]]) -> String {
    let ids: Vec<String> = layers
        .iter()
        .map(|layer| Digest::of(layer).to_string())
        .collect();
    serde_json::json!({
        "os": "linux", "architecture": "amd64", "config": {"Cmd": ["/x"]},
        "rootfs": {"type": "layers", "diff_ids": ids},
    })
    .to_string()
}

/// A docker archive as `docker save` before 25 wrote it: folders, a link for a layer that is there
/// twice, and files that no one reads.
fn docker() -> Vec<u8> {
    let (one, two) = (layer("one"), layer("two"));
    let config = config(&[&one, &two, &one]);
    let manifest = r#"[{"Config":"c.json","RepoTags":["a/b:1","docker.io/c:2"],
        "Layers":["1/layer.tar","2.tar.gz","3/layer.tar"]}]"#;
    Tar::new()
        .folder("1/")
        .file("1/VERSION", b"1.0")
        .file("1/json", b"{}")
        .file("1/layer.tar", &one)
        .file("2.tar.gz", &gzip(&two))
        .folder("3/")
        .symlink("3/layer.tar", "../1/layer.tar")
        .file("c.json", config.as_bytes())
        .file("manifest.json", manifest.as_bytes())
        .file("repositories", b"{}")
        .end()
}

#[test]
fn a_docker_archive_comes_in_and_goes_out() {
    let from = bed();
    for archive in [docker(), gzip(&docker())] {
        let import = import(&from.store, &archive).unwrap();
        let [image] = &import.images[..] else {
            panic!("it has one image");
        };
        assert_eq!(image.names, ["a/b:1", "docker.io/c:2"]);
        assert_eq!(
            image.descriptor.platform.as_ref().unwrap().to_string(),
            "linux/amd64"
        );
        let manifest = from
            .store
            .manifest_for(&image.descriptor, &Platform::ours())
            .unwrap();
        let types: Vec<&str> = manifest
            .layers
            .iter()
            .map(|l| l.media_type.as_str())
            .collect();
        assert_eq!(
            types,
            [
                media::LAYER,
                &format!("{}+gzip", media::LAYER),
                media::LAYER
            ]
        );
        from.store.tag("", "a", &image.descriptor).unwrap();
    }
    let descriptor = from.store.resolve("", "a").unwrap();
    let export = Export {
        descriptor,
        names: vec!["a/b:1".to_owned()],
    };
    let mut out = Vec::new();
    from.store
        .export_docker(&[export], &Platform::ours(), &mut out)
        .unwrap();
    let to = bed();
    let again = import(&to.store, &out).unwrap();
    assert_eq!(again.images[0].names, ["a/b:1"]);
    let manifest = to
        .store
        .manifest_for(&again.images[0].descriptor, &Platform::ours())
        .unwrap();
    let digests: Vec<&Digest> = manifest.layers.iter().map(|layer| &layer.digest).collect();
    let (one, two) = (Digest::of(&layer("one")), Digest::of(&layer("two")));
    assert_eq!(digests, [&one, &two, &one], "plain, under their diff ids");
}

#[test]
fn a_layout_comes_in_and_goes_out_by_folder_and_by_stream() {
    let first = bed();
    let image = import(&first.store, &docker()).unwrap().images.remove(0);
    let export = Export {
        descriptor: image.descriptor.clone(),
        names: vec!["one".to_owned(), "two".to_owned()],
    };
    let mut stream = Vec::new();
    first
        .store
        .export_archive(std::slice::from_ref(&export), &mut stream)
        .unwrap();
    let mut again = Vec::new();
    first
        .store
        .export_archive(std::slice::from_ref(&export), &mut again)
        .unwrap();
    assert_eq!(stream, again, "the same images make the same bytes");
    let folder = tempfile::tempdir().unwrap();
    first.store.export_layout(&[export], folder.path()).unwrap();

    let second = bed();
    let by_stream = import(&second.store, &stream).unwrap();
    let third = bed();
    let by_folder = third.store.import_layout(folder.path()).unwrap();
    for import in [&by_stream, &by_folder] {
        assert_eq!(import.images.len(), 1);
        assert_eq!(import.images[0].names, ["one", "two"]);
        assert_eq!(import.images[0].descriptor.digest, image.descriptor.digest);
    }
    assert_eq!(by_stream.brought, by_folder.brought);
    for store in [&second.store, &third.store] {
        assert_eq!(store.verify(&image.descriptor).unwrap(), []);
    }
    assert!(matches!(
        first.store.export_layout(&[], folder.path()),
        Err(ImageError::Busy { .. })
    ));
}

/// A layout with an index of two platforms, of which one is there.
fn layout() -> (Vec<u8>, Descriptor) {
    let one = layer("one");
    let config = config(&[&one]);
    let blob = |media_type: &str, bytes: &[u8]| {
        Descriptor::new(media_type, Digest::of(bytes), bytes.len() as u64)
    };
    let manifest = serde_json::json!({
        "schemaVersion": 2, "mediaType": media::MANIFEST,
        "config": blob(media::CONFIG, config.as_bytes()),
        "layers": [blob(media::LAYER, &one)],
    })
    .to_string();
    let mut ours = blob(media::MANIFEST, manifest.as_bytes());
    ours.platform = Some("linux/amd64".parse().unwrap());
    let mut other = blob(media::MANIFEST, b"elsewhere");
    other.platform = Some("linux/riscv64".parse().unwrap());
    let index = serde_json::json!({
        "schemaVersion": 2, "mediaType": media::INDEX, "manifests": [other, ours],
    })
    .to_string();
    let image = blob(media::INDEX, index.as_bytes());
    let top = serde_json::json!({"schemaVersion": 2, "manifests": [image]}).to_string();
    let path = |bytes: &[u8]| format!("blobs/sha256/{}", Digest::of(bytes).hex());
    let tar = Tar::new()
        .file("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)
        .file("index.json", top.as_bytes())
        .file(&path(index.as_bytes()), index.as_bytes())
        .file(&path(manifest.as_bytes()), manifest.as_bytes())
        .file(&path(config.as_bytes()), config.as_bytes())
        .file(&path(&one), &one);
    (tar.end(), image)
}

#[test]
fn an_index_of_which_one_platform_is_there_is_whole() {
    let bed = bed();
    let (archive, image) = layout();
    let import = import(&bed.store, &archive).unwrap();
    assert_eq!(import.images[0].descriptor.digest, image.digest);
    assert!(import.images[0].names.is_empty());
    let amd64: Platform = "linux/amd64".parse().unwrap();
    assert_eq!(
        bed.store.manifest_for(&image, &amd64).unwrap().layers.len(),
        1
    );
    let riscv: Platform = "linux/riscv64".parse().unwrap();
    let absent = bed.store.manifest_for(&image, &riscv).unwrap_err();
    assert!(matches!(absent, ImageError::NotFound { .. }));
    let export = Export {
        descriptor: image.clone(),
        names: Vec::new(),
    };
    let mut out = Vec::new();
    bed.store.export_archive(&[export], &mut out).unwrap();
    let other = self::bed();
    self::import(&other.store, &out).unwrap();
    assert_eq!(other.store.verify(&image).unwrap(), []);
}

/// An archive with some of its bytes changed.
fn changed(archive: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = archive
        .windows(from.len())
        .position(|bytes| bytes == from)
        .unwrap();
    let mut changed = archive.to_vec();
    changed[at..at + to.len()].copy_from_slice(to);
    changed
}

fn refused(archive: &[u8], words: &str) {
    let bed = bed();
    let error = import(&bed.store, archive).unwrap_err().to_string();
    assert!(error.contains(words), "{error:?} doesn't say {words:?}");
    assert!(bed.store.names().is_empty());
}

#[test]
fn archives_that_lie_are_refused() {
    let (layout, _) = layout();
    // A byte of the layer, a layout of another version, a blob that isn't there.
    refused(&changed(&layout, b"one\0", b"two\0"), "digest");
    refused(&changed(&layout, b"1.0.0", b"9.0.0"), "isn't 1.0.0");
    refused(&layout[..layout.len() / 2], "cut off");
    refused(&Tar::new().file("x", b"").end(), "no archive of images");
    refused(b"not a tar stream at all", "cut off");
    let index = Tar::new()
        .file("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)
        .end();
    refused(&index, "no index.json");
    refused(
        &Tar::new()
            .file("manifest.json", b"[{\"Config\":\"../../x\"}]")
            .end(),
        "no file",
    );
    refused(
        &Tar::new().file("manifest.json", b"{}").end(),
        "can't be read",
    );
    refused(
        &Tar::new().node(b'3', "null", (1, 3)).end(),
        "neither a file",
    );
    refused(&Tar::new().file("../x", b"").end(), "..");
    let loops = Tar::new()
        .symlink("a", "b")
        .symlink("b", "a")
        .file("manifest.json", b"[{\"Config\":\"a\"}]");
    refused(&loops.end(), "no file");
    let large = Tar::new().file("manifest.json", &vec![b' '; 5 << 20]).end();
    refused(&large, "more than");
    refused(
        &changed(&docker(), b"3/layer.tar\"]", b"3/layer.tax\"]"),
        "no file",
    );
    refused(
        &changed(&docker(), b",\"3/layer.tar\"]", b"              ]"),
        "2 layers",
    );
}

#[test]
fn an_archive_has_bounds() {
    let bed = bed();
    let limits = Limits {
        max_bytes: 4096,
        max_entries: 3,
    };
    let error = bed
        .store
        .import_archive(&docker()[..], &limits)
        .unwrap_err();
    assert!(matches!(error, ImageError::TooMuch { .. }), "{error:?}");
    let zeros = gzip(&Tar::new().file("x.tar", &vec![0; 8 << 20]).end());
    assert!(bed.store.import_archive(&zeros[..], &limits).is_err());
    // And of what is refused nothing stays.
    let cut = &docker()[..docker().len() - 1536];
    let wrong = changed(&layout().0, b"one\0", b"two\0");
    assert!(import(&bed.store, cut).is_err() && import(&bed.store, &wrong).is_err());
    for folder in ["work", "blobs/sha256", "ingest"] {
        assert_eq!(
            bed.store.root().join(folder).read_dir().unwrap().count(),
            0,
            "{folder}"
        );
    }
}

/// Who names another's blob by its digest doesn't get it: all must have come with the archive.
#[test]
fn an_archive_is_not_completed_from_what_others_have() {
    let bed = bed();
    let (whole, _) = layout();
    import(&bed.store, &whole).unwrap();
    let secret = Digest::of(&layer("one"));
    assert!(bed.store.contains(&secret));
    let at = whole
        .windows(64)
        .rposition(|bytes| bytes == secret.hex().as_bytes())
        .unwrap();
    let without = [&whole[..at - 13], &[0; 1024]].concat();
    let error = import(&bed.store, &without).unwrap_err().to_string();
    assert!(error.contains("is missing"), "{error}");
}

#[test]
fn a_layout_folder_is_read_without_following_links() {
    let bed = bed();
    let (archive, _) = layout();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("layout");
    std::fs::create_dir(&root).unwrap();
    let tar = folder.path().join("archive.tar");
    std::fs::write(&tar, archive).unwrap();
    let mut unpack = std::process::Command::new("tar");
    assert!(
        unpack
            .arg("-C")
            .arg(&root)
            .arg("-xf")
            .arg(&tar)
            .status()
            .unwrap()
            .success()
    );
    bed.store.import_layout(&root).unwrap();
    let hex = Digest::of(&layer("one")).hex().to_owned();
    let blob = root.join("blobs/sha256").join(&hex);
    let aside = folder.path().join(&hex);
    std::fs::rename(&blob, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &blob).unwrap();
    assert!(matches!(
        bed.store.import_layout(&root),
        Err(ImageError::Io { .. })
    ));
    std::fs::remove_file(&blob).unwrap();
    fifo(&blob);
    let error = bed.store.import_layout(&root).unwrap_err().to_string();
    assert!(error.contains("no regular file"), "{error}");
    std::fs::remove_file(&blob).unwrap();
    assert!(
        bed.store
            .import_layout(&root)
            .unwrap_err()
            .to_string()
            .contains("is missing")
    );
}

fn fifo(path: &Path) {
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}
