// SPDX-License-Identifier: Apache-2.0
//! Cells with the root of an image: what is in that root, who is PID 1 there, where what they write
//! goes.

use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, lchown, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat};
use rustix::io::Errno;

use crate::Story;
use crate::bed::*;
use crate::images::*;
use init::codec::encode_sealed;
use init::protocol::*;
use kernel::signal::Signal;
use testkit::until;

pub(crate) const STORIES: &[Story] = &[
    (
        "layers_are_stacked_and_whited_out",
        layers_are_stacked_and_whited_out,
    ),
    (
        "as_many_layers_as_the_kernel_takes_are_stacked",
        as_many_layers_as_the_kernel_takes_are_stacked,
    ),
    (
        "the_main_process_is_pid_1_and_reaps_its_own",
        the_main_process_is_pid_1_and_reaps_its_own,
    ),
    (
        "what_runs_beside_enters_the_main_processes_namespaces",
        what_runs_beside_enters_the_main_processes_namespaces,
    ),
    (
        "a_main_process_that_ends_takes_what_runs_beside_along",
        a_main_process_that_ends_takes_what_runs_beside_along,
    ),
    (
        "a_containers_root_is_furnished_as_the_oci_says",
        a_containers_root_is_furnished_as_the_oci_says,
    ),
    (
        "what_a_container_writes_is_in_its_upper_folder",
        what_a_container_writes_is_in_its_upper_folder,
    ),
    (
        "owners_are_those_of_the_image",
        owners_are_those_of_the_image,
    ),
    (
        "layers_that_can_not_be_mapped_are_refused_by_name",
        layers_that_can_not_be_mapped_are_refused_by_name,
    ),
    (
        "mounts_and_volumes_come_into_containers",
        mounts_and_volumes_come_into_containers,
    ),
    (
        "a_working_directory_is_made_where_it_is_missing",
        a_working_directory_is_made_where_it_is_missing,
    ),
    (
        "users_are_looked_up_in_the_image",
        users_are_looked_up_in_the_image,
    ),
    ("a_bare_root_has_no_file", a_bare_root_has_no_file),
    (
        "containers_of_a_pod_share_what_it_has",
        containers_of_a_pod_share_what_it_has,
    ),
    (
        "a_start_as_long_as_execve_takes_comes_sealed",
        a_start_as_long_as_execve_takes_comes_sealed,
    ),
    (
        "a_new_daemon_finds_containers",
        a_new_daemon_finds_containers,
    ),
];

fn write(path: impl AsRef<Path>, text: &str) {
    std::fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn layers_are_stacked_and_whited_out() {
    let image = Image::new()
        .with(|root| {
            for (path, text) in [("a", "low a"), ("b", "low b"), ("d/x", "x"), ("d/y", "y")] {
                write(root.join("data").join(path), text);
            }
            write(root.join("data/o/hidden"), "hidden");
        })
        .with(|root| {
            write(root.join("data/a"), "high a");
            write(root.join("data/o/shown"), "shown");
            let opaque = root.join("data/o");
            let (key, none) = (c"trusted.overlay.opaque", XattrFlags::empty());
            rustix::fs::setxattr(&opaque, key, b"y", none).unwrap();
            for gone in ["data/b", "data/d"] {
                let (kind, mode) = (FileType::CharacterDevice, Mode::empty());
                mknodat(CWD, root.join(gone), kind, mode, 0).unwrap();
            }
        });
    let node = Node::start();
    let mut daemon = node.daemon();
    for plan in [image.container(&node), image.read_only(&node)] {
        let cell = daemon.cell(&node, plan);
        let went = cell.main("cd /data; echo *; cat a; ls o");
        assert_eq!(went.stdout, "a o\nhigh ashown\n", "{went:?}");
    }
}

fn as_many_layers_as_the_kernel_takes_are_stacked() {
    let mut image = Image::new();
    for number in 1..MAX_LAYERS {
        image = image.with(|root| write(root.join(format!("many/{number}")), ""));
    }
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, image.container(&node));
    assert_eq!(cell.main("ls /many | wc -l").stdout.trim(), "498");
    let image = image.with(|root| write(root.join("one/more"), ""));
    let mut plan = image.container(&node);
    if let Root::Image(root) = &mut plan.launch.root {
        // The protocol itself has no room for more.
        root.layers.truncate(MAX_LAYERS);
        root.layers[0] = b"not/there".to_vec();
    }
    let failure = refused(&mut daemon, &node, plan);
    assert_eq!(failure.step, Step::Root);
    assert_eq!(failure.detail, "layer `not/there` of the image");
    assert_eq!(cell.main("exit 4").exit.how, ExitHow::Code(4));
}

