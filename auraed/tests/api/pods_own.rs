// SPDX-License-Identifier: Apache-2.0
//! What containers of pods have of their own or in common, as users of Kubernetes ask for it: the
//! size of a root, users that are not root, processes, facts, probes.

use api::pod::v0 as wire;
use wire::{Phase, WaitFor};

use crate::node::TestNode;
use crate::pods::{
    IMAGE, assert_clean, busybox, container, people, remove, run, spec,
};

fn of_image(name: &str, script: &str) -> wire::Container {
    wire::Container {
        image: IMAGE.to_owned(),
        mounts: Vec::new(),
        ..container(name, script)
    }
}

#[tokio::test]
async fn a_root_has_its_size_and_a_container_that_must_not_be_root_isnt() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let (_, ann) = people(&node).await;
    crate::images::import(&ann, &busybox()).await.unwrap();
    let fills = "busybox dd if=/dev/zero of=/all bs=1M count=64 2>/dev/null && exit 9
        busybox test $(busybox stat -c %s /all) -le 8388608";
    let mut small = of_image("app", &format!("export PATH=/bin; {fills}"));
    small.root_bytes = Some(8 << 20);
    let status = run(&ann, "small", spec(vec![small]), WaitFor::Ended).await;
    let status = status.unwrap();
    assert_eq!(status.phase(), Phase::Succeeded, "{status:#?}");
    // The image says no user, which is root.
    let mut root = of_image("app", "exit 0");
    root.non_root = true;
    let mut user = root.clone();
    user.user = "1000".to_owned();
    let status = run(&ann, "user", spec(vec![user]), WaitFor::Ended).await;
    let status = status.unwrap();
    assert_eq!(status.phase(), Phase::Succeeded, "{status:#?}");
    let status = run(&ann, "root", spec(vec![root]), WaitFor::Ended).await;
    let status = status.unwrap();
    assert_eq!(status.phase(), Phase::Failed, "{status:#?}");
    let message = &status.containers[0].message;
    assert!(
        message.contains("non_root") && message.contains("the image's user is root"),
        "{message}"
    );
    for path in ["small", "user", "root"] {
        remove(&ann, path, false).await.unwrap();
    }
    assert_clean(&node);
    node.stop();
}
