// SPDX-License-Identifier: Apache-2.0
//! What the disk has changed, is full of, or has lost: how the node finds it and goes on.

use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use image::node::{Images, Thresholds};
use image::store::Store;
use image::{Digest, node};
use model::error::Reason;
use model::request::Scope;

use crate::bed::{Bed, ann, full, permit, put, used};
use crate::support::{Tar, gzip, is_root};

fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    // In place, with its times: as a failing disk does it.
    let times = std::fs::metadata(path).unwrap().modified().unwrap();
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.rewind().unwrap();
    file.write_all(&bytes).unwrap();
    file.set_modified(times).unwrap();
}

fn problems(bed: &Bed, images: &Images, name: &str) -> Vec<String> {
    let verified = bed
        .runtime
        .block_on(images.verify(permit(), &ann(), Some(name)));
    verified.unwrap().remove(0).problems
}

fn blob_path(bed: &Bed, digest: &Digest) -> PathBuf {
    bed.at_images("blobs/sha256").join(digest.hex())
}

pub(crate) fn a_changed_blob_is_put_aside_and_brought_again() {
    if !is_root() {
        return;
    }
    let bed = Bed::new();
    let tar = Tar::new().file("a", &[7; 10_000]).end();
    put(&bed.store(), "app", std::slice::from_ref(&tar));
    let (images, _tenants) = bed.open();
    let root = bed
        .runtime
        .block_on(images.resolve(&ann(), "app", None))
        .unwrap();
    assert_eq!(problems(&bed, &images, "app"), [""; 0]);
    let blob = Digest::of(&gzip(&tar));
    flip(&blob_path(&bed, &blob));
    let found = problems(&bed, &images, "app");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(&blob.to_string()), "{found:?}");
    assert!(!blob_path(&bed, &blob).exists());
    assert!(bed.at_images("aside").join(blob.file_name()).is_file());
    // The cell that runs keeps its layer; the image misses its blob until it is brought.
    assert!(
        images
            .layers_dir()
            .join(&root.layers[0])
            .join("a")
            .is_file()
    );
    assert!(problems(&bed, &images, "app")[0].contains("missing"));
    drop((root, images, _tenants));
    put(&bed.store(), "app", std::slice::from_ref(&tar));
    let (images, _tenants) = bed.open();
    assert_eq!(problems(&bed, &images, "app"), [""; 0]);
}

pub(crate) fn a_changed_document_is_brought_again() {
    if !is_root() {
        return;
    }
    let bed = Bed::new();
    let tar = Tar::new().file("a", b"a").end();
    let manifest = put(&bed.store(), "app", std::slice::from_ref(&tar));
    flip(&blob_path(&bed, &manifest));
    let (images, _tenants) = bed.open();
    let refused = bed
        .runtime
        .block_on(images.resolve(&ann(), "app", None))
        .unwrap_err();
    assert_eq!(refused.reason, Reason::Degraded);
    assert!(
        refused
            .hint
            .as_deref()
            .unwrap_or_default()
            .contains("image pull")
    );
    drop((images, _tenants));
    // Whoever brings it finds the damage, also without a verification before.
    put(&bed.store(), "app", std::slice::from_ref(&tar));
    let (images, _tenants) = bed.open();
    assert!(
        bed.runtime
            .block_on(images.resolve(&ann(), "app", None))
            .is_ok()
    );
    flip(&blob_path(&bed, &manifest));
    assert!(problems(&bed, &images, "app")[0].contains("put aside"));
}

pub(crate) fn a_changed_layer_is_unpacked_anew_unless_a_cell_runs_it() {
    if !is_root() {
        return;
    }
    let bed = Bed::new();
    let tar = Tar::new()
        .folder("d")
        .file("d/file", &[7; 10_000])
        .symlink("link", "d/file")
        .node(b'3', "null", (1, 3))
        .file("implied/file", b"x")
        .pax(&[("SCHILY.xattr.user.a", b"v")])
        .file("attributes", b"")
        .end();
    put(&bed.store(), "app", std::slice::from_ref(&tar));
    let (images, _tenants) = bed.open();
    let root = bed
        .runtime
        .block_on(images.resolve(&ann(), "app", None))
        .unwrap();
    assert_eq!(problems(&bed, &images, "app"), [""; 0]);
    let at = images.layers_dir().join(&root.layers[0]);
    flip(&at.join("d/file"));
    let found = problems(&bed, &images, "app");
    assert!(
        found[0].contains("d/file") && found[0].contains("a cell runs it"),
        "{found:?}"
    );
    drop(root);
    let found = problems(&bed, &images, "app");
    assert!(
        found[0].contains("d/file: it is unpacked anew"),
        "{found:?}"
    );
    assert_eq!(problems(&bed, &images, "app"), [""; 0]);
    assert_eq!(std::fs::read(at.join("d/file")).unwrap(), [7; 10_000]);
    // Not only bytes.
    let none = rustix::fs::XattrFlags::empty();
    rustix::fs::lsetxattr(at.join("attributes"), c"user.a", b"w", none).unwrap();
    assert!(problems(&bed, &images, "app")[0].contains("attributes"));
    std::fs::remove_file(at.join("link")).unwrap();
    assert!(!problems(&bed, &images, "app").is_empty());
    std::fs::write(at.join("new"), "").unwrap();
    assert!(!problems(&bed, &images, "app").is_empty());
    assert_eq!(problems(&bed, &images, "app"), [""; 0]);
}

