// SPDX-License-Identifier: Apache-2.0
//! Images and containers that try to get out, with all capabilities of their user namespace: what
//! they reach is their own. After runc's list: CVE-2019-5736 (the runtime's binary), CVE-2019-16884
//! and CVE-2019-19921 (links in place of /proc), CVE-2021-30465 (links in mount targets),
//! CVE-2023-27561 and CVE-2023-28642 (masks), CVE-2024-21626 (leaked descriptors, working
//! directories), CVE-2024-45310 (files made outside).

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno as Fails;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::io::Errno;
use syscalls::Sysno;

use crate::Story;
use crate::bed::*;
use crate::crashes::spawner_of;
use crate::images::*;
use init::protocol::*;
use kernel::signal::Signal;
use testkit::tracer::{Fault, Tracer};

pub(crate) const STORIES: &[Story] = &[
    (
        "nothing_of_the_node_is_reachable_from_a_container",
        nothing_of_the_node_is_reachable_from_a_container,
    ),
    (
        "links_of_an_image_lead_nowhere_out",
        links_of_an_image_lead_nowhere_out,
    ),
    (
        "files_of_an_image_that_are_read_hold_nothing_up",
        files_of_an_image_that_are_read_hold_nothing_up,
    ),
    (
        "a_device_of_an_image_can_not_be_opened",
        a_device_of_an_image_can_not_be_opened,
    ),
    (
        "a_containers_jail_can_not_be_undone",
        a_containers_jail_can_not_be_undone,
    ),
    (
        "the_binary_of_the_inits_can_not_be_written",
        the_binary_of_the_inits_can_not_be_written,
    ),
    (
        "no_descriptor_of_the_inits_leaks",
        no_descriptor_of_the_inits_leaks,
    ),
    (
        "a_containers_init_is_out_of_its_sight",
        a_containers_init_is_out_of_its_sight,
    ),
    (
        "what_starts_beside_can_not_be_traced",
        what_starts_beside_can_not_be_traced,
    ),
    (
        "a_container_in_the_making_bears_a_failure_of_every_call",
        a_container_in_the_making_bears_a_failure_of_every_call,
    ),
    (
        "an_executable_in_the_making_bears_a_failure_of_every_call",
        an_executable_in_the_making_bears_a_failure_of_every_call,
    ),
    (
        "containers_come_and_go_and_leave_nothing",
        containers_come_and_go_and_leave_nothing,
    ),
];

fn nothing_of_the_node_is_reachable_from_a_container() {
    let image = Image::new();
    let node = Node::start();
    let mut daemon = node.daemon();
    for plan in [image.container(&node), image.read_only(&node)] {
        let cell = daemon.cell(&node, plan);
        for pids in [Pids::New, Pids::Cell] {
            // Every file system is the image's, or one of the kernel's without files of the node.
            let script = "cat /proc/self/mountinfo";
            let launch = launch_in(pids, &["/bin/sh", "-c", script]);
            let shown = cell.run_launch(&launch).stdout;
            let mounts = kernel::mount::info::parse(shown.as_bytes()).unwrap();
            let store = image.store.path().to_str().unwrap();
            assert!(
                !shown.contains(store),
                "it shows where the image is: {shown}"
            );
            let overlays = mounts
                .iter()
                .filter(|mount| mount.fs_type == "overlay")
                .count();
            assert_eq!(overlays, 1, "{shown}");
            for mount in &mounts {
                let known = [
                    "overlay", "proc", "sysfs", "tmpfs", "devpts", "mqueue", "cgroup2",
                ];
                assert!(known.contains(&mount.fs_type.as_str()), "{shown}");
                let root = mount.target == Path::new("/");
                assert_eq!(root, mount.fs_type == "overlay", "an old root: {shown}");
            }
        }
        let script =
            "exec 2>/dev/null; cd /; echo *; cd ..; cd ../..; ls -d etc/hostname usr mnt media
            cat /proc/1/root/etc/hostname /proc/self/cwd/../../../etc/hostname
            mkdir /tmp/up && cd /tmp/up && chroot . /bin/true; echo over";
        let went = cell.main(script);
        let shown = went.stdout.lines().next().unwrap();
        for name in shown.split(' ') {
            let of_image = ["bin", "data", "dev", "etc", "home", "lib", "lib64", "proc"];
            let more = ["root", "sys", "tmp", "var", "inits"];
            assert!(of_image.contains(&name) || more.contains(&name), "{went:?}");
        }
        assert!(
            went.stdout.ends_with("\nover\n") && went.stdout.lines().count() == 2,
            "{went:?}"
        );
    }
}

