// SPDX-License-Identifier: Apache-2.0
//! What a cell's root can't do, tried from inside with all capabilities of its user namespace.

use std::os::fd::AsFd;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};

use crate::Story;
use crate::bed::*;
use init::protocol::*;

pub(crate) const STORIES: &[Story] = &[
    ("the_jail_can_not_be_undone", the_jail_can_not_be_undone),
    (
        "what_the_node_hides_is_not_there",
        what_the_node_hides_is_not_there,
    ),
    (
        "the_cells_init_is_opaque_and_deaf",
        the_cells_init_is_opaque_and_deaf,
    ),
    (
        "an_init_in_a_shared_pid_namespace_is_deaf_too",
        an_init_in_a_shared_pid_namespace_is_deaf_too,
    ),
    (
        "a_mounts_flags_can_not_be_cleared",
        a_mounts_flags_can_not_be_cleared,
    ),
    (
        "no_workload_is_the_user_that_the_init_is",
        no_workload_is_the_user_that_the_init_is,
    ),
    (
        "nothing_that_starts_can_be_traced",
        nothing_that_starts_can_be_traced,
    ),
    ("ps_shows_whose_init_it_is", ps_shows_whose_init_it_is),
    (
        "a_new_user_namespace_inside_gives_no_permission",
        a_new_user_namespace_inside_gives_no_permission,
    ),
    (
        "a_cgroup_shows_its_own_leaf_alone",
        a_cgroup_shows_its_own_leaf_alone,
    ),
    ("files_keep_their_modes", files_keep_their_modes),
    ("cells_do_not_see_each_other", cells_do_not_see_each_other),
];

/// Tries a script in a fresh cell and returns what it printed.
fn tried(script: &str) -> String {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    let went = cell.sh(script);
    assert_eq!(
        cell.sh("exit 4").exit.how,
        ExitHow::Code(4),
        "the cell has survived"
    );
    went.stdout
}

fn the_jail_can_not_be_undone() {
    let shown = tried(
        "exec 2>/dev/null
        mount -o remount,rw / || echo root stays read-only
        mount -o remount,bind,rw,suid,dev / || echo so does its mount
        touch /etc/x /usr/x || echo nothing is written
        umount /; umount -l / || echo root stays
        umount /dev/pts /dev/shm; umount /dev || echo dev stays
        umount /tmp && umount /tmp || echo a hidden folder stays
        ls -A /tmp; touch /tmp/x || echo and is read-only
        umount /run/bed; umount /run && umount /run || echo run stays
        ls -A /run
        umount -l /proc && ls /proc | grep -c '^[0-9]'
        umount -l /proc || echo the empty proc stays
        umount /sys && umount /sys || echo the empty sys stays
        mknod /var/tmp/disk b 254 0 || echo no devices
        mount -t ext4 /dev/vda /var/tmp || mount -t tmpfs x /boot && ls -A /boot
        chroot /var/tmp /bin/true || echo done",
    );
    let expected = "root stays read-only\nso does its mount\nnothing is written\nroot stays\ndev stays\n\
        a hidden folder stays\nand is read-only\nrun stays\n0\nthe empty proc stays\nthe empty sys stays\n\
        no devices\ndone\n";
    assert_eq!(shown, expected);
}

fn what_the_node_hides_is_not_there() {
    let shown = tried(
        "exec 2>/dev/null
        ls -A /root /home /boot /var/log /var/spool | grep -v : | grep -v '^$'
        cat /proc/kcore /proc/keys /proc/timer_list /proc/sysrq-trigger | wc -c
        umount /proc/kcore /proc/sysrq-trigger /proc/timer_list
        head -c 1 /proc/kcore || echo no kcore; cat /proc/timer_list || echo no timers
        echo h > /proc/sysrq-trigger || echo no sysrq
        echo 1 > /proc/sys/kernel/panic || echo no sysctl
        echo 1 > /sys/kernel/mm/ksm/run || echo no sysfs
        ls /sys/class/net; ls /sys/firmware; dmesg > /dev/null || echo no kernel log",
    );
    let expected = "0\nno kcore\nno timers\nno sysrq\nno sysctl\nno sysfs\nlo\n";
    assert!(shown.starts_with(expected), "{shown}");
}

fn the_cells_init_is_opaque_and_deaf() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    let went = cell.workload(&["look-into", "1"]);
    assert_eq!(went.stdout, "", "{went:?}");
    assert_eq!(went.exit.how, ExitHow::Code(0), "{went:?}");
    cell.sh("for s in 1 2 3 6 9 10 11 12 15 17 19 20 31; do kill -$s 1; done");
    cell.sh("kill -9 -1");
    assert_eq!(cell.sh("exit 8").exit.how, ExitHow::Code(8));
    assert_eq!(
        cell.sh("readlink /proc/1/exe /proc/1/ns/user /proc/1/cwd; ls /proc/1/fd | wc -l")
            .stdout,
        "0\n"
    );
}