fn refused(daemon: &mut Daemon, node: &Node, plan: Plan) -> Failure {
    match daemon.try_cell(node, plan, None) {
        Ok(_) => panic!("it was made"),
        Err(failure) => failure,
    }
}

fn the_main_process_is_pid_1_and_reaps_its_own() {
    let image = Image::new();
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, image.container(&node));
    assert_eq!(cell.main("echo $$; cd /proc; echo [0-9]*").stdout, "1\n1\n");
    // An orphan is its child, also when it has ended: no other process takes the zombie away.
    let script = "(sleep 60 & echo ready); exec sleep 60";
    let main = cell.start(&launch_in(Pids::New, &["/bin/sh", "-c", script]));
    assert_eq!(read_line(&main.stdout), "ready\n");
    let pid = kernel::pidfd::pid_of(&main.pidfd).unwrap();
    // Before that it has another child, which it waits for.
    let comm = || std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    until("the main process is executed", || comm() == "sleep\n");
    let children = || std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    until("the orphan is its child", || !children().is_empty());
    let orphan: i32 = children().trim().parse().unwrap();
    kernel::pidfd::send_signal(kernel::pidfd::open(orphan).unwrap(), Signal::KILL).unwrap();
    let stat = || std::fs::read_to_string(format!("/proc/{orphan}/stat")).unwrap();
    until("it is a zombie", || stat().contains(") Z "));
    assert_eq!(cell.main("exit 4").exit.how, ExitHow::Code(4));
    assert!(stat().contains(&format!(") Z {pid} ")), "{}", stat());
    // Without a handler a stop is nothing to PID 1; a kill from outside is.
    for signal in [Signal::TERM, Signal::KILL] {
        kernel::pidfd::send_signal(&main.pidfd, signal).unwrap();
    }
    let signal = ExitHow::Signal {
        signal: 9,
        core: false,
    };
    assert_eq!(cell.finish(main).exit.how, signal);
    // Each has its own.
    let (one, two) = (cell.main_that_waits(), cell.main_that_waits());
    for running in [one, two] {
        let seen = cell.beside(
            running.uid,
            "cd /proc; for p in [0-9]*; do echo $p; done | head -1",
        );
        assert_eq!(seen.stdout, "1\n");
        kernel::pidfd::send_signal(&running.pidfd, Signal::TERM).unwrap();
        assert_eq!(cell.finish(running).exit.how, ExitHow::Code(3));
    }
}

fn what_runs_beside_enters_the_main_processes_namespaces() {
    let image = Image::new();
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, image.container(&node));
    let main = cell.main_that_waits();
    let went = cell.beside(
        main.uid,
        "[ $$ != 1 ] && cat /proc/1/comm; for kind in pid mnt net ipc uts user; do
            [ $(readlink /proc/1/ns/$kind) = $(readlink /proc/self/ns/$kind) ] || echo another $kind
        done; grep ^0: /proc/self/cgroup",
    );
    assert_eq!(went.stdout, "sh\n0::/\n", "{went:?}");
    // What it mounts and writes is there for the main process, and for no other executable.
    cell.beside(main.uid, "mkdir /m && mount -t tmpfs none /m && touch /m/x");
    assert_eq!(cell.beside(main.uid, "ls /proc/1/root/m").stdout, "x\n");
    assert_eq!(
        cell.main("ls /m; hostname").stdout,
        cell.main("hostname").stdout
    );
    // The cell-init's own children are where they were.
    let went = cell.run_launch(&launch_in(Pids::Cell, &["/bin/cat", "/proc/1/comm"]));
    assert_eq!(went.stdout, "aurae-cell\n");
    // An end of it is nobody else's.
    let failed = cell.beside(main.uid, "exit 7");
    assert_eq!(failed.exit.how, ExitHow::Code(7));
    assert_eq!(cell.beside(main.uid, "cat /proc/1/comm").stdout, "sh\n");
}

