// SPDX-License-Identifier: Apache-2.0
//! Layers as GNU tar writes them: what comes out of the unpacker is what went into the archive.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "of a test"
)]

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use rustix::fs::{AtFlags, FileType, Mode, Timespec, Timestamps, XattrFlags};
use support::{Node, gzip, is_root, tree, unpacked, unpacked_by, zstd};

/// Packs a folder as `tar` does it.
fn packed(folder: &Path, options: &[&str]) -> Vec<u8> {
    let mut tar = Command::new("tar");
    tar.arg("-C")
        .arg(folder)
        .args(options)
        .args(["-cf", "-", "."]);
    let output = tar.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success());
    output.stdout
}

/// Sets owner, mode and time, in this order.
fn dress(path: &Path, owner: (u32, u32), mode: u32, mtime: (i64, i64)) {
    std::os::unix::fs::lchown(path, Some(owner.0), Some(owner.1)).unwrap();
    if !path.is_symlink() {
        rustix::fs::chmod(path, Mode::from_raw_mode(mode)).unwrap();
    }
    let time = Timespec {
        tv_sec: mtime.0,
        tv_nsec: mtime.1,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    let at = rustix::fs::CWD;
    rustix::fs::utimensat(at, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// A file with a hole of a megabyte between two bytes.
fn sparse(path: &Path) {
    let mut file = File::create(path).unwrap();
    file.write_all(b"a").unwrap();
    file.seek(SeekFrom::Start(1 << 20)).unwrap();
    file.write_all(b"z").unwrap();
    file.set_len(3 << 20).unwrap();
}

/// A bit of everything that a layer can have.
fn everything(root: &Path) {
    let at = |name: &str| root.join(name);
    std::fs::create_dir_all(at("usr/bin")).unwrap();
    std::fs::write(at("usr/bin/tool"), [7; 3000]).unwrap();
    std::fs::hard_link(at("usr/bin/tool"), at("usr/bin/same")).unwrap();
    std::os::unix::fs::symlink("/etc/absolute", at("usr/link")).unwrap();
    std::os::unix::fs::symlink("x".repeat(300), at("usr/long-link")).unwrap();
    sparse(&at("sparse"));
    let long = at(&format!("{}/{}", "d".repeat(200), "f".repeat(255)));
    std::fs::create_dir(long.parent().unwrap()).unwrap();
    std::fs::write(&long, "long").unwrap();
    let node = |name: &str, kind, device| {
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, at(name), kind, mode, device).unwrap();
    };
    node("fifo", FileType::Fifo, 0);
    node(
        "tty",
        FileType::CharacterDevice,
        rustix::fs::makedev(5, 300),
    );
    node("disk", FileType::BlockDevice, rustix::fs::makedev(8, 1));
    std::fs::write(at("owned"), "x").unwrap();
    dress(
        &at("owned"),
        (3_000_000_000, 70_000),
        0o6755,
        (1_500_000_000, 123_456_789),
    );
    dress(&at("usr/bin/tool"), (1, 2), 0o4711, (1, 0));
    dress(&at("usr/link"), (1000, 1000), 0, (2, 5));
    dress(&at("usr"), (0, 50), 0o1777, (1_000_000, 5));
}

fn attributes(root: &Path) {
    let set = |name: &str, attribute: &str, value: &[u8]| {
        rustix::fs::setxattr(root.join(name), attribute, value, XattrFlags::empty()).unwrap();
    };
    set("owned", "user.aurae.test", b"value\0with a NUL");
    set("usr", "user.folder", b"");
    // Version 2, CAP_NET_RAW permitted and effective (capability.h).
    let capability = [
        1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    set("usr/bin/tool", "security.capability", &capability);
}

#[test]
fn everything_that_gnu_tar_writes_comes_out_as_it_went_in() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    everything(folder.path());
    attributes(folder.path());
    let expected = tree(folder.path());
    let options = ["--format=pax", "--xattrs", "--xattrs-include=*", "--sparse"];
    let tar = packed(folder.path(), &options);
    for bytes in [tar.clone(), gzip(&tar), zstd(&tar)] {
        let out = tempfile::tempdir().unwrap();
        let summary = unpacked_by(&bytes, &tar, out.path(), |_| {}).unwrap();
        assert_eq!(summary.bytes, tar.len() as u64);
        assert_eq!((summary.skipped_xattrs, summary.implied.len()), (0, 0));
        same(&expected, &tree(&out.path().join("root")));
        let holes = out.path().join("root/sparse").metadata().unwrap();
        assert!(
            holes.blocks() * 512 < 1 << 20,
            "the hole is one: {} blocks",
            holes.blocks()
        );
    }
}

#[test]
fn every_format_and_sparse_form_of_gnu_tar_is_read() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    everything(folder.path());
    let expected = whole_seconds(tree(folder.path()));
    for options in [
        &["--format=gnu", "--sparse"][..],
        &["--format=gnu"],
        &["--format=pax", "--sparse", "--sparse-version=0.0"],
        &["--format=pax", "--sparse", "--sparse-version=0.1"],
        &["--format=pax", "--sparse", "--sparse-version=1.0"],
    ] {
        let tar = packed(folder.path(), options);
        let out = tempfile::tempdir().unwrap();
        unpacked(&tar, out.path()).unwrap();
        same(&expected, &whole_seconds(tree(&out.path().join("root"))));
    }
    // What the oldest format can hold: short names, small numbers.
    let small = tempfile::tempdir().unwrap();
    std::fs::create_dir(small.path().join("d")).unwrap();
    std::fs::write(small.path().join("d/f"), "1").unwrap();
    for format in ["--format=v7", "--format=ustar"] {
        let out = tempfile::tempdir().unwrap();
        unpacked(&packed(small.path(), &[format]), out.path()).unwrap();
        assert_eq!(std::fs::read(out.path().join("root/d/f")).unwrap(), b"1");
    }
}

fn whole_seconds(mut tree: BTreeMap<String, Node>) -> BTreeMap<String, Node> {
    tree.values_mut().for_each(|node| node.mtime.1 = 0);
    tree
}

/// Compares file by file: a difference of two trees is too long to read.
fn same(expected: &BTreeMap<String, Node>, found: &BTreeMap<String, Node>) {
    let names = |tree: &BTreeMap<String, Node>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(expected), names(found));
    for (path, node) in expected {
        assert_eq!(Some(node), found.get(path), "{path}");
    }
}

