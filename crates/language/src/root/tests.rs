// SPDX-License-Identifier: Apache-2.0
//! What a program may read, and what it may not.

use std::os::unix::fs::symlink;

use super::*;

fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

#[test]
fn the_nearest_mark_upwards_is_the_root() {
    let files = [
        ("aurae.json", "{}"),
        ("apps/web.ts", "1"),
        ("deep/er/a.ts", "2"),
    ];
    let folder = folder_with(&files);
    let (root, entry) = Root::of_entry(&folder.path().join("apps/web.ts")).unwrap();
    assert_eq!(entry, "apps/web.ts");
    assert_eq!(root.text("./deep/../deep/er/a.ts").unwrap(), "2");

    let bare = folder_with(&[("apps/web.ts", "1"), ("other.ts", "2")]);
    let (root, entry) = Root::of_entry(&bare.path().join("apps/web.ts")).unwrap();
    assert_eq!(entry, "web.ts");
    assert!(matches!(
        root.text("../other.ts"),
        Err(ReadError::Outside(_))
    ));
}

#[test]
fn no_link_leads_out_and_links_inside_are_fine() {
    let outside = folder_with(&[("secret", "x")]);
    let folder = folder_with(&[("a.ts", "1")]);
    let at = |name: &str| folder.path().join(name);
    symlink(outside.path().join("secret"), at("absolute.ts")).unwrap();
    symlink("../../../../../../../etc/passwd", at("relative.ts")).unwrap();
    symlink(outside.path(), at("folder")).unwrap();
    symlink("/proc/self/root/etc/passwd", at("magic.ts")).unwrap();
    symlink("a.ts", at("inside.ts")).unwrap();
    let root = Root::open(folder.path()).unwrap();
    for name in [
        "absolute.ts",
        "relative.ts",
        "folder/secret",
        "magic.ts",
        "/etc/passwd",
    ] {
        let read = root.bytes(name);
        assert!(
            matches!(read, Err(ReadError::Outside(_))),
            "{name}: {read:?}"
        );
    }
    assert_eq!(root.text("inside.ts").unwrap(), "1");
}

#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let folder = folder_with(&[]);
    let pipe = folder.path().join("pipe.ts");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
    let root = Root::open(folder.path()).unwrap();
    let refused = root.bytes("pipe.ts").unwrap_err().to_string();
    assert_eq!(refused, "pipe.ts is a pipe, not a regular file");
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    assert!(matches!(root.bytes("sub"), Err(ReadError::NotAFile { .. })));
}

#[test]
fn a_file_too_long_is_not_read() {
    let folder = folder_with(&[]);
    let file = File::create(folder.path().join("big.ts")).unwrap();
    file.set_len(100 << 20).unwrap();
    std::fs::write(folder.path().join("latin.ts"), b"// caf\xe9").unwrap();
    let root = Root::open(folder.path()).unwrap();
    let refused = root.text("big.ts").unwrap_err().to_string();
    assert_eq!(refused, "big.ts has 104857600 bytes; the most is 4194304");
    assert!(matches!(
        root.text("latin.ts"),
        Err(ReadError::NotText { offset: 6, .. })
    ));
}

#[test]
fn paths_join_without_leaving_the_root() {
    assert_eq!(
        join("apps/web.ts", "./db.ts").as_deref(),
        Some("apps/db.ts")
    );
    assert_eq!(
        join("apps/web.ts", "../lib/x.ts").as_deref(),
        Some("lib/x.ts")
    );
    assert_eq!(join("web.ts", "../x.ts"), None);
    assert_eq!(join("web.ts", "/x.ts"), None);
}
