// SPDX-License-Identifier: Apache-2.0
//! Parts of volumes that are made of variables (`subPathExpr`), on a real node, among containers
//! that would have them lead elsewhere.

use api::pod::v0 as wire;
use api::status::{Reason, from_status};
use wire::volume::Source;
use wire::{Phase, WaitFor};

use crate::caller::Person;
use crate::node::TestNode;
use crate::pods::{
    EXITED, assert_clean, at, container, exec, pods, reason, remove, run, spec, until,
};

fn text(name: &str, text: &str) -> wire::EnvVar {
    from(name, wire::env_var::From::Value(text.to_owned()))
}

fn from(name: &str, from: wire::env_var::From) -> wire::EnvVar {
    wire::EnvVar {
        name: name.to_owned(),
        from: Some(from),
    }
}

/// A container with a part of the volume `shared` at `/mnt`.
fn with_part(name: &str, script: &str, expr: &str, env: Vec<wire::EnvVar>) -> wire::Container {
    let mut container = container(name, script);
    for mount in &mut container.mounts {
        mount.sub_path_expr = expr.to_owned();
    }
    container.env = env;
    container
}

const GOES_ON: &str = "while :; do sleep 1; done";

crate::pods::in_each_class! {
    a_part_of_a_volume_is_made_of_variables_and_stays_with_its_container,
    a_part_that_is_none_of_its_volume_is_refused_before_anything_runs,
    a_part_leads_over_no_link_that_another_container_has_made,
}

async fn a_part_of_a_volume_is_made_of_variables_and_stays_with_its_container(mut node: TestNode) {
    let administrator = node.administrator().await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let fact = wire::env_var::From::Fact(wire::Fact::PodName.into());
    let env = vec![from("POD", fact), text("PART", "logs/$(POD)")];
    let app = with_part("app", GOES_ON, "$(PART)/$$(POD)", env);
    let mut whole = container("whole", GOES_ON);
    whole.mounts.push(wire::VolumeMount {
        volume: "conf".to_owned(),
        path: "/srv/conf".to_owned(),
        sub_path_expr: "$(FILE)".to_owned(),
        ..Default::default()
    });
    whole.env = vec![text("FILE", "in/a")];
    let mut pod = spec(vec![app, whole]);
    pod.volumes.push(wire::Volume {
        name: "conf".to_owned(),
        source: Some(Source::Files(wire::FilesVolume {
            files: [("in/a".to_owned(), "of-conf".to_owned())].into(),
            ..Default::default()
        })),
    });
    run(&mia, "web", pod, WaitFor::Ready).await.unwrap();
    assert_eq!(exec(&mia, "web/app", "echo word > /mnt/a").await, EXITED);
    let look = "grep -q word '/mnt/logs/web/$(POD)/a' && grep -q of-conf /srv/conf";
    assert_eq!(exec(&mia, "web/whole", look).await, EXITED);
    node.kill_daemon();
    let mia = Person::new(mia.target.clone(), mia.serial.clone()).await;
    assert_eq!(exec(&mia, "web/app", "grep -q word /mnt/a").await, EXITED);
    remove(&mia, "web", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}

async fn a_part_that_is_none_of_its_volume_is_refused_before_anything_runs(node: TestNode) {
    let administrator = node.administrator().await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let env = || vec![text("UP", ".."), text("ROOT", "/etc"), text("NONE", "")];
    let field = "mounts[0].sub_path_expr";
    for expr in [
        "$(UP)", "a/$(UP)", "$(ROOT)", "$(NONE)", "$(GONE)", "../a", "/$(UP)",
    ] {
        let pod = spec(vec![with_part("app", "true", expr, env())]);
        let refused = run(&mia, "no", pod, WaitFor::Ended).await.unwrap_err();
        assert_eq!(reason(&refused), Some(Reason::InvalidField), "{expr}");
        let expected = format!("pod.spec.containers[0].{field}");
        assert_eq!(
            from_status(&refused).field,
            Some(expected),
            "{expr}: {refused}"
        );
    }
    let mut both = with_part("app", "true", "a", Vec::new());
    both.mounts[0].sub_path = "a".to_owned();
    let refused = run(&mia, "no", spec(vec![both]), WaitFor::Ended).await;
    assert_eq!(reason(&refused.unwrap_err()), Some(Reason::InvalidField));
    // Nor has a container that is added one.
    let pod = spec(vec![container("app", GOES_ON)]);
    run(&mia, "web", pod, WaitFor::Ready).await.unwrap();
    let debug = wire::DebugRequest {
        r#ref: at("web"),
        container: Some(with_part("look", "true", "$(UP)", env())),
        ..Default::default()
    };
    let refused = from_status(&pods(&mia).debug(debug).await.unwrap_err());
    assert_eq!(
        refused.field,
        Some(format!("container.{field}")),
        "{refused:?}"
    );
    remove(&mia, "web", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}

async fn a_part_leads_over_no_link_that_another_container_has_made(node: TestNode) {
    let administrator = node.administrator().await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let links =
        "ln -s / /mnt/root && ln -s ../../.. /mnt/up && mkdir /mnt/in && ln -s /etc /mnt/in/etc";
    for (i, (target, says)) in [
        ("root", "symbolic link"),
        ("up", "symbolic link"),
        ("in/etc", "symbolic link"),
        ("root/etc", "symbolic link"),
    ]
    .into_iter()
    .enumerate()
    {
        let app = with_part("app", "true", "$(TO)", vec![text("TO", target)]);
        let pod = wire::PodSpec {
            init_containers: vec![container("evil", links)],
            ..spec(vec![app])
        };
        let name = format!("no-{i}");
        run(&mia, &name, pod, WaitFor::Created).await.unwrap();
        let refused = |status: &wire::PodStatus| !status.containers[0].message.is_empty();
        let status = until(&mia, &name, "refused", refused).await;
        let message = &status.containers[0].message;
        assert!(message.contains(says), "{target}: {message}");
        remove(&mia, &name, true).await.unwrap();
    }
    // What the pod hasn't got is known when the container is made: it gets no other part.
    let label = wire::env_var::From::Label("none".to_owned());
    let app = with_part("app", "true", "$(APP)", vec![from("APP", label)]);
    run(&mia, "none", spec(vec![app]), WaitFor::Created)
        .await
        .unwrap();
    let refused = |status: &wire::PodStatus| !status.containers[0].message.is_empty();
    let status = until(&mia, "none", "refused", refused).await;
    let message = &status.containers[0].message;
    assert!(
        message.contains("no part of the volume shared of $(APP)"),
        "{message}"
    );
    assert_ne!(status.phase(), Phase::Succeeded);
    remove(&mia, "none", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}