#[test]
fn the_files_of_a_debian_package_are_a_layer() {
    if !is_root() {
        return;
    }
    if !testkit::exec::is_there("dpkg") {
        return testkit::skip("it packs the files of a package, and there is no dpkg");
    }
    let listed = Command::new("dpkg")
        .args(["-L", "dpkg"])
        .output()
        .unwrap()
        .stdout;
    let listed = String::from_utf8(listed).unwrap();
    let files: Vec<&str> = listed
        .lines()
        .filter(|line| line.starts_with("/usr/"))
        .collect();
    assert!(files.len() > 50);
    let mut tar = Command::new("tar");
    tar.args(["-C", "/", "--format=pax", "--no-recursion", "-cf", "-"]);
    let there = |path: &&&str| Path::new(path).symlink_metadata().is_ok();
    let files: Vec<&str> = files.iter().filter(there).map(|path| &path[1..]).collect();
    let tar = tar
        .args(&files)
        .stderr(Stdio::null())
        .output()
        .unwrap()
        .stdout;
    let out = tempfile::tempdir().unwrap();
    let summary = unpacked_by(&zstd(&tar), &tar, out.path(), |_| {}).unwrap();
    assert_eq!(summary.implied, ["usr"]);
    for path in files {
        let (ours, theirs) = (
            out.path().join("root").join(path),
            Path::new("/").join(path),
        );
        let (ours_is, theirs_is) = (
            ours.symlink_metadata().unwrap(),
            theirs.symlink_metadata().unwrap(),
        );
        assert_eq!(ours_is.mode(), theirs_is.mode(), "{path}");
        assert_eq!(
            (ours_is.uid(), ours_is.gid()),
            (theirs_is.uid(), theirs_is.gid()),
            "{path}"
        );
        assert_eq!(ours_is.mtime(), theirs_is.mtime(), "{path}");
        if theirs_is.is_file() {
            assert_eq!(
                std::fs::read(&ours).unwrap(),
                std::fs::read(&theirs).unwrap(),
                "{path}"
            );
        }
    }
}

