// SPDX-License-Identifier: Apache-2.0
//! Layers that were made to do harm, each by hand. What must hold for all: an error that says what
//! is wrong, and nothing written outside the folder.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "of a test"
)]

mod support;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use image::unpack::UnpackError;
use support::{Head, Tar, gzip, is_opaque, is_root, is_whiteout, unpacked, unpacked_by, zstd};

/// A folder with a file beside the layer's root that no layer may touch.
fn guarded() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("guard"), "untouched").unwrap();
    folder
}

/// Unpacks, expects to be refused with these words, and that nothing outside has changed.
fn refused(tar: Vec<u8>, words: &str) {
    if !is_root() {
        return;
    }
    let folder = guarded();
    let error = unpacked(&tar, folder.path()).unwrap_err().to_string();
    assert!(error.contains(words), "{error:?} doesn't say {words:?}");
    untouched(folder.path());
}

fn untouched(folder: &Path) {
    assert_eq!(std::fs::read(folder.join("guard")).unwrap(), b"untouched");
    assert_eq!(
        folder.read_dir().unwrap().count(),
        2,
        "the guard and the root"
    );
    assert_eq!(folder.join("guard").metadata().unwrap().nlink(), 1);
}

#[test]
fn a_path_with_dots_does_not_leave_the_layer() {
    refused(Tar::new().file("../guard", b"x").end(), "..");
    refused(
        Tar::new().folder("a").file("a/../../guard", b"x").end(),
        "..",
    );
    refused(
        Tar::new()
            .pax(&[("path", b"../guard")])
            .file("a", b"x")
            .end(),
        "..",
    );
    refused(
        Tar::new().gnu_long(b'L', b"../guard").file("a", b"x").end(),
        "..",
    );
    refused(Tar::new().file(".wh...", b"").end(), "whiteout");
    refused(Tar::new().file("a/.wh..", b"").end(), "whiteout");
}

#[test]
fn an_absolute_path_means_the_layers_root() {
    if !is_root() {
        return;
    }
    let folder = guarded();
    unpacked(
        &Tar::new().file("/etc/aurae-test", b"x").end(),
        folder.path(),
    )
    .unwrap();
    assert!(folder.path().join("root/etc/aurae-test").is_file());
    assert!(!Path::new("/etc/aurae-test").exists());
    untouched(folder.path());
}

#[test]
fn nothing_is_written_through_a_link() {
    if !is_root() {
        return;
    }
    for target in ["..", "../../", "/", "/tmp", ".", "a", "b"] {
        let tar = Tar::new()
            .folder("b")
            .symlink("a", target)
            .file("a/guard", b"x");
        refused(tar.end(), "goes through \"a\", which is a link");
    }
}

#[test]
fn a_folder_that_becomes_a_link_is_not_followed() {
    if !is_root() {
        return;
    }
    let tar = Tar::new()
        .folder("d")
        .file("d/f", b"1")
        .symlink("d", "..")
        .file("d/guard", b"x");
    refused(tar.end(), "goes through \"d\", which is a link");
    let deep = Tar::new()
        .file("d/e/f/g", b"1")
        .symlink("d/e", "../..")
        .file("d/e/f/guard", b"x");
    refused(deep.end(), "goes through \"d/e\", which is a link");
}

#[test]
fn links_that_loop_are_only_links() {
    if !is_root() {
        return;
    }
    let folder = guarded();
    let tar = Tar::new()
        .symlink("a", "b")
        .symlink("b", "a")
        .symlink("c", "c");
    unpacked(&tar.clone().end(), folder.path()).unwrap();
    assert_eq!(
        folder.path().join("root/c").read_link().unwrap(),
        Path::new("c")
    );
    refused(tar.file("a/x", b"").end(), "which is a link");
}

#[test]
fn a_file_in_the_place_of_a_link_replaces_it() {
    if !is_root() {
        return;
    }
    let folder = guarded();
    let tar = Tar::new().symlink("a", "../guard").file("a", b"mine").end();
    unpacked(&tar, folder.path()).unwrap();
    assert_eq!(
        std::fs::read(folder.path().join("root/a")).unwrap(),
        b"mine"
    );
    untouched(folder.path());
}

