// SPDX-License-Identifier: Apache-2.0
//! Mounts, roots, maps of ids, and what is locked in a namespace made from another.

use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use kernel::clone::{Cloned, Options, clone};
use kernel::idmap::{self, IdMap};
use kernel::mount::{self, Attributes, Change, Propagation, overlay, userns};
use kernel::namespace::{self, Namespaces};
use kernel::process;
use kernel::seqpacket::{self, Mode};
use kernel::wait::{ExitStatus, Reap, Target, wait};

use crate::{Story, ok_in_clone, run};

pub(crate) const STORIES: &[Story] = &[
    ("a_tmpfs_is_made_detached_and_attached", a_tmpfs_is_attached),
    (
        "a_wrong_option_is_named_by_the_kernel",
        a_wrong_option_is_named,
    ),
    (
        "a_bind_has_its_own_attributes",
        a_bind_has_its_own_attributes,
    ),
    (
        "an_idmapped_mount_shows_other_owners",
        an_idmapped_mount_shows_other_owners,
    ),
    (
        "a_user_namespace_helper_leaves_no_process_behind",
        the_helper_leaves_no_process,
    ),
    ("the_root_can_be_replaced", the_root_can_be_replaced),
    (
        "folders_are_stacked_by_short_names",
        folders_are_stacked_by_short_names,
    ),
    (
        "a_program_is_executed_from_where_it_can_not_be_written",
        a_program_is_executed_from_where_it_can_not_be_written,
    ),
    (
        "a_cell_cannot_undo_the_template",
        a_cell_cannot_undo_the_template,
    ),
    (
        "maps_are_written_from_outside",
        maps_are_written_from_outside,
    ),
];

/// A mount namespace of the story's own, and an empty folder on a tmpfs in it.
fn private_folder() -> PathBuf {
    namespace::unshare(Namespaces::MOUNT).unwrap();
    mount::set_propagation(Path::new("/"), Propagation::Private, true).unwrap();
    let fs = mount::tmpfs(1 << 24, 0o755, Attributes::NONE).unwrap();
    mount::attach(&fs, Path::new("/mnt")).unwrap();
    assert!(mount::is_mount_point(Path::new("/mnt")).unwrap());
    PathBuf::from("/mnt")
}

fn folder(path: PathBuf) -> PathBuf {
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn a_tmpfs_is_attached() {
    let dir = folder(private_folder().join("t"));
    let flags = Attributes::NO_SUID | Attributes::NO_DEV | Attributes::NO_EXEC;
    let fs = mount::tmpfs(1 << 20, 0o1777, flags).unwrap();
    assert!(!mount::is_mount_point(&dir).unwrap());
    mount::attach_on(&fs, mount::open_path(&dir).unwrap()).unwrap();
    let mounts = mount::info::read().unwrap();
    let found = mounts.iter().find(|m| m.target == dir).unwrap();
    assert_eq!(found.fs_type, "tmpfs");
    assert!(
        ["nosuid", "nodev", "noexec"]
            .iter()
            .all(|o| found.has_option(o)),
        "{found:?}"
    );
    assert!(found.has_super_option("size=1024k"), "{found:?}");
    assert_eq!(
        std::fs::metadata(&dir).unwrap().permissions().mode() & 0o7777,
        0o1777
    );
    // The descriptor is a use of it.
    assert_eq!(
        mount::unmount(&dir, false).unwrap_err().errno(),
        libc::EBUSY
    );
    drop(fs);
    mount::unmount(&dir, false).unwrap();
    assert_eq!(
        mount::unmount(&dir, false).unwrap_err().errno(),
        libc::EINVAL
    );
}

fn a_wrong_option_is_named() {
    let error = mount::NewFileSystem::open("tmpfs")
        .unwrap()
        .set("size", "much")
        .unwrap_err();
    assert!(error.to_string().contains("size=much"), "{error}");
    assert!(
        error.to_string().contains("Bad value"),
        "the kernel's own words: {error}"
    );
    assert_eq!(
        mount::NewFileSystem::open("nofs").unwrap_err().errno(),
        libc::ENODEV
    );
}

fn a_bind_has_its_own_attributes() {
    let base = private_folder();
    let (from, to) = (folder(base.join("from")), folder(base.join("to")));
    mount::bind(
        &from,
        &to,
        false,
        Attributes::READ_ONLY | Attributes::NO_SUID,
    )
    .unwrap();
    let error = std::fs::write(to.join("x"), "x").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EROFS));
    std::fs::write(from.join("x"), "x").unwrap();
    assert_eq!(std::fs::read(to.join("x")).unwrap(), b"x");
    let clear = Change {
        clear: Attributes::READ_ONLY,
        ..Change::default()
    };
    mount::set_attributes_of(&to, &clear).unwrap();
    std::fs::write(to.join("y"), "y").unwrap();
    let error = mount::set_attributes_of(&folder(base.join("none")), &clear).unwrap_err();
    assert_eq!(error.errno(), libc::EINVAL);
}

