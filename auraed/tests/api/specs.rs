// SPDX-License-Identifier: Apache-2.0
//! Specs that are longer than a packet of the inits': programs with as many arguments as `execve`
//! takes, pods that bring large files. They outlive the daemon, are listed in pages that a client
//! reads, and count in their tenant's quota.

use api::pod::v0 as pod;
use api::runtime::v0 as wire;
use api::status::{Failure, Reason, from_status};
use api::tenant::v0::Quotas;
use model::executable::MAX_WORD;
use model::quota::Quota;
use prost::Message;

use crate::caller::Person;
use crate::node::TestNode;
use crate::pods;
use crate::requests::{self, program, shared_cell};

const MIB: usize = 1 << 20;
/// What a client of gRPC reads where it says nothing.
const READABLE: usize = 4 * MIB;

fn refused<T: std::fmt::Debug>(answer: Result<T, tonic::Status>) -> Failure {
    from_status(&answer.unwrap_err())
}

async fn anew(person: &Person) -> Person {
    Person::new(person.target.clone(), person.serial.clone()).await
}

/// A node, its administrator, and a member with a cell `web`.
async fn cast() -> Option<(TestNode, Person, Person)> {
    let node = TestNode::start()?;
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let mut runtime = administrator.node.runtime();
    runtime.run_cell(shared_cell("web")).await.unwrap();
    Some((node, administrator, ann))
}

/// One that says what it was given, and stays; with `words` more of the longest.
fn long(path: &str, words: usize) -> wire::RunExecutableRequest {
    let says = "echo $# ${#9} ${#LONG}; while :; do sleep 0.1; done";
    let mut request = program(path, &["sh", "-c", says, "sh"]);
    let spec = requests::spec(&mut request);
    spec.argv.extend(vec!["x".repeat(MAX_WORD); words]);
    spec.env.insert("LONG".to_owned(), "y".repeat(70_000));
    request
}

async fn set_specs(administrator: &Person, amount: &str) {
    let quotas = Quotas {
        spec_bytes: Some(amount.to_owned()),
        ..Quotas::default()
    };
    crate::quotas::set(administrator, quotas).await;
}

async fn get(person: &Person, path: &str) -> wire::ExecutableStatus {
    let request = wire::GetRequest {
        r#ref: pods::at(path),
    };
    let found = person.node.runtime().get(request).await.unwrap();
    match found.into_inner().object {
        Some(wire::object::Object::Executable(found)) => found,
        other => panic!("{other:?}"),
    }
}

async fn stop(person: &Person, path: &str) {
    let request = wire::StopRequest {
        r#ref: pods::at(path),
        ..Default::default()
    };
    person.node.runtime().stop(request).await.unwrap();
}

#[tokio::test]
async fn a_program_has_what_execve_takes_and_so_has_its_spec_after_the_daemons_death() {
    let Some((mut node, _, ann)) = cast().await else {
        return;
    };
    let asked = long("web/long", 11);
    let wanted = asked.clone().executable.unwrap().spec.unwrap();
    ann.node.runtime().run_executable(asked).await.unwrap();
    pods::until_logged(&ann, "web/long", &format!("11 {MAX_WORD} 70000\n")).await;
    node.kill_daemon();
    let ann = anew(&ann).await;
    let found = get(&ann, "web/long").await;
    assert!(found.spec.as_ref().unwrap().argv == wanted.argv);
    assert!(found.spec.as_ref().unwrap().env == wanted.env);
    assert!(found.encoded_len() < READABLE, "{}", found.encoded_len());
    // Its labels and its stop are written beside it.
    let labelled = wire::UpdateExecutableRequest {
        r#ref: pods::at("web/long"),
        labels: [("tier".to_owned(), "front".to_owned())].into(),
        ..Default::default()
    };
    let updated = ann.node.runtime().update_executable(labelled).await;
    updated.unwrap();
    node.kill_daemon();
    let ann = anew(&ann).await;
    let found = get(&ann, "web/long").await;
    assert_eq!(found.meta.as_ref().unwrap().labels["tier"], "front");
    assert!(found.spec.unwrap().argv == wanted.argv);
    stop(&ann, "web/long").await;
    node.kill_daemon();
    let ann = anew(&ann).await;
    let ended = get(&ann, "web/long").await;
    assert!(ended.exit.is_some() && ended.spec.unwrap().argv == wanted.argv);
}

