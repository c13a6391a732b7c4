// SPDX-License-Identifier: Apache-2.0
//! Output that leads to its attacher: whole at any pace, in no log, and ended with who reads it.

use std::fs;

use api::runtime::v0 as wire;
use api::runtime::v0::attach_response::Message as Answer;
use api::runtime::v0::exit::How;
use api::runtime::v0::standard_stream::Kind;
use api::status::{Failure, Reason, from_status};
use testkit::{files_with, soon};
use tonic::{Status, Streaming};

use crate::caller::Person;
use crate::node::TestNode;
use crate::requests::{program, shared_cell, spec};
use crate::table::Whom::Owner;
use crate::table::at;

/// SIGPIPE: what a program gets that writes to a pipe without a reader.
const PIPE: How = How::Signal(13);
/// As `runtime` has it.
const MOST_OFFERED: usize = 64;

fn failure(status: Status) -> Failure {
    from_status(&status)
}

fn attached() -> Option<wire::StandardStream> {
    Some(wire::StandardStream {
        kind: Kind::Attached.into(),
        path: String::new(),
    })
}

/// A run whose two streams of output lead to its attacher.
fn run(path: &str, words: &[&str]) -> wire::RunExecutableRequest {
    let mut request = program(path, words);
    request.attach_follows = true;
    spec(&mut request).streams = Some(wire::Streams {
        stdout: attached(),
        stderr: attached(),
        stdin: None,
    });
    request
}

async fn begin(person: &Person, path: &str, words: &[&str]) -> wire::ExecutableStatus {
    let begun = person.node.runtime().run_executable(run(path, words)).await;
    begun.unwrap().into_inner()
}

async fn attach(person: &Person, path: &str) -> Result<Streaming<wire::AttachResponse>, Status> {
    let start = wire::AttachStart {
        r#ref: at(Owner, path),
        ..Default::default()
    };
    let start = wire::AttachRequest {
        message: Some(wire::attach_request::Message::Start(start)),
    };
    let requests = tokio_stream::iter([start]);
    let answers = person.node.runtime().attach(requests).await?;
    Ok(answers.into_inner())
}

/// All that comes by standard output and standard error, and the end.
async fn read(answers: &mut Streaming<wire::AttachResponse>) -> (Vec<u8>, Vec<u8>, Option<How>) {
    let (mut out, mut err, mut exit) = (Vec::new(), Vec::new(), None);
    while let Some(came) = answers.message().await.unwrap() {
        match came.message.unwrap() {
            Answer::Output(piece) => {
                assert_eq!(piece.offset, (out.len() + err.len()) as u64);
                match piece.stream() {
                    wire::Stream::Stderr => err.extend(piece.data),
                    _ => out.extend(piece.data),
                }
            }
            Answer::Exit(it) => exit = it.how,
            Answer::Gap(gap) => panic!("{gap:?}"),
        }
    }
    (out, err, exit)
}

/// It is what seq(1) prints up to that number.
fn assert_counts(out: &[u8], last: u32) {
    let all: String = (1..=last).map(|number| format!("{number}\n")).collect();
    assert!(
        out == all.as_bytes(),
        "{} of {} bytes",
        out.len(),
        all.len()
    );
}

async fn ended(person: &Person, run: &wire::ExecutableStatus) -> wire::ExecutableStatus {
    let wait = wire::WaitRequest {
        r#ref: run.meta.as_ref().unwrap().r#ref.clone(),
    };
    let object = person.node.runtime().wait(wait).await.unwrap().into_inner();
    match object.object {
        Some(wire::object::Object::Executable(status)) => status,
        other => panic!("{other:?}"),
    }
}

fn how(status: &wire::ExecutableStatus) -> Option<How> {
    status.exit.as_ref().and_then(|exit| exit.how)
}

/// A node, a member of a tenant with a cell `web`, and an administrator.
async fn node() -> Option<(TestNode, Person, Person)> {
    let node = TestNode::start()?;
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let made = administrator.node.runtime();
    made.clone().run_cell(shared_cell("web")).await.unwrap();
    Some((node, administrator, ann))
}