fn an_init_in_a_shared_pid_namespace_is_deaf_too() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let parent = daemon.cell(&node, Plan::new("parent", IDS, 300_000));
    let top = daemon.cell(&node, node.plan().sharing(Namespaces::PID));
    let nested = Plan::new("nested", IDS + 100_000, 65_536).sharing(Namespaces::PID);
    let nested = daemon.nested(&node, nested, &parent);
    for cell in [&top, &nested] {
        let seen = cell.sh("echo $PPID").stdout.trim().to_owned();
        let script =
            "for s in 1 9 10 15 19; do kill -$s $PPID && echo it was signalled; done 2>/dev/null";
        assert_eq!(cell.sh(script).stdout, "");
        let went = cell.workload(&["look-into", &seen]);
        assert_eq!(
            (went.stdout.as_str(), went.exit.how),
            ("", ExitHow::Code(0)),
            "{went:?}"
        );
        assert_eq!(cell.sh("exit 8").exit.how, ExitHow::Code(8));
    }
}

/// Of mounts that a cell began with, and of those that came while it ran.
fn a_mounts_flags_can_not_be_cleared() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "content").unwrap();
    let cell = daemon.cell(&node, node.plan().mounting(folder.path(), "/run/early"));
    let late = Plan::bare("unused", IDS).mounting(folder.path(), "/home/late");
    cell.mount(late.mounts).unwrap();
    for target in ["/run/early", "/home/late"] {
        let went = cell.workload(&["unlock", target]);
        assert_eq!(
            (went.stdout.as_str(), went.exit.how),
            ("", ExitHow::Code(0)),
            "{went:?}"
        );
        let script = format!(
            "exec 2>/dev/null; cat {target}/file
            mount -o remount,bind,rw {target} || echo stays
            mkdir -p /tmp/copy && mount --bind {target} /tmp/copy || echo no copy
            mount -o remount,bind,rw,suid,dev /tmp/copy || echo stays
            touch {target}/file /tmp/copy/file || echo can not be written
            unshare -m sh -c 'mount -o remount,bind,rw {target} || echo stays'
            umount /tmp/copy"
        );
        let expected = "contentstays\nstays\ncan not be written\nstays\n";
        assert_eq!(cell.sh(&script).stdout, expected);
    }
    assert_eq!(
        std::fs::read(folder.path().join("file")).unwrap(),
        b"content"
    );
}

/// Prints what of a mount's flags, or of a copy's, could be cleared.
fn unlock(target: &str) {
    use kernel::mount::{Attributes, Change, copy_tree, set_attributes, set_attributes_of};
    let path = std::path::Path::new(target);
    for (name, clear) in [
        ("read-only", Attributes::READ_ONLY),
        ("nosuid", Attributes::NO_SUID),
        ("nodev", Attributes::NO_DEV),
    ] {
        let change = Change {
            clear,
            ..Change::default()
        };
        if set_attributes_of(path, &change).is_ok() {
            println!("{name} of it was cleared");
        }
        for recursive in [false, true] {
            let copy = copy_tree(path, recursive).unwrap();
            if set_attributes(&copy, &change).is_ok() {
                println!("{name} of its copy was cleared");
            }
        }
    }
}

/// What a user may do to processes of the same user, without any capability and with those of every
/// cell's root: all but SYS_RESOURCE, SYS_NICE and SYS_PTRACE, which would be a matter of their
/// own.
fn no_workload_is_the_user_that_the_init_is() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let outer = daemon.cell(&node, Plan::new("outer", IDS, 300_000));
    let nested = Plan::new("nested", IDS + 100_000, 65_536).sharing(Namespaces::USER);
    let nested = daemon.nested(&node, nested, &outer);
    let usual = !(1 << 24 | 1 << 23 | 1 << 19);
    for (cell, bounding) in [(&outer, 0), (&outer, usual), (&nested, 0), (&nested, usual)] {
        let me = std::env::current_exe().unwrap();
        let me = format!("/run/bed/{}", me.file_name().unwrap().to_str().unwrap());
        let mut launch = launch_of(&[me.as_str(), "workload", "meddle", "1"]);
        launch.bounding = bounding;
        let went = cell.run_launch(&launch);
        assert_eq!(
            (went.stdout.as_str(), went.exit.how),
            ("", ExitHow::Code(0)),
            "{went:?}"
        );
        assert_eq!(cell.sh("exit 8").exit.how, ExitHow::Code(8));
    }
    // Outside it has the id that it was given, and none of its children has.
    let status = std::fs::read_to_string(format!("/proc/{}/status", outer.pid)).unwrap();
    let uid = outer.init_id;
    assert!(
        status.contains(&format!("Uid:\t{uid}\t{uid}\t{uid}\t{}", outer.root)),
        "{status}"
    );
    let went = outer.sh("setpriv --reuid 299999 id -u 2>/dev/null || echo no such user; id -G");
    assert_eq!(went.stdout, "no such user\n0\n");
}

