// SPDX-License-Identifier: Apache-2.0
//! Groups, without controllers: the host may have none. Limits are the VM's stories.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use kernel::cgroup::{Bound, Cgroup, Limits};
use kernel::clone::{Cloned, Options, clone};
use kernel::process;
use kernel::wait::{ExitStatus, Reap, Target, wait};

use crate::{Story, in_clone};

pub(crate) const STORIES: &[Story] = &[
    ("a_group_is_made_lived_in_and_removed", a_group_s_life),
    ("a_frozen_group_can_be_killed", a_frozen_group_can_be_killed),
    ("removal_waits_for_the_last_process", removal_waits),
    ("only_an_empty_group_is_removed_at_once", removed_at_once),
    (
        "a_limit_without_its_controller_says_so",
        a_missing_controller_is_named,
    ),
    ("names_do_not_lead_out_of_a_group", names_stay_inside),
    (
        "who_may_make_groups_below_one_gets_no_other_right_and_has_bounds",
        a_delegated_group_has_bounds,
    ),
];

const SOON: Duration = Duration::from_secs(20);

/// A group of the test's own, below the caller's; removed by the test.
fn scratch(name: &str) -> (Cgroup, String) {
    let own = Cgroup::own().unwrap();
    let name = format!("kernel-test-{name}-{}", process::id());
    own.create(&name).unwrap();
    (own, name)
}

fn sleeper(group: &Cgroup) -> (i32, std::os::fd::OwnedFd) {
    let options = Options {
        cgroup: Some(group.as_fd()),
        ..Options::default()
    };
    match clone(options).unwrap() {
        Cloned::Child => loop {
            std::thread::park();
        },
        Cloned::Parent(pid, pidfd) => (pid, pidfd),
    }
}

fn a_group_s_life() {
    let (own, name) = scratch("life");
    let group = own.child(&name).unwrap();
    assert!(!group.events().unwrap().populated);
    assert_eq!(own.create(&name).unwrap_err().errno(), libc::EEXIST);
    let leaf = group.create("leaf").unwrap();
    let (pid, pidfd) = sleeper(&leaf);
    assert_eq!(leaf.processes().unwrap(), [pid]);
    assert!(group.events().unwrap().populated);
    assert_eq!(group.children().unwrap(), ["leaf"]);
    assert!(leaf.cpu_stat().is_ok());
    leaf.kill_and_wait(SOON).unwrap();
    let exit = wait(Target::PidFd(pidfd.as_fd()), Reap::Yes).unwrap();
    assert_eq!(
        exit.status,
        ExitStatus::Signal {
            signal: 9,
            core: false
        }
    );
    own.remove(&name, SOON).unwrap();
    own.remove(&name, SOON).unwrap();
    assert!(own.child(&name).unwrap_err().is_not_found());
}

fn a_frozen_group_can_be_killed() {
    let (own, name) = scratch("frozen");
    let group = own.child(&name).unwrap();
    let (_, pidfd) = sleeper(&group);
    group.freeze(SOON).unwrap();
    assert!(group.events().unwrap().frozen);
    group.thaw(SOON).unwrap();
    assert!(!group.events().unwrap().frozen);
    group.freeze(SOON).unwrap();
    group.kill_and_wait(SOON).unwrap();
    wait(Target::PidFd(pidfd.as_fd()), Reap::Yes).unwrap();
    own.remove(&name, SOON).unwrap();
}

fn removal_waits() {
    let (own, name) = scratch("waits");
    let group = own.child(&name).unwrap();
    let (_, pidfd) = sleeper(&group);
    let error = own.remove(&name, Duration::from_millis(50)).unwrap_err();
    assert_eq!(error.errno(), libc::ETIMEDOUT);
    kernel::pidfd::send_signal(&pidfd, kernel::signal::Signal::KILL).unwrap();
    own.remove(&name, SOON).unwrap();
    wait(Target::PidFd(pidfd.as_fd()), Reap::Yes).unwrap();
}

fn removed_at_once() {
    let (own, name) = scratch("at-once");
    let group = own.child(&name).unwrap();
    let leaf = group.create("leaf").unwrap();
    let (_, pidfd) = sleeper(&leaf);
    // One below it, and a process in that.
    assert!(!group.remove_empty().unwrap() && !leaf.remove_empty().unwrap());
    leaf.kill_and_wait(SOON).unwrap();
    wait(Target::PidFd(pidfd.as_fd()), Reap::Yes).unwrap();
    // The kernel may still be taking the process apart.
    own.remove(&name, SOON).unwrap();
    assert!(group.remove_empty().unwrap(), "gone already");
    own.create(&name).unwrap();
    assert!(own.child(&name).unwrap().remove_empty().unwrap());
    assert!(own.child(&name).unwrap_err().is_not_found());
}

fn a_missing_controller_is_named() {
    let (own, name) = scratch("limits");
    let group = own.child(&name).unwrap();
    if !group.controllers().unwrap().iter().any(|c| c == "memory") {
        let limits = Limits {
            memory_max: Some(Bound::At(1 << 30)),
            ..Limits::default()
        };
        let error = group.set_limits(&limits).unwrap_err();
        assert_eq!(error.errno(), libc::EOPNOTSUPP);
        assert!(
            error.to_string().contains("needs the memory controller"),
            "{error}"
        );
        assert!(group.memory_usage().unwrap().is_none());
        let error = group.enable(&["memory"]).unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
    }
    own.remove(&name, SOON).unwrap();
}

fn names_stay_inside() {
    let own = Cgroup::own().unwrap();
    for name in ["", ".", "..", "a/b", "../x"] {
        assert_eq!(own.child(name).unwrap_err().errno(), libc::EINVAL, "{name}");
        assert_eq!(
            own.create(name).unwrap_err().errno(),
            libc::EINVAL,
            "{name}"
        );
        assert_eq!(own.read(name).unwrap_err().errno(), libc::EINVAL, "{name}");
    }
}

fn a_delegated_group_has_bounds() {
    const USER: u32 = 1234;
    let (own, name) = scratch("delegated");
    let group = own.child(&name).unwrap();
    group.delegate((USER, USER), 4, 2).unwrap();
    let inside = Options {
        cgroup: Some(group.as_fd()),
        ..Options::default()
    };
    let exit = in_clone(inside, || {
        process::set_groups(&[]).unwrap();
        process::set_gid(USER).unwrap();
        process::set_uid(USER).unwrap();
        let below = group.create("below").unwrap();
        below.enter().unwrap();
        let deepest = below.create("deepest").unwrap();
        assert_eq!(deepest.create("x").unwrap_err().errno(), libc::EAGAIN);
        // Of any name: it has to go again.
        let strange = group.path().join(OsStr::from_bytes(b"\xff\xfe"));
        std::fs::create_dir(&strange).unwrap();
        std::fs::create_dir(strange.join("below")).unwrap();
        assert_eq!(group.create("x").unwrap_err().errno(), libc::EAGAIN);
        for file in [
            "cgroup.max.descendants",
            "cgroup.max.depth",
            "cgroup.freeze",
        ] {
            let refused = group.write(file, "1").unwrap_err();
            assert_eq!(refused.errno(), libc::EACCES, "{file}");
        }
        assert_eq!(own.create("x").unwrap_err().errno(), libc::EACCES);
    });
    assert_eq!(exit.status, ExitStatus::Code(0));
    own.remove(&name, SOON).unwrap();
    assert!(own.child(&name).unwrap_err().is_not_found());
}
