// SPDX-License-Identifier: Apache-2.0
//! Finished records go when they are too old.

use testkit::until;

use crate::host::Node;

/// Nothing else ends meanwhile: the daemon looks by itself.
pub(crate) fn a_finished_record_goes_when_it_is_too_old(name: &str) {
    let node = Node::start(name);
    // For the next daemon.
    std::fs::write(node.dir().join("finished_age"), "1000").unwrap();
    node.kill_daemon();
    let mut daemon = node.client();
    daemon.cell("web");
    daemon.start("web/app", &["/bin/sleep", "1000"]);
    let ended = daemon.run("web/job", &["/bin/true"]).meta.uid;
    until("the finished record goes", || {
        let listed = daemon.list();
        listed.iter().all(|object| object.meta().uid != ended)
    });
    let left = daemon.list();
    let left: Vec<_> = left.iter().map(|o| o.meta().path.to_string()).collect();
    assert_eq!(left, ["web", "web/app"], "and nothing that lives");
    // Nor does the next daemon find it.
    node.kill_daemon();
    assert_eq!(node.client().list().len(), 2);
}
