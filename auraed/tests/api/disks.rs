// SPDX-License-Identifier: Apache-2.0
//! Disks that workloads have of their own: a container's root and a pod's empty volume on the
//! node's disk, their bound, whose they are, and that nothing is left of them.

use std::fs;

use api::pod::v0 as pod;
use api::runtime::v0 as wire;
use api::status::{Failure, Reason, from_status};
use api::tenant::v0::Quotas;
use testkit::soon;

use crate::caller::Person;
use crate::containers::{WELL, at, beside, cast, cell_of, container, request, run_in, script};
use crate::node::TestNode;
use crate::pods;

const MIB: u64 = 1 << 20;

/// A root of that size on the disk.
fn root(bytes: u64) -> wire::Container {
    wire::Container {
        root_bytes: Some(bytes),
        root_on_disk: true,
        ..container()
    }
}

/// A container that stays, with such a root.
async fn stays(person: &Person, bytes: u64) -> Result<(), tonic::Status> {
    let waits = script("trap 'exit 0' TERM; while :; do busybox sleep 0.1; done");
    let mut asked = request("box/main", waits);
    asked.own_cell = Some(cell_of(root(bytes)));
    asked.wait_for = wire::WaitFor::Started.into();
    let begun = person.node.runtime().run_executable(asked).await;
    begun.map(drop)
}

async fn set_disk(administrator: &Person, amount: &str) {
    let disk = Some(amount.to_owned());
    let quotas = Quotas {
        disk,
        ..Quotas::default()
    };
    crate::quotas::set(administrator, quotas).await;
}

async fn remove(person: &Person) {
    let request = wire::RemoveRequest {
        r#ref: at("box"),
        recursive: true,
        force: true,
    };
    person.node.runtime().remove(request).await.unwrap();
}

/// Loop devices whose file is the node's. Such a file has no name: the kernel shows where it was
/// made.
fn disks(node: &TestNode) -> usize {
    let state = node.state().canonicalize().unwrap();
    let devices = fs::read_dir("/sys/block").unwrap().flatten();
    let files =
        devices.filter_map(|it| fs::read_to_string(it.path().join("loop/backing_file")).ok());
    files
        .filter(|file| file.starts_with(&*state.to_string_lossy()))
        .count()
}

fn refused<T: std::fmt::Debug>(answer: Result<T, tonic::Status>) -> Failure {
    from_status(&answer.unwrap_err())
}

/// It takes all that there is, wants more, and makes its disk larger: none of it succeeds, and what
/// was deleted can be written again.
const GREEDY: &str = "busybox dd if=/dev/zero of=/all bs=1M count=99 2>/dev/null && exit 9
    size=$(busybox stat -c %s /all)
    [ $size -gt 14000000 ] && [ $size -le 16777216 ] || exit 8
    busybox mount -o remount,size=1g / 2>/dev/null && exit 7
    busybox rm /all
    busybox dd if=/dev/zero of=/again bs=1M count=10 2>/dev/null || exit 6
    busybox rm /again && echo kept > /word";

#[tokio::test]
async fn a_root_on_disk_has_its_size_outlives_the_daemon_and_goes_with_its_container() {
    let Some((mut node, _, ann)) = cast().await else {
        return;
    };
    let mut attacks = script(GREEDY);
    attacks.capabilities = Some(wire::Capabilities {
        bounding: ["SYS_ADMIN", "CHOWN"].map(str::to_owned).to_vec(),
        ambient: Vec::new(),
    });
    let how = run_in(&ann, cell_of(root(16 * MIB)), attacks).await;
    assert_eq!(how.unwrap(), WELL);
    soon("its device is let go of", || {
        (disks(&node) == 0).then_some(())
    });
    // The next one begins with the image; what is in it stays while it lives.
    stays(&ann, 16 * MIB).await.unwrap();
    assert_eq!(disks(&node), 1);
    let first = "[ ! -e /word ] && [ ! -e /lost+found ] && echo kept > /word";
    assert_eq!(beside(&ann, first).await, WELL);
    node.kill_daemon();
    let ann = Person::new(ann.target.clone(), ann.serial.clone()).await;
    assert_eq!(beside(&ann, "busybox grep -q kept /word").await, WELL);
    remove(&ann).await;
    soon("nothing is left", || (disks(&node) == 0).then_some(()));
}

