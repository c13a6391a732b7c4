// SPDX-License-Identifier: Apache-2.0
//! Capabilities across exec.

use kernel::caps::{self, Capability, CapabilitySet, ThreadSets};
use kernel::clone::Options;
use kernel::exec::Prepared;
use kernel::process;
use kernel::wait::ExitStatus;

use crate::{Story, in_clone};

pub(crate) const STORIES: &[Story] = &[
    (
        "an_ambient_capability_survives_exec_without_root",
        an_ambient_capability_survives,
    ),
    (
        "what_is_not_in_the_bounding_set_is_never_had_again",
        bounding_is_for_good,
    ),
];

fn exec_shell(script: &str) {
    let none: [&str; 0] = [];
    let error = Prepared::new(&["sh", "-c", script], &none)
        .unwrap()
        .exec(c"/bin/sh")
        .unwrap_err();
    panic!("{error}");
}

/// A shell's exit code says what its effective set is: 0 if it is exactly the expected one.
fn expect_effective(set: CapabilitySet) -> String {
    format!("grep -qx 'CapEff:.{:016x}' /proc/self/status", set.0)
}

fn an_ambient_capability_survives() {
    let one: CapabilitySet = ["NET_BIND_SERVICE".parse().unwrap()].into_iter().collect();
    let exit = in_clone(Options::default(), || {
        caps::limit_bounding(one).unwrap();
        process::set_keep_capabilities(true).unwrap();
        process::set_groups(&[]).unwrap();
        process::set_gid(1234).unwrap();
        process::set_uid(1234).unwrap();
        caps::set(&ThreadSets {
            effective: one,
            permitted: one,
            inheritable: one,
        })
        .unwrap();
        caps::set_ambient(one).unwrap();
        process::set_no_new_privileges().unwrap();
        exec_shell(&expect_effective(one));
    });
    assert_eq!(exit.status, ExitStatus::Code(0));
}

fn bounding_is_for_good() {
    let all = caps::bounding();
    let keep = all
        .without(Capability::SYS_BOOT)
        .intersection(CapabilitySet::CONTAINER);
    let exit = in_clone(Options::default(), || {
        caps::limit_bounding(keep).unwrap();
        assert_eq!(caps::bounding(), keep);
        exec_shell(&expect_effective(keep));
    });
    assert_eq!(exit.status, ExitStatus::Code(0));
    assert_eq!(caps::bounding(), all);
}