fn with_files(script: &str, length: usize, letter: &str) -> pod::PodSpec {
    let mut spec = pods::spec(vec![pods::container("app", script)]);
    let files = [("data".to_owned(), letter.repeat(length))].into();
    let files = pod::FilesVolume {
        files,
        ..Default::default()
    };
    let volume = spec.volumes.first_mut().unwrap();
    volume.source = Some(pod::volume::Source::Files(files));
    spec
}

#[tokio::test]
async fn a_pods_files_may_be_a_megabyte_and_outlive_the_daemon_and_change() {
    let Some((mut node, _, ann)) = cast().await else {
        return;
    };
    let waits = "while :; do sleep 1; done";
    let spec = with_files(waits, MIB, "a");
    let status = pods::run(&ann, "store", spec.clone(), pod::WaitFor::Ready);
    assert!(status.await.unwrap().ready);
    let has = |letter: &str, length: usize| {
        format!("[ $(wc -c </mnt/data) = {length} ] && [ $(head -c1 /mnt/data) = {letter} ]")
    };
    assert_eq!(
        pods::exec(&ann, "store/app", &has("a", MIB)).await,
        pods::EXITED
    );
    node.kill_daemon();
    let ann = anew(&ann).await;
    assert!(pods::get(&ann, "store").await.spec == Some(spec));
    let update = pod::UpdateRequest {
        pod: Some(pod::Pod {
            r#ref: pods::at("store"),
            spec: Some(with_files(waits, MIB + 4096, "b")),
            ..Default::default()
        }),
    };
    pods::pods(&ann).update(update).await.unwrap();
    node.kill_daemon();
    let ann = anew(&ann).await;
    let changed = pods::exec(&ann, "store/app", &has("b", MIB + 4096)).await;
    assert_eq!(changed, pods::EXITED);
    pods::remove(&ann, "store", true).await.unwrap();
    pods::assert_clean(&node);
}

#[tokio::test]
async fn long_specs_count_in_their_tenants_quota_until_their_end() {
    let Some((mut node, administrator, ann)) = cast().await else {
        return;
    };
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    set_specs(&administrator, "2Mi").await;
    let begin = async |person: &Person, path: &str| {
        let asked = long(path, 9);
        person.node.runtime().run_executable(asked).await
    };
    begin(&ann, "web/one").await.unwrap();
    node.kill_daemon();
    let (administrator, ann, eve) = (
        anew(&administrator).await,
        anew(&ann).await,
        anew(&eve).await,
    );
    // It counts for the next daemon as well.
    let used = crate::quotas::used(&administrator, Quota::SpecBytes).await;
    assert!(
        used.is_some_and(|bytes| (MIB..2 * MIB).contains(&(bytes as usize))),
        "{used:?}"
    );
    let why = refused(begin(&ann, "web/two").await);
    assert_eq!(why.reason, Some(Reason::LimitExceeded), "{why:?}");
    assert_eq!(why.field.as_deref(), Some("executable.spec"));
    assert!(why.message.contains("of its 2.00Mi"), "{why:?}");
    // A pod counts in the same, also when it grows.
    let waits = "while :; do sleep 1; done";
    let run = async |path: &str, length| {
        pods::run(
            &ann,
            path,
            with_files(waits, length, "a"),
            pod::WaitFor::Ready,
        )
        .await
    };
    let why = refused(run("large", MIB).await);
    assert_eq!(why.reason, Some(Reason::LimitExceeded), "{why:?}");
    assert_eq!(why.field.as_deref(), Some("pod.spec"));
    run("small", 100).await.unwrap();
    let update = |length| pod::UpdateRequest {
        pod: Some(pod::Pod {
            r#ref: pods::at("small"),
            spec: Some(with_files(waits, length, "b")),
            ..Default::default()
        }),
    };
    let why = refused(pods::pods(&ann).update(update(MIB)).await);
    assert_eq!(why.field.as_deref(), Some("pod.spec"), "{why:?}");
    let before = "[ $(wc -c </mnt/data) = 100 ] && [ $(head -c1 /mnt/data) = a ]";
    assert_eq!(pods::exec(&ann, "small/app", before).await, pods::EXITED);
    // Another tenant has its own; and what has ended counts no more.
    let mut theirs = long("theirs/main", 9);
    theirs.own_cell = Some(wire::CellSpec::default());
    eve.node.runtime().run_executable(theirs).await.unwrap();
    stop(&ann, "web/one").await;
    pods::pods(&ann).update(update(MIB)).await.unwrap();
    let why = refused(begin(&ann, "web/two").await);
    assert_eq!(why.reason, Some(Reason::LimitExceeded), "{why:?}");
    pods::remove(&ann, "small", true).await.unwrap();
    begin(&ann, "web/two").await.unwrap();
}

