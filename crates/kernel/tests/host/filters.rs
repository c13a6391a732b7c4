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
    ("nothing_sets_a_set_id_bit", nothing_sets_a_set_id_bit),
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

/// With every capability, and nothing else refused.
fn nothing_sets_a_set_id_bit() {
    use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let file = std::fs::File::create(path("file")).unwrap();
    install(&Profile {
        default: Action::Allow,
        rules: seccomp::no_set_id(),
    });
    let create = OFlags::CREATE | OFlags::WRONLY;
    let kinds = [FileType::RegularFile, FileType::Fifo, FileType::Socket];
    for mode in [0o4755, 0o2755, 0o6777].map(Mode::from_raw_mode) {
        let none = AtFlags::empty();
        let tried = [
            rustix::fs::chmod(path("file"), mode),
            rustix::fs::fchmod(&file, mode),
            rustix::fs::chmodat(CWD, path("file"), mode, none),
            rustix::fs::open(path("open"), create, mode).map(drop),
            rustix::fs::openat(CWD, path("openat"), create, mode).map(drop),
            rustix::fs::openat(CWD, folder.path(), OFlags::TMPFILE | OFlags::RDWR, mode).map(drop),
        ];
        let made = kinds.map(|kind| rustix::fs::mknodat(CWD, path("mknod"), kind, mode, 0));
        for result in tried.into_iter().chain(made) {
            assert_eq!(result, Err(rustix::io::Errno::PERM));
        }
        let resolve = ResolveFlags::empty();
        let second = rustix::fs::openat2(CWD, path("openat2"), create, mode, resolve);
        assert_eq!(second.err(), Some(rustix::io::Errno::NOSYS));
        // The kernel itself leaves it out.
        rustix::fs::mkdir(path("folder"), mode).unwrap();
        let folder = rustix::fs::stat(path("folder")).unwrap();
        assert_eq!(folder.st_mode & 0o6000, 0);
        std::fs::remove_dir(path("folder")).unwrap();
    }
    rustix::fs::chmod(path("file"), Mode::from_raw_mode(0o1755)).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
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
