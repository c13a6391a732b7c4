// SPDX-License-Identifier: Apache-2.0
//! Descriptors that node-init keeps while daemons come and go.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use crate::Story;
use crate::bed::*;
use init::protocol::*;

pub(crate) const STORIES: &[Story] = &[
    (
        "a_listening_socket_outlives_the_daemon_and_no_client_is_refused",
        a_listening_socket_outlives_the_daemon_and_no_client_is_refused,
    ),
    (
        "kept_descriptors_are_bounded_and_a_full_init_still_serves",
        kept_descriptors_are_bounded_and_a_full_init_still_serves,
    ),
    (
        "what_is_no_request_to_keep_is_answered_and_leaves_nothing",
        what_is_no_request_to_keep_is_answered_and_leaves_nothing,
    ),
    (
        "a_deaf_daemon_that_lists_and_keeps_does_not_hold_up_its_init",
        a_deaf_daemon_that_lists_and_keeps_does_not_hold_up_its_init,
    ),
];

impl Daemon {
    fn ask_to_keep(&mut self, owner: &str, name: &str, fds: &[BorrowedFd<'_>]) -> u64 {
        self.request += 1;
        let order = NodeRequest::KeepDescriptor {
            request: self.request,
            owner: owner.to_owned(),
            name: name.to_owned(),
        };
        send(&self.socket, &order, fds);
        self.request
    }

    fn keep(&mut self, owner: &str, name: &str, fd: impl AsFd) -> Result<u64, Failure> {
        let asked = self.ask_to_keep(owner, name, &[fd.as_fd()]);
        self.answer(asked)
    }

    fn answer(&self, asked: u64) -> Result<u64, Failure> {
        match self.event() {
            (NodeEvent::DescriptorKept { request, number }, _) if request == asked => Ok(number),
            (NodeEvent::DescriptorNotKept { request, failure }, _) if request == asked => {
                Err(failure)
            }
            (other, _) => panic!("{other:?}"),
        }
    }

    /// What is kept, by number; of many the first descriptors alone.
    fn kept(&mut self) -> BTreeMap<u64, (String, String, Option<OwnedFd>)> {
        self.request += 1;
        let asked = self.request;
        send(
            &self.socket,
            &NodeRequest::ListDescriptors { request: asked },
            &[],
        );
        let mut all = BTreeMap::new();
        loop {
            match self.event() {
                (
                    NodeEvent::Descriptor {
                        request,
                        number,
                        owner,
                        name,
                    },
                    fds,
                ) => {
                    assert_eq!(request, asked);
                    let [fd] = fds.try_into().unwrap();
                    let fd = (all.len() < 100).then_some(fd);
                    all.insert(number, (owner, name, fd));
                }
                (NodeEvent::DescriptorsListed { request }, _) => {
                    assert_eq!(request, asked);
                    return all;
                }
                (other, _) => panic!("{other:?}"),
            }
        }
    }
}

fn a_listening_socket_outlives_the_daemon_and_no_client_is_refused() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let path = node.folder.path().join("listening");
    let listener = UnixListener::bind(&path).unwrap();
    let number = daemon.keep("socket/a.socket", "0 web", &listener).unwrap();
    let (near, _far) = UnixStream::pair().unwrap();
    let gone = daemon.keep("socket/a.socket", "1 web", &near).unwrap();
    assert!(gone > number);
    send(
        &daemon.socket,
        &NodeRequest::DropDescriptor { number: gone },
        &[],
    );
    // One that isn't known is nobody's.
    send(
        &daemon.socket,
        &NodeRequest::DropDescriptor { number: 77 },
        &[],
    );
    // Asked for, and the daemon is killed before it hears the answer.
    daemon.ask_to_keep("store/b.service", "stored", &[near.as_fd()]);
    drop(listener);
    daemon.crash();
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"while nobody served").unwrap();
    let mut daemon = node.daemon();
    let mut kept = daemon.kept();
    let names: Vec<(&str, &str)> = kept.values().map(|(o, n, _)| (&**o, &**n)).collect();
    assert_eq!(
        names,
        [("socket/a.socket", "0 web"), ("store/b.service", "stored")]
    );
    let (_, _, fd) = kept.remove(&number).unwrap();
    let (mut taken, _) = UnixListener::from(fd.unwrap()).accept().unwrap();
    let mut heard = [0; 19];
    taken.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"while nobody served");
    // The numbers go on: the old ones mean what they meant.
    let next = daemon.keep("store/b.service", "more", &near).unwrap();
    assert!(next > gone + 1, "{next}");
}

