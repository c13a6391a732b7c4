// SPDX-License-Identifier: Apache-2.0
//! Whose end it ever is, it is acknowledged: the test is node-init.

use std::os::fd::AsFd;

use futures_util::FutureExt;
use init::protocol::codec::Packet;
use init::protocol::{ExitHow, Namespaces, Role, Root};
use kernel::seqpacket::{self, Mode};

use super::*;

/// Node-init's end of the conversation.
struct Init(OwnedFd);

impl Init {
    fn say(&self, event: &NodeEvent, fds: &[std::os::fd::BorrowedFd<'_>]) {
        let mut packet = Vec::new();
        event.encode(&mut packet).unwrap();
        seqpacket::send(&self.0, &packet, fds).unwrap();
    }

    async fn hear(&self) -> NodeRequest {
        let socket = self.0.try_clone().unwrap();
        let heard = tokio::task::spawn_blocking(move || {
            let mut buffer = vec![0; init::protocol::MAX_PACKET];
            let ready = kernel::poll::wait(
                &socket,
                kernel::poll::Interest::Readable,
                kernel::poll::Deadline::after(Duration::from_secs(10)),
            );
            assert!(ready.unwrap(), "nothing was said");
            let packet = seqpacket::receive(&socket, &mut buffer).unwrap().unwrap();
            NodeRequest::decode(&buffer[..packet.length]).unwrap()
        });
        heard.await.unwrap()
    }

    /// A cell is asked for, and made.
    async fn make(&self) -> Uid {
        let NodeRequest::CreateCell { request, launch } = self.hear().await else {
            panic!("no request for a cell")
        };
        let (pid, pidfd) = process();
        let created = NodeEvent::CellCreated { request, pid };
        self.say(&created, &[pidfd.as_fd()]);
        launch.uid
    }

    fn end(&self, uid: Uid) {
        let exit = exit();
        self.say(&NodeEvent::CellExited { uid, exit }, &[]);
    }

    async fn is_acknowledged(&self, expected: Uid) {
        match self.hear().await {
            NodeRequest::AckCell { uid } => assert_eq!(uid, expected),
            other => panic!("{other:?}"),
        }
    }
}

fn exit() -> ExitRecord {
    ExitRecord {
        how: ExitHow::Code(0),
        started_ns: 1,
        finished_ns: 2,
        user_ns: 0,
        system_ns: 0,
        max_rss_bytes: 0,
        minor_faults: 0,
        major_faults: 0,
        voluntary_switches: 0,
        involuntary_switches: 0,
        oom_kills: None,
    }
}

/// A process that may be killed; it ends with this one.
fn process() -> (i32, OwnedFd) {
    let mut command = std::process::Command::new("cat");
    let child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let pidfd = kernel::pidfd::open(pid).unwrap();
    // With the end of its input.
    std::mem::forget(child);
    (pid, pidfd)
}

fn launch(number: u8) -> CellLaunch {
    CellLaunch {
        uid: Uid([number; 16]),
        unshare: Namespaces::ALL,
        root: Root::Node,
        parent: false,
        joins: vec![],
        uid_map: vec![],
        gid_map: vec![],
        init_id: 0,
        title: String::new(),
        hostname: String::new(),
        volumes: vec![],
        sysctls: vec![],
        record: vec![].into(),
    }
}

async fn pair() -> (NodeInit, Init) {
    let (ours, theirs) = seqpacket::pair(Mode::Blocking).unwrap();
    let init = Init(theirs);
    let connecting = tokio::spawn(NodeInit::connect(ours, "test"));
    assert!(matches!(init.hear().await, NodeRequest::Hello { .. }));
    let welcome = Welcome {
        version: VERSION,
        role: Role::Service,
        daemon_starts: 1,
        started_ns: 0,
        audit_head: None,
        cells: vec![],
        isolation: Ok(()),
    };
    init.say(&NodeEvent::Welcome(welcome), &[]);
    let (node, _) = connecting.await.unwrap().unwrap();
    (node, init)
}

/// Asks for a cell; what became of it.
async fn created(node: &NodeInit, init: &Init, number: u8) -> (Uid, Created) {
    let node = node.clone();
    let creating = tokio::spawn(async move {
        let (callers, _present) = Callers::new();
        node.create(launch(number), vec![], &callers).await
    });
    let uid = init.make().await;
    (uid, creating.await.unwrap().unwrap())
}

#[tokio::test]
async fn an_end_that_no_task_waits_for_is_acknowledged() {
    let (node, init) = pair().await;
    // Of cells that died without a daemon: one is asked for in time.
    let (nobodys, owned) = (Uid([1; 16]), Uid([2; 16]));
    init.end(nobodys);
    init.end(owned);
    let told = node.exits_of(vec![owned]).await.remove(&owned).unwrap();
    assert_eq!(told.await.unwrap(), exit());
    node.all_adopted().await;
    init.is_acknowledged(nobodys).await;
    node.acknowledge(owned).await;
    init.is_acknowledged(owned).await;
    // Of one that could not be adopted, and dies now.
    init.end(Uid([3; 16]));
    init.is_acknowledged(Uid([3; 16])).await;
}

#[tokio::test]
async fn the_end_of_a_cell_that_was_given_up_is_acknowledged() {
    let (node, init) = pair().await;
    node.all_adopted().await;
    // Given up before its end came, ...
    let (uid, cell) = created(&node, &init, 1).await;
    drop(cell);
    node.acknowledge(uid).await;
    init.end(uid);
    init.is_acknowledged(uid).await;
    // ... after it came, ...
    let (uid, cell) = created(&node, &init, 2).await;
    init.end(uid);
    assert_eq!(cell.exit.await.unwrap(), exit());
    node.acknowledge(uid).await;
    init.is_acknowledged(uid).await;
    // ... and before the cell itself came.
    let gives_up = node.clone();
    let asking = tokio::spawn(async move {
        let (callers, _present) = Callers::new();
        gives_up.create(launch(3), vec![], &callers).await
    });
    let NodeRequest::CreateCell { request, launch } = init.hear().await else {
        panic!("no request for a cell")
    };
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    let (pid, pidfd) = process();
    init.say(&NodeEvent::CellCreated { request, pid }, &[pidfd.as_fd()]);
    init.end(launch.uid);
    init.is_acknowledged(launch.uid).await;
}

/// On one thread: what is in the queue stays there until the test waits.
#[tokio::test]
async fn a_creation_that_everybody_gave_up_leaves_the_queue_and_is_never_made() {
    let (node, init) = pair().await;
    let (callers, present) = Callers::new();
    let mut queued = Box::pin(node.create(launch(1), vec![], &callers));
    assert!((&mut queued).now_or_never().is_none());
    // A retry waits for it, too.
    let retry = callers.join();
    drop(present);
    assert!(!callers.have_gone());
    drop(retry);
    let (made, _cell) = created(&node, &init, 2).await;
    assert_eq!(
        made,
        Uid([2; 16]),
        "the first thing that node-init hears of"
    );
    assert!(matches!(queued.await, Err(CreateError::GivenUp)));
    // Nor does it wait for a place in a queue that is full.
    while node.commands.try_send(Command::AllAdopted).is_ok() {}
    let (callers, present) = Callers::new();
    let mut waiting = Box::pin(node.create(launch(3), vec![], &callers));
    assert!((&mut waiting).now_or_never().is_none());
    drop(present);
    assert!(matches!(
        (&mut waiting).now_or_never(),
        Some(Err(CreateError::GivenUp))
    ));
}

// The test blocks in its sends while the task reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_ends_that_no_task_waits_for_are_acknowledged() {
    let (node, init) = pair().await;
    let uid = |number: u32| {
        let mut uid = [7; 16];
        uid[..4].copy_from_slice(&number.to_le_bytes());
        Uid(uid)
    };
    for number in 0..1000 {
        init.end(uid(number));
    }
    // They are heard before.
    let mut told = node.exits_of(vec![uid(999)]).await;
    told.remove(&uid(999)).unwrap().await.unwrap();
    node.all_adopted().await;
    let mut acknowledged = std::collections::HashSet::new();
    while acknowledged.len() < 999 {
        let NodeRequest::AckCell { uid } = init.hear().await else {
            panic!("no acknowledgement")
        };
        acknowledged.insert(uid);
    }
    assert_eq!(*node.state().borrow(), InitState::Serving);
}

