// SPDX-License-Identifier: Apache-2.0
//! What cells get of images: layers to mount, and a hold on them.

use std::time::{Duration, Instant};

use image::node::Rooted;
use image::{Digest, Platform};
use model::error::Reason;
use model::request::Scope;

use crate::bed::{Bed, ann, full, permit, put, put_for, used};
use crate::support::{Head, Tar, is_root};

fn file(name: &str) -> Vec<u8> {
    Tar::new().file(name, name.as_bytes()).end()
}

fn folder(tar: &[u8]) -> String {
    format!("{}/root", Digest::of(tar).file_name())
}

pub(crate) fn an_image_is_resolved_to_its_layers_uppermost_first() {
    if !is_root() {
        return;
    }
    let bed = Bed::new();
    let (low, middle, top) = (file("low"), file("middle"), file("top"));
    let opaque = Tar::new().file(".wh..wh..opq", b"").file("new", b"x").end();
    let store = bed.store();
    // A layer that is there twice is mounted once, where it is uppermost.
    let layers = [low.clone(), middle.clone(), low.clone(), top.clone()];
    let manifest = put(&store, "stacked", &layers);
    put(
        &store,
        "hidden",
        &[low.clone(), opaque.clone(), top.clone()],
    );
    drop(store);
    let (images, _tenants) = bed.open();
    let resolve = |name: &str| bed.runtime.block_on(images.resolve(&ann(), name, None));
    let root = resolve("stacked").unwrap();
    assert_eq!(*root.layers, [folder(&top), folder(&low), folder(&middle)]);
    assert_eq!(root.manifest, manifest);
    let run = root.run();
    assert_eq!(
        (&run.entrypoint[..], &run.cmd[..]),
        (&["/main".into()][..], &["serve".into()][..])
    );
    assert_eq!(
        (&run.env[..], run.user.as_str()),
        (&["A=b".into()][..], "7:8")
    );
    let at = |layer: &String| images.layers_dir().join(layer);
    assert_eq!(
        std::fs::read(at(&root.layers[0]).join("top")).unwrap(),
        b"top"
    );
    // By its digest, by a part of it, and what an opaque root hides.
    assert_eq!(resolve(&manifest.to_string()).unwrap().manifest, manifest);
    assert_eq!(resolve(&manifest.hex()[..12]).unwrap().manifest, manifest);
    let hidden = resolve("hidden").unwrap();
    assert_eq!(*hidden.layers, [folder(&top), folder(&opaque)]);
    assert_eq!(resolve("missing").unwrap_err().reason, Reason::NotFound);
}

/// As in an image whose `/tmp` gets a file by a layer without an entry for `/tmp`.
pub(crate) fn a_folder_that_a_layer_implies_is_what_lower_layers_say() {
    if !is_root() {
        return;
    }
    let bed = Bed::new();
    let with = |name: &'static str, mode: u32, uid: u32| Head {
        mode: mode.into(),
        uid: uid.into(),
        ..Head::new(b'5', name)
    };
    let low = Tar::new()
        .head(&with("tmp/", 0o1777, 0))
        .head(&with("srv/", 0o711, 7))
        .pax(&[("SCHILY.xattr.user.a", b"v")])
        .head(&with("srv/in/", 0o700, 8))
        .head(&with("gone/", 0o700, 8))
        .head(&with("plain/", 0o755, 0))
        .end();
    // One that says it after it has implied it, one that hides what is lower.
    let middle = Tar::new()
        .file("tmp/one", b"1")
        .file("said/x", b"")
        .head(&with("said/", 0o700, 9))
        .file(".wh.gone", b"")
        .end();
    let top = Tar::new()
        .file("tmp/two", b"2")
        .file("srv/in/side/deep", b"3")
        .file("gone/again", b"4")
        .file("plain/x", b"5")
        .file("said/y", b"6")
        .end();
    let store = bed.store();
    put(&store, "app", &[low.clone(), middle.clone(), top.clone()]);
    put(&store, "flat", &[low.clone(), file("plain/a")]);
    drop(store);
    let (images, _tenants) = bed.open();
    let resolve = |name: &str| bed.runtime.block_on(images.resolve(&ann(), name, None));
    let root = resolve("app").unwrap();
    assert_eq!(
        root.layers[1..],
        [folder(&top), folder(&middle), folder(&low)]
    );
    let made = crate::support::tree(&images.layers_dir().join(&root.layers[0]));
    let seen: Vec<_> = made
        .iter()
        .map(|(path, node)| (path.as_str(), node.mode & 0o7777, node.owner.0))
        .collect();
    assert_eq!(
        seen,
        [
            ("", 0o755, 0),
            ("said", 0o700, 9),
            ("srv", 0o711, 7),
            ("srv/in", 0o700, 8),
            ("tmp", 0o1777, 0),
        ]
    );
    assert_eq!(made["srv/in"].xattrs["user.a"], b"v");
    assert_eq!(made["tmp"].mtime.0, 1_000_000_000);
    // Where nothing is to be said nothing is made.
    assert_eq!(
        *resolve("flat").unwrap().layers,
        [folder(&file("plain/a")), folder(&low)]
    );
    // It stays while a cell runs it, and is made once.
    assert_eq!(resolve("app").unwrap().layers, root.layers);
    bed.runtime
        .block_on(images.prune(permit(), &ann(), Duration::ZERO))
        .unwrap();
    assert!(images.layers_dir().join(&root.layers[0]).is_dir());
}