#[test]
fn a_file_in_the_place_of_a_hard_link_leaves_the_other_one() {
    if !is_root() {
        return;
    }
    let folder = guarded();
    let tar = Tar::new()
        .file("a", b"one")
        .hard_link("b", "a")
        .file("b", b"two")
        .end();
    unpacked(&tar, folder.path()).unwrap();
    assert_eq!(std::fs::read(folder.path().join("root/a")).unwrap(), b"one");
}

#[test]
fn a_hard_link_leads_to_nothing_outside() {
    if !is_root() {
        return;
    }
    refused(Tar::new().hard_link("a", "../guard").end(), "leads nowhere");
    refused(
        Tar::new().hard_link("a", "/etc/passwd").end(),
        "nothing of this layer",
    );
    refused(Tar::new().hard_link("a", "a").end(), "itself");
    refused(Tar::new().hard_link("a", "/").end(), "root");
    refused(Tar::new().folder("d").hard_link("a", "d").end(), "folder");
    let through = Tar::new().symlink("l", "..").hard_link("a", "l/guard");
    refused(through.end(), "nothing of this layer");
}

#[test]
fn a_hard_link_to_a_link_links_the_link() {
    if !is_root() {
        return;
    }
    let folder = guarded();
    let tar = Tar::new()
        .symlink("l", "../guard")
        .hard_link("m", "l")
        .file("m", b"x")
        .end();
    unpacked(&tar, folder.path()).unwrap();
    untouched(folder.path());
}

#[test]
fn attributes_of_the_node_are_refused() {
    if !is_root() {
        return;
    }
    for name in [
        "trusted.overlay.redirect",
        "trusted.overlay.opaque",
        "trusted.md5",
        "user.overlay.redirect",
        "user.overlay.whiteout",
    ] {
        let tar = Tar::new()
            .pax(&[(&format!("SCHILY.xattr.{name}"), b"/")])
            .folder("a");
        refused(tar.end(), "belongs to the node");
    }
}

#[test]
fn a_bomb_is_stopped_at_its_bound() {
    if !is_root() {
        return;
    }
    let bomb = Tar::new().file("zeros", &vec![0; 16 << 20]).end();
    for packed in [gzip(&bomb), zstd(&bomb)] {
        assert!(packed.len() < 200 << 10, "it is small");
        let folder = guarded();
        let bounded = unpacked_by(&packed, &bomb, folder.path(), |options| {
            options.max_bytes = 1 << 20;
        });
        assert!(
            matches!(bounded, Err(UnpackError::TooMuch { .. })),
            "{bounded:?}"
        );
        let written = folder.path().join("root/zeros").metadata().unwrap().len();
        assert!(written <= 1 << 20, "{written}");
        untouched(folder.path());
    }
}

#[test]
fn too_many_files_are_stopped_at_their_bound() {
    if !is_root() {
        return;
    }
    let some = |options: &mut image::unpack::Options| options.max_entries = 100;
    let many = (0..101)
        .fold(Tar::new(), |tar, n| tar.file(&n.to_string(), b""))
        .end();
    let deep = (0..20)
        .fold(Tar::new(), |tar, n| {
            tar.file(&format!("{n}/b/c/d/e/f"), b"")
        })
        .end();
    let names = (0..101)
        .fold(Tar::new(), |tar, _| tar.pax(&[("path", b"x")]))
        .end();
    for tar in [many, deep, names] {
        let folder = guarded();
        let bounded = unpacked_by(&tar, &tar, folder.path(), some);
        assert!(
            matches!(bounded, Err(UnpackError::TooMuch { .. })),
            "{bounded:?}"
        );
    }
}

#[test]
fn a_file_is_not_larger_than_its_map_says() {
    if !is_root() {
        return;
    }
    let sparse = |size: &[u8], map: &[u8], data: &[u8]| {
        let records: &[(&str, &[u8])] = &[
            ("GNU.sparse.major", b"0"),
            ("GNU.sparse.minor", b"1"),
            ("GNU.sparse.size", size),
            ("GNU.sparse.map", map),
        ];
        Tar::new().pax(records).file("s", data).end()
    };
    refused(sparse(b"10", b"0,20", &[1; 20]), "map");
    refused(sparse(b"100", b"0,20", &[1; 19]), "another size");
    refused(sparse(b"100", b"0,20,10,20", &[1; 40]), "map");
    refused(sparse(b"-1", b"0,0", b""), "map");
    refused(
        sparse(b"9000000000000000000", b"0,0", b""),
        "size of a sparse file",
    );
}

