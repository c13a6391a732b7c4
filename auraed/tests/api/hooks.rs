// SPDX-License-Identifier: Apache-2.0
//! Hooks of containers: when they run and where, what they find, what becomes of a container whose
//! hook fails or hangs, who may have them, and what is owed when the daemon dies.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use api::runtime::v0 as wire;
use api::status::{Failure, Reason, from_status};
use serde_json::Value;
use wire::hook::Kind;

use crate::caller::Person;
use crate::containers::{at, cast, cell_of, container, request, script, with_image};
use crate::node::TestNode;
use crate::pods::until_logged;

/// What is begun has happened by then.
const SOON: Duration = Duration::from_secs(30);

/// A folder that hooks write to, whoever they are.
struct Diary(PathBuf);

impl Diary {
    fn of(node: &TestNode) -> Diary {
        let folder = node.folder().join("diary");
        std::fs::create_dir_all(&folder).unwrap();
        let open = |path: &Path, mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path, mode).unwrap();
        };
        open(&folder, 0o777);
        open(node.folder(), 0o755);
        Diary(folder)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }

    async fn until(&self, name: &str, wanted: &str) {
        let begun = Instant::now();
        while self.read(name) != wanted {
            let now = self.read(name);
            assert!(
                begun.elapsed() < SOON,
                "{name} says {now:?}, not {wanted:?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// A shell of the node. `$B` is the bundle, `$D` this folder; what it has read is in `state`.
    fn hook(&self, kind: Kind, text: &str) -> wire::Hook {
        let state = "S=$(cat); B=$(echo \"$S\" | sed 's/.*\"bundle\":\"\\([^\"]*\\)\".*/\\1/')";
        let whole = format!("set -e; {state}; {text}");
        wire::Hook {
            kind: kind.into(),
            path: "/bin/sh".to_owned(),
            argv: ["hook", "-c", &whole].map(str::to_owned).to_vec(),
            env: [("D".to_owned(), self.0.to_string_lossy().into_owned())].into(),
            timeout: None,
        }
    }
}

fn hooked(hooks: Vec<wire::Hook>) -> wire::CellSpec {
    cell_of(wire::Container {
        hooks,
        ..container()
    })
}

async fn begin(
    person: &Person,
    cell: wire::CellSpec,
    spec: wire::ExecutableSpec,
) -> Result<wire::ExecutableStatus, Failure> {
    let mut asked = request("box/main", spec);
    asked.own_cell = Some(cell);
    asked.wait_for = wire::WaitFor::Started.into();
    let begun = person.node.runtime().run_executable(asked).await;
    begun
        .map(tonic::Response::into_inner)
        .map_err(|status| from_status(&status))
}

async fn remove(person: &Person) {
    let remove = wire::RemoveRequest {
        r#ref: at("box"),
        recursive: true,
        force: true,
    };
    person.node.runtime().remove(remove).await.unwrap();
}

fn bundles(node: &TestNode) -> usize {
    let folder = std::fs::read_dir(node.folder().join("run/hooks"));
    folder.map_or(0, Iterator::count)
}

fn waits() -> &'static str {
    "trap 'exit 0' TERM; while :; do busybox sleep 0.1; done"
}

/// A hook of each moment, in another order than that of the moments.
fn one_of_each(diary: &Diary) -> Vec<wire::Hook> {
    let spaces = "for it in net ipc uts cgroup user mnt; do readlink /proc/self/ns/$it; done";
    vec![
        diary.hook(
            Kind::Poststop,
            "echo \"$S\" >$D/poststop; echo poststop >>$D/order",
        ),
        diary.hook(
            Kind::CreateContainer,
            &format!(
                "[ $(id -u) = 0 ]; echo by-container >$B/rootfs/etc/by-container; \
                 ! mount -t tmpfs none $B/rootfs/tmp 2>/dev/null; \
                 {{ {spaces}; }} >$D/inside; echo createContainer >>$D/order"
            ),
        ),
        diary.hook(
            Kind::CreateRuntime,
            &format!(
                "[ $(id -u) = 0 ]; test -x $B/rootfs/bin/busybox; grep -q rootfs $B/config.json; \
                 echo by-node >$B/rootfs/etc/by-node; echo \"$S\" >$D/createRuntime; \
                 {{ {spaces}; }} >$D/beside; echo createRuntime >>$D/order; chmod 666 $D/order"
            ),
        ),
        diary.hook(Kind::CreateRuntime, "echo again >>$D/order"),
        diary.hook(
            Kind::Poststart,
            "echo \"$S\" >$D/poststart; echo poststart >>$D/order",
        ),
        wire::Hook {
            kind: Kind::StartContainer.into(),
            path: "/bin/busybox".to_owned(),
            argv: [
                "busybox",
                "sh",
                "-c",
                "(busybox cat; echo; echo $A) >/tmp/state",
            ]
            .map(str::to_owned)
            .to_vec(),
            env: [("A".to_owned(), "before".to_owned())].into(),
            timeout: None,
        },
    ]
}

#[tokio::test]
async fn hooks_run_at_their_moments_and_where_they_should() {
    let Some((node, administrator, _)) = cast().await else {
        return;
    };
    with_image(&administrator).await;
    let diary = Diary::of(&node);
    let hooks = one_of_each(&diary);
    let said = format!(
        "for it in net ipc uts user; do busybox readlink /proc/self/ns/$it; done >/etc/spaces; \
         busybox cat /etc/by-node /etc/by-container; busybox stat -c %u /etc/by-container; \
         busybox grep -c '\"pid\":1,' /tmp/state; busybox tail -n 1 /tmp/state; {}",
        waits()
    );
    let begun = begin(&administrator, hooked(hooks), script(&said))
        .await
        .unwrap();
    until_logged(
        &administrator,
        "box/main",
        "by-node\nby-container\n0\n1\nbefore\n",
    )
    .await;
    let order = "createRuntime\nagain\ncreateContainer\npoststart\n";
    diary.until("order", order).await;
    let state = |name: &str| serde_json::from_str::<Value>(&diary.read(name)).unwrap();
    let (early, late) = (state("createRuntime"), state("poststart"));
    assert_eq!(
        (&early["status"], &late["status"]),
        (&"creating".into(), &"running".into())
    );
    assert_eq!(late["pid"].as_u64(), Some(begun.pid.into()));
    assert_eq!(early["annotations"]["aurae.path"], "box");
    are_where_they_should_be(&diary, begun.pid);
    assert_eq!(bundles(&node), 1);
    remove(&administrator).await;
    diary.until("order", &format!("{order}poststop\n")).await;
    assert_eq!(state("poststop")["status"], "stopped");
    assert_eq!(bundles(&node), 0);
    assert!(!mounts_of_node(&node), "a root stays attached");
}

/// By what the hooks and the program have said of their namespaces.
fn are_where_they_should_be(diary: &Diary, pid: u32) {
    let node = |space: &str| {
        let link = std::fs::read_link(format!("/proc/self/ns/{space}")).unwrap();
        link.to_string_lossy().into_owned()
    };
    let program = std::fs::read_to_string(format!("/proc/{pid}/root/etc/spaces")).unwrap();
    let (beside, inside) = (diary.read("beside"), diary.read("inside"));
    let has = |said: &str, space: &str| said.lines().any(|line| line == space);
    for space in ["net", "ipc", "uts", "user"] {
        assert!(has(&beside, &node(space)), "{space}: {beside}");
        assert!(!has(&inside, &node(space)), "{space}: {inside}");
        let mut theirs = program.lines().filter(|line| line.starts_with(space));
        assert!(
            has(&inside, theirs.next().unwrap()),
            "{space}: {inside} {program}"
        );
    }
    // Mounts of its own, on the node as well.
    assert!(!has(&beside, &node("mnt")));
}

/// Whether the node's own mounts have something of hooks.
fn mounts_of_node(node: &TestNode) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.contains(&*node.folder().join("run/hooks").to_string_lossy())
}