/// Far more than pipes and windows hold: the slow reader holds the program up, and nothing else.
#[tokio::test]
async fn it_is_whole_at_any_pace_and_in_no_log() {
    let Some((node, _, ann)) = node().await else {
        return;
    };
    let last = 4_000_000;
    let begun = begin(&ann, "web/seq", &["/usr/bin/seq", &last.to_string()]).await;
    let mut slow = attach(&ann, "web/seq").await.unwrap();
    let before = node.daemon_rss_kb();
    let wchan = format!("/proc/{}/wchan", begun.pid);
    soon("it is held up", || {
        let waits = fs::read_to_string(&wchan).unwrap();
        waits.contains("pipe_w").then_some(())
    });
    let second = attach(&ann, "web/seq").await.unwrap_err();
    assert_eq!(failure(second).reason, Some(Reason::WrongState));
    // Others are not.
    let other = begin(
        &ann,
        "web/other",
        &["/bin/sh", "-c", "echo here; echo there >&2"],
    )
    .await;
    assert!(other.exit.is_none());
    let mut quick = attach(&ann, "web/other").await.unwrap();
    let expected = (b"here\n".to_vec(), b"there\n".to_vec(), Some(How::Code(0)));
    assert_eq!(read(&mut quick).await, expected);
    let more = node.daemon_rss_kb().saturating_sub(before);
    assert!(
        more < 8 * 1024,
        "{more} KB more for a client that doesn't read"
    );

    let (out, err, exit) = read(&mut slow).await;
    assert_eq!((err.len(), exit), (0, Some(How::Code(0))));
    assert_counts(&out, last);
    assert_eq!(ended(&ann, &begun).await.stdout_bytes, 0);
    assert!(files_with(&node.state(), b"\n3999998\n").is_empty());
    // The same by the log, so that the search is one.
    let mut logged = program("web/logged", &["/usr/bin/seq", "3999000", "4000000"]);
    logged.wait_for = wire::WaitFor::Exited.into();
    ann.node.runtime().run_executable(logged).await.unwrap();
    assert!(!files_with(&node.state(), b"\n3999998\n").is_empty());
    node.stop();
}

/// Nothing is begun on a full disk, which the audit needs; what was begun goes on to its end.
#[tokio::test]
async fn a_full_disk_is_not_in_its_way() {
    let Some(node) = TestNode::start_on_small_disk() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let made = administrator.node.runtime();
    made.clone().run_cell(shared_cell("web")).await.unwrap();
    // Far more than pipes and windows hold: the most of it comes when the disk is full.
    let last = 2_000_000;
    begin(&ann, "web/seq", &["/usr/bin/seq", &last.to_string()]).await;
    let mut answers = attach(&ann, "web/seq").await.unwrap();
    node.fill_disk();
    let (out, _, exit) = read(&mut answers).await;
    assert_counts(&out, last);
    assert_eq!(exit, Some(How::Code(0)));
    node.empty_disk();
    node.stop();
}

#[tokio::test]
async fn what_ended_before_its_attacher_came_is_told() {
    let Some((node, _, ann)) = node().await else {
        return;
    };
    let mut request = run("web/quick", &["/bin/echo", "hello"]);
    spec(&mut request).auto_remove = true;
    request.wait_for = wire::WaitFor::Exited.into();
    let ran = ann.node.runtime().run_executable(request).await.unwrap();
    assert_eq!(how(&ran.into_inner()), Some(How::Code(0)));
    let mut first = attach(&ann, "web/quick").await.unwrap();
    let expected = (b"hello\n".to_vec(), Vec::new(), Some(How::Code(0)));
    assert_eq!(read(&mut first).await, expected);
    node.stop();
}

/// What has left its group's main process and has the pipe open holds up no end.
#[tokio::test]
async fn a_process_that_is_left_behind_holds_up_no_end() {
    let Some((node, _, ann)) = node().await else {
        return;
    };
    let mut request = run("web/leaves", &["/bin/sh", "-c", "sleep 1000 & echo begun"]);
    spec(&mut request).ending = Some(wire::Ending {
        kill_mode: wire::ending::KillMode::Process.into(),
        ..Default::default()
    });
    ann.node.runtime().run_executable(request).await.unwrap();
    let mut answers = attach(&ann, "web/leaves").await.unwrap();
    let expected = (b"begun\n".to_vec(), Vec::new(), Some(How::Code(0)));
    assert_eq!(read(&mut answers).await, expected);
    node.stop();
}