/// A sibling with every capability tries to take hold of whatever starts beside it, with an OOM
/// score of its own, which once had to be written by itself.
fn nothing_that_starts_can_be_traced() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    let me = std::env::current_exe().unwrap();
    let me = format!("/run/bed/{}", me.file_name().unwrap().to_str().unwrap());
    let hunter = cell.start(&launch_of(&[&me, "workload", "seize"]));
    assert_eq!(read_line(&hunter.stdout), "ready\n");
    for turn in 0..200 {
        let mut launch = launch_of(&["/bin/true"]);
        launch.oom_score_adj = Some(turn % 3 * 100);
        let running = cell.start(&launch);
        cell.link.exit_of(running.uid);
        cell.ack(running.uid);
    }
    kernel::pidfd::send_signal(&hunter.pidfd, kernel::signal::Signal::TERM).unwrap();
    assert_eq!(read_all(hunter.stdout), "", "a start was seized");
    // A program gets its score, the init keeps its own, and no process can go below that.
    let script = "cd /proc; cat self/oom_score_adj 1/oom_score_adj
        echo -1 2>/dev/null > self/oom_score_adj || echo not lower";
    let mut launch = launch_of(&["/bin/sh", "-c", script]);
    launch.oom_score_adj = Some(300);
    assert_eq!(cell.run_launch(&launch).stdout, "300\n0\nnot lower\n");
}

fn ps_shows_whose_init_it_is() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let mut plan = node.plan();
    plan.launch.title = "tenant/web/db".to_owned();
    let cell = daemon.cell(&node, plan);
    let shown = std::fs::read(format!("/proc/{}/cmdline", cell.pid)).unwrap();
    let shown = String::from_utf8(shown).unwrap();
    assert_eq!(shown.trim_end_matches('\0'), "aurae-cell tenant/web/db");
    assert_eq!(
        cell.sh("tr -d '\\0' < /proc/1/cmdline").stdout,
        "aurae-cell tenant/web/db"
    );
}

fn a_new_user_namespace_inside_gives_no_permission() {
    let shown = tried(
        "unshare -Urm sh -c 'mount -o remount,rw / || echo still read-only
            umount /tmp || echo still there; umount /proc || echo still mounted
            cat /etc/shadow || echo still closed' 2>/dev/null",
    );
    assert_eq!(
        shown,
        "still read-only\nstill there\nstill mounted\nstill closed\n"
    );
}

fn a_cgroup_shows_its_own_leaf_alone() {
    let shown = tried(
        "cat /proc/self/cgroup | grep '^0:'
        mkdir /tmp/cg && mount -t cgroup2 none /tmp/cg 2>/dev/null && cd /tmp/cg || echo not mounted
        ls -d */ 2>/dev/null; cat cgroup.procs 2>/dev/null | grep -c . | grep -v 0 > /dev/null && echo itself
        echo 1 > cgroup.kill 2>/dev/null || echo no kill
        mkdir x 2>/dev/null || echo no child",
    );
    assert_eq!(shown, "0::/\nitself\nno kill\nno child\n");
}

fn files_keep_their_modes() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "x").unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let cell = daemon.cell(&node, node.plan().mounting(folder.path(), "/run/mounted"));
    // The node's root may be any folder of its file system: the mount point alone is looked at.
    let script = "cat /run/mounted/secret /etc/shadow 2>&1 | grep -c denied
        while read -r id parent device root point options rest; do
            [ \"$point\" != / ] || echo \"$options\"
        done < /proc/self/mountinfo | grep -o 'ro,nosuid,nodev'";
    assert_eq!(cell.sh(script).stdout, "2\nro,nosuid,nodev\n");
}

fn cells_do_not_see_each_other() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let (one, two) = (
        daemon.cell(&node, node.plan()),
        daemon.cell(&node, node.plan()),
    );
    let running = one.start(&launch_of(&["/bin/sleep", "60"]));
    one.sh("echo secret > /tmp/file; echo secret > /dev/shm/file; echo secret > /run/file");
    let went =
        two.sh("cat /tmp/file /dev/shm/file /run/file 2>/dev/null; set -- /proc/[0-9]*; echo $#");
    // Its init and this shell: nothing else is begun while it counts.
    assert_eq!(went.stdout, "2\n", "{went:?}");
    assert!(!kernel::pidfd::has_ended(&running.pidfd).unwrap());
}