#[test]
fn sizes_that_lie_are_found() {
    if !is_root() {
        return;
    }
    let large = Head {
        size: 1 << 30,
        ..Head::new(b'0', "a")
    };
    refused(Tar::new().head(&large).data(b"x").end(), "cut off");
    refused(
        Tar::new().pax(&[("size", b"-1")]).file("a", b"").end(),
        "negative",
    );
    refused(
        Tar::new()
            .pax(&[("size", b"9223372036854775807")])
            .file("a", b"")
            .end(),
        "cut off",
    );
    let name = Head {
        size: 1 << 30,
        ..Head::new(b'L', "x")
    };
    refused(Tar::new().head(&name).data(b"x").end(), "path of an entry");
    let pax = Head {
        size: 1 << 30,
        ..Head::new(b'x', "x")
    };
    refused(Tar::new().head(&pax).data(b"x").end(), "pax header");
}

#[test]
fn a_stream_that_is_cut_is_refused_wherever() {
    if !is_root() {
        return;
    }
    let tar = Tar::new()
        .folder("d")
        .pax(&[("uid", b"70000")])
        .file("d/f", &[7; 700])
        .end();
    for packed in [tar.clone(), gzip(&tar), zstd(&tar)] {
        for length in (0..packed.len()).step_by(packed.len() / 40 + 1) {
            let folder = guarded();
            let result = unpacked_by(&packed[..length], &tar, folder.path(), |_| {});
            assert!(result.is_err(), "{length} of {} bytes", packed.len());
        }
    }
}

/// umoci's `insert` writes such layers, and Go's `archive/tar` reads them.
#[test]
fn a_stream_whose_last_padding_alone_is_missing_is_whole() {
    if !is_root() {
        return;
    }
    let whole = Tar::new().folder("d").file("d/f", &[7; 700]).end();
    let data = 512 + 512 + 700;
    for length in [data, data + 100, data + 324] {
        let folder = guarded();
        let summary = unpacked(&whole[..length], folder.path()).unwrap();
        assert_eq!((summary.entries, summary.bytes), (2, length as u64));
        let file = std::fs::read(folder.path().join("root/d/f")).unwrap();
        assert_eq!(file, [7; 700]);
    }
    for length in [data - 1, 512 + 512, 512 + 511, 512 + 1] {
        let folder = guarded();
        let cut = unpacked(&whole[..length], folder.path());
        let said = cut.map_err(|error| error.to_string());
        let is_cut = |said: &String| said.contains("cut off");
        assert!(said.as_ref().is_err_and(is_cut), "{length}: {said:?}");
    }
    // What a header is about has to follow it.
    let pax = Tar::new().pax(&[("path", b"a")]).end();
    refused(pax[..512 + 10].to_vec(), "cut off");
    let long = Tar::new().gnu_long(b'L', b"a").end();
    refused(long[..512 + 2].to_vec(), "cut off");
}

#[test]
fn a_stream_with_another_digest_is_refused() {
    if !is_root() {
        return;
    }
    let folder = guarded();
    let (tar, other) = (
        Tar::new().file("a", b"1").end(),
        Tar::new().file("a", b"2").end(),
    );
    let result = unpacked_by(&tar, &other, folder.path(), |_| {});
    assert!(
        matches!(result, Err(UnpackError::WrongDigest { .. })),
        "{result:?}"
    );
    // Bytes behind the end count, too.
    let folder = guarded();
    let longer = [tar.clone(), vec![0; 512]].concat();
    assert!(unpacked_by(&longer, &tar, folder.path(), |_| {}).is_err());
}

#[test]
fn what_is_no_tar_stream_is_refused() {
    refused(b"hello, world".repeat(100), "tar stream");
    let noise: Vec<u8> = (0..2000_u32)
        .flat_map(|n| n.wrapping_mul(n).to_be_bytes())
        .collect();
    refused(
        gzip(&gzip(&Tar::new().file("a", &noise).end())),
        "tar stream",
    );
    refused([&b"BZh91AY&SY"[..], &[0; 600]].concat(), "bzip2");
    refused([&b"\xfd7zXZ\0"[..], &[0; 600]].concat(), "xz");
    refused(b"\x1f\x8b and then no gzip".to_vec(), "broken");
    refused(b"\x28\xb5\x2f\xfd and then no zstd".to_vec(), "broken");
    let behind = [
        Tar::new().end()[..512].to_vec(),
        Tar::new().file("a", b"").end(),
    ]
    .concat();
    refused(behind, "follows the end");
}