#[tokio::test]
async fn a_disk_is_a_tenants_own_and_counts_until_its_end() {
    let Some((mut node, administrator, ann)) = cast().await else {
        return;
    };
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    crate::containers::with_image(&eve).await;
    set_disk(&administrator, "24Mi").await;
    stays(&ann, 16 * MIB).await.unwrap();
    // It counts by its size, not by what is in it; also for the next daemon.
    node.kill_daemon();
    let ann = Person::new(ann.target.clone(), ann.serial.clone()).await;
    let eve = Person::new(eve.target.clone(), eve.serial.clone()).await;
    let mut more = request("more/main", script("exit 0"));
    more.own_cell = Some(cell_of(root(16 * MIB)));
    let why = refused(ann.node.runtime().run_executable(more.clone()).await);
    assert_eq!(why.reason, Some(Reason::LimitExceeded), "{why:?}");
    assert!(why.message.contains("16.0Mi of its 24.0Mi"), "{why:?}");
    let field = "own_cell.container.root_bytes";
    assert_eq!(why.field.as_deref(), Some(field));
    // A volume of a pod's counts in the same; one in memory doesn't.
    let volume = |medium: pod::empty_volume::Medium| {
        let mut spec = pods::spec(vec![pods::container("app", "echo x > /mnt/x")]);
        spec.volumes[0].source = Some(pod::volume::Source::Empty(pod::EmptyVolume {
            medium: medium.into(),
            size_bytes: Some(16 * MIB),
        }));
        spec
    };
    let (disk, memory) = (
        pod::empty_volume::Medium::Disk,
        pod::empty_volume::Medium::Memory,
    );
    let why = refused(pods::run(&ann, "web", volume(disk), pod::WaitFor::Ended).await);
    assert_eq!(why.reason, Some(Reason::LimitExceeded), "{why:?}");
    assert_eq!(why.field.as_deref(), Some("pod.spec.volumes"));
    let status = pods::run(&ann, "memory", volume(memory), pod::WaitFor::Ended).await;
    assert_eq!(status.unwrap().phase(), pod::Phase::Succeeded);
    // Another tenant has its own.
    stays(&eve, 16 * MIB).await.unwrap();
    remove(&eve).await;
    remove(&ann).await;
    soon("they are gone", || (disks(&node) == 0).then_some(()));
    let ended = ann.node.runtime().run_executable(more).await.unwrap();
    assert_eq!(ended.into_inner().exit.unwrap().how, Some(WELL));
}

#[tokio::test]
async fn a_members_volume_on_disk_has_a_size_is_shared_and_goes_with_its_pod() {
    let Some(mut node) = TestNode::start() else {
        return;
    };
    let (_, ann) = pods::people(&node).await;
    let fill = "dd if=/dev/zero of=/mnt/all bs=1M count=99 2>/dev/null && exit 9
        [ $(stat -c %s /mnt/all) -le 16777216 ] || exit 8
        rm /mnt/all; echo kept > /mnt/word; [ ! -e /mnt/lost+found ]";
    let mut spec = pods::spec(vec![pods::container("app", "while :; do sleep 1; done")]);
    spec.init_containers = vec![pods::container("fill", fill)];
    spec.volumes[0].source = Some(pod::volume::Source::Empty(pod::EmptyVolume {
        medium: pod::empty_volume::Medium::Disk.into(),
        size_bytes: Some(16 * MIB),
    }));
    let status = pods::run(&ann, "web", spec, pod::WaitFor::Ready).await;
    let status = status.unwrap();
    assert!(status.ready, "{status:#?}");
    assert_eq!(disks(&node), 1);
    node.kill_daemon();
    let ann = Person::new(ann.target.clone(), ann.serial.clone()).await;
    let kept = pods::exec(&ann, "web/app", "grep -q kept /mnt/word").await;
    assert_eq!(kept, pods::EXITED);
    // The init is killed, and all of the pod with it: its volume goes, too.
    pods::remove(&ann, "web", true).await.unwrap();
    soon("nothing is left", || (disks(&node) == 0).then_some(()));
    pods::assert_clean(&node);
    node.stop();
}

#[tokio::test]
async fn a_disk_that_cant_be_is_refused_by_its_field() {
    let Some((_node, _, ann)) = cast().await else {
        return;
    };
    for (asked, field) in [
        (root(4096), "own_cell.container.root_bytes"),
        (
            wire::Container {
                read_only: true,
                root_bytes: None,
                ..root(0)
            },
            "own_cell.container.root_on_disk",
        ),
    ] {
        let why = refused(run_in(&ann, cell_of(asked), script("exit 0")).await);
        assert_eq!(why.reason, Some(Reason::InvalidField), "{why:?}");
        assert_eq!(why.field.as_deref(), Some(field));
    }
    let bare = wire::CellSpec {
        container: Some(wire::Container {
            root_on_disk: true,
            ..Default::default()
        }),
        ..Default::default()
    };
    let why = refused(run_in(&ann, bare, script("exit 0")).await);
    let field = Some("own_cell.container.root_on_disk");
    assert_eq!(why.field.as_deref(), field, "{why:?}");
}