/// All objects and all pods of the person's tenant, page by page; each page is one that any client
/// reads.
async fn listed(person: &Person) -> (usize, usize) {
    let (mut objects, mut token) = (0, String::new());
    loop {
        let request = wire::ListRequest {
            page_token: token,
            ..Default::default()
        };
        let page = person.node.runtime().list(request).await.unwrap();
        let page = page.into_inner();
        assert!(page.encoded_len() < READABLE, "{}", page.encoded_len());
        objects += page.objects.len();
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    let mut all = 0;
    loop {
        let request = pod::ListRequest {
            page_token: token,
            ..Default::default()
        };
        let page = pods::pods(person).list(request).await.unwrap().into_inner();
        assert!(page.encoded_len() < READABLE, "{}", page.encoded_len());
        all += page.pods.len();
        token = page.next_page_token;
        if token.is_empty() {
            return (objects, all);
        }
    }
}

#[tokio::test]
async fn a_tenant_that_sends_all_that_it_may_costs_the_daemon_a_bounded_part() {
    const ALLOWED: usize = 16 * MIB;
    let Some((mut node, administrator, ann)) = cast().await else {
        return;
    };
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    set_specs(&administrator, "16Mi").await;
    let before = node.daemon_rss_kb();
    // As many as are taken, and at least as many more that are refused.
    let mut taken = 0;
    for number in 0..40 {
        let asked = long(&format!("web/n{number}"), 11);
        match ann.node.runtime().run_executable(asked).await {
            Ok(_) => taken += 1,
            Err(status) => {
                let why = from_status(&status);
                assert_eq!(why.reason, Some(Reason::LimitExceeded), "{why:?}");
            }
        }
    }
    assert_eq!(taken, ALLOWED / (11 * MAX_WORD + 70_000));
    // The cell, and what runs in it.
    assert_eq!(listed(&ann).await, (1 + taken, 0));
    let grown = (node.daemon_rss_kb().saturating_sub(before) as usize) << 10;
    assert!(
        grown < 12 * ALLOWED,
        "the daemon has grown by {grown} bytes"
    );
    // Another tenant has not noticed, nor does it after the next daemon has taken all over.
    let run = async |eve: &Person, name: &str| {
        let spec = pods::spec(vec![pods::container("app", "exit 0")]);
        pods::run(eve, name, spec, pod::WaitFor::Ended)
            .await
            .unwrap()
    };
    assert_eq!(run(&eve, "a").await.phase(), pod::Phase::Succeeded);
    node.kill_daemon();
    let (ann, eve) = (anew(&ann).await, anew(&eve).await);
    // On a busy machine the cell's init, which sends all of it, may answer after the API is open.
    let begun = std::time::Instant::now();
    while listed(&ann).await != (1 + taken, 0) {
        assert!(begun.elapsed() < pods::SOON, "{:?}", listed(&ann).await);
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(run(&eve, "b").await.phase(), pod::Phase::Succeeded);
}

#[tokio::test]
async fn pods_with_long_specs_are_listed_in_pages() {
    let Some((_node, administrator, ann)) = cast().await else {
        return;
    };
    let eve = administrator.introduce(&_node, "evil", "eve", None).await;
    for name in ["a", "b", "c", "d", "e"] {
        let spec = with_files("exit 0", MIB, "x");
        let ended = pods::run(&ann, name, spec, pod::WaitFor::Ended).await;
        assert_eq!(ended.unwrap().phase(), pod::Phase::Succeeded);
    }
    let (_, found) = listed(&ann).await;
    assert_eq!(found, 5);
    let all = |size: u32, token: &str| pod::ListRequest {
        page_size: size,
        page_token: token.to_owned(),
        ..Default::default()
    };
    let first = pods::pods(&ann)
        .list(all(1, ""))
        .await
        .unwrap()
        .into_inner();
    let names = |list: &pod::ListResponse| -> Vec<String> {
        let pods = list.pods.iter();
        let path = |it: &pod::PodStatus| it.meta.clone().unwrap().r#ref.unwrap().path;
        pods.map(path).collect()
    };
    assert_eq!(names(&first), ["a"]);
    let token = first.next_page_token;
    let second = pods::pods(&ann).list(all(1, &token)).await.unwrap();
    assert_eq!(names(second.get_ref()), ["b"]);
    // It leads to nothing of another tenant's.
    for token in [token.as_str(), "nonsense"] {
        let why = refused(pods::pods(&eve).list(all(1, token)).await);
        assert_eq!(why.field.as_deref(), Some("page_token"), "{why:?}");
    }
}