#[test]
fn entries_that_are_unknown_or_have_no_path_are_refused() {
    if !is_root() {
        return;
    }
    refused(Tar::new().head(&Head::new(b'M', "a")).end(), "type");
    refused(Tar::new().file("", b"").end(), "no path");
    refused(
        Tar::new().symlink("./", "x").end(),
        "the root must be a folder",
    );
    refused(Tar::new().symlink("a", "").end(), "target");
    refused(
        Tar::new().file("f", b"").file("f/g", b"").end(),
        "no folder",
    );
    refused(
        Tar::new()
            .pax(&[("uid", b"4294967295")])
            .file("a", b"")
            .end(),
        "uid",
    );
    refused(
        Tar::new().pax(&[("gid", b"-2")]).file("a", b"").end(),
        "gid",
    );
    refused(Tar::new().pax(&[("path", b"a")]).end(), "cut off");
    let deep = "b/".repeat(300);
    refused(
        Tar::new()
            .pax(&[("path", deep.as_bytes())])
            .file("c", b"")
            .end(),
        "256 parts",
    );
}

#[test]
fn a_name_is_one_thing_whatever_came_before() {
    if !is_root() {
        return;
    }
    let folder = guarded();
    let tar = Tar::new()
        .file("d/e/f", b"1")
        .symlink("d/l", "e")
        .file("d", b"now a file")
        .folder("d")
        .file("d/g", b"2")
        .node(b'6', "d", (0, 0))
        .end();
    unpacked(&tar, folder.path()).unwrap();
    assert_eq!(folder.path().join("root").read_dir().unwrap().count(), 1);
    untouched(folder.path());
}

#[test]
fn whiteouts_hide_lower_layers_and_nothing_of_their_own() {
    if !is_root() {
        return;
    }
    let folder = guarded();
    let tar = Tar::new()
        .file("gone/.wh.file", b"")
        .file("new", b"kept")
        .file(".wh.new", b"")
        .folder("both")
        .file("both/kept", b"1")
        .file(".wh.both", b"")
        .file(".wh.again", b"")
        .file("again/deep/f", b"2")
        .folder("opaque")
        .file("opaque/.wh..wh..opq", b"")
        .file(".wh..wh.plnk/1.2", b"")
        .end();
    unpacked(&tar, folder.path()).unwrap();
    let root = folder.path().join("root");
    assert!(is_whiteout(&root.join("gone/file")));
    assert_eq!(std::fs::read(root.join("new")).unwrap(), b"kept");
    assert!(is_opaque(&root.join("both")) && root.join("both/kept").is_file());
    assert!(is_opaque(&root.join("again")) && root.join("again/deep/f").is_file());
    assert!(is_opaque(&root.join("opaque")) && !is_opaque(&root.join("gone")));
    assert_eq!(root.join("opaque").read_dir().unwrap().count(), 0);
    assert_eq!(root.read_dir().unwrap().count(), 5);
}

#[test]
fn an_opaque_root_is_told_of() {
    if !is_root() {
        return;
    }
    let folder = guarded();
    let summary = unpacked(&Tar::new().file(".wh..wh..opq", b"").end(), folder.path()).unwrap();
    assert!(summary.opaque_root);
}

#[test]
fn without_privileges_devices_are_refused_and_marks_are_a_users() {
    if !is_root() {
        return;
    }
    let rootless = |options: &mut image::unpack::Options| {
        options.overlay = image::unpack::Overlay::User;
        options.devices = false;
    };
    let folder = guarded();
    let tar = Tar::new()
        .file("d/.wh..wh..opq", b"")
        .node(b'6', "fifo", (0, 0))
        .end();
    unpacked_by(&tar, &tar, folder.path(), rootless).unwrap();
    let marks = support::xattrs(&folder.path().join("root/d"));
    assert_eq!(marks.keys().collect::<Vec<_>>(), ["user.overlay.opaque"]);
    let folder = guarded();
    let tar = Tar::new().node(b'3', "null", (1, 3)).end();
    let refused = unpacked_by(&tar, &tar, folder.path(), rootless)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("without privileges"), "{refused}");
}
