// SPDX-License-Identifier: Apache-2.0
//! Stories of slips that would pass for a plan with nothing to do, or for a wish to stop all.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use super::{Folder, context, node};

#[test]
fn what_passes_for_nothing_to_do_by_a_slip_is_refused() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("web.ts", r#"await runtime.Run(new Cell({ name: "web" }));"#);
    for act in ["plan", "apply"] {
        let slip = node.aurae(&[act, "--target", "wbe", &file]).fails(1);
        assert!(slip.contains("--target wbe is no object"), "{slip}");
        let root = folder.0.path().to_str().unwrap();
        let is_folder = node.aurae(&[act, root]).fails(1);
        assert!(is_folder.contains("is a folder"), "{is_folder}");
    }
    let none = node.aurae(&["set", "rm", "--yes", "wbe"]).fails(1);
    assert!(none.contains("there is no set wbe"), "{none}");
    // What the node would refuse is no plan.
    let alone = r#"await runtime.Run(new Executable({ name: "app", argv: ["true"] }));"#;
    let alone = folder.file("alone.ts", alone);
    let refused = node.aurae(&["plan", &alone]).fails(1);
    assert!(refused.contains("app names no cell"), "{refused}");
    let applied = node.aurae(&["apply", &alone]).fails(1);
    assert!(applied.contains("names its cell"), "{applied}");
    // Where nothing was begun, nothing is said to stay.
    let throws = folder.file("throws.ts", "throw new Error('no');");
    let ended = node.aurae(&["apply", &throws]).fails(1);
    assert!(ended.contains("before its first change"), "{ended}");
    assert_eq!(node.aurae(&["ps", "-q"]).ok(), "");
}

#[test]
fn data_in_several_documents_is_declared_and_an_empty_file_is_refused() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    // Several documents are as many declarations, and an empty file is no wish to stop all.
    let several = "---\nkind: cell\nname: d\n--- # the second\nkind: executable\nname: d/a\n\
                   argv: [sleep, '1000']\n";
    let several = folder.file("several.yaml", several);
    let applied = node.aurae(&["apply", &several]).ok();
    assert!(applied.contains("set several: 2 × create"), "{applied}");
    let empty = node
        .aurae(&["plan", &folder.file("empty.yaml", "")])
        .fails(1);
    assert!(empty.contains("nothing is declared"), "{empty}");
    let foreign = "apiVersion: v1\nkind: Service\nmetadata: { name: x }\n";
    let foreign = node
        .aurae(&["plan", &folder.file("foreign.yaml", foreign)])
        .fails(1);
    assert!(foreign.contains("aurae import"), "{foreign}");
    node.aurae(&["check", &several]).ok();
    node.aurae(&["set", "rm", "--yes", "several"]).ok();
}

#[test]
fn a_kept_plan_takes_no_more_options_and_goes_to_no_other_node() {
    let (Some(one), Some(other)) = (node(), node()) else {
        return;
    };
    let both = context("alice", &one) + &context("bob", &other);
    fs::write(one.path("both.toml"), both).unwrap();
    let aurae = |args: &[&str]| one.aurae_as("both.toml", args);
    aurae(&["config", "use-context", "alice"]).ok();
    let folder = Folder::new();
    let file = folder.file("k.ts", r#"await runtime.Run(new Cell({ name: "kept" }));"#);
    // What was readable for others isn't any more: a plan shows much of a node.
    let out = folder.file("k.plan", "");
    fs::set_permissions(&out, Permissions::from_mode(0o644)).unwrap();
    aurae(&["plan", "--out", &out, &file]).ok();
    let mode = fs::metadata(&out).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for more in [
        &["--target", "x"][..],
        &["--adopt"],
        &["--set", "x"],
        &["--prune=false"],
        &["--values", &file],
        &["argument"],
    ] {
        let args = [&["apply", out.as_str()][..], more].concat();
        let refused = aurae(&args).fails(2);
        assert!(
            refused.contains("can't be combined with a saved plan"),
            "{refused}"
        );
    }
    // Two nodes with nothing on them look alike.
    aurae(&["config", "use-context", "bob"]).ok();
    let refused = aurae(&["apply", &out]).fails(1);
    assert!(refused.contains("made for the context"), "{refused}");
    for node in [&one, &other] {
        assert_eq!(node.aurae(&["ps", "-q"]).ok(), "");
    }
    aurae(&["config", "use-context", "alice"]).ok();
    aurae(&["apply", &out]).ok();
    assert_eq!(one.aurae(&["ps", "-o", "name"]).ok(), "kept\n");
    one.aurae(&["rm", "-rf", "kept"]).ok();
}