pub(crate) fn be_workload(arguments: Vec<String>) {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["descriptors"] => descriptors(),
        ["orphans", count] => orphans(count.parse().unwrap()),
        ["fifos", path] => fifos(path),
        ["look-into", pid] => look_into(pid.parse().unwrap()),
        ["meddle", pid] => meddle(pid.parse().unwrap()),
        ["seize"] => seize(),
        ["unlock", target] => unlock(target),
        ["binary"] => crate::hostile::binary(),
        ["knock", folder] => crate::root::knock(folder),
        other => panic!("{other:?}"),
    }
}

fn descriptors() {
    let there = |fd: &i32| std::fs::read_link(format!("/proc/self/fd/{fd}")).is_ok();
    let words: Vec<String> = (0..4096).filter(there).map(|fd| fd.to_string()).collect();
    println!("{}", words.join(" "));
}

fn orphans(count: u32) {
    use kernel::clone::{Cloned, Options, clone};
    for _ in 0..count {
        if let Cloned::Child = clone(Options::default()).unwrap() {
            kernel::process::exit(0)
        }
    }
}

/// Puts a pipe there and takes it away, for ever.
fn fifos(path: &str) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    loop {
        let _ = mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0);
        let _ = std::fs::remove_file(path);
    }
}

/// Prints what could be changed of another process.
fn meddle(pid: i32) {
    use kernel::rlimit::{Limit, Resource, set_of};
    let limit = Limit { soft: 3, hard: 3 };
    if set_of(pid, Resource::NOFILE, limit).is_ok() {
        println!("its descriptors were limited");
    }
    let other = Pid::from_raw(pid);
    if rustix::process::setpriority_process(other, 19).is_ok() {
        println!("its priority was changed");
    }
    let cpus = rustix::thread::sched_getaffinity(None).unwrap();
    if rustix::thread::sched_setaffinity(other, &cpus).is_ok() {
        println!("its processors were changed");
    }
}

/// Traces whatever comes to be; prints what it got hold of before it was executed.
fn seize() {
    use nix::sys::ptrace;
    use nix::sys::wait::waitpid;
    let own = kernel::process::id();
    println!("ready");
    let mut last = own;
    loop {
        // The next numbers are the next processes'.
        for pid in last + 1..last + 4 {
            let target = nix::unistd::Pid::from_raw(pid);
            let Ok(()) = ptrace::seize(target, ptrace::Options::empty()) else {
                continue;
            };
            let _ = ptrace::interrupt(target);
            let stopped = waitpid(target, None);
            let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            // Who is its program already may be traced by a root of its cell.
            if line.starts_with("aurae") {
                println!("{stopped:?} {}", line.trim_end_matches('\0'));
            }
            let _ = ptrace::detach(target, None);
        }
        let newest = std::fs::read_to_string("/proc/sys/kernel/ns_last_pid");
        last = newest
            .ok()
            .and_then(|pid| pid.trim().parse().ok())
            .unwrap_or(last);
    }
}

/// Prints what could be had of another process.
fn look_into(pid: i32) {
    let files = [
        "mem",
        "environ",
        "maps",
        "auxv",
        "syscall",
        "stack",
        "exe",
        "pagemap",
        "map_files",
    ];
    for file in files {
        let path = format!("/proc/{pid}/{file}");
        if let Ok(mut open) = std::fs::File::open(&path) {
            let read = std::io::Read::read(&mut open, &mut [0; 8]);
            if matches!(read, Ok(1..)) {
                println!("{path} is readable");
            }
        }
    }
    for kind in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        if std::fs::File::open(format!("/proc/{pid}/ns/{kind}")).is_ok() {
            println!("its {kind} namespace can be opened");
        }
    }
    for folder in ["root", "cwd", "fd"] {
        if std::fs::read_dir(format!("/proc/{pid}/{folder}/")).is_ok_and(|dir| dir.count() > 0) {
            println!("its {folder} can be listed");
        }
    }
    if let Ok(pidfd) = rustix::process::pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty())
    {
        for fd in 0..20 {
            if rustix::process::pidfd_getfd(&pidfd, fd, PidfdGetfdFlags::empty()).is_ok() {
                println!("its descriptor {fd} can be taken");
            }
        }
        let kinds = kernel::namespace::Namespaces::NET;
        if kernel::namespace::join(pidfd.as_fd(), kernel::namespace::Namespaces::MOUNT).is_ok()
            || kernel::namespace::join(pidfd.as_fd(), kinds).is_ok()
        {
            println!("its namespaces can be joined");
        }
    }
}