fn an_idmapped_mount_shows_other_owners() {
    let base = private_folder();
    let (from, to) = (folder(base.join("from")), folder(base.join("to")));
    std::os::unix::fs::chown(&from, Some(1000), Some(1000)).unwrap();
    // On disk 1000; through the mount 100000, which a cell's own map then shows as its 0.
    let map = [IdMap {
        inside: 1000,
        outside: 100_000,
        count: 1,
    }];
    let namespace = userns::with_maps(&map, &map).unwrap();
    let copy = mount::copy_tree(&from, false).unwrap();
    let change = Change {
        id_map: Some(namespace.as_fd()),
        ..Change::default()
    };
    match mount::set_attributes(&copy, &change) {
        Ok(()) => {}
        Err(e) if e.is(libc::EINVAL) => {
            println!("  this kernel's tmpfs can't be idmapped");
            process::exit(crate::IGNORED);
        }
        Err(e) => panic!("{e}"),
    }
    mount::attach(&copy, &to).unwrap();
    assert_eq!(std::fs::metadata(&to).unwrap().uid(), 100_000);
    ok_in_clone(Options::default(), || {
        process::set_gid(100_000).unwrap();
        process::set_uid(100_000).unwrap();
        std::fs::write(to.join("mine"), "x").unwrap();
    });
    assert_eq!(std::fs::metadata(from.join("mine")).unwrap().uid(), 1000);
    // Root isn't in the map: it can't leave a file there at all.
    let error = std::fs::write(to.join("roots"), "x").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EOVERFLOW));
}

fn the_helper_leaves_no_process() {
    let map = [IdMap {
        inside: 0,
        outside: 5000,
        count: 10,
    }];
    let one = userns::with_maps(&map, &map).unwrap();
    let two = userns::with_maps(&map, &map).unwrap();
    assert_ne!(
        namespace::identity(&one).unwrap(),
        namespace::identity(&two).unwrap()
    );
    let wrong = [
        IdMap {
            inside: 0,
            outside: 1,
            count: 5,
        },
        IdMap {
            inside: 3,
            outside: 9,
            count: 5,
        },
    ];
    let error = userns::with_maps(&wrong, &map).unwrap_err();
    assert_eq!((error.errno(), error.detail()), (libc::EINVAL, "uid_map"));
    let none = kernel::wait::try_wait(Target::Any, Reap::Yes).unwrap_err();
    assert_eq!(none.errno(), libc::ECHILD);
}

fn the_root_can_be_replaced() {
    let base = private_folder();
    std::fs::write(base.join("here"), "x").unwrap();
    mount::pivot_root(mount::open_path(&base).unwrap()).unwrap();
    assert_eq!(std::fs::read("/here").unwrap(), b"x");
    assert!(!Path::new("/etc").exists());
}

/// The order of a cell: clone from a namespace with the node's mounts, maps from outside, then try.
fn a_cell_cannot_undo_the_template() {
    let base = private_folder();
    let (root, secret) = (folder(base.join("root")), folder(base.join("root/secret")));
    std::fs::write(secret.join("key"), "key").unwrap();
    mount::bind(
        &root,
        &root,
        false,
        Attributes::READ_ONLY | Attributes::NO_SUID,
    )
    .unwrap();
    let cover = mount::tmpfs(0, 0o755, Attributes::READ_ONLY).unwrap();
    mount::attach(&cover, &secret).unwrap();
    in_user_namespace(|| {
        let clear = Change {
            clear: Attributes::READ_ONLY,
            ..Change::default()
        };
        assert_eq!(
            mount::set_attributes_of(&root, &clear).unwrap_err().errno(),
            libc::EPERM
        );
        assert_eq!(
            mount::unmount(&secret, true).unwrap_err().errno(),
            libc::EINVAL
        );
        assert_eq!(
            mount::copy_tree(&root, false).unwrap_err().errno(),
            libc::EINVAL
        );
        assert!(!secret.join("key").exists());
    });
}

fn maps_are_written_from_outside() {
    in_user_namespace(|| {
        assert_eq!(process::effective_uid(), 0);
        let map = std::fs::read_to_string("/proc/thread-self/uid_map");
        // A proc of the outer pid namespace shows no "thread-self" to the new one's init.
        assert!(map.is_err() || map.unwrap().contains("100000"));
    });
}

