// SPDX-License-Identifier: Apache-2.0
//! A node that goes down: its pods end first, with their hooks and graces, then the other cells.

use std::path::Path;

use api::pod::v0 as wire;
use api::runtime::v0 as runtime;
use wire::{Phase, WaitFor};

use crate::caller::Person;
use crate::node::TestNode;
use crate::pods::{at, container, get, has_said, logs, run, shell, spec, until};

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

crate::pods::in_each_class! {
    a_pod_that_outlives_its_deadline_fails_also_where_the_daemon_dies_before,
}

/// The program ends well when it is asked, and would be started again. The daemon dies before.
async fn a_pod_that_outlives_its_deadline_fails_also_where_the_daemon_dies_before(
    mut node: TestNode,
) {
    let administrator = node.administrator().await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let stays = "trap 'echo asked; exit 0' TERM; echo begun; while :; do sleep 0.1; done";
    let within = |seconds: i64| wire::PodSpec {
        active_deadline: Some(crate::pods::seconds(seconds)),
        ..spec(vec![container("app", stays)])
    };
    run(&mia, "late", within(4), WaitFor::Ready).await.unwrap();
    run(&mia, "long", within(3600), WaitFor::Ready)
        .await
        .unwrap();
    node.kill_daemon();
    let mia = Person::new(mia.target.clone(), mia.serial.clone()).await;
    let failed = |status: &wire::PodStatus| status.phase() == Phase::Failed;
    let status = until(&mia, "late", "failed", failed).await;
    assert_eq!(status.containers[0].restarts, 0, "{status:#?}");
    let told = |event: &wire::Event| event.message.starts_with("DeadlineExceeded");
    assert_eq!(
        status.events.iter().filter(|it| told(it)).count(),
        1,
        "{status:#?}"
    );
    assert!(logs(&mia, "late/app/main").await.contains("asked"));
    // One more daemon finds it as it is, and the other pod goes on.
    node.kill_daemon();
    let mia = Person::new(mia.target.clone(), mia.serial.clone()).await;
    assert_eq!(get(&mia, "late").await.phase(), Phase::Failed);
    let other = get(&mia, "long").await;
    assert_eq!(
        (other.phase(), other.ready),
        (Phase::Running, true),
        "{other:#?}"
    );
    node.stop();
}
