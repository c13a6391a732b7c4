// SPDX-License-Identifier: Apache-2.0
//! Filters in the running kernel.

use kernel::caps::CapabilitySet;
use kernel::clone::Options;
use kernel::exec::Prepared;
use kernel::namespace::{self, Namespaces};
use kernel::process;
use kernel::seccomp::{self, Action, Arch, Profile};
use kernel::wait::ExitStatus;

use crate::{Story, in_clone};

pub(crate) const STORIES: &[Story] = &[
    (
        "the_container_profile_lets_a_shell_run",
        the_container_profile_lets_a_shell_run,
    ),
    (
        "the_container_profile_refuses_in_the_kernel_too",
        the_container_profile_refuses,
    ),
    (
        "a_forbidden_call_can_end_the_process",
        a_forbidden_call_can_kill,
    ),
    (
        "a_filter_needs_no_new_privileges",
        a_filter_needs_no_new_privileges,
    ),
];

fn install(profile: &Profile) {
    seccomp::install(&profile.compile(Arch::NATIVE).unwrap().to_bytes(), false).unwrap();
}

fn the_container_profile_lets_a_shell_run() {
    let exit = in_clone(Options::default(), || {
        process::set_no_new_privileges().unwrap();
        let script = "x=$(ls /proc/self | wc -l); (exit 3); [ $? = 3 ] && [ $x -gt 10 ]";
        let none: [&str; 0] = [];
        let shell = Prepared::new(&["sh", "-c", script], &none).unwrap();
        install(&seccomp::container(CapabilitySet::EMPTY));
        panic!("{}", shell.exec(c"/bin/sh").unwrap_err());
    });
    assert_eq!(exit.status, ExitStatus::Code(0));
}

fn the_container_profile_refuses() {
    install(&seccomp::container(CapabilitySet::CONTAINER));
    assert_eq!(
        namespace::unshare(Namespaces::NET).unwrap_err().errno(),
        libc::EPERM
    );
    let error = kernel::mount::copy_tree(std::path::Path::new("/"), false).unwrap_err();
    assert_eq!(error.errno(), libc::EPERM);
    let error = kernel::clone::clone(Options::default()).unwrap_err();
    assert_eq!(error.errno(), libc::ENOSYS);
    assert_eq!(
        process::new_session_keyring().unwrap_err().errno(),
        libc::EPERM
    );
    // Threads still start: the library falls back from clone3 to clone.
    assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
}

fn a_forbidden_call_can_kill() {
    let exit = in_clone(Options::default(), || {
        install(&Profile::deny_list(["@clock"], Action::Kill));
        let _ = kernel::time::set_realtime_ns(0);
        process::exit(0);
    });
    assert!(
        matches!(exit.status, ExitStatus::Signal { signal: 31, .. }),
        "{:?}",
        exit.status
    );
}

fn a_filter_needs_no_new_privileges() {
    process::set_uid(1234).unwrap();
    let filter = Profile::deny_list(["@clock"], Action::Kill)
        .compile(Arch::NATIVE)
        .unwrap();
    let error = seccomp::install(&filter.to_bytes(), false).unwrap_err();
    assert_eq!(error.errno(), libc::EACCES);
    process::set_no_new_privileges().unwrap();
    seccomp::install(&filter.to_bytes(), true).unwrap();
}