pub(crate) fn what_a_cell_runs_is_neither_removed_nor_pruned() {
    if !is_root() {
        return;
    }
    let bed = Bed::new();
    let tar = file("a");
    put(&bed.store(), "run", std::slice::from_ref(&tar));
    let (images, tenants) = bed.open();
    let before = used(&tenants);
    let first = bed
        .runtime
        .block_on(images.resolve(&ann(), "run", None))
        .unwrap();
    let second = bed
        .runtime
        .block_on(images.resolve(&ann(), "run", None))
        .unwrap();
    // Unpacked by it, and counted once.
    assert!(used(&tenants) >= before + tar.len() as u64);
    let cells = || {
        let listed = bed
            .runtime
            .block_on(images.list(permit(), Scope::Tenant(ann())));
        listed.unwrap().first().map(|image| image.cells)
    };
    assert_eq!(cells(), Some(2));
    let remove = || bed.runtime.block_on(images.remove(permit(), &ann(), "run"));
    let refused = remove().unwrap_err();
    assert_eq!(refused.reason, Reason::WrongState);
    assert!(
        refused.message.starts_with("2 cells run"),
        "{}",
        refused.message
    );
    let prune = || {
        bed.runtime
            .block_on(images.prune(permit(), &ann(), Duration::ZERO))
            .unwrap()
    };
    assert!(prune().removed.is_empty());
    drop(first);
    assert_eq!(cells(), Some(1));
    let layer = images.layers_dir().join(&second.layers[0]);
    assert!(layer.is_dir());
    drop(second);
    assert_eq!(prune().removed, [full("run")]);
    assert!(!layer.exists());
    assert_eq!((cells(), used(&tenants)), (None, 0));
}

pub(crate) fn a_cell_is_adopted_whose_image_lost_its_name() {
    if !is_root() {
        return;
    }
    let bed = Bed::new();
    let store = bed.store();
    let old = put(&store, "app", &[file("old")]);
    drop(store);
    // Unpacked by a daemon that is gone; the name means another image since.
    let (images, _tenants) = bed.open();
    let root: Rooted = bed
        .runtime
        .block_on(images.resolve(&ann(), "app", None))
        .unwrap();
    drop((root, images, _tenants));
    put(&bed.store(), "app", &[file("new")]);
    let (images, tenants) = bed.open();
    let before = used(&tenants);
    let adopted = bed
        .runtime
        .block_on(images.resolve_digest(&ann(), &old))
        .unwrap();
    assert_eq!(*adopted.layers, [folder(&file("old"))]);
    assert!(
        used(&tenants) > before,
        "a cell's image counts without a name"
    );
    bed.runtime
        .block_on(images.prune(permit(), &ann(), Duration::ZERO))
        .unwrap();
    assert!(images.layers_dir().join(&adopted.layers[0]).is_dir());
    let again = bed.runtime.block_on(images.resolve_digest(&ann(), &old));
    assert_eq!(again.unwrap().manifest, old);
    drop(adopted);
    assert_eq!(used(&tenants), 0);
}

pub(crate) fn an_image_of_another_platform_is_refused_by_name() {
    if !is_root() {
        return;
    }
    let bed = Bed::new();
    put_for(&bed.store(), "other", "s390x", &[file("a")]);
    let (images, _tenants) = bed.open();
    let resolve = |platform: Option<&Platform>| {
        bed.runtime
            .block_on(images.resolve(&ann(), "other", platform))
    };
    let refused = resolve(None).unwrap_err();
    assert_eq!(refused.reason, Reason::Unsupported);
    assert!(
        refused.message.contains("linux/s390x"),
        "{}",
        refused.message
    );
    assert!(resolve(Some(&"linux/s390x".parse().unwrap())).is_ok());
}

pub(crate) fn a_present_image_is_resolved_without_the_disk() {
    if !is_root() {
        return;
    }
    const TIMES: u32 = 200;
    let bed = Bed::new();
    let layers: Vec<_> = (0..100).map(|number| file(&number.to_string())).collect();
    put(&bed.store(), "deep", &layers);
    let (images, _tenants) = bed.open();
    let resolve = || {
        bed.runtime
            .block_on(images.resolve(&ann(), "deep", None))
            .unwrap()
    };
    drop(resolve());
    // Where nothing can be read.
    let (there, hidden) = (bed.at_images("layers"), bed.state().join("hidden"));
    std::fs::rename(&there, &hidden).unwrap();
    // Each is the only cell, so nothing is shared with another one.
    let times = (0..TIMES).map(|_| {
        let begun = Instant::now();
        assert_eq!(resolve().layers.len(), 100);
        begun.elapsed()
    });
    // Far more than it takes: a machine under load is slow.
    let fastest = times.min().unwrap();
    assert!(fastest < Duration::from_millis(50), "{fastest:?}");
    eprintln!("an image of 100 layers is resolved in {fastest:?}");
    std::fs::rename(&hidden, &there).unwrap();
    // What was taken away is seen.
    let held = resolve();
    bed.runtime
        .block_on(images.prune(permit(), &ann(), Duration::ZERO))
        .unwrap();
    assert_eq!(resolve().layers.len(), 100);
    drop(held);
    bed.runtime
        .block_on(images.prune(permit(), &ann(), Duration::ZERO))
        .unwrap();
    let gone = bed.runtime.block_on(images.resolve(&ann(), "deep", None));
    assert_eq!(gone.unwrap_err().reason, Reason::NotFound);
}