fn a_main_process_that_ends_takes_what_runs_beside_along() {
    let image = Image::new();
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, image.container(&node));
    let main = cell.main_that_waits();
    let beside = launch_in(Pids::Of(main.uid), &["/bin/sleep", "60"]);
    let beside = cell.start(&beside);
    let uid = main.uid;
    kernel::pidfd::send_signal(&main.pidfd, Signal::TERM).unwrap();
    let killed = ExitHow::Signal {
        signal: 9,
        core: false,
    };
    assert_eq!(cell.finish(beside).exit.how, killed);
    assert_eq!(cell.link.exit_of(uid).how, ExitHow::Code(3));
    let again = launch_in(Pids::Of(uid), &["/bin/true"]);
    let failure = cell.try_start(&again).err().expect("it has ended");
    assert_eq!(
        (failure.step, failure.errno),
        (Step::Namespace, Errno::SRCH.raw_os_error())
    );
    cell.ack(uid);
    let other = cell.start(&launch_in(Pids::Cell, &["/bin/sleep", "60"]));
    let failure = cell.try_start(&launch_in(Pids::Of(other.uid), &["/bin/true"]));
    assert_eq!(failure.err().unwrap().errno, Errno::INVAL.raw_os_error());
    assert_eq!(cell.main("exit 4").exit.how, ExitHow::Code(4));
    // With the node's root there is no such thing.
    let plain = daemon.cell(&node, node.plan());
    let failure = plain.try_start(&launch_in(Pids::New, &["/bin/true"]));
    assert_eq!(failure.err().unwrap().step, Step::Namespace);
}

