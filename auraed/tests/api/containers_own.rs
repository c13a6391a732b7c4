// SPDX-License-Identifier: Apache-2.0
//! Containers whose main process keeps groups of its own, as systemd does: what it may there, and
//! that the container ends whole all the same. Profiles of AppArmor's, where there are none.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use api::runtime::v0 as wire;
use api::status::{Reason, from_status};

use crate::caller::Person;
use crate::containers::{
    WELL, at, beside, cast, cell_of, container, refused, request, run_in, script, with_image,
};
use crate::node::TestNode;

const SOON: Duration = Duration::from_secs(30);

/// What a main process does that means to be a system's manager: it leaves its group, and others
/// have theirs. It ends with what went wrong.
const MANAGES: &str = r#"
G=/sys/fs/cgroup
busybox mkdir -p $G/manager/below && echo 1 > $G/manager/cgroup.procs || exit 2
busybox grep -qx 0::/manager /proc/1/cgroup || exit 3
if echo 9 > $G/cgroup.max.descendants; then exit 4; fi
if echo 1 > $G/cgroup.freeze; then exit 5; fi
busybox mkdir $G/work || exit 6
busybox sleep 1000 &
echo $! > $G/work/cgroup.procs || exit 7
D=$G/work n=1
while busybox mkdir $D/d 2>/dev/null; do D=$D/d n=$((n + 1)); done
[ $n = 16 ] || exit 8
busybox mkdir "$(busybox printf "$G/strange-\377")" || exit 9
busybox touch /tmp/ready
while :; do busybox sleep 1; done
"#;

fn delegated() -> wire::CellSpec {
    cell_of(wire::Container {
        delegate_cgroup: true,
        ..container()
    })
}

/// The groups of that name below a folder.
fn groups_named(folder: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if entry.file_name() == name {
                found.push(entry.path());
            }
            found.extend(groups_named(&entry.path(), name));
        }
    }
    found
}

/// Until what is asked beside the main process is so.
async fn becomes(person: &Person, text: &str) {
    let begun = Instant::now();
    while beside(person, &format!("PATH=/bin; {text}")).await != WELL {
        assert!(begun.elapsed() < SOON, "it never came to {text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn signal_all(person: &Person, signal: &str) {
    let signal = wire::SignalRequest {
        r#ref: at("box/main"),
        signal: signal.to_owned(),
        all_processes: true,
    };
    person.node.runtime().signal(signal).await.unwrap();
}

#[tokio::test]
async fn a_main_process_keeps_groups_where_it_may_and_its_container_ends_whole() {
    let Some((mut node, _, ann)) = cast().await else {
        return;
    };
    // Nothing is writable where it wasn't asked for.
    let tries = "! busybox mkdir /sys/fs/cgroup/x 2>/dev/null";
    let how = run_in(&ann, cell_of(container()), script(tries)).await;
    assert_eq!(how.unwrap(), WELL);
    let administrator = node.administrator().await;
    with_image(&administrator).await;
    let mut asked = request("box/main", script(MANAGES));
    asked.own_cell = Some(delegated());
    asked.wait_for = wire::WaitFor::Started.into();
    let mut runtime = administrator.node.runtime();
    runtime.run_executable(asked).await.unwrap();
    becomes(&administrator, "[ -e /tmp/ready ]").await;
    let managers = groups_named(&node.group(), "manager");
    assert_eq!(managers.len(), 1, "{managers:?}");
    // The next daemon knows it, and reaches what has left its group.
    node.kill_daemon();
    let administrator = node.administrator().await;
    let sleeps = "busybox ps -o args | busybox grep -qx 'busybox sleep 1000'";
    becomes(&administrator, sleeps).await;
    signal_all(&administrator, "HUP").await;
    becomes(&administrator, &format!("! {{ {sleeps}; }}")).await;
    ends_whole(&node, &administrator).await;
}

async fn ends_whole(node: &TestNode, person: &Person) {
    let stop = wire::StopRequest {
        r#ref: at("box"),
        grace: Some(prost_types::Duration::default()),
    };
    person.node.runtime().stop(stop).await.unwrap();
    let begun = Instant::now();
    loop {
        let left = groups_named(&node.group(), "box");
        if left.is_empty() {
            return;
        }
        assert!(begun.elapsed() < SOON, "{left:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn groups_of_its_own_need_an_image_and_a_cgroup_namespace() {
    let Some((_node, _, ann)) = cast().await else {
        return;
    };
    let field = |status: &tonic::Status| from_status(status).field;
    let mut shared = delegated();
    shared.share = vec![wire::Namespace::Cgroup.into()];
    let mut bare = delegated();
    bare.container.get_or_insert_default().image = String::new();
    bare.container.get_or_insert_default().pull = 0;
    for spec in [shared, bare] {
        let status = run_in(&ann, spec, script("true")).await.unwrap_err();
        let field = field(&status).unwrap_or_default();
        assert!(field.ends_with("container.delegate_cgroup"), "{field}");
    }
}

#[tokio::test]
async fn a_profile_that_can_not_be_had_is_refused_and_nothing_is_left() {
    let Some((_node, _, ann)) = cast().await else {
        return;
    };
    let enabled = std::fs::read("/sys/module/apparmor/parameters/enabled");
    let expected = match enabled.is_ok_and(|text| text.first() == Some(&b'Y')) {
        true => Reason::InvalidField,
        false => Reason::Unsupported,
    };
    let mut main = script("true");
    main.apparmor_profile = "no-such-profile".to_owned();
    let mut asked = request("box/main", main);
    asked.own_cell = Some(cell_of(container()));
    let mut runtime = ann.node.runtime();
    let status = runtime.run_executable(asked).await.unwrap_err();
    let (reason, message) = refused(&status);
    assert_eq!(reason, Some(expected), "{message}");
    assert!(message.contains("no-such-profile"), "{message}");
    let field = from_status(&status).field;
    assert_eq!(
        field.as_deref(),
        Some("executable.spec.apparmor_profile"),
        "{message}"
    );
    let list = runtime.list(wire::ListRequest::default()).await;
    assert_eq!(list.unwrap().into_inner().objects, []);
}