fn links_of_an_image_lead_nowhere_out() {
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().to_str().unwrap();
    // Each in the place of something that is mounted, read or made.
    let image = Image::new().with(|root| {
        let up = "../".repeat(20);
        for (name, target) in [
            ("proc", "/bin".to_owned()),
            ("sys", format!("{up}{path}")),
            ("dev", path.to_owned()),
            ("out", path.to_owned()),
            ("up", format!("{up}{path}")),
            ("magic", "/proc/1/root".to_owned()),
            ("fd", "/proc/self/fd/0".to_owned()),
            ("loop", "/loop".to_owned()),
        ] {
            symlink(target, root.join(name)).unwrap();
        }
    });
    let node = Node::start();
    let mut daemon = node.daemon();
    for plan in [image.container(&node), image.read_only(&node)] {
        let cell = daemon.cell(&node, plan);
        let script = "for name in proc sys dev; do [ -L /$name ] && echo $name is a link; done
            cat /proc/1/comm; ls /sys/kernel > /dev/null && ls /bin/sh";
        assert_eq!(cell.main(script).stdout, "sh\n/bin/sh\n");
    }
    let cell = daemon.cell(&node, image.container(&node));
    let granted = tempfile::tempdir().unwrap();
    let to = |target: &str| {
        let mount = Plan::bare("unused", IDS)
            .mounting(granted.path(), target)
            .mounts;
        cell.mount(mount).map_err(|failure| failure.errno)
    };
    // A link that leads nowhere in the image is no folder of it.
    assert_eq!(to("/out/x"), Err(Errno::NOENT.raw_os_error()));
    assert_eq!(to("/up/x"), Err(Errno::NOENT.raw_os_error()));
    assert_eq!(to("/magic/x"), Err(Errno::LOOP.raw_os_error()));
    assert_eq!(to("/fd"), Err(Errno::LOOP.raw_os_error()));
    assert_eq!(to("/loop/x"), Err(Errno::LOOP.raw_os_error()));
    // Where the cell makes what it leads to, it leads there.
    let went = cell.main(&format!("mkdir -p {path} && echo made"));
    assert_eq!(went.stdout, "made\n", "{went:?}");
    to("/out/x").unwrap();
    to("/up/y").unwrap();
    assert_eq!(cell.main(&format!("ls {path}")).stdout, "x\ny\n");
    for cwd in ["/out/z", "/up/z"] {
        let mut launch = launch_in(Pids::New, &["/bin/pwd"]);
        launch.cwd = cwd.into();
        assert_eq!(cell.run_launch(&launch).stdout, format!("{path}/z\n"));
    }
    assert_eq!(
        std::fs::read_dir(outside.path()).unwrap().count(),
        0,
        "it got out"
    );
}

/// None may hold the cell-init's child, or give away what it has open.
fn files_of_an_image_that_are_read_hold_nothing_up() {
    let node = Node::start();
    let mut daemon = node.daemon();
    for (file, target) in [("passwd", "/proc/self/fd/3"), ("passwd", "/dev/zero")] {
        let image = Image::new().with(|root| {
            std::fs::create_dir(root.join("etc")).unwrap();
            symlink(target, root.join("etc").join(file)).unwrap();
        });
        let cell = daemon.cell(&node, image.container(&node));
        let failure = cell
            .try_start(&launch_in(Pids::New, &["/bin/true"]))
            .err()
            .unwrap();
        assert_eq!(failure.step, Step::User, "{failure:?}");
    }
    let image = Image::new().with(|root| {
        std::fs::create_dir(root.join("etc")).unwrap();
        let mode = Mode::from_raw_mode(0o666);
        mknodat(CWD, root.join("etc/passwd"), FileType::Fifo, mode, 0).unwrap();
    });
    let cell = daemon.cell(&node, image.container(&node));
    let failure = cell
        .try_start(&launch_in(Pids::New, &["/bin/true"]))
        .err()
        .unwrap();
    assert_eq!(failure.detail, "/etc/passwd is not a regular file");
}