fn in_user_namespace(body: impl FnOnce()) {
    let (ours, theirs) = seqpacket::pair(Mode::Blocking).unwrap();
    let namespaces = Namespaces::USER | Namespaces::MOUNT | Namespaces::PID;
    let Cloned::Parent(pid, pidfd) = clone(Options {
        namespaces,
        ..Options::default()
    })
    .unwrap() else {
        let go = || {
            seqpacket::receive(&theirs, &mut [0; 1]).unwrap().unwrap();
            process::set_groups(&[]).unwrap();
            process::set_gid(0).unwrap();
            process::set_uid(0).unwrap();
            body();
        };
        process::exit(run(go));
    };
    let map = [IdMap {
        inside: 0,
        outside: 100_000,
        count: 65_536,
    }];
    idmap::write(idmap::open_process(pid).unwrap(), &map, &map).unwrap();
    seqpacket::send(&ours, b"g", &[]).unwrap();
    let exit = wait(Target::PidFd(pidfd.as_fd()), Reap::Yes).unwrap();
    assert_eq!(exit.status, ExitStatus::Code(0));
}

fn folders_are_stacked_by_short_names() {
    let root = private_folder();
    for (path, text) in [("low/a", "low a"), ("low/b", "low b"), ("high/a", "high a")] {
        let path = root.join(path);
        folder(path.parent().unwrap().to_owned());
        std::fs::write(path, text).unwrap();
    }
    std::os::unix::fs::symlink("high", root.join("0")).unwrap();
    std::os::unix::fs::symlink("low", root.join("1")).unwrap();
    for name in ["upper", "work", "target"] {
        folder(root.join(name));
    }
    std::env::set_current_dir(&root).unwrap();
    let lower = ["0".to_owned(), "1".to_owned()];
    let target = root.join("target");
    let read = |name: &str| std::fs::read_to_string(target.join(name)).unwrap();
    let mut folders = overlay::Folders {
        lower: &lower,
        upper: None,
        label: "",
    };
    overlay::mount(folders, &target).unwrap();
    assert_eq!((read("a"), read("b")), ("high a".into(), "low b".into()));
    std::fs::write(target.join("a"), "x").expect_err("without an upper folder");
    mount::unmount(&target, false).unwrap();
    folders.upper = Some(("upper", "work"));
    overlay::mount(folders, &target).unwrap();
    std::fs::write(target.join("b"), "changed").unwrap();
    let written = std::fs::read_to_string(root.join("upper/b")).unwrap();
    assert_eq!((read("b"), written), ("changed".into(), "changed".into()));
    let nowhere = ["nowhere".to_owned()];
    folders.lower = &nowhere;
    let error = overlay::mount(folders, &root.join("low")).unwrap_err();
    assert_eq!(error.errno(), libc::ENOENT);
}

/// With the privilege for mounts by a mount, without by a sealed copy.
fn a_program_is_executed_from_where_it_can_not_be_written() {
    use kernel::caps::{self, CapabilitySet, ThreadSets};
    use kernel::exec::{Prepared, unwritable};
    use rustix::fs::{Mode as FileMode, OFlags};
    let program = Path::new("/bin/sleep");
    for privileged in [true, false] {
        let (ours, theirs) = std::io::pipe().unwrap();
        let prepared = Prepared::new(&["sleep", "60"], &["A=b"]).unwrap();
        match clone(Options::default()).unwrap() {
            Cloned::Child => {
                if !privileged {
                    caps::set(&ThreadSets {
                        effective: CapabilitySet::EMPTY,
                        permitted: CapabilitySet::EMPTY,
                        inheritable: CapabilitySet::EMPTY,
                    })
                    .unwrap();
                }
                let file = unwritable(program).unwrap();
                let _ = prepared.exec_fd(file.as_fd());
                process::exit(1)
            }
            Cloned::Parent(pid, pidfd) => {
                // Closed by the exec.
                drop(theirs);
                assert_eq!(std::io::Read::read(&mut &ours, &mut [0]).unwrap(), 0);
                let exe = PathBuf::from(format!("/proc/{pid}/exe"));
                for flags in [OFlags::WRONLY, OFlags::RDWR] {
                    rustix::fs::open(&exe, flags, FileMode::empty()).expect_err("it was opened");
                }
                let held = rustix::fs::open(&exe, OFlags::PATH, FileMode::empty()).unwrap();
                let clear = Change {
                    clear: Attributes::READ_ONLY,
                    ..Change::default()
                };
                mount::set_attributes(&held, &clear).expect_err("its mount was changed");
                kernel::pidfd::send_signal(&pidfd, kernel::signal::Signal::KILL).unwrap();
                wait(Target::Pid(pid), Reap::Yes).unwrap();
                // Nothing executes it any more: that alone isn't what kept it.
                let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&held));
                if let Ok(open) = rustix::fs::open(path, OFlags::WRONLY, FileMode::empty()) {
                    // A sealed copy.
                    rustix::io::write(open, b"x").expect_err("it was written");
                }
            }
        }
    }
}