#[tokio::test]
async fn a_container_whose_hook_fails_or_hangs_is_not_there() {
    let Some((node, administrator, ann)) = cast().await else {
        return;
    };
    with_image(&administrator).await;
    let diary = Diary::of(&node);
    let last = || diary.hook(Kind::Poststop, "echo gone >>$D/last");
    for kind in [Kind::CreateRuntime, Kind::CreateContainer] {
        let bad = diary.hook(kind, "echo no such thing >&2; exit 3");
        let error = begin(&administrator, hooked(vec![bad, last()]), script("true"));
        let error = error.await.unwrap_err();
        assert_eq!(error.reason, Some(Reason::WrongState), "{error:?}");
        assert_eq!(error.field.as_deref(), Some("own_cell.container.hooks"));
        assert!(error.message.contains("no such thing"), "{error:?}");
    }
    diary.until("last", "gone\ngone\n").await;
    // One that hangs is ended, with what it has begun; others begin meanwhile.
    let mut hangs = diary.hook(
        Kind::CreateRuntime,
        "sleep 1000 & echo $! >$D/pid; echo hangs >$D/hangs; wait",
    );
    hangs.timeout = Some(prost_types::Duration {
        seconds: 4,
        nanos: 0,
    });
    let hanging = tokio::spawn({
        let (person, cell) = (node.administrator().await, hooked(vec![hangs]));
        async move { begin(&person, cell, script("true")).await.unwrap_err() }
    });
    diary.until("hangs", "hangs\n").await;
    let how = crate::containers::run_in(&ann, cell_of(container()), script("true")).await;
    assert_eq!(how.unwrap(), crate::containers::WELL);
    assert!(!hanging.is_finished(), "the other one has waited");
    let error = hanging.await.unwrap();
    assert!(error.message.contains("killed"), "{error:?}");
    let sleeper = PathBuf::from("/proc").join(diary.read("pid").trim());
    // Who takes it from the kernel may do so a moment later.
    let begun = std::time::Instant::now();
    while sleeper.exists() {
        assert!(begun.elapsed() < crate::pods::SOON, "its child lives on");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let missing = wire::Hook {
        path: "/no/such".to_owned(),
        argv: Vec::new(),
        ..diary.hook(Kind::CreateRuntime, "")
    };
    let error = begin(&administrator, hooked(vec![missing]), script("true"));
    let error = error.await.unwrap_err();
    assert!(error.message.contains("/no/such"), "{error:?}");
    assert_eq!(bundles(&node), 0);
    // Before a start: the program doesn't begin. After it: nothing changes.
    let mut before = diary.hook(Kind::StartContainer, "");
    before.path = "/bin/busybox".to_owned();
    before.argv = ["busybox", "sh", "-c", "echo not yet; exit 4"]
        .map(str::to_owned)
        .to_vec();
    let error = begin(&administrator, hooked(vec![before]), script("true"))
        .await
        .unwrap_err();
    assert_eq!(error.reason, Some(Reason::WrongState), "{error:?}");
    assert!(error.message.contains("not yet"), "{error:?}");
    let after = diary.hook(Kind::Poststart, "echo after >$D/after; exit 5");
    begin(&administrator, hooked(vec![after]), script(waits()))
        .await
        .unwrap();
    diary.until("after", "after\n").await;
    let how = crate::containers::beside(&administrator, "true").await;
    assert_eq!(how, crate::containers::WELL);
    assert!(node.log().contains("a hook has failed"));
}

#[tokio::test]
async fn the_last_hooks_run_whatever_dies_in_between() {
    let Some((mut node, administrator, _)) = cast().await else {
        return;
    };
    with_image(&administrator).await;
    let diary = Diary::of(&node);
    let hooks = vec![
        diary.hook(Kind::Poststart, "echo started >>$D/starts"),
        diary.hook(
            Kind::Poststop,
            "echo gone >>$D/gone; sleep 2; echo late >>$D/late",
        ),
    ];
    begin(&administrator, hooked(hooks), script(waits()))
        .await
        .unwrap();
    diary.until("starts", "started\n").await;
    node.kill_daemon();
    let administrator = node.administrator().await;
    assert_eq!((bundles(&node), diary.read("gone")), (1, String::new()));
    // The next daemon has them, and dies while they run; so the one after that runs them again.
    let removing = tokio::spawn({
        let person = node.administrator().await;
        async move {
            let force = wire::RemoveRequest {
                r#ref: at("box"),
                recursive: true,
                force: true,
            };
            let _cut = person.node.runtime().remove(force).await;
        }
    });
    diary.until("gone", "gone\n").await;
    node.kill_daemon();
    let _administrator = (administrator, node.administrator().await);
    diary.until("gone", "gone\ngone\n").await;
    diary.until("late", "late\n").await;
    removing.await.unwrap();
    let begun = Instant::now();
    while bundles(&node) > 0 {
        assert!(begun.elapsed() < SOON, "the bundle stays");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn hooks_are_administrators_and_so_are_devices_that_bring_them() {
    let folder = tempfile::tempdir().unwrap();
    let cdi = format!("runtime.cdi=[{:?}]", folder.path());
    let Some(node) = TestNode::start_with(&["cell_network.enabled=false", &cdi]) else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    with_image(&administrator).await;
    with_image(&ann).await;
    let diary = Diary::of(&node);
    let written = diary.0.join("of-device").display().to_string();
    let device = serde_json::json!({
        "cdiVersion": "0.6.0", "kind": "example.com/disk",
        "devices": [{"name": "hooked", "containerEdits": {"hooks": [
            {"hookName": "createContainer", "path": "/bin/sh",
             "args": ["sh", "-c", "echo $WHOSE >$TO"],
             "env": ["WHOSE=device", format!("TO={written}")]}]}}],
    });
    std::fs::write(folder.path().join("disk.json"), device.to_string()).unwrap();
    let named = wire::Container {
        devices: vec![wire::Device {
            path: "example.com/disk=hooked".to_owned(),
            ..Default::default()
        }],
        ..container()
    };
    let own = hooked(vec![diary.hook(Kind::StartContainer, "true")]);
    for (cell, field) in [(own, "hooks"), (cell_of(named.clone()), "devices")] {
        let error = begin(&ann, cell, script("true")).await.unwrap_err();
        assert_eq!(error.reason, Some(Reason::PermissionDenied), "{error:?}");
        let field = format!("own_cell.container.{field}");
        assert_eq!(error.field, Some(field));
    }
    let unsaid = hooked(vec![wire::Hook {
        kind: Kind::Unspecified.into(),
        ..diary.hook(Kind::Poststop, "")
    }]);
    let error = begin(&administrator, unsaid, script("true"))
        .await
        .unwrap_err();
    let field = "own_cell.container.hooks[0].kind";
    assert_eq!(error.field.as_deref(), Some(field), "{error:?}");
    begin(&administrator, cell_of(named), script(waits()))
        .await
        .unwrap();
    assert_eq!(diary.read("of-device"), "device\n");
}