fn a_device_of_an_image_can_not_be_opened() {
    let image = Image::new().with(|root| {
        for (name, kind, major, minor) in [
            ("disk", FileType::BlockDevice, 254, 0),
            ("zero", FileType::CharacterDevice, 1, 5),
        ] {
            let mode = Mode::from_raw_mode(0o666);
            let device = rustix::fs::makedev(major, minor);
            mknodat(CWD, root.join(name), kind, mode, device).unwrap();
        }
    });
    let node = Node::start();
    let mut daemon = node.daemon();
    for plan in [image.container(&node), image.read_only(&node)] {
        let cell = daemon.cell(&node, plan);
        let script = "exec 2>&1; head -c 1 /zero; head -c 1 /disk
            mount -o remount,bind,dev / && head -c 1 /zero
            mknod /tmp/zero c 1 5; mknod /dev/mine c 1 5; head -c 1 /dev/zero | wc -c";
        let shown = cell.main(script).stdout;
        let shown: Vec<&str> = shown
            .lines()
            .map(|line| line.rsplit(": ").next().unwrap())
            .collect();
        assert_eq!(&shown[..2], ["Permission denied"; 2], "{shown:?}");
        assert_eq!(shown.last(), Some(&"1"));
        assert!(!shown[2..shown.len() - 1].contains(&"1"), "{shown:?}");
    }
}

fn a_containers_jail_can_not_be_undone() {
    let image = Image::new();
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, image.read_only(&node));
    for pids in [Pids::New, Pids::Cell] {
        let script = "exec 2>/dev/null
            touch /x || echo the root is read-only
            mount -o remount,rw / || echo and stays so
            mount -o remount,bind,rw / || echo its mount, too
            mkdir /tmp/x || echo everywhere
            mount -t tmpfs none /tmp; mkdir /tmp/b; mount --bind / /tmp/b
            mount -o remount,bind,rw /tmp/b || echo also a copy; touch /tmp/b/x && echo written
            umount -l /; umount /; ls -d /usr/bin/dpkg /bin/sh
            echo | tee /proc/sysrq-trigger /proc/sys/kernel/core_pattern /sys/kernel/uevent_helper
            mount -t proc none /proc && echo x > /proc/sys/kernel/core_pattern && echo a pattern
            mount -t cgroup2 none /tmp && echo /x > /tmp/release_agent && echo an agent
            mount -t cgroup -o memory none /tmp && echo x > /tmp/release_agent && echo an agent";
        let went = cell.run_launch(&launch_in(pids, &["/bin/sh", "-c", script]));
        let expected =
            "the root is read-only\nand stays so\nits mount, too\neverywhere\nalso a copy\n";
        let rest = went.stdout.strip_prefix(expected);
        let rest = rest.unwrap_or_else(|| panic!("{went:?}"));
        for word in ["written", "pattern", "agent", "dpkg"] {
            assert!(!rest.contains(word), "{went:?}");
        }
        assert_eq!(cell.main("exit 4").exit.how, ExitHow::Code(4));
    }
    // A main process may leave its root; behind that there is no other.
    let went = cell.main(
        "exec 2>/dev/null; mount -t tmpfs none /tmp; mkdir /tmp/old /tmp/bin
        cp /bin/busybox /tmp/bin/; pivot_root /tmp /tmp/old; cd /
        /bin/busybox umount -l /old; /bin/busybox umount -l /; /bin/busybox ls /; cd ..
        /bin/busybox ls -d usr mnt old/bin",
    );
    assert!(went.stdout.starts_with("bin\nold\n"), "{went:?}");
    assert!(
        !went.stdout.contains("usr") && !went.stdout.contains("mnt"),
        "{went:?}"
    );
    for plan in [image.read_only(&node), image.container(&node)] {
        let writable = plan.root.len() == 2;
        let cell = daemon.cell(&node, plan);
        let went = cell.play(&["unlock", "/"]);
        // What a writable root never had isn't locked: read-only and nosuid are none of its flags.
        let told = went
            .stdout
            .lines()
            .filter(|line| !writable && line.starts_with("read-only") || line.starts_with("nodev"));
        assert_eq!(told.count(), 0, "{went:?}");
        // The trial is one that clears what isn't locked.
        assert!(
            went.stdout.contains("nosuid of its copy was cleared"),
            "{went:?}"
        );
        assert_eq!(went.exit.how, ExitHow::Code(0), "{went:?}");
        let script = "head -c 1 /dev/null; touch /zz 2>/dev/null && echo written";
        let expected = if writable { "written\n" } else { "" };
        assert_eq!(cell.main(script).stdout, expected);
    }
}

