// SPDX-License-Identifier: Apache-2.0
//! Stories of slips that would pass for a plan with nothing to do, or for a wish to stop all.

use super::{Folder, node};

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
    assert!(
        node.aurae(&["check", &several])
            .fails(2)
            .contains("aurae plan")
    );
    node.aurae(&["set", "rm", "--yes", "several"]).ok();
}
