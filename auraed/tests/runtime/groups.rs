// SPDX-License-Identifier: Apache-2.0
//! Stories of where the groups of cell-inits are, under node-inits of before too, and of what an
//! ordered end leaves of the tenants' groups.

use std::path::Path;

use model::lifecycle::State;
use testkit::until;

use crate::host::Node;
use crate::stories::sh;

/// The group that the init of a cell is in.
fn group_of_init(node: &Node, path: &str) -> String {
    let cell = node.client().get(path);
    let model::status::Object::Cell(cell) = cell else {
        panic!("{path} is not a cell")
    };
    let pid = i32::try_from(cell.pid.unwrap()).unwrap();
    kernel::cgroup::find::group_of_process(pid).unwrap()
}

pub(crate) fn inits_of_before_are_adopted_and_new_ones_are_outside(name: &str) {
    let node = Node::start(name);
    let all = node.base().join("_inits");
    // A node-init of before makes no such group.
    node.kill_daemon_while(|| std::fs::remove_dir(&all).unwrap());
    let mut daemon = node.client();
    daemon.cell("before");
    daemon.cell("before/in");
    daemon.start("before/job", &["/bin/sleep", "1000"]);
    for cell in ["before", "before/in"] {
        let group = group_of_init(&node, cell);
        assert!(group.ends_with("tenants/acme/_inits"), "{group}");
    }
    // And the one that comes with the next version does.
    node.kill_daemon_while(|| std::fs::create_dir(&all).unwrap());
    let mut daemon = node.client();
    assert_eq!(daemon.get("before/job").state(), State::Running);
    daemon.cell("after");
    daemon.cell("before/after");
    for cell in ["after", "before/after"] {
        let group = group_of_init(&node, cell);
        assert!(group.ends_with("/_inits/acme"), "{group}");
        assert!(!group.contains("tenants"), "{group}");
        daemon.start(&format!("{cell}/job"), &["/bin/sleep", "1000"]);
    }
    node.kill_daemon();
    let mut daemon = node.client();
    for path in [
        "before",
        "before/in",
        "before/job",
        "after/job",
        "before/after/job",
    ] {
        assert_eq!(daemon.get(path).state(), State::Running, "{path}");
    }
    let ended = daemon.run("before/again", &sh("exit 7"));
    assert_eq!(ended.exit.unwrap().how, model::exit::How::Code(7));
    daemon.stop("before", None);
    daemon.stop("after", None);
}

fn empty(folder: &Path) -> bool {
    !folder.exists()
}

pub(crate) fn an_ordered_end_leaves_no_group_of_a_tenant(name: &str) {
    let mut node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("web");
    daemon.cell("web/idle");
    daemon.start("web/job", &["/bin/sleep", "1000"]);
    drop(daemon);
    assert!(node.cgroup().join("acme/web").exists());
    node.end_in_order();
    until("the groups are gone", || empty(node.cgroup()));
    assert!(empty(&node.base().join("_inits")));
}