/// runc's CVE-2019-5736: a container with the node's user ids gets hold of the binary that its init
/// runs, and writes to it.
fn the_binary_of_the_inits_can_not_be_written() {
    let image = Image::new();
    let node = Node::start();
    let mut daemon = node.daemon();
    let plan = node.plan().sharing(Namespaces::USER);
    let cell = daemon.cell(&node, image.container_of(plan, true, 0));
    for pid in [cell.pid, spawner_of(&node).unwrap()] {
        let path = format!("/proc/{pid}/exe");
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let binary = rustix::fs::open(path.as_str(), flags, Mode::empty()).unwrap();
        let stat = rustix::fs::fstatvfs(&binary).unwrap();
        let flags = stat.f_flag;
        assert!(
            flags.contains(rustix::fs::StatVfsMountFlags::RDONLY),
            "{path} can be written"
        );
        let clear = kernel::mount::Change {
            clear: kernel::mount::Attributes::READ_ONLY,
            ..Default::default()
        };
        // Not even the node's own root can change that mount: it is in no namespace.
        kernel::mount::set_attributes(&binary, &clear).expect_err("it was changed");
        for flags in [OFlags::WRONLY, OFlags::RDWR] {
            rustix::fs::open(path.as_str(), flags, Mode::empty()).expect_err("it was opened");
        }
    }
    // From inside: the program that is executed is the init's own.
    let went = cell.run_launch(&launch_in(Pids::Cell, &["/bin/sh", "-c",
        "exec 2>/dev/null; for exe in /proc/1/exe /proc/self/exe; do : 3<> $exe && echo $exe; done
         mount -o remount,bind,rw /proc/1/exe && echo remounted"]));
    assert!(
        !went.stdout.contains("/proc/1/exe") && !went.stdout.contains("remounted"),
        "{went:?}"
    );
    // Not as PID 1: as that this binary would be the init of a machine.
    let argv = ["/proc/self/exe", "workload", "binary"];
    let went = cell.run_launch(&launch_in(Pids::Cell, &argv));
    assert_eq!(
        (went.stdout.as_str(), went.exit.how),
        ("", ExitHow::Code(0)),
        "{went:?}"
    );
}

/// What a program that is the inits' own binary can do with it: printed. The part of the cell.
pub(crate) fn binary() {
    for exe in ["/proc/self/exe", "/proc/1/exe"] {
        let path = OFlags::PATH | OFlags::CLOEXEC;
        let Ok(held) = rustix::fs::open(exe, path, Mode::empty()) else {
            continue;
        };
        let clear = kernel::mount::Change {
            clear: kernel::mount::Attributes::READ_ONLY,
            ..Default::default()
        };
        if kernel::mount::set_attributes(held.as_fd(), &clear).is_ok() {
            println!("{exe}: its mount was changed");
        }
        for flags in [OFlags::WRONLY, OFlags::RDWR] {
            if rustix::fs::open(exe, flags, Mode::empty()).is_ok() {
                println!("{exe} was opened");
            }
        }
    }
}

fn no_descriptor_of_the_inits_leaks() {
    let image = Image::new().with(|root| symlink("/proc/self/fd/4", root.join("wd")).unwrap());
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, image.container(&node));
    let main = cell.main_that_waits();
    let argv = [ME, "workload", "descriptors"];
    for pids in [Pids::Cell, Pids::Of(main.uid)] {
        assert_eq!(cell.run_launch(&launch_in(pids, &argv)).stdout, "0 1 2\n");
    }
    assert_eq!(cell.play(&["descriptors"]).stdout, "0 1 2\n");
    let mut words: Vec<String> = (0..32).map(|fd| format!("/proc/self/fd/{fd}")).collect();
    words.extend((0..32).map(|fd| format!("/proc/self/fd/{fd}/../../..")));
    words.extend(
        [
            "/wd",
            "/wd/x",
            "/proc/self/cwd",
            "/proc/1/root",
            "/proc/self/root/x",
        ]
        .map(String::from),
    );
    for cwd in words {
        for pids in [Pids::New, Pids::Of(main.uid)] {
            let mut launch = launch_in(pids, &["/bin/pwd"]);
            launch.cwd = cwd.clone().into_bytes();
            let failure = cell
                .try_start(&launch)
                .err()
                .unwrap_or_else(|| panic!("{cwd}"));
            assert_eq!(failure.step, Step::Directory, "{cwd}: {failure:?}");
        }
    }
}

fn a_containers_init_is_out_of_its_sight() {
    let image = Image::new();
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, image.container(&node));
    // Its own main process it may do anything to; that is PID 1, and itself.
    let script = "for p in /proc/[0-9]*; do cat $p/comm; done
        kill -9 -1; kill -STOP -1; ls /dev/.mounts; echo over";
    assert_eq!(cell.main(script).stdout, "sh\nover\n");
    // A program of the cell's own pid namespace sees the init, and is as harmless as in any cell.
    let went = cell.run_launch(&launch_in(Pids::Cell, &[ME, "workload", "look-into", "1"]));
    assert_eq!(
        (went.stdout.as_str(), went.exit.how),
        ("", ExitHow::Code(0)),
        "{went:?}"
    );
    assert_eq!(cell.main("exit 4").exit.how, ExitHow::Code(4));
}

/// What enters a container's namespaces is a copy of the cell-init until it is executed: a process
/// of the container, with every capability, tries to take hold of it.
fn what_starts_beside_can_not_be_traced() {
    let image = Image::new();
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, image.container(&node));
    let main = cell.main_that_waits();
    let hunter = cell.start(&launch_in(Pids::Of(main.uid), &[ME, "workload", "seize"]));
    assert_eq!(read_line(&hunter.stdout), "ready\n");
    for _ in 0..testkit::how_much(100, 1000) {
        let running = cell.start(&launch_in(Pids::Of(main.uid), &["/bin/true"]));
        cell.link.exit_of(running.uid);
        cell.ack(running.uid);
    }
    kernel::pidfd::send_signal(&hunter.pidfd, Signal::TERM).unwrap();
    assert_eq!(read_all(hunter.stdout), "", "a start was seized");
}

