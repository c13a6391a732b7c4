// SPDX-License-Identifier: Apache-2.0
//! Clones, namespaces, credentials.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use kernel::clone::{Cloned, Options, clone};
use kernel::exec::{Prepared, candidates};
use kernel::namespace::{self, Namespaces};
use kernel::seqpacket::{self, Mode};
use kernel::wait::{ExitStatus, Reap, Target, try_wait, wait};
use kernel::{pidfd, process};

use crate::{Story, in_clone, ok_in_clone, run};

pub(crate) const STORIES: &[Story] = &[
    (
        "a_clone_is_a_copy_and_ends_with_its_code",
        a_clone_is_a_copy,
    ),
    ("new_namespaces_are_new", new_namespaces_are_new),
    (
        "a_sibling_is_reaped_by_the_creators_parent",
        a_sibling_is_the_parents_child,
    ),
    (
        "a_child_s_pid_namespace_can_be_joined",
        a_pid_namespace_can_be_joined,
    ),
    (
        "descriptors_not_kept_are_closed",
        descriptors_not_kept_are_closed,
    ),
    (
        "credentials_can_be_given_up_for_good",
        credentials_can_be_given_up,
    ),
    (
        "a_program_gets_the_streams_it_was_given",
        a_program_gets_its_streams,
    ),
    (
        "a_sender_of_an_outer_namespace_has_no_pid",
        an_outer_sender_has_no_pid,
    ),
    ("allocation_works_in_a_clone_of_a_clone", allocation_works),
];

fn a_clone_is_a_copy() {
    let text = String::from("before");
    let exit = in_clone(Options::default(), || {
        assert_eq!(text, "before");
        process::exit(42);
    });
    assert_eq!(exit.status, ExitStatus::Code(42));
}

fn identity(kind: &str) -> (u64, u64) {
    let path = format!("/proc/self/ns/{kind}");
    namespace::identity(namespace::open(Path::new(&path)).unwrap()).unwrap()
}

fn new_namespaces_are_new() {
    let kinds = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
    let outside = kinds.map(identity);
    let options = Options {
        namespaces: Namespaces::ALL,
        ..Options::default()
    };
    ok_in_clone(options, || {
        assert_eq!(process::id(), 1);
        assert_eq!(process::parent_id(), 0);
        for (kind, outside) in kinds.iter().zip(outside) {
            // /proc is the outer pid namespace's: "self" is not there; the thread's own link is.
            if let Ok(fd) = namespace::open(Path::new(&format!("/proc/self/ns/{kind}"))) {
                assert_ne!(namespace::identity(fd).unwrap(), outside, "{kind}");
            }
        }
    });
}

fn a_sibling_is_the_parents_child() {
    let (ours, theirs) = seqpacket::pair(Mode::Blocking).unwrap();
    let spawner = in_clone(Options::default(), || {
        let options = Options {
            sibling: true,
            ..Options::default()
        };
        match clone(options).unwrap() {
            Cloned::Child => process::exit(9),
            Cloned::Parent(pid, pidfd) => {
                seqpacket::send(&theirs, &pid.to_ne_bytes(), &[pidfd.as_fd()]).unwrap();
                let not_ours = try_wait(Target::Pid(pid), Reap::Yes).unwrap_err();
                assert_eq!(not_ours.errno(), libc::ECHILD);
            }
        }
    });
    assert_eq!(spawner.status, ExitStatus::Code(0));
    let mut buffer = [0; 4];
    let packet = seqpacket::receive(&ours, &mut buffer).unwrap().unwrap();
    let exit = wait(Target::PidFd(packet.fds[0].as_fd()), Reap::Yes).unwrap();
    assert_eq!(
        (exit.pid, exit.status),
        (i32::from_ne_bytes(buffer), ExitStatus::Code(9))
    );
}

fn a_pid_namespace_can_be_joined() {
    let (ours, theirs) = seqpacket::pair(Mode::Blocking).unwrap();
    let options = Options {
        namespaces: Namespaces::PID,
        ..Options::default()
    };
    let Cloned::Parent(pid, init) = clone(options).unwrap() else {
        // Until the other end is closed.
        drop(ours);
        let _ = seqpacket::receive(&theirs, &mut [0; 1]);
        process::exit(0);
    };
    ok_in_clone(Options::default(), || {
        namespace::join(&init, Namespaces::PID).unwrap();
        ok_in_clone(Options::default(), || assert_eq!(process::id(), 2));
    });
    assert_eq!(pidfd::pid_of(&init).unwrap(), pid);
    drop((ours, theirs));
    assert_eq!(
        wait(Target::PidFd(init.as_fd()), Reap::Yes).unwrap().status,
        ExitStatus::Code(0)
    );
}

fn descriptors_not_kept_are_closed() {
    let files: Vec<File> = (0..40).map(|_| File::open("/dev/null").unwrap()).collect();
    let keep = [files[3].as_fd(), files[20].as_fd()];
    process::close_all_but(&keep).unwrap();
    let closed = |fd: &File| rustix::io::fcntl_getfd(fd).is_err();
    let open: Vec<usize> = (0..40).filter(|i| !closed(&files[*i])).collect();
    // No assertion before this: a panic would print to a closed descriptor.
    process::exit(if open == [3, 20] { 0 } else { 1 });
}

fn credentials_can_be_given_up() {
    process::set_groups(&[7, 8]).unwrap();
    process::set_gid(1234).unwrap();
    process::set_uid(4321).unwrap();
    assert_eq!(
        (process::effective_uid(), process::effective_gid()),
        (4321, 1234)
    );
    assert_eq!(process::set_uid(0).unwrap_err().errno(), libc::EPERM);
    assert_eq!(process::set_groups(&[]).unwrap_err().errno(), libc::EPERM);
}

fn a_program_gets_its_streams() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let prepared = Prepared::new(&["sh", "-c", "echo $A; cat"], &["A=1"]).unwrap();
    let paths = candidates(b"sh", b"/nowhere:/bin:/usr/bin").unwrap();
    let null = File::open("/dev/null").unwrap();
    let exit = in_clone(Options::default(), || {
        process::place_fd(null.as_fd(), 0).unwrap();
        process::place_fd(writer.as_fd(), 1).unwrap();
        let error = prepared.exec_first(&paths).unwrap_err();
        panic!("{error}");
    });
    assert_eq!(exit.status, ExitStatus::Code(0));
    drop(writer);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
    assert_eq!(text, "1\n");
}

fn an_outer_sender_has_no_pid() {
    let (ours, theirs) = seqpacket::pair(Mode::Blocking).unwrap();
    seqpacket::pass_credentials(&theirs).unwrap();
    let null = File::open("/dev/null").unwrap();
    seqpacket::send(&ours, b"x", &[null.as_fd()]).unwrap();
    let options = Options {
        namespaces: Namespaces::PID,
        ..Options::default()
    };
    ok_in_clone(options, || {
        let packet = seqpacket::receive(&theirs, &mut [0; 8]).unwrap().unwrap();
        let credentials = packet.credentials.unwrap();
        assert_eq!((credentials.pid, credentials.uid), (0, 0));
        assert_eq!(packet.fds.len(), 1);
        assert_eq!(seqpacket::peer_credentials(&theirs).unwrap().pid, 0);
    });
}

fn allocation_works() {
    ok_in_clone(Options::default(), || {
        ok_in_clone(Options::default(), || {
            let many: Vec<String> = (0..100_000).map(|i| format!("{i}")).collect();
            assert_eq!(many[99_999], "99999");
            // Panics unwind there too.
            assert_eq!(run(|| assert_eq!(many.len(), 100_000)), 0);
        });
    });
}