/// The attacher goes, none comes, the daemon dies: the program learns by SIGPIPE.
#[tokio::test]
async fn who_writes_to_nobody_ends() {
    let Some((mut node, _, ann)) = node().await else {
        return;
    };
    let late = begin(&ann, "web/late", &["/usr/bin/yes"]).await;
    let left = begin(&ann, "web/left", &["/usr/bin/yes"]).await;
    let mut leaves = attach(&ann, "web/left").await.unwrap();
    leaves.message().await.unwrap().unwrap();
    drop(leaves);
    assert_eq!(how(&ended(&ann, &left).await), Some(PIPE));
    assert_eq!(how(&ended(&ann, &late).await), Some(PIPE));
    let refused = failure(attach(&ann, "web/late").await.unwrap_err());
    assert_eq!(refused.reason, Some(Reason::WrongState));

    let cut_off = begin(&ann, "web/cut", &["/usr/bin/yes"]).await;
    begin(&ann, "web/quiet", &["/bin/sleep", "1000"]).await;
    let mut cut = attach(&ann, "web/cut").await.unwrap();
    cut.message().await.unwrap().unwrap();
    node.kill_daemon();
    let ann = Person::new(ann.target, ann.serial).await;
    assert_eq!(how(&ended(&ann, &cut_off).await), Some(PIPE));
    // What writes nothing goes on.
    let refused = failure(attach(&ann, "web/quiet").await.unwrap_err());
    assert_eq!(refused.reason, Some(Reason::WrongState));
    assert!(refused.message.contains("web/quiet"), "{refused:?}");
    node.stop();
}

/// Runs that are never attached to: a bound for their tenant, and no more.
#[tokio::test]
async fn a_tenant_that_attaches_to_nothing_takes_no_place_of_another() {
    let Some((node, administrator, ann)) = node().await else {
        return;
    };
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    let mut theirs = shared_cell("web");
    let of_evil = |path: &str| {
        let mut reference = at(Owner, path).unwrap();
        reference.tenant = "evil".to_owned();
        Some(reference)
    };
    theirs.cell.as_mut().unwrap().r#ref = of_evil("web");
    administrator.node.runtime().run_cell(theirs).await.unwrap();
    let mut refused = None;
    // On a slow machine the first have waited in vain before the last are there.
    for number in 0..16 * MOST_OFFERED {
        let mut request = run("web/a", &["/bin/true"]);
        request.executable.as_mut().unwrap().r#ref = of_evil(&format!("web/r{number}"));
        if let Err(status) = eve.node.runtime().run_executable(request).await {
            refused = Some((number, failure(status)));
            break;
        }
    }
    let (number, refused) = refused.unwrap();
    assert!(number >= MOST_OFFERED, "{number}");
    assert_eq!(refused.reason, Some(Reason::LimitExceeded), "{refused:?}");
    begin(&ann, "web/mine", &["/bin/echo", "mine"]).await;
    let mut answers = attach(&ann, "web/mine").await.unwrap();
    assert_eq!(read(&mut answers).await.0, b"mine\n");
    node.stop();
}

#[tokio::test]
async fn what_it_can_not_be_is_refused_by_its_field() {
    let Some((node, _, ann)) = node().await else {
        return;
    };
    let mut alone = run("web/a", &["/bin/true"]);
    alone.attach_follows = false;
    let mut typed = run("web/a", &["/bin/true"]);
    spec(&mut typed).terminal = Some(wire::Terminal::default());
    let mut read = run("web/a", &["/bin/true"]);
    spec(&mut read).streams.as_mut().unwrap().stdin = attached();
    let fields = [
        (alone, "attach_follows"),
        (typed, "executable.spec.streams"),
        (read, "executable.spec.streams.stdin.kind"),
    ];
    for (request, field) in fields {
        let refused = ann.node.runtime().run_executable(request).await;
        let refused = failure(refused.unwrap_err());
        assert_eq!(refused.field.as_deref(), Some(field), "{refused:?}");
    }
    begin(&ann, "web/a", &["/bin/echo", "kept"]).await;
    let start = wire::AttachStart {
        r#ref: at(Owner, "web/a"),
        from_offset: Some(1),
        ..Default::default()
    };
    let start = wire::AttachRequest {
        message: Some(wire::attach_request::Message::Start(start)),
    };
    let refused = ann.node.runtime().attach(tokio_stream::iter([start])).await;
    let refused = failure(refused.unwrap_err());
    assert_eq!(refused.field.as_deref(), Some("start.from_offset"));
    // It is there still.
    let mut answers = attach(&ann, "web/a").await.unwrap();
    let (out, _, exit) = self::read(&mut answers).await;
    assert_eq!((out.as_slice(), exit), (&b"kept\n"[..], Some(How::Code(0))));
    node.stop();
}