/// No memory, no space, no descriptors.
const ERRNOS: [Fails; 3] = [Fails::ENOMEM, Fails::ENOSPC, Fails::EMFILE];
/// What is a failure no longer than this is an answer.
const SOON: Duration = Duration::from_secs(15);

/// How many calls there were, and which failed.
type Seen = (u64, Vec<Sysno>);

/// A container that is made under this fault, and ended.
fn make_and_end(
    daemon: &mut Daemon,
    node: &Node,
    image: &Image,
    fault: Option<(&Tracer, Fault)>,
) -> (Result<(), Failure>, Option<Seen>) {
    let plan = image.container(node);
    if let Some((tracer, fault)) = fault {
        tracer.set(fault);
    }
    let outcome = daemon.try_cell(node, plan, None);
    let seen = fault.map(|(tracer, _)| {
        let seen = (tracer.calls(), tracer.failed());
        tracer.set(Fault::None);
        seen
    });
    if let Ok(cell) = &outcome {
        kernel::pidfd::send_signal(&cell.pidfd, Signal::KILL).unwrap();
        let (NodeEvent::CellExited { uid, .. }, _) = daemon.event() else {
            panic!("no end")
        };
        send(&daemon.socket, &NodeRequest::AckCell { uid }, &[]);
    }
    (outcome.map(drop), seen)
}