pub(crate) fn a_full_disk_takes_what_was_used_longest_ago() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]);
    command
        .arg(std::env::current_exe().unwrap())
        .arg("relieve")
        .arg(folder.path());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

/// On a disk of 30 MiB: six images of 2 MiB, and two layers of them.
pub(crate) fn relieve(folder: &Path) {
    let none = rustix::mount::MountFlags::empty();
    rustix::mount::mount("none", folder, "tmpfs", none, Some(c"size=30m")).unwrap();
    let bed = Bed::below(folder, Thresholds { high: 50, low: 40 });
    let store = bed.store();
    let noise = |seed: u32| -> Vec<u8> {
        let numbers = (0..(2_u32 << 20) / 4).map(|it| (it ^ seed).wrapping_mul(2_654_435_761));
        numbers
            .map(|it| it ^ (it >> 15))
            .flat_map(u32::to_le_bytes)
            .collect()
    };
    let names = ["cell", "pinned", "old", "older", "new", "newest"];
    for (seed, name) in names.iter().enumerate() {
        let tar = Tar::new()
            .file("f", &noise(u32::try_from(seed).unwrap() << 20))
            .end();
        put(&store, name, &[tar]);
    }
    // What no name leads to goes first.
    let lost = vec![1; 1 << 20];
    let lost = (Digest::of(&lost), lost);
    drop(store.put(&lost.0, &lost.1).unwrap());
    let used_at =
        |store: &Store, name: &str, time: &str| bed.note(store, name, "io.aurae.used", time);
    used_at(&store, "older", "1");
    used_at(&store, "old", "2");
    bed.note(&store, "pinned", "io.aurae.pinned", "true");
    drop(store);
    let (images, tenants) = bed.open();
    let resolve = |name: &str| bed.runtime.block_on(images.resolve(&ann(), name, None));
    let cell = resolve("cell").unwrap();
    drop(resolve("new").unwrap());
    let relief = bed.runtime.block_on(images.relieve()).unwrap();
    assert!(relief.times == 1 && relief.bytes > 0, "{relief:?}");
    assert!(!blob_path(&bed, &lost.0).exists());
    let listed = bed
        .runtime
        .block_on(images.list(permit(), Scope::Tenant(ann())));
    let left: Vec<_> = listed
        .unwrap()
        .into_iter()
        .map(|it| it.record.reference)
        .collect();
    let disk = rustix::fs::statvfs(folder).unwrap();
    assert!(disk.f_bavail * 100 / disk.f_blocks >= 60, "{left:?}");
    for name in ["cell", "new", "pinned"] {
        assert!(left.contains(&full(name)), "{name}: {left:?}");
    }
    for name in ["older", "old"] {
        assert!(!left.contains(&full(name)), "{name}: {left:?}");
    }
    assert!(
        images
            .layers_dir()
            .join(&cell.layers[0])
            .join("f")
            .is_file()
    );
    assert!(used(&tenants) > 0);
    // Below the threshold nothing goes.
    let again = bed.runtime.block_on(images.relieve()).unwrap();
    assert_eq!(again, node::Relief::default());
}

pub(crate) fn images_that_can_not_be_opened_say_why() {
    let bed = Bed::new();
    std::fs::create_dir_all(bed.at_images("")).unwrap();
    std::fs::write(bed.at_images("oci-layout"), r#"{"imageLayoutVersion":"9"}"#).unwrap();
    let tenants = bed.tenants();
    let error = Images::open(bed.settings(), &tenants).unwrap_err();
    let images = Images::closed(bed.state(), &error.to_string());
    let why = images.degraded().unwrap();
    assert!(why.contains("oci-layout") && why.contains("\"9\""), "{why}");
    let refused = bed
        .runtime
        .block_on(images.resolve(&ann(), "app", None))
        .unwrap_err();
    assert_eq!(refused.reason, Reason::Degraded);
    assert!(
        refused.message.contains("oci-layout"),
        "{}",
        refused.message
    );
    let listed = bed
        .runtime
        .block_on(images.list(permit(), Scope::Tenant(ann())));
    assert_eq!(listed.unwrap_err().reason, Reason::Degraded);
    let text = std::fs::read_to_string(bed.at_images("oci-layout")).unwrap();
    assert!(text.contains('9'), "nothing is touched");
}
