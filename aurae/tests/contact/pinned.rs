// SPDX-License-Identifier: Apache-2.0
//! Work that is pinned to a node goes there, whatever the current context is.

use std::fs;

use super::super::bed::node;

#[test]
fn what_is_pinned_is_handed_to_the_node_by_its_context() {
    let Some(node) = node() else { return };
    let at = |name: &str| node.path(name).display().to_string();
    let pki = at("state/pki");
    let text = format!(
        "current-context = \"away\"\n\
         [nodes.away]\naddress = \"unix:///nowhere/aurae.sock\"\nca = \"{pki}/ca.pem\"\n\
         [nodes.there]\naddress = \"unix://{}\"\nca = \"{pki}/ca.pem\"\n\
         [users.me]\ncertificate = \"{pki}/admin.pem\"\nkey = \"{pki}/admin.key\"\n\
         [contexts.away]\nnode = \"away\"\nuser = \"me\"\n\
         [contexts.lab]\nnode = \"there\"\nuser = \"me\"\n",
        at("run/aurae.sock"),
    );
    fs::write(node.path("two.toml"), text).unwrap();
    let pin = |to: &str, name: &str| {
        let words = ["schedule", "pin", to, "--name", name, "--", "/bin/true"];
        node.aurae_as("two.toml", &words)
    };
    // By the context's name, and by that of its node.
    for (to, name) in [("lab", "first"), ("there", "second")] {
        assert_eq!(pin(to, name).ok(), format!("{name}\n"));
        let shown = node
            .aurae(&["schedule", "describe", name, "-o", "json"])
            .ok();
        assert!(shown.contains("\"node\": \"test\""), "{shown}");
    }
    // No context leads to that one: the current one is asked.
    let away = pin("elsewhere", "third").fails(1);
    assert!(away.contains("/nowhere/aurae.sock"), "{away}");
    let words = [
        "schedule",
        "pin",
        "elsewhere",
        "--name",
        "third",
        "--",
        "/bin/true",
    ];
    let refused = node.aurae(&words).fails(1);
    assert!(refused.contains("elsewhere"), "{refused}");
}