/// Each call of the spawner that a container's creation needs: the daemon is told of a failure, the
/// next creation works, and the spawner is where it was.
fn a_container_in_the_making_bears_a_failure_of_every_call() {
    let image = Image::new();
    let node = Node::with_short_timeouts();
    let mut daemon = node.daemon();
    let make = |daemon: &mut Daemon, fault: Option<(&Tracer, Fault)>| {
        make_and_end(daemon, &node, &image, fault)
    };
    make(&mut daemon, None).0.unwrap();
    let (mut at, mut failures, mut replaced, start) = (0, 0, 0, Instant::now());
    let mut kinds = BTreeSet::<Sysno>::new();
    let mut traced = spawner_of(&node).unwrap();
    let mut tracer = Tracer::attach(traced);
    loop {
        let errno = ERRNOS[usize::try_from(at).unwrap() % 3];
        let asked = Instant::now();
        let (outcome, seen) = make(&mut daemon, Some((&tracer, Fault::Nth { at, errno })));
        assert!(asked.elapsed() < SOON, "call {at} was no answer in time");
        let (calls, failed) = seen.unwrap();
        failures += usize::from(outcome.is_err());
        kinds.extend(&failed);
        // The next one is made, by the same spawner or by another.
        let start = Instant::now();
        while let (Err(failure), _) = make(&mut daemon, None) {
            let again = [Errno::AGAIN, Errno::CHILD].map(Errno::raw_os_error);
            assert!(
                again.contains(&failure.errno),
                "after call {at} {failed:?}: {failure:?}"
            );
            assert!(
                start.elapsed() < SOON,
                "no container after call {at} {failed:?}"
            );
        }
        let present = spawner_of(&node).unwrap();
        if present != traced {
            replaced += 1;
            traced = present;
            tracer = Tracer::attach(traced);
        }
        if calls <= at && failed.is_empty() {
            break;
        }
        at += 1;
    }
    println!(
        "    {at} calls of {} kinds, {failures} refused, {replaced} spawners replaced, {:.1?}",
        kinds.len(),
        start.elapsed()
    );
    for kind in [
        Sysno::mount,
        Sysno::setns,
        Sysno::clone3,
        Sysno::move_mount,
        Sysno::fsconfig,
    ] {
        assert!(kinds.contains(&kind), "{kind} never failed");
    }
    tracer.detach(|| make(&mut daemon, None).0.unwrap());
}

/// Each call of a container's init, while executables are started in namespaces of their own and in
/// those of others: whatever fails is an answer, and the next start is where it should be.
fn an_executable_in_the_making_bears_a_failure_of_every_call() {
    let image = Image::new();
    let node = Node::start();
    let mut daemon = node.daemon();
    let mut cell = daemon.cell(&node, image.container(&node));
    let main = cell.main_that_waits();
    let tracer = Tracer::attach(cell.pid);
    let (mut rounds, mut failures, start) = (0, 0, Instant::now());
    let mut kinds = BTreeSet::<Sysno>::new();
    // A round: what failed, and whether there are no more calls than that.
    let mut bear = |fault: Fault| {
        rounds += 1;
        tracer.set(fault);
        for pids in [Pids::New, Pids::Of(main.uid), Pids::Cell] {
            let launch = launch_in(pids, &["/bin/true"]);
            match try_to_start(&cell, &launch) {
                Some(Ok(())) => {}
                Some(Err(())) => failures += 1,
                // It has closed the connection.
                None => break,
            }
        }
        let (calls, failed) = (tracer.calls(), tracer.failed());
        kinds.extend(&failed);
        tracer.set(Fault::None);
        let say = format!("after {fault:?}, which failed {failed:?}");
        assert_eq!(tracer.ended(), None, "{say}");
        settle(&mut cell, main.uid);
        let comm = |pids| {
            let launch = launch_in(pids, &["/bin/cat", "/proc/1/comm"]);
            cell.run_launch(&launch).stdout
        };
        assert_eq!(comm(Pids::Cell), "aurae-cell\n", "{say}");
        assert_eq!(comm(Pids::Of(main.uid)), "sh\n", "{say}");
        assert_eq!(comm(Pids::New), "cat\n", "{say}");
        (failed, calls)
    };
    let mut at = 0;
    loop {
        let errno = ERRNOS[usize::try_from(at).unwrap() % 3];
        let (failed, calls) = bear(Fault::Nth { at, errno });
        if calls <= at && failed.is_empty() {
            break;
        }
        at += 1;
    }
    // Those that it is about, by their names, once and again.
    for kind in [Sysno::setns, Sysno::clone3, Sysno::pidfd_open] {
        for times in 1..4 {
            let fault = Fault::Kinds {
                calls: [kind, kind],
                errno: Fails::ENOMEM,
                times,
            };
            let (failed, _) = bear(fault);
            assert!(failed.contains(&kind), "{kind} never failed");
        }
    }
    println!(
        "    {rounds} rounds, {at} calls of {} kinds, {failures} refused, {:.1?}",
        kinds.len(),
        start.elapsed()
    );
    tracer.detach(|| cell.ack(random_uid()));
}

