// SPDX-License-Identifier: Apache-2.0
//! The volumes of pods on a real node: in memory within the tenant's quota, on the disk, folders of
//! the node, and files that change while the pod runs. Among the containers are hostile ones.

use std::time::{Duration, Instant};

use api::pod::v0 as wire;
use api::status::{Reason, from_status};
use api::tenant::v0::{Quotas, SetRequest};
use wire::volume::Source;
use wire::{Phase, WaitFor};

use crate::caller::Person;
use crate::node::TestNode;
use crate::pods::{
    EXITED, IMAGE, SOON, assert_clean, at, busybox, container, exec, get, logs, people, pods,
    reason, remove, run, spec, until,
};

/// A pod's volume `shared` in memory, of so many bytes.
fn memory(size_bytes: u64) -> Option<Source> {
    Some(Source::Empty(wire::EmptyVolume {
        size_bytes: Some(size_bytes),
        ..Default::default()
    }))
}

fn with_memory(containers: Vec<wire::Container>, size_bytes: u64) -> wire::PodSpec {
    wire::PodSpec {
        volumes: vec![wire::Volume {
            name: "shared".to_owned(),
            source: memory(size_bytes),
        }],
        ..spec(containers)
    }
}

async fn set_tmpfs(administrator: &Person, tenant: &str, amount: &str) {
    let quotas = Quotas {
        tmpfs: Some(amount.to_owned()),
        ..Default::default()
    };
    let request = SetRequest {
        name: tenant.to_owned(),
        quotas: Some(quotas),
    };
    administrator.node.tenant().set(request).await.unwrap();
}

/// How many file systems are mounted below the node's folder.
fn mounted(node: &TestNode) -> usize {
    let all = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let pods = node.with_pods().state().join("pods");
    let pods = pods.display().to_string();
    all.lines().filter(|line| line.contains(&pods)).count()
}