/// A file of a generated tree.
#[derive(Clone, Debug)]
struct Made {
    path: Vec<&'static str>,
    kind: u8,
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, i64),
    size: usize,
}

const NAMES: &[&str] = &[
    "a",
    "b",
    "with space",
    "new\nline",
    "ü",
    ".hidden",
    "-x",
    "=",
    "...",
];

fn made() -> impl Strategy<Value = Made> {
    let path = prop::collection::vec(prop::sample::select(NAMES), 1..5);
    let owner = (
        0..100_000_u32,
        prop_oneof![0..1000_u32, 4_294_967_000..4_294_967_294_u32],
    );
    let mtime = (0..4_000_000_000_i64, 0..1_000_000_000_i64);
    (path, 0..6_u8, 0..0o10000_u32, owner, mtime, 0..3000_usize).prop_map(
        |(path, kind, mode, owner, mtime, size)| Made {
            path,
            kind,
            mode,
            owner,
            mtime,
            size,
        },
    )
}

/// Makes it, unless something is in its way.
fn make(root: &Path, made: &Made, earlier: &mut Vec<std::path::PathBuf>) -> Option<()> {
    let path = root.join(made.path.join("/"));
    let above = path.parent()?;
    let through = above
        .ancestors()
        .any(|folder| folder != root && folder.is_symlink());
    if path.symlink_metadata().is_ok() || through || std::fs::create_dir_all(above).is_err() {
        return None;
    }
    match made.kind {
        0 => std::fs::create_dir(&path).ok()?,
        1 => std::os::unix::fs::symlink("t".repeat(made.size % 200 + 1), &path).ok()?,
        2 => std::fs::hard_link(earlier.last()?, &path).ok()?,
        3 => sparse(&path),
        4 => {
            let mode = Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, mode, 0).ok()?;
        }
        _ => std::fs::write(&path, vec![made.kind; made.size]).ok()?,
    }
    if matches!(made.kind, 3 | 5) {
        earlier.push(path.clone());
    }
    dress(&path, made.owner, made.mode, made.mtime);
    Some(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(24)
    ))]

    /// unpack(tar(tree)) == tree.
    #[test]
    fn any_tree_comes_back(all in prop::collection::vec(made(), 0..24), gnu in any::<bool>()) {
        if rustix::process::geteuid().is_root() {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path();
            let mut earlier = Vec::new();
            for made in &all {
                let _ = make(root, made, &mut earlier);
            }
            let format = if gnu { "--format=gnu" } else { "--format=pax" };
            let tar = packed(root, &[format, "--sparse"]);
            let out = tempfile::tempdir().unwrap();
            unpacked(&tar, out.path()).unwrap();
            same(&whole_seconds(tree(root)), &whole_seconds(tree(&out.path().join("root"))));
        }
    }
}

#[test]
fn names_that_are_no_text_are_kept() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"latin-\xe9");
    std::fs::write(folder.path().join(name), "x").unwrap();
    let out = tempfile::tempdir().unwrap();
    unpacked(&packed(folder.path(), &["--format=pax"]), out.path()).unwrap();
    assert!(out.path().join("root").join(name).is_file());
}