/// Whether it was started, and has ended; `None` where the connection was closed.
fn try_to_start(cell: &Cell, launch: &Launch) -> Option<Result<(), ()>> {
    let mut sent = None;
    let (number, _outputs, _) = cell.ask_to_start_by(launch, |_, start, fds| {
        sent = try_send(&cell.link.socket, start, fds);
    });
    sent?;
    loop {
        match receive_within::<CellEvent>(&cell.link.socket, SOON)? {
            (CellEvent::Failed { request, .. }, _) if request == number => return Some(Err(())),
            (CellEvent::Started { request, .. }, _) if request == number => {}
            (CellEvent::Exited { uid, .. }, _) => {
                try_send(&cell.link.socket, &CellRequest::Ack { uid }, &[])?;
                if uid == launch.uid {
                    return Some(Ok(()));
                }
            }
            (other, _) => panic!("{other:?}"),
        }
    }
}

/// As the next daemon: all but the main process is waited for, and acknowledged.
fn settle(cell: &mut Cell, main: Uid) {
    cell.reconnect();
    let found = std::mem::take(&mut cell.link.workloads);
    assert!(
        found.iter().any(|(state, _)| state.uid == main),
        "the main process is lost"
    );
    for (state, _) in found.iter().filter(|(state, _)| state.uid != main) {
        if state.exit.is_none() {
            cell.link.exit_of(state.uid);
        }
        cell.ack(state.uid);
    }
}

fn containers_come_and_go_and_leave_nothing() {
    let image = Image::new();
    let node = Node::start();
    let mut daemon = node.daemon();
    let spawner = spawner_of(&node).unwrap();
    let mounts = || {
        let read = |path: String| std::fs::read_to_string(path).unwrap().lines().count();
        (
            read("/proc/self/mountinfo".into()),
            read(format!("/proc/{spawner}/mountinfo")),
        )
    };
    let open = || {
        std::fs::read_dir(format!("/proc/{spawner}/fd"))
            .unwrap()
            .count()
    };
    let (before, opened) = (mounts(), open());
    for turn in 0..testkit::how_much(30, 1000) {
        let plan = match turn % 2 {
            0 => image.container(&node),
            _ => image.read_only(&node),
        };
        let cell = daemon.cell(&node, plan);
        assert_eq!(cell.main("echo $$").stdout, "1\n");
        kernel::pidfd::send_signal(&cell.pidfd, Signal::KILL).unwrap();
        let (NodeEvent::CellExited { uid, .. }, _) = daemon.event() else {
            panic!("no end")
        };
        send(&daemon.socket, &NodeRequest::AckCell { uid }, &[]);
    }
    assert_eq!((mounts(), open()), (before, opened));
    assert_eq!(spawner_of(&node), Some(spawner));
}
