// SPDX-License-Identifier: Apache-2.0
//! A node that goes down: its pods end first, with their hooks and graces, then the other cells.

use std::path::Path;

use api::pod::v0 as wire;
use api::runtime::v0 as runtime;
use wire::WaitFor;

use crate::node::TestNode;
use crate::pods::{at, container, has_said, run, shell, spec};

/// Everything that workloads have printed, of every tenant.
fn printed(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => text.push_str(&printed(&path)),
            false => {
                let bytes = std::fs::read(&path).unwrap_or_default();
                text.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
    }
    text
}

/// The number that stands after a word.
fn after(text: &str, word: &str) -> f64 {
    let rest = text.split(word).nth(1).unwrap_or_default();
    let number = rest.split_whitespace().next();
    let number = number.and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("{word} isn't followed by a number: {text:?}"))
}

#[tokio::test]
async fn pods_end_with_their_hooks_before_the_other_cells_when_the_node_goes_down() {
    let Some(mut node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let says = |word: &str| {
        let end = "read up idle < /proc/uptime; cat /mnt/hook 2>/dev/null";
        let end = format!("end() {{ {end}; echo {word} $up; exit 0; }}");
        format!("{end}; trap end TERM; echo begun; while :; do sleep 0.1; done")
    };
    let mut app = container("app", &says("pod-ended"));
    app.pre_stop = Some(wire::Hook {
        what: Some(wire::hook::What::Exec(wire::ExecAction {
            argv: shell("sleep 1; echo by-hook > /mnt/hook"),
        })),
    });
    run(&mia, "web", spec(vec![app]), WaitFor::Ready)
        .await
        .unwrap();
    let beside = runtime::RunExecutableRequest {
        executable: Some(runtime::Executable {
            r#ref: at("other/main"),
            spec: Some(runtime::ExecutableSpec {
                argv: shell(&says("cell-ended")),
                ..Default::default()
            }),
            ..Default::default()
        }),
        own_cell: Some(runtime::CellSpec::default()),
        ..Default::default()
    };
    mia.node.runtime().run_executable(beside).await.unwrap();
    has_said(&mia, "web/app/main").await;
    has_said(&mia, "other/main").await;
    node.end();
    let printed = printed(&node.state().join("logs"));
    let (pod, cell) = (after(&printed, "pod-ended"), after(&printed, "cell-ended"));
    assert!(pod <= cell, "{printed}");
    assert!(printed.contains("by-hook"), "{printed}");
    // Nor is a volume of it left on the machine.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let pods = node.state().join("pods").display().to_string();
    assert!(!mounts.contains(&pods), "{mounts}");
}