#[tokio::test]
async fn a_descriptor_that_nobody_waits_for_is_dropped_again() {
    let (node, init) = pair().await;
    let (_, fd) = process();
    let keeps = node.clone();
    let own = fd.try_clone().unwrap();
    let keeping = tokio::spawn(async move { keeps.keep_descriptor("o", "n", own).await });
    let NodeRequest::KeepDescriptor { request, .. } = init.hear().await else {
        panic!("no request to keep")
    };
    keeping.abort();
    assert!(keeping.await.unwrap_err().is_cancelled());
    let number = 7;
    init.say(&NodeEvent::DescriptorKept { request, number }, &[]);
    let dropped = init.hear().await;
    assert_eq!(dropped, NodeRequest::DropDescriptor { number });
    // All that are kept come with their names; one without a descriptor ends the conversation.
    let lists = node.clone();
    let listing = tokio::spawn(async move { lists.kept_descriptors().await });
    let NodeRequest::ListDescriptors { request } = init.hear().await else {
        panic!("no request for a list")
    };
    let event = NodeEvent::Descriptor {
        request,
        number: 3,
        owner: "o".to_owned(),
        name: "n".to_owned(),
    };
    init.say(&event, &[fd.as_fd()]);
    init.say(&NodeEvent::DescriptorsListed { request }, &[]);
    let all = listing.await.unwrap().unwrap();
    assert_eq!((all[0].number, &*all[0].owner, all.len()), (3, "o", 1));
    init.say(&event, &[]);
    let state = &mut node.state();
    state.wait_for(|it| *it == InitState::Gone).await.unwrap();
}
