// SPDX-License-Identifier: Apache-2.0
//! Records that are too long for a packet: they come and go in sealed memory, and stay there.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::Story;
use crate::bed::*;
use init::protocol::*;
use kernel::sealed::seal;
use kernel::seqpacket::{self, Mode};
use rustix::io::Errno;

pub(crate) const STORIES: &[Story] = &[
    (
        "long_records_outlive_daemons_and_the_init_holds_none_of_them",
        long_records_outlive_daemons_and_the_init_holds_none_of_them,
    ),
    (
        "a_cell_may_be_made_with_a_long_record",
        a_cell_may_be_made_with_a_long_record,
    ),
    (
        "a_record_that_is_not_sealed_or_too_long_is_refused",
        a_record_that_is_not_sealed_or_too_long_is_refused,
    ),
];

fn long(byte: u8) -> (Vec<u8>, OwnedFd) {
    let bytes = vec![byte; 2 << 20];
    let file = seal(c"record", &bytes).unwrap();
    (bytes, file)
}

/// Starts one with a record beside the packet.
fn start_with(cell: &Cell, launch: &Launch, file: BorrowedFd<'_>) -> Result<Running, Failure> {
    let asked = cell.ask_to_start_by(launch, |_, start, fds| {
        send(&cell.link.socket, start, &[fds, &[file]].concat());
    });
    cell.hear_of_start(launch, asked)
}

fn launch_beside(argv: &[&str]) -> Launch {
    Launch {
        record: Record::Beside,
        ..launch_of(argv)
    }
}

/// Resident memory of the init, in KiB.
fn resident(cell: &Cell) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", cell.pid)).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let words = line.unwrap().split_ascii_whitespace().nth(1);
    words.unwrap().parse().unwrap()
}

/// The record of the only workload, and of the cell.
fn found(cell: &Cell) -> (Vec<u8>, Vec<u8>) {
    let (state, fds) = &cell.link.workloads[0];
    (bytes_of(&state.record, fds), cell.link.record.clone())
}

fn long_records_outlive_daemons_and_the_init_holds_none_of_them() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let mut cell = daemon.cell(&node, node.plan());
    let before = resident(&cell);
    let (first, file) = long(1);
    let launch = launch_beside(&["/bin/sleep", "1000"]);
    let uid = launch.uid;
    start_with(&cell, &launch, file.as_fd()).unwrap();
    daemon.crash();
    let daemon = node.daemon();
    cell.reconnect();
    assert!(found(&cell) == (first, b"record of cell0".to_vec()));
    // Both are replaced, by long ones and by short ones.
    let (second, file) = long(2);
    let put = |request| CellRequest::PutRecord {
        request,
        uid,
        record: Record::Beside,
    };
    cell.link.ask(put, &[file.as_fd()]).unwrap();
    let (own, file) = long(3);
    let put = |request| CellRequest::PutCellRecord {
        request,
        record: Record::Beside,
    };
    cell.link.ask(put, &[file.as_fd()]).unwrap();
    daemon.crash();
    let _daemon = node.daemon();
    cell.reconnect();
    assert!(found(&cell) == (second, own));
    let grown = resident(&cell).saturating_sub(before);
    assert!(grown < 1024, "the init has grown by {grown} KiB");
    let put = |request| CellRequest::PutRecord {
        request,
        uid,
        record: Record::Here(b"short".to_vec()),
    };
    cell.link.ask(put, &[]).unwrap();
    cell.reconnect();
    assert_eq!(found(&cell).0, b"short");
}

fn a_cell_may_be_made_with_a_long_record() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let (bytes, file) = long(4);
    let plan = || {
        let mut plan = node.plan();
        plan.launch.record = Record::Beside;
        plan.root.push(file.try_clone().unwrap());
        plan
    };
    let mut outer = daemon.cell(&node, plan());
    assert!(outer.link.record == bytes);
    let mut inner = plan();
    inner.launch.uid_map.clear();
    inner.launch.gid_map.clear();
    inner.launch.unshare = Namespaces(Namespaces::ALL.0 & !Namespaces::USER);
    let inner = daemon.nested(&node, inner, &outer);
    assert!(inner.link.record == bytes);
    // A light one, too.
    let shared = daemon.cell(&node, Plan::bare("web", 524_288));
    let (uid, path) = (random_uid(), node.socket_path(random_uid()));
    let listener = seqpacket::listen(&path, 8, Mode::Nonblocking).unwrap();
    let light = |request| CellRequest::Light {
        request,
        uid,
        record: Record::Beside,
    };
    let fds = [listener.as_fd(), file.as_fd()];
    shared.link.ask(light, &fds).unwrap();
    assert!(CellLink::connect(&path).record == bytes);
    daemon.crash();
    let _daemon = node.daemon();
    outer.reconnect();
    assert!(outer.link.record == bytes);
    assert_eq!(outer.sh("exit 5").exit.how, ExitHow::Code(5));
}

fn a_record_that_is_not_sealed_or_too_long_is_refused() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    let refused = |file: &OwnedFd| {
        let launch = launch_beside(&["/bin/true"]);
        let failure = start_with(&cell, &launch, file.as_fd()).err().unwrap();
        let put = |request| CellRequest::PutCellRecord {
            request,
            record: Record::Beside,
        };
        assert_eq!(cell.link.ask(put, &[file.as_fd()]).unwrap_err(), failure);
        failure
    };
    let open = tempfile::tempfile().unwrap().into();
    assert_eq!(refused(&open).step, Step::Protocol);
    let longer = seal(c"record", &vec![0; MAX_SEALED + 1]).unwrap();
    assert_eq!(refused(&longer).errno, Errno::FBIG.raw_os_error());
    let none = |request| CellRequest::PutCellRecord {
        request,
        record: Record::Beside,
    };
    assert_eq!(cell.link.ask(none, &[]).unwrap_err().step, Step::Protocol);
    // All of one cell together have a bound, or who reads them would have none.
    let most = seal(c"record", &vec![0; MAX_SEALED]).unwrap();
    for _ in 0..MAX_RECORDS / MAX_SEALED {
        let launch = launch_beside(&["/bin/sleep", "1000"]);
        start_with(&cell, &launch, most.as_fd()).unwrap();
    }
    let one_more = launch_beside(&["/bin/true"]);
    let failure = start_with(&cell, &one_more, most.as_fd()).err().unwrap();
    assert_eq!(failure.step, Step::Limit);
    // What is there goes on, and can be written down still.
    let (_, file) = long(5);
    let put = |request| CellRequest::PutCellRecord {
        request,
        record: Record::Beside,
    };
    cell.link.ask(put, &[file.as_fd()]).unwrap();
}