fn kept_descriptors_are_bounded_and_a_full_init_still_serves() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let (near, _far) = UnixStream::pair().unwrap();
    let mut numbers = Vec::new();
    for _ in 0..MAX_DESCRIPTORS_OF_OWNER {
        numbers.push(daemon.keep("store/greedy.service", "x", &near).unwrap());
    }
    let refused = daemon.keep("store/greedy.service", "x", &near).unwrap_err();
    assert_eq!(refused.step, Step::Limit, "{refused:?}");
    // Others aren't concerned, nor is anything else that the init does.
    daemon.keep("socket/a.socket", "0 a", &near).unwrap();
    let cell = daemon.cell(&node, node.plan());
    assert_eq!(cell.sh("exit 3").exit.how, ExitHow::Code(3));
    // All of them come to the next daemon, and a place that is free again is taken.
    daemon.crash();
    let mut daemon = node.daemon();
    assert_eq!(daemon.kept().len(), MAX_DESCRIPTORS_OF_OWNER + 1);
    let number = numbers[500];
    send(&daemon.socket, &NodeRequest::DropDescriptor { number }, &[]);
    daemon.keep("store/greedy.service", "x", &near).unwrap();
    let mut refusal = None;
    for owner in 0..10 {
        for _ in 0..MAX_DESCRIPTORS_OF_OWNER {
            refusal = refusal.or(daemon.keep(&format!("o{owner}"), "x", &near).err());
        }
    }
    assert_eq!(refusal.unwrap().step, Step::Limit);
    assert!(daemon.kept().len() <= MAX_DESCRIPTORS);
    let cell = daemon.cell(&node, node.plan());
    assert_eq!(cell.sh("exit 4").exit.how, ExitHow::Code(4));
}

fn what_is_no_request_to_keep_is_answered_and_leaves_nothing() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let (near, far) = UnixStream::pair().unwrap();
    for fds in [vec![], vec![near.as_fd(), far.as_fd()]] {
        let asked = daemon.ask_to_keep("o", "n", &fds);
        let failure = daemon.answer(asked).unwrap_err();
        assert_eq!(failure.step, Step::Protocol, "{failure:?}");
    }
    // An owner that is no UTF-8: the packet of one that is, with a byte changed.
    let order = NodeRequest::KeepDescriptor {
        request: 99,
        owner: "owner".to_owned(),
        name: String::new(),
    };
    let mut packet = Vec::new();
    codec::Packet::encode(&order, &mut packet).unwrap();
    let at = packet.windows(5).position(|it| it == b"owner").unwrap();
    packet[at] = 0xff;
    kernel::seqpacket::send(&daemon.socket, &packet, &[near.as_fd()]).unwrap();
    assert_eq!(daemon.answer(99).unwrap_err().step, Step::Protocol);
    assert_eq!(daemon.kept().len(), 0);
    // Nothing of it is held open: the last ends go with the test's own.
    drop(near);
    let mut far = far;
    assert_eq!(far.read(&mut [0; 1]).unwrap(), 0, "an end is still open");
}

fn a_deaf_daemon_that_lists_and_keeps_does_not_hold_up_its_init() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let (near, _far) = UnixStream::pair().unwrap();
    for _ in 0..MAX_DESCRIPTORS_OF_OWNER {
        daemon.keep("o", "n", &near).unwrap();
    }
    // It asks again and again, and reads nothing; its packets fill both ways.
    rustix::io::ioctl_fionbio(&daemon.socket, true).unwrap();
    let order = NodeRequest::ListDescriptors { request: 1 };
    while try_send(&daemon.socket, &order, &[]).is_some() {}
    daemon.crash();
    // The next one is served, with all of them.
    let mut daemon = node.daemon();
    assert_eq!(daemon.kept().len(), MAX_DESCRIPTORS_OF_OWNER);
}