fn a_containers_root_is_furnished_as_the_oci_says() {
    let image = Image::new();
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, image.container(&node));
    let went = cell.main(
        "exec 2>&1
        while read -r id parent device root point options rest; do
            case $point in /proc/* | /sys/* | /dev/*) ;; *) echo $point ${rest#*- } ;; esac
        done < /proc/self/mountinfo | cut -d' ' -f1,2
        for point in pts shm mqueue; do grep -c \" /dev/$point \" /proc/self/mountinfo; done
        cd /dev; for name in *; do [ -c $name ] && echo -n \"$name \"; done; echo
        for name in fd stdin stdout stderr ptmx; do readlink $name; done
        echo x > null; head -c 2 zero | wc -c; echo x > full || :; echo x > /dev/shm/x
        head -c 1 /dev/random | wc -c; touch /dev/file
        for path in /proc/keys /proc/sys /sys/firmware; do
            grep -c \" $path \" /proc/self/mountinfo; done; cat /proc/keys; ls /sys/firmware
        echo 1 > /proc/sys/vm/overcommit_memory
        df -k /dev/shm | tail -1 | grep -o ' 1024 '
        cat /sys/fs/cgroup/cgroup.procs | head -1; mkdir /sys/fs/cgroup/x",
    );
    let expected = "/ overlay\n/proc proc\n/sys sysfs\n/dev tmpfs\n1\n1\n1\n\
        full null ptmx random tty urandom zero \n\
        /proc/self/fd\n/proc/self/fd/0\n/proc/self/fd/1\n/proc/self/fd/2\npts/ptmx\n\
        2\nsh: write error: No space left on device\n1\n1\n1\n1\n\
        /bin/sh: can't create /proc/sys/vm/overcommit_memory: Read-only file system\n 1024 \n1\n\
        mkdir: can't create directory '/sys/fs/cgroup/x': Read-only file system\n";
    let mut lines: Vec<&str> = went.stdout.lines().collect();
    let mut wanted: Vec<&str> = expected.lines().collect();
    // The order of the mounts is the kernel's.
    lines[..4].sort_unstable();
    wanted[..4].sort_unstable();
    assert_eq!(lines, wanted, "{went:?}");
}

fn what_a_container_writes_is_in_its_upper_folder() {
    let image = Image::new().with(|root| write(root.join("data/file"), "of the image"));
    let node = Node::start();
    let mut daemon = node.daemon();
    let (one, upper) = (daemon.cell(&node, image.container(&node)), image.upper());
    let two = daemon.cell(&node, image.container(&node));
    let script = "echo changed > /data/file; echo new > /data/new; rm /bin/ls; chmod 700 /tmp
        mkdir /deep; mv /data/new /deep/; ln -s / /deep/root; echo done";
    assert_eq!(one.main(script).stdout, "done\n");
    assert_eq!(
        one.main("cat /data/file /deep/new").stdout,
        "changed\nnew\n"
    );
    assert_eq!(
        two.main("cat /data/file; ls /data").stdout,
        "of the imagefile\n"
    );
    let there = |path: &str| std::fs::symlink_metadata(upper.join(path)).unwrap();
    assert_eq!(there("deep/new").uid(), one.root);
    assert_eq!(there("data/file").size(), 8);
    assert!(there("bin/ls").file_type().is_char_device(), "a whiteout");
    let layer = std::fs::read_to_string(image.folder(1).join("data/file")).unwrap();
    assert_eq!(layer, "of the image");
    // Once the cell is gone nothing holds the folder: another overlay may have it.
    let pid = one.pid;
    kernel::pidfd::send_signal(&one.pidfd, Signal::KILL).unwrap();
    until("the cell's init is gone", || {
        !Path::new(&format!("/proc/{pid}")).exists()
    });
    std::fs::remove_dir_all(upper.parent().unwrap()).unwrap();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let store = image.store.path().to_str().unwrap();
    assert!(!mounts.contains(store), "a mount is left on the node");
}

fn owners_are_those_of_the_image() {
    let image = Image::new().with(|root| {
        write(root.join("owned/web"), "x");
        lchown(root.join("owned/web"), Some(33), Some(44)).unwrap();
        write(root.join("owned/far"), "x");
        lchown(root.join("owned/far"), Some(3_000_000), Some(0)).unwrap();
    });
    let node = Node::start();
    let mut daemon = node.daemon();
    for plan in [image.container(&node), image.read_only(&node)] {
        let cell = daemon.cell(&node, plan);
        let script = "cd /owned; stat -c '%n %u %g' web far / /proc /bin/busybox";
        let expected = "web 33 44\nfar 65534 0\n/ 0 0\n/proc 65534 65534\n/bin/busybox 0 0\n";
        let went = cell.run_launch(&launch_in(Pids::Cell, &["/bin/sh", "-c", script]));
        let shown = went.stdout.replace("/proc 0 0", "/proc 65534 65534");
        assert_eq!(shown, expected, "{went:?}");
    }
    let cell = daemon.cell(&node, image.container(&node));
    let script = "chown 7:8 /owned/web; chown 5 /owned/far 2>/dev/null || echo not yours
        cp /bin/busybox /su; chmod 4755 /su; stat -c '%u %g' /owned/web";
    assert_eq!(cell.main(script).stdout, "not yours\n7 8\n");
    let on_disk = |path| std::fs::symlink_metadata(path).unwrap();
    let web = on_disk(image.upper().join("owned/web"));
    assert_eq!((web.uid(), web.gid()), (cell.root + 7, cell.root + 8));
    // A set-id program of a container is none of the node's root.
    assert_eq!(on_disk(image.upper().join("su")).uid(), cell.root);
    let web = on_disk(image.folder(1).join("owned/web"));
    assert_eq!((web.uid(), web.gid()), (33, 44), "a layer was changed");
}

fn layers_that_can_not_be_mapped_are_refused_by_name() {
    let image = Image::new();
    let node = Node::start();
    let mut daemon = node.daemon();
    let mut plan = image.read_only(&node);
    let attributes = kernel::mount::Attributes::NONE;
    let ramfs = kernel::mount::NewFileSystem::open("ramfs").unwrap();
    plan.root = vec![ramfs.mount(attributes).unwrap()];
    let failure = refused(&mut daemon, &node, plan);
    assert_eq!(
        (failure.step, failure.errno),
        (Step::Root, Errno::INVAL.raw_os_error())
    );
    assert!(
        failure
            .detail
            .starts_with("the layers of images are on ramfs"),
        "{failure:?}"
    );
    let cell = daemon.cell(&node, image.read_only(&node));
    assert_eq!(cell.main("exit 4").exit.how, ExitHow::Code(4));
}

fn mounts_and_volumes_come_into_containers() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path().join("file"), "content\n");
    let image = Image::new().with(|root| {
        std::fs::create_dir_all(root.join("var/data")).unwrap();
        symlink("/var/data", root.join("data")).unwrap();
    });
    let node = Node::start();
    let mut daemon = node.daemon();
    let mut plan = image.container(&node);
    plan.launch.volumes.push(Volume {
        target: b"/cache/of/it".to_vec(),
        size_bytes: 1 << 20,
        mode: 0o1777,
        uid: 0,
        gid: 0,
        no_exec: false,
    });
    let cell = daemon.cell(&node, plan.mounting(folder.path(), "/data"));
    let main = cell.main_that_waits();
    let script =
        "cat /var/data/file; touch /cache/of/it/x && ls /cache/of/it; stat -c %a /cache/of/it";
    assert_eq!(cell.beside(main.uid, script).stdout, "content\nx\n1777\n");
    // One that comes later comes to the main process that runs, and goes again.
    let late = || {
        Plan::bare("unused", IDS)
            .mounting(folder.path(), "/late/one")
            .mounts
    };
    cell.mount(late()).unwrap();
    let see = |path| cell.beside(main.uid, path).stdout;
    assert_eq!(see("cat /late/one/file"), "content\n");
    assert_eq!(cell.play(&["unlock", "/late/one"]).stdout, "");
    for target in ["/late/one", "/data"] {
        let unmount = |request| CellRequest::Unmount {
            request,
            target: target.as_bytes().to_vec(),
        };
        cell.link.ask(unmount, &[]).unwrap();
    }
    assert_eq!(see("ls /late/one /var/data"), "/late/one:\n\n/var/data:\n");
    // A read-only root has no room for a folder that it hasn't got.
    let cell = daemon.cell(&node, image.read_only(&node));
    let to = |target| {
        Plan::bare("unused", IDS)
            .mounting(folder.path(), target)
            .mounts
    };
    cell.mount(to("/var/data")).unwrap();
    assert_eq!(cell.main("cat /data/file").stdout, "content\n");
    let failure = cell.mount(to("/nosuch/a")).unwrap_err();
    assert!(
        failure.detail.starts_with("/nosuch/a isn't in the image"),
        "{failure:?}"
    );
}

fn a_working_directory_is_made_where_it_is_missing() {
    let image = Image::new().with(|root| symlink("/var/lib", root.join("link")).unwrap());
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, image.container(&node));
    for (cwd, pwd) in [
        ("/made/there", "/made/there"),
        ("/link/x", "/var/lib/x"),
        ("", "/home"),
    ] {
        let mut launch = launch_in(Pids::New, &["/bin/sh", "-c", "pwd -P; stat -c %u:%a ."]);
        launch.cwd = cwd.into();
        launch.user = Some(Principal::Name("web".into()));
        let went = cell.run_launch(&launch);
        assert_eq!(went.stdout, format!("{pwd}\n0:755\n"), "{went:?}");
    }
    let cell = daemon.cell(&node, image.read_only(&node));
    let mut launch = launch_in(Pids::New, &["/bin/true"]);
    launch.cwd = b"/made".to_vec();
    let failure = cell.try_start(&launch).err().unwrap();
    assert_eq!(
        (failure.step, failure.errno),
        (Step::Directory, Errno::ROFS.raw_os_error())
    );
}

fn users_are_looked_up_in_the_image() {
    let image = Image::new();
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, image.container(&node));
    let id = |user: Principal| {
        let mut launch = launch_in(Pids::New, &["/bin/sh", "-c", "id -u; id -G; echo $HOME"]);
        launch.user = Some(user);
        launch.member = true;
        cell.run_launch(&launch).stdout
    };
    assert_eq!(id(Principal::Name("web".into())), "33\n33 4\n/home\n");
    assert_eq!(id(Principal::Id(33)), "33\n33 4\n/home\n");
    assert_eq!(id(Principal::Id(77)), "77\n0\n/\n");
    let mut launch = launch_in(Pids::New, &["/bin/true"]);
    launch.user = Some(Principal::Name("daemon".into()));
    let failure = cell.try_start(&launch).err().unwrap();
    assert_eq!(failure.detail, "no user `daemon` in the cell's /etc/passwd");
}

fn a_bare_root_has_no_file() {
    let image = Image::new();
    let node = Node::start();
    let mut daemon = node.daemon();
    let mut plan = node.plan();
    plan.launch.root = Root::Bare;
    plan.mounts.clear();
    let cell = daemon.cell(&node, plan.mounting(&image.folder(0), "/srv/image"));
    let sh = |pids, script: &str| {
        let script = format!("alias e=/srv/image/bin/busybox; PATH=/srv/image/bin; {script}");
        cell.run_launch(&launch_in(
            pids,
            &["/srv/image/bin/busybox", "sh", "-c", &script],
        ))
    };
    for pids in [Pids::Cell, Pids::New] {
        let went = sh(
            pids,
            "find / -xdev -type f; ls -A /etc /usr /bin 2>&1 | grep -vc 'No such'; touch /x; touch /tmp/x",
        );
        assert_eq!(went.stdout, "0\n", "{went:?}");
        assert!(
            went.stderr.contains("/x: Read-only file system"),
            "{went:?}"
        );
    }
    assert_eq!(
        sh(Pids::New, "echo $$; cat /proc/1/comm").stdout,
        "1\ncat\n"
    );
}

/// A pod is a cell around cells, which share its users, network, names and queues.
fn containers_of_a_pod_share_what_it_has() {
    let image = Image::new();
    let node = Node::start();
    let mut daemon = node.daemon();
    let mut pod = Plan::bare("pod", IDS);
    pod.launch.root = Root::Bare;
    let pod = daemon.cell(&node, pod);
    let shared = Namespaces::USER | Namespaces::NET | Namespaces::IPC | Namespaces::UTS;
    let mut container = |name: &str, shared: u8, writable| {
        let plan = Plan::new(name, IDS, 65_536).sharing(shared);
        let plan = image.container_of(plan, writable, pod.root);
        daemon.nested(&node, plan, &pod)
    };
    let (one, two) = (
        container("one", shared, true),
        container("two", shared, false),
    );
    let names =
        "for kind in user net ipc uts mnt pid; do readlink /proc/self/ns/$kind; done; hostname";
    // In the namespaces of the inits: the number of one that has ended is another's soon.
    let seen = |cell: &Cell| {
        let launch = launch_in(Pids::Cell, &["/bin/sh", "-c", names]);
        cell.run_launch(&launch).stdout
    };
    let (a, b) = (seen(&one), seen(&two));
    let same = |number: usize| a.lines().nth(number) == b.lines().nth(number);
    assert_eq!(
        [0, 1, 2, 3, 4, 5, 6].map(same),
        [true, true, true, true, false, false, true]
    );
    assert!(a.ends_with("pod\n"), "{a}");
    let went = one.main("stat -c %u:%g /bin/busybox /; touch /x && stat -c %u /x");
    assert_eq!(went.stdout, "0:0\n0:0\n0\n", "{went:?}");
    assert_eq!(
        two.main("touch /x 2>/dev/null || echo read-only").stdout,
        "read-only\n"
    );
    assert!(!one.play(&["unlock", "/"]).stdout.contains("nodev"));
    assert!(!two.play(&["unlock", "/"]).stdout.contains("read-only"));
    // Where it is asked for, they share the pids, too: the pod's init is 1 to all of them, and a
    // main process can still be PID 1 of its own.
    let third = container("three", shared | Namespaces::PID, true);
    let comm = launch_in(Pids::Cell, &["/bin/cat", "/proc/1/comm"]);
    assert_eq!(third.run_launch(&comm).stdout, "aurae-cell\n");
    let main = third.main_that_waits();
    assert_eq!(third.beside(main.uid, "cat /proc/1/comm").stdout, "sh\n");
}

fn a_start_as_long_as_execve_takes_comes_sealed() {
    let image = Image::new();
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, image.container(&node));
    let seal = |bytes: &[u8]| kernel::sealed::seal(c"start", bytes).unwrap();
    let mut launch = launch_in(Pids::New, &["/bin/sh", "-c", "env | wc -c"]);
    // A quarter of the stack is for both, but no more than 6 MiB.
    let stack = 3; // RLIMIT_STACK
    launch.rlimits = vec![(stack, 64 << 20, 64 << 20)];
    let value = "x".repeat(MAX_STRING - 8);
    launch
        .env
        .extend((10..57).map(|number| format!("BIG{number}={value}").into_bytes()));
    let sealed = |launch: &Launch, change: &dyn Fn(Vec<u8>) -> Vec<u8>| {
        let asked = cell.ask_to_start_by(launch, |request, start, fds| {
            let mut bytes = Vec::new();
            encode_sealed(start, &mut bytes).unwrap();
            let memfd = seal(&change(bytes));
            let fds = [&[memfd.as_fd()], fds].concat();
            send(&cell.link.socket, &CellRequest::Sealed { request }, &fds);
        });
        cell.hear_of_start(launch, asked)
            .map(|running| cell.finish(running))
    };
    let went = sealed(&launch, &|bytes| bytes).unwrap();
    let length: usize = went.stdout.trim().parse().unwrap();
    assert!(length > 47 * MAX_STRING - 1000, "{went:?}");
    // More than the kernel takes is the kernel's own answer.
    let mut more = launch.clone();
    more.uid = random_uid();
    more.env
        .extend((60..70).map(|number| format!("BIG{number}={value}").into_bytes()));
    let failure = sealed(&more, &|bytes| bytes).unwrap_err();
    assert_eq!(
        (failure.step, failure.errno),
        (Step::Exec, Errno::TOOBIG.raw_os_error())
    );
    // What isn't what it says is refused, and nothing of it is left.
    launch.uid = random_uid();
    let cut = |mut bytes: Vec<u8>| {
        bytes.truncate(9);
        bytes
    };
    let other = |mut bytes: Vec<u8>| {
        bytes[1] ^= 1;
        bytes
    };
    let longer = |mut bytes: Vec<u8>| {
        bytes.resize(MAX_SEALED + 1, 0);
        bytes
    };
    let changes: [&dyn Fn(Vec<u8>) -> Vec<u8>; 3] = [&cut, &other, &longer];
    for change in changes {
        assert_eq!(sealed(&launch, change).unwrap_err().step, Step::Protocol);
    }
    let unsealed = cell.ask_to_start_by(&launch, |request, _, fds| {
        let file = tempfile::tempfile().unwrap();
        let fds = [&[file.as_fd()], fds].concat();
        send(&cell.link.socket, &CellRequest::Sealed { request }, &fds);
    });
    let failure = cell.hear_of_start(&launch, unsealed).err().unwrap();
    assert_eq!(failure.step, Step::Protocol);
    assert_eq!(cell.main("exit 4").exit.how, ExitHow::Code(4));
}

fn a_new_daemon_finds_containers() {
    let image = Image::new();
    let node = Node::start();
    let mut daemon = node.daemon();
    let mut cell = daemon.cell(&node, image.container(&node));
    let main = cell.main_that_waits();
    daemon.crash();
    let _daemon = node.daemon();
    cell.reconnect();
    let found = &cell.link.workloads;
    let found: Vec<_> = found.iter().map(|(state, _)| state.uid).collect();
    assert_eq!(found, [main.uid]);
    assert_eq!(cell.beside(main.uid, "cat /proc/1/comm").stdout, "sh\n");
}
