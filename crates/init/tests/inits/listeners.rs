// SPDX-License-Identifier: Apache-2.0
//! Listeners of filters: a program begins when the daemon has its listener, and not otherwise.

use std::os::fd::{AsFd, OwnedFd};

use crate::Story;
use crate::bed::*;
use init::protocol::*;
use kernel::seccomp::{Action, Arch, Profile, Rule};
use kernel::seqpacket::{self, Mode, Packet};
use rustix::io::Errno;

pub(crate) const STORIES: &[Story] = &[(
    "a_program_begins_once_its_listener_is_in_other_hands",
    a_program_begins_once_its_listener_is_in_other_hands,
)];

fn launch_listening() -> Launch {
    let profile = Profile {
        default: Action::Allow,
        rules: vec![Rule::new(Action::Notify, ["mkdir", "mkdirat"])],
    };
    let program = profile.compile(Arch::NATIVE).unwrap().to_bytes();
    Launch {
        listens: true,
        listener: Some(Listening {
            program,
            killable: false,
        }),
        ..launch_of(&["/bin/sleep", "1000"])
    }
}

type Asked = (u64, [OwnedFd; 2], Option<OwnedFd>);

/// Asks for a start; answers the daemon's end, too.
fn ask(cell: &Cell, launch: &Launch) -> (Asked, OwnedFd) {
    let (ours, theirs) = seqpacket::pair(Mode::Blocking).unwrap();
    seqpacket::pass_credentials(&ours).unwrap();
    let asked = cell.ask_to_start_by(launch, |_, start, fds| {
        send(&cell.link.socket, start, &[fds, &[theirs.as_fd()]].concat());
    });
    (asked, ours)
}

/// The listener is here, and the program is the cell-init's copy still.
fn has_listener(end: &OwnedFd) -> Packet {
    let packet = seqpacket::receive(end, &mut [0; 8]).unwrap().unwrap();
    assert_eq!(packet.fds.len(), 1);
    let pid = packet.credentials.unwrap().pid;
    let command = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    assert_ne!(command, "sleep\n");
    packet
}

fn failed(outcome: Result<Running, Failure>) -> (Step, String) {
    let failure = outcome.err().expect("it was to fail");
    (failure.step, failure.detail)
}

fn a_program_begins_once_its_listener_is_in_other_hands() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    let launch = launch_listening();
    let (asked, end) = ask(&cell, &launch);
    let _listener = has_listener(&end);
    seqpacket::send(&end, &[Listening::GO_ON], &[]).unwrap();
    cell.hear_of_start(&launch, asked).unwrap();
    // The program has no end of the pair, and the cell-init hasn't, either.
    assert!(seqpacket::receive(&end, &mut [0; 8]).unwrap().is_none());
    // The daemon's word is no.
    let launch = launch_listening();
    let (asked, end) = ask(&cell, &launch);
    let _listener = has_listener(&end);
    seqpacket::send(&end, b"rnone listens", &[]).unwrap();
    let refused = failed(cell.hear_of_start(&launch, asked));
    assert_eq!(refused, (Step::Listener, "none listens".to_owned()));
    // The daemon is gone, and with it what it had of this.
    let (asked, end) = ask(&cell, &launch);
    let _listener = has_listener(&end);
    drop(end);
    let refused = failed(cell.hear_of_start(&launch, asked));
    assert_eq!(refused.0, Step::Listener);
    // Half of it is none of it.
    let unasked = Launch {
        listener: None,
        ..launch_listening()
    };
    let (asked, _end) = ask(&cell, &unasked);
    let refused = failed(cell.hear_of_start(&unasked, asked));
    assert_eq!(refused, (Step::Protocol, "half of a listener".to_owned()));
    let failure = cell.try_start(&launch).err().unwrap();
    assert_eq!(failure.errno, Errno::BADF.raw_os_error());
    cell.start(&launch_of(&["/bin/sleep", "1000"]));
}
