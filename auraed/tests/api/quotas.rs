// SPDX-License-Identifier: Apache-2.0
//! Each pool of the daemon, one after the other, on a real node: a tenant takes all that its quota
//! lets it have, is refused by the quota's name, size and use, and the other tenant has its own.
//! What becomes of nodes that are attacked is in `tenants`; the kernel's quotas are in the stories
//! of the test bed, which has every controller.

use std::time::{Duration, Instant};

use api::image::v0::{self as image, images_client::ImagesClient};
use api::runtime::v0 as wire;
use api::status::{Failure, Reason, from_status};
use api::tenant::v0 as tenant;
use futures_util::future::join_all;
use model::quota::Quota;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::caller::Person;
use crate::node::TestNode;
use crate::requests::{cell, executable, program};
use crate::schedule::{declare, shell};
use crate::table::Whom::Owner;
use crate::table::argv;

/// Who shows that a quota holds.
enum ShownBy {
    /// [`each_pool_of_the_daemon_is_bounded_per_tenant`].
    Pools,
    /// Another test, by its name or its story's.
    Other(&'static str),
}

/// A quota more is a row more: this doesn't compile without it.
fn shown_by(quota: Quota) -> ShownBy {
    use ShownBy::{Other, Pools};
    match quota {
        Quota::Cells
        | Quota::Executables
        | Quota::Creations
        | Quota::Ids
        | Quota::Tmpfs
        | Quota::Connections
        | Quota::RequestIds
        | Quota::ImageTransfers
        | Quota::Schedules => Pools,
        Quota::Streams => Other("a_tenant_with_all_its_calls_open_keeps_no_other_from_calling"),
        Quota::RequestBytes => {
            Other("a_flood_of_large_requests_is_bounded_and_harms_no_other_tenant")
        }
        Quota::LogReaders => Other("readers_of_logs_keep_no_run_from_being_attached"),
        Quota::SpecBytes => Other("long_specs_count_in_their_tenants_quota_until_their_end"),
        Quota::Disk => Other("a_disk_is_a_tenants_own_and_counts_until_its_end"),
        Quota::ImageBytes => {
            Other("a_tenant_past_its_quota_of_images_is_refused_and_leaves_nothing")
        }
        Quota::Addresses | Quota::Ports => {
            Other("who_asks_for_nothing_has_nothing_and_what_is_refused_is_named")
        }
        Quota::LogBytes => {
            Other("a_tenants_output_is_held_to_its_quota_and_takes_no_other_tenants")
        }
        Quota::FinishedBytes => {
            Other("a_tenants_oldest_records_are_beyond_its_quota_and_no_other_tenants")
        }
        Quota::AuditBytes => {
            Other("a_tenant_that_fills_its_part_of_the_audit_takes_no_other_tenants_lines")
        }
        Quota::MemoryMax => Other("memory that a tenant fills is its own"),
        Quota::MemoryMin => {
            Other("a tenant's protected memory is protected by the groups around it")
        }
        Quota::Pids => Other("a fork bomb takes its own tenant's processes alone"),
        Quota::IoReadBytes | Quota::IoWriteBytes | Quota::IoReads | Quota::IoWrites => {
            Other("a tenant reads no more of a disk than its quota, and another as it likes")
        }
        Quota::MemoryHigh | Quota::CpuMax | Quota::CpuWeight | Quota::IoWeight => {
            Other("each quota of the kernel is a limit of the tenant's group")
        }
    }
}

/// The tests and stories of this repository, as text.
fn tests_of_the_repository() -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders: Vec<_> = ["auraed/tests/api", "tests/src", "crates"]
        .map(|folder| root.join(folder))
        .into();
    let mut all = String::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with("quotas.rs")
            {
                all.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    all
}

#[test]
fn every_quota_has_a_test_that_meets_it() {
    let all = tests_of_the_repository();
    for quota in Quota::ALL {
        if let ShownBy::Other(name) = shown_by(*quota) {
            let there =
                all.contains(&format!("fn {name}(")) || all.contains(&format!("\"{name}\""));
            assert!(there, "{quota} is shown by {name}, which isn't there");
        }
    }
}

/// Sets quotas of the tenant `acme`.
pub(crate) async fn set(administrator: &Person, quotas: tenant::Quotas) {
    let request = tenant::SetRequest {
        name: "acme".into(),
        quotas: Some(quotas),
    };
    administrator.node.tenant().set(request).await.unwrap();
}

/// How much of it the tenant `acme` uses now.
pub(crate) async fn used(administrator: &Person, quota: Quota) -> Option<u64> {
    let request = tenant::GetRequest {
        name: "acme".into(),
        ..Default::default()
    };
    let status = administrator.node.tenant().get(request).await.unwrap();
    let name = quota.to_string();
    let all = status.into_inner().usage.into_iter();
    all.filter(|one| one.quota == name).find_map(|one| one.used)
}

/// The refusal says what is full, how much of it there is, and what is used; and when to try again
/// where it may pass by itself.
fn assert_refused(refused: &Status, quota: Quota, has: &str, passes: bool) -> Failure {
    let failure = from_status(refused);
    assert_eq!(failure.reason, Some(Reason::LimitExceeded), "{failure:?}");
    let words = format!("the tenant acme uses {has} of the quota {quota}; ");
    assert!(failure.message.starts_with(&words), "{failure:?}");
    let about = failure.object.clone().map(|it| (it.kind, it.name));
    assert_eq!(about, Some(("quota".to_owned(), quota.to_string())));
    assert_eq!(failure.retry_after.is_some(), passes, "{failure:?}");
    let hint = failure.hint.clone().unwrap_or_default();
    assert!(
        hint.contains(&format!("aurae tenant set acme {quota}=")),
        "{hint}"
    );
    failure
}

fn volume(bytes: u64) -> wire::CellSpec {
    let volume = wire::Volume {
        path: "/mnt/scratch".into(),
        size_bytes: Some(bytes),
        ..Default::default()
    };
    wire::CellSpec {
        volumes: vec![volume],
        ..Default::default()
    }
}

async fn make(person: &Person, path: &str, spec: wire::CellSpec) -> Result<(), Status> {
    let request = cell(Owner, path, spec);
    person.node.runtime().run_cell(request).await.map(drop)
}

async fn remove(person: &Person, path: &str) {
    let request = wire::RemoveRequest {
        r#ref: crate::table::at(Owner, path),
        recursive: true,
        force: true,
    };
    person.node.runtime().remove(request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_pool_of_the_daemon_is_bounded_per_tenant() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let eve = administrator.introduce(&node, "acme", "eve", None).await;
    let bob = administrator.introduce(&node, "blue", "bob", None).await;
    cells(&administrator, &eve).await;
    creations(&administrator, &eve, &bob).await;
    ids(&administrator, &eve, &bob).await;
    tmpfs(&administrator, &eve).await;
    request_ids(&administrator, &eve).await;
    schedules(&administrator, &eve, &bob).await;
    image_transfers(&administrator, &eve, &bob).await;
    connections(&administrator, &eve, &bob).await;
    node.stop();
}

/// Two tenants that may have all between them take what there is: the tenth part is the
/// administrators', also where they ask last.
#[tokio::test]
async fn what_all_tenants_take_leaves_administrators_the_reserve() {
    let settings = ["cell_network.enabled=false", "limits.cells=20"];
    let Some(node) = TestNode::start_with(&settings) else {
        return;
    };
    let administrator = node.administrator().await;
    let eve = administrator.introduce(&node, "acme", "eve", None).await;
    let bob = administrator.introduce(&node, "blue", "bob", None).await;
    for n in 0..10 {
        let name = format!("c{n}");
        make(&eve, &name, wire::CellSpec::default()).await.unwrap();
    }
    for n in 0..8 {
        let name = format!("c{n}");
        make(&bob, &name, wire::CellSpec::default()).await.unwrap();
    }
    let more = make(&bob, "more", wire::CellSpec::default()).await;
    let refused = from_status(&more.unwrap_err());
    assert_eq!(refused.reason, Some(Reason::LimitExceeded), "{refused:?}");
    let words = "all tenants together use 18 of the 18 that the node has of cells";
    assert!(refused.message.starts_with(words), "{refused:?}");
    assert!(refused.retry_after.is_some(), "{refused:?}");
    for path in ["first", "second"] {
        let own = wire::CellSpec::default();
        make(&administrator, path, own).await.unwrap();
    }
    node.stop();
}

async fn cells(administrator: &Person, eve: &Person) {
    let some = |cells: &str| tenant::Quotas {
        cells: Some(cells.into()),
        ..Default::default()
    };
    set(administrator, some("2")).await;
    make(eve, "one", wire::CellSpec::default()).await.unwrap();
    make(eve, "one/in", wire::CellSpec::default())
        .await
        .unwrap();
    // Nested or not, it is a cell.
    for path in ["two", "one/two"] {
        let refused = make(eve, path, wire::CellSpec::default())
            .await
            .unwrap_err();
        assert_refused(&refused, Quota::Cells, "2 of its 2", false);
    }
    // One of its own for an executable counts, too, and nothing is left of what was refused.
    let mut run = program("job/main", &["sleep", "1000"]);
    run.own_cell = Some(wire::CellSpec::default());
    let refused = eve.node.runtime().run_executable(run).await.unwrap_err();
    assert_refused(&refused, Quota::Cells, "2 of its 2", false);
    remove(eve, "one").await;
    make(eve, "two", wire::CellSpec::default()).await.unwrap();
    remove(eve, "two").await;
    set(administrator, some("default")).await;
}

/// Sixteen at once where one may be in the making.
async fn creations(administrator: &Person, eve: &Person, bob: &Person) {
    let some = |creations: &str| tenant::Quotas {
        creations: Some(creations.into()),
        ..Default::default()
    };
    set(administrator, some("1")).await;
    let names: Vec<String> = (0..16).map(|n| format!("c{n}")).collect();
    let all = names
        .iter()
        .map(|name| make(eve, name, wire::CellSpec::default()));
    let (answers, others) = tokio::join!(
        join_all(all),
        make(bob, "beside", wire::CellSpec::default())
    );
    others.unwrap();
    let (made, refused): (Vec<_>, Vec<_>) = answers
        .into_iter()
        .zip(&names)
        .partition(|(a, _)| a.is_ok());
    assert!(
        !made.is_empty() && !refused.is_empty(),
        "{} made",
        made.len()
    );
    for (answer, _) in refused {
        assert_refused(&answer.unwrap_err(), Quota::Creations, "1 of its 1", true);
    }
    for (_, name) in made {
        remove(eve, name).await;
    }
    set(administrator, some("default")).await;
}

async fn ids(administrator: &Person, eve: &Person, bob: &Person) {
    let some = |ids: &str| tenant::Quotas {
        ids: Some(ids.into()),
        ..Default::default()
    };
    let of = |count| wire::CellSpec {
        id_range: Some(count),
        ..Default::default()
    };
    set(administrator, some("100000")).await;
    make(eve, "wide", of(65_536)).await.unwrap();
    let refused = make(eve, "wider", of(65_536)).await.unwrap_err();
    let failure = assert_refused(&refused, Quota::Ids, "65536 of its 100000", false);
    assert_eq!(failure.field.as_deref(), Some("cell.spec.id_range"));
    make(bob, "wide", of(65_536)).await.unwrap();
    remove(eve, "wide").await;
    make(eve, "wider", of(65_536)).await.unwrap();
    remove(eve, "wider").await;
    set(administrator, some("default")).await;
}

async fn tmpfs(administrator: &Person, eve: &Person) {
    let some = |tmpfs: &str| tenant::Quotas {
        tmpfs: Some(tmpfs.into()),
        ..Default::default()
    };
    set(administrator, some("12M")).await;
    make(eve, "full", volume(8 << 20)).await.unwrap();
    let refused = make(eve, "fuller", volume(8 << 20)).await.unwrap_err();
    let failure = assert_refused(&refused, Quota::Tmpfs, "8.00Mi of its 12.0Mi", false);
    assert_eq!(failure.field.as_deref(), Some("cell.spec.volumes"));
    remove(eve, "full").await;
    make(eve, "fuller", volume(8 << 20)).await.unwrap();
    remove(eve, "fuller").await;
    set(administrator, some("default")).await;
}

async fn request_ids(administrator: &Person, eve: &Person) {
    let some = |request_ids: &str| tenant::Quotas {
        request_ids: Some(request_ids.into()),
        ..Default::default()
    };
    set(administrator, some("2")).await;
    make(eve, "web", wire::CellSpec::default()).await.unwrap();
    let run = |name: &str| {
        let mut request = executable(&format!("web/{name}"), argv(&["sleep", "1000"]));
        request.request_id = format!("id-of-{name}");
        request
    };
    for name in ["a", "b"] {
        eve.node.runtime().run_executable(run(name)).await.unwrap();
    }
    let refused = eve.node.runtime().run_executable(run("c")).await;
    assert_refused(
        &refused.unwrap_err(),
        Quota::RequestIds,
        "2 of its 2",
        false,
    );
    // One that is known is answered as before, and without an id there is nothing to remember.
    eve.node.runtime().run_executable(run("b")).await.unwrap();
    let plain = executable("web/c", argv(&["sleep", "1000"]));
    eve.node.runtime().run_executable(plain).await.unwrap();
    remove(eve, "web").await;
    set(administrator, some("default")).await;
}

async fn schedules(administrator: &Person, eve: &Person, bob: &Person) {
    let some = |schedules: &str| tenant::Quotas {
        schedules: Some(schedules.into()),
        ..Default::default()
    };
    set(administrator, some("1")).await;
    declare(eve, shell("first", "exit 0")).await.unwrap();
    let refused = declare(eve, shell("second", "exit 0")).await.unwrap_err();
    assert_refused(&refused, Quota::Schedules, "1 of its 1", false);
    declare(bob, shell("first", "exit 0")).await.unwrap();
    set(administrator, some("default")).await;
}

/// One import goes on, because its client sends nothing more.
async fn image_transfers(administrator: &Person, eve: &Person, bob: &Person) {
    let some = |image_transfers: &str| tenant::Quotas {
        image_transfers: Some(image_transfers.into()),
        ..Default::default()
    };
    set(administrator, some("1")).await;
    let begin = || image::ImportRequest {
        of: Some(image::import_request::Of::Begin(Default::default())),
    };
    let import = |person: &Person, pieces| {
        let mut images = ImagesClient::new(person.node.channel());
        async move { images.import(ReceiverStream::new(pieces)).await }
    };
    let (send, pieces) = mpsc::channel(1);
    let going_on = tokio::spawn(import(eve, pieces));
    send.send(begin()).await.unwrap();
    // It has its place before another one asks: otherwise it may be the one that is refused.
    let until = Instant::now() + Duration::from_secs(60);
    while used(administrator, Quota::ImageTransfers).await != Some(1) {
        assert!(Instant::now() < until, "the import doesn't begin");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (last, pieces) = mpsc::channel(1);
    last.send(begin()).await.unwrap();
    drop(last);
    let refused = import(eve, pieces).await.unwrap_err();
    assert_refused(&refused, Quota::ImageTransfers, "1 of its 1", true);
    let (last, pieces) = mpsc::channel(1);
    last.send(begin()).await.unwrap();
    drop(last);
    let of_another = import(bob, pieces).await.unwrap_err();
    assert_ne!(from_status(&of_another).reason, Some(Reason::LimitExceeded));
    drop(send);
    going_on.await.unwrap().unwrap_err();
    set(administrator, some("default")).await;
}

async fn connections(administrator: &Person, eve: &Person, bob: &Person) {
    let some = |connections: &str| tenant::Quotas {
        connections: Some(connections.into()),
        ..Default::default()
    };
    set(administrator, some("3")).await;
    let mut held = Vec::new();
    let refused = loop {
        match client::Node::connect(&eve.target).await {
            Ok(node) => held.push(node),
            Err(error) => break format!("{error:?}"),
        }
        assert!(held.len() < 3, "the quota holds");
    };
    let words = "the tenant acme uses 3 of its 3 of the quota connections";
    assert!(refused.contains(words), "{refused}");
    // Another tenant and the administrators connect as before.
    client::Node::connect(&bob.target).await.unwrap();
    client::Node::connect(&administrator.target).await.unwrap();
}
