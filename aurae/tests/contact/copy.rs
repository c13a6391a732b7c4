// SPDX-License-Identifier: Apache-2.0
//! `aurae cp`: both ways, files and folders, and what can't be copied.

use std::fs;

use super::super::bed::node;

#[test]
fn files_and_folders_are_copied_both_ways() {
    let Some(node) = node() else { return };
    let folder = tempfile::tempdir().unwrap();
    let here = |name: &str| folder.path().join(name).display().to_string();
    // More than a queue holds, and nothing that a terminal would let through.
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    fs::create_dir_all(folder.path().join("site/sub")).unwrap();
    fs::write(folder.path().join("site/sub/big"), &bytes).unwrap();
    fs::write(folder.path().join("site/page"), "hello\n").unwrap();
    node.aurae(&["cell", "run", "web"]).ok();
    // Into a folder that is there, and under another name.
    node.aurae(&["cp", &here("site"), "web:/tmp"]).ok();
    node.aurae(&["cp", &here("site/page"), "web:/tmp/other"])
        .ok();
    assert_eq!(
        node.aurae(&["exec", "web", "cat", "/tmp/site/page", "/tmp/other"])
            .ok(),
        "hello\nhello\n"
    );
    // And back.
    node.aurae(&["cp", "web:/tmp/site", &here("back")]).ok();
    assert!(fs::read(folder.path().join("back/sub/big")).unwrap() == bytes);
    node.aurae(&["cp", "web:/tmp/other", &here("back")]).ok();
    assert_eq!(
        fs::read_to_string(folder.path().join("back/other")).unwrap(),
        "hello\n"
    );
    // What isn't there is said by name, and leaves nothing.
    let missing = node.aurae(&["cp", "web:/tmp/nosuch", &here("x")]).fails(1);
    assert!(
        missing.contains("web:/tmp/nosuch was not copied"),
        "{missing}"
    );
    let missing = node.aurae(&["cp", &here("nosuch"), "web:/tmp"]).fails(1);
    assert!(missing.contains("nosuch"), "{missing}");
    let readonly = node
        .aurae(&["cp", &here("site/page"), "web:/usr/page"])
        .fails(1);
    assert!(readonly.contains("Read-only"), "{readonly}");
    let neither = node.aurae(&["cp", "a", "b"]).fails(2);
    assert!(neither.contains("CELL:/PATH"), "{neither}");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(node.aurae(&["ps", "-q"]).ok(), "web\n");
}