/// So many are left of those that a removal has taken away, which the kernel may do a moment later.
fn assert_left(node: &TestNode, count: usize) {
    let begun = Instant::now();
    loop {
        let left = mounted(node);
        if left == count {
            return;
        }
        assert!(begun.elapsed() < SOON, "left: {left}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const MIB: u64 = 1 << 20;

crate::pods::in_each_class! {
    a_members_volumes_are_in_memory_have_a_size_and_count_in_its_quota,
    a_group_has_the_volumes_of_its_pod_and_none_is_left_where_a_node_ends,
    files_change_together_while_a_pod_runs_and_parts_stay_as_they_were,
    containers_share_memory_where_a_volume_is_mounted_for_it,
}

async fn a_members_volumes_are_in_memory_have_a_size_and_count_in_its_quota(mut node: TestNode) {
    let administrator = node.administrator().await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    set_tmpfs(&administrator, "acme", "24Mi").await;
    // It takes all that there is, wants more, and a size of its own.
    let greedy = "dd if=/dev/zero of=/mnt/all bs=1M count=99 2>/dev/null && exit 9
        mount -o remount,size=1g /mnt 2>/dev/null && exit 8
        [ $(stat -c %s /mnt/all) -le 16777216 ] || exit 7
        rm /mnt/all; echo kept > /mnt/word; mkdir -p /mnt/a/b/c";
    let mut init = container("greedy", greedy);
    init.add_capabilities = vec!["SYS_ADMIN".to_owned()];
    let spec = wire::PodSpec {
        init_containers: vec![init],
        ..with_memory(
            vec![container("app", "while :; do sleep 1; done")],
            16 * MIB,
        )
    };
    let status = run(&mia, "web", spec, WaitFor::Ready).await.unwrap();
    assert!(status.ready, "{status:#?}");
    assert_eq!(mounted(&node), 1);
    // What it may have is taken, by size, not by what is in it; also for the next daemon.
    node.kill_daemon();
    let mia = Person::new(mia.target.clone(), mia.serial.clone()).await;
    assert_eq!(
        exec(&mia, "web/app", "grep -q kept /mnt/word").await,
        EXITED
    );
    let more = with_memory(vec![container("app", "true")], 16 * MIB);
    let refused = run(&mia, "more", more.clone(), WaitFor::Ended).await;
    let refused = from_status(&refused.unwrap_err());
    assert_eq!(refused.reason, Some(Reason::LimitExceeded), "{refused:?}");
    assert_eq!(refused.field.as_deref(), Some("pod.spec.volumes"));
    // Another tenant has its own.
    let eve = Person::new(eve.target.clone(), eve.serial.clone()).await;
    let status = run(&eve, "more", more.clone(), WaitFor::Ended).await;
    assert_eq!(status.unwrap().phase(), Phase::Succeeded);
    remove(&mia, "web", true).await.unwrap();
    assert_left(&node, 1);
    let status = run(&mia, "more", more, WaitFor::Ended).await.unwrap();
    assert_eq!(status.phase(), Phase::Succeeded, "{status:#?}");
    remove(&mia, "more", false).await.unwrap();
    remove(&eve, "more", false).await.unwrap();
    assert_left(&node, 0);
    assert_clean(&node);
    node.stop();
}

async fn a_group_has_the_volumes_of_its_pod_and_none_is_left_where_a_node_ends(node: TestNode) {
    let administrator = node.administrator().await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let script = "[ $(stat -c %g:%a /mnt) = 2000:2777 ] && touch /mnt/a
        [ $(stat -c %u:%g /mnt/a) = 1000:2000 ] && id -G | grep -qw 2000";
    let mut app = container("app", script);
    app.user = "1000".to_owned();
    let spec = wire::PodSpec {
        fs_group: Some(2000),
        ..with_memory(vec![app], MIB)
    };
    let status = run(&mia, "group", spec, WaitFor::Ended).await.unwrap();
    assert_eq!(status.phase(), Phase::Succeeded, "{status:#?}");
    let lasting = with_memory(vec![container("app", "sleep 900")], MIB);
    run(&mia, "web", lasting, WaitFor::Ready).await.unwrap();
    assert_eq!(mounted(&node), 2);
    let folder = node.with_pods().state();
    node.stop();
    // The folder went with the node, which nothing mounted in it allows.
    assert!(!folder.exists(), "{}", folder.display());
}

fn files(list: &[(&str, &str)]) -> Option<Source> {
    let pairs = list.iter();
    let pairs = pairs.map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    Some(Source::Files(wire::FilesVolume {
        files: pairs.collect(),
        ..Default::default()
    }))
}

async fn update(person: &Person, path: &str, spec: wire::PodSpec) -> Result<(), tonic::Status> {
    let request = wire::UpdateRequest {
        pod: Some(wire::Pod {
            r#ref: at(path),
            spec: Some(spec),
            ..Default::default()
        }),
    };
    pods(person).update(request).await.map(drop)
}

async fn files_change_together_while_a_pod_runs_and_parts_stay_as_they_were(mut node: TestNode) {
    let administrator = node.administrator().await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let mut app = container("app", "echo begun; while :; do sleep 1; done");
    app.mounts.push(wire::VolumeMount {
        volume: "shared".to_owned(),
        path: "/srv/part".to_owned(),
        sub_path: "conf/a".to_owned(),
        ..Default::default()
    });
    let mut spec = spec(vec![app]);
    spec.volumes[0].source = files(&[("conf/a", "1"), ("b", "1")]);
    run(&mia, "web", spec.clone(), WaitFor::Ready)
        .await
        .unwrap();
    let both = |one: u32| format!("[ $(cat /mnt/conf/a)$(cat /mnt/b) = {one}{one} ]");
    assert_eq!(exec(&mia, "web/app", &both(1)).await, EXITED);
    spec.volumes[0].source = files(&[("conf/a", "2"), ("b", "2"), ("new", "2")]);
    update(&mia, "web", spec.clone()).await.unwrap();
    let look = format!("{} && [ $(cat /mnt/new) = 2 ]", both(2));
    assert_eq!(exec(&mia, "web/app", &look).await, EXITED);
    assert_eq!(
        exec(&mia, "web/app", "[ $(cat /srv/part) = 1 ]").await,
        EXITED
    );
    let writes = "! touch /mnt/c && ! rm /mnt/b && ! rm -r /mnt/..data";
    assert_eq!(exec(&mia, "web/app", writes).await, EXITED);
    let again = get(&mia, "web").await;
    assert_eq!(again.spec.unwrap().volumes, spec.volumes);
    assert_eq!(again.containers[0].restarts, 0);
    // Of what can't be changed nothing is.
    let mut other = spec.clone();
    other.containers[0].stdin = true;
    other.volumes[0].source = files(&[("conf/a", "3")]);
    let refused = from_status(&update(&mia, "web", other).await.unwrap_err());
    assert_eq!(refused.field.as_deref(), Some("pod.spec.containers[0]"));
    node.kill_daemon();
    let mia = Person::new(mia.target.clone(), mia.serial.clone()).await;
    assert_eq!(exec(&mia, "web/app", &look).await, EXITED);
    assert_eq!(logs(&mia, "web/app/main").await, "begun\n");
    let stop = wire::StopRequest {
        r#ref: at("web"),
        grace: Some(prost_types::Duration::default()),
    };
    pods(&mia).stop(stop).await.unwrap();
    let ended = update(&mia, "web", spec).await.unwrap_err();
    assert_eq!(reason(&ended), Some(Reason::WrongState), "{ended}");
    remove(&mia, "web", false).await.unwrap();
    assert_clean(&node);
    node.stop();
}

/// A folder of the node, with the owner that a pod acts as.
fn owned(path: &std::path::Path, owner_uid: u32) -> Option<Source> {
    Some(Source::Host(wire::HostVolume {
        path: path.display().to_string(),
        r#type: wire::host_volume::Type::Folder.into(),
        owner_uid: Some(owner_uid),
        ..Default::default()
    }))
}

#[tokio::test]
async fn a_folder_of_the_node_is_written_as_the_owner_that_an_administrator_names() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce_administrator(&node, "ann").await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let folder = node.folder().join("owned");
    std::fs::create_dir_all(folder.join("part")).unwrap();
    for path in [&folder, &folder.join("part")] {
        std::os::unix::fs::chown(path, Some(1234), Some(1234)).unwrap();
    }
    // No program of the pod gives a file of the node a set-id bit, whatever it may do there.
    let writes = "echo word > /mnt/a && echo word > /srv/part/b || exit 1
        [ $(stat -c %u /mnt/a) = 0 ] && cp /bin/busybox /mnt/c || exit 2
        ! chmod 4755 /mnt/c && ! touch /srv/read/d";
    let mut app = container("app", writes);
    app.add_capabilities = vec!["ALL".to_owned()];
    for (path, sub_path, read_only) in [("/srv/part", "part", false), ("/srv/read", "", true)] {
        app.mounts.push(wire::VolumeMount {
            volume: "shared".to_owned(),
            path: path.to_owned(),
            sub_path: sub_path.to_owned(),
            read_only,
            ..Default::default()
        });
    }
    let mut pod = spec(vec![app]);
    pod.volumes[0].source = owned(&folder, 1234);
    let refused = run(&mia, "web", pod.clone(), WaitFor::Ended).await;
    let refused = from_status(&refused.unwrap_err());
    assert_eq!(refused.reason, Some(Reason::PermissionDenied));
    let status = run(&ann, "web", pod, WaitFor::Ended).await.unwrap();
    let said = logs(&ann, "web").await;
    assert_eq!(status.phase(), Phase::Succeeded, "{said} {status:#?}");
    for path in ["a", "part/b", "c"] {
        use std::os::unix::fs::MetadataExt;
        let of = std::fs::metadata(folder.join(path)).unwrap();
        assert_eq!((of.uid(), of.gid()), (1234, 1234), "{path}");
        assert_eq!(of.mode() & 0o6000, 0, "{path}");
    }
    remove(&ann, "web", false).await.unwrap();
    assert_clean(&node);
    node.stop();
}

#[tokio::test]
async fn folders_of_the_node_and_volumes_on_its_disk_are_made_where_asked_for() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce_administrator(&node, "ann").await;
    let new = node.folder().join("made/by/a/pod");
    let host = |kind: wire::host_volume::Type, path: &std::path::Path| {
        Some(Source::Host(wire::HostVolume {
            path: path.display().to_string(),
            r#type: kind.into(),
            ..Default::default()
        }))
    };
    let mut made = spec(vec![container("app", "ls /mnt && ! touch /mnt/a")]);
    made.volumes[0].source = host(wire::host_volume::Type::FolderOrCreate, &new);
    let status = run(&ann, "made", made.clone(), WaitFor::Ended).await;
    assert_eq!(status.unwrap().phase(), Phase::Succeeded);
    assert!(new.is_dir());
    // A folder is no file.
    made.volumes[0].source = host(wire::host_volume::Type::FileOrCreate, &new);
    run(&ann, "no", made, WaitFor::Created).await.unwrap();
    let refused = |status: &wire::PodStatus| !status.containers[0].message.is_empty();
    let status = until(&ann, "no", "refused", refused).await;
    assert!(
        status.containers[0].message.contains("regular file"),
        "{status:#?}"
    );
    let disk = Some(Source::Empty(wire::EmptyVolume {
        medium: wire::empty_volume::Medium::Disk.into(),
        size_bytes: None,
    }));
    let mut deep = spec(vec![container(
        "app",
        "mkdir -p /mnt/a/b/c/d && touch /mnt/a/b/e",
    )]);
    deep.volumes[0].source = disk;
    let status = run(&ann, "deep", deep, WaitFor::Ended).await.unwrap();
    assert_eq!(status.phase(), Phase::Succeeded, "{status:#?}");
    for path in ["made", "no", "deep"] {
        remove(&ann, path, true).await.unwrap();
    }
    assert_clean(&node);
    node.stop();
}

/// A volume in memory at `/dev/shm` is what programs of a pod share by `shm_open`, and of the size
/// that the pod says.
async fn containers_share_memory_where_a_volume_is_mounted_for_it(node: TestNode) {
    let (_, ann) = people(&node).await;
    crate::images::import(&ann, &busybox()).await.unwrap();
    let sharing = |name: &str, image: &str| {
        let mut sharing = container(name, "while :; do busybox sleep 1; done");
        sharing.image = image.to_owned();
        sharing.mounts[0].path = "/dev/shm".to_owned();
        sharing
    };
    let pod = spec(vec![sharing("of-node", ""), sharing("of-image", IMAGE)]);
    run(&ann, "web", pod, WaitFor::Ready).await.unwrap();
    let write = "busybox grep -q ' /dev/shm tmpfs ' /proc/mounts && echo ours > /dev/shm/x";
    assert_eq!(exec(&ann, "web/of-image", write).await, EXITED);
    let read = "[ $(cat /dev/shm/x) = ours ]";
    assert_eq!(exec(&ann, "web/of-node", read).await, EXITED);
    // Nothing else of /dev can be covered.
    for path in ["/dev", "/dev/shm/x", "/dev/pts"] {
        let mut wrong = sharing("app", "");
        wrong.mounts[0].path = path.to_owned();
        let refused = run(&ann, "wrong", spec(vec![wrong]), WaitFor::Created).await;
        let refused = from_status(&refused.unwrap_err());
        let field = Some("pod.spec.containers[0].mounts[0].path");
        assert_eq!(refused.field.as_deref(), field, "{path}: {refused:?}");
    }
    remove(&ann, "web", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}
