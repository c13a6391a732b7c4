// SPDX-License-Identifier: Apache-2.0
//! What a cell sees of the node's root file system: an allow-list, in which nothing of the node
//! answers.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use crate::Story;
use crate::bed::*;
use init::protocol::*;

pub(crate) const STORIES: &[Story] = &[
    (
        "sockets_and_pipes_of_the_node_do_not_answer",
        sockets_and_pipes_of_the_node_do_not_answer,
    ),
    (
        "of_the_nodes_root_only_the_allowed_folders_are_there",
        of_the_nodes_root_only_the_allowed_folders_are_there,
    ),
    (
        "mounts_go_below_the_empty_folders_of_the_root",
        mounts_go_below_the_empty_folders_of_the_root,
    ),
    (
        "what_is_mounted_later_is_seen_once_the_root_is_made_anew",
        what_is_mounted_later_is_seen_once_the_root_is_made_anew,
    ),
];

/// A folder of the node's root file system, with a socket and a pipe for everybody. It goes with
/// the value.
struct House {
    folder: tempfile::TempDir,
    _listener: UnixListener,
    _reader: std::fs::File,
}

impl House {
    fn new() -> House {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let open = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap()
        };
        open(folder.path(), 0o755);
        let (socket, pipe) = (folder.path().join("socket"), folder.path().join("pipe"));
        let listener = UnixListener::bind(&socket).unwrap();
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        open(&socket, 0o777);
        open(&pipe, 0o666);
        std::fs::write(folder.path().join("file"), "content").unwrap();
        // Both ends: neither who writes nor who reads would wait.
        let reader = std::fs::File::options().read(true).write(true).open(&pipe);
        House {
            folder,
            _listener: listener,
            _reader: reader.unwrap(),
        }
    }

    fn path(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }
}

/// Prints what answers in a folder. The part of the cell.
pub(crate) fn knock(folder: &str) {
    let folder = Path::new(folder);
    if UnixStream::connect(folder.join("socket")).is_ok() {
        println!("the socket answers");
    }
    for flags in [OFlags::WRONLY, OFlags::RDWR] {
        let flags = flags | OFlags::NONBLOCK;
        if rustix::fs::open(folder.join("pipe"), flags, Mode::empty()).is_ok() {
            println!("the pipe can be written");
        }
    }
    let mut text = String::new();
    let file = std::fs::File::open(folder.join("file"));
    if file.is_ok_and(|mut file| file.read_to_string(&mut text).is_ok()) {
        println!("{text}");
    }
}

fn sockets_and_pipes_of_the_node_do_not_answer() {
    let (hidden, shown) = (House::new(), House::new());
    let node = Node::showing(shown.path());
    let mut daemon = node.daemon();
    let granted = "/run/granted";
    let plan = node.plan().mounting(hidden.folder.path(), granted);
    let own = daemon.cell(&node, plan);
    let of_node = daemon.cell(&node, node.plan().sharing(Namespaces::USER));
    for cell in [&own, &of_node] {
        assert_eq!(cell.workload(&["knock", hidden.path()]).stdout, "");
        let went = cell.workload(&["knock", shown.path()]);
        assert_eq!(went.stdout, "content\n", "{went:?}");
    }
    // The trial is one that sees an answer, where the folder was granted.
    let went = own.workload(&["knock", granted]);
    let all = "the socket answers\nthe pipe can be written\nthe pipe can be written\ncontent\n";
    assert_eq!(went.stdout, all, "{went:?}");
}

fn of_the_nodes_root_only_the_allowed_folders_are_there() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    // Whatever stands in the root is allowed, the kernel's, the cell's own, or empty.
    let script = "cd /; for name in * .[!.]*; do
            case $name in
                usr | bin | sbin | lib* | etc | opt | proc | sys | dev | tmp | run | var) ;;
                *) [ -L $name ] || [ -z \"$(ls -A $name)\" ] || echo $name ;;
            esac
        done
        cd /var; for name in *; do
            [ $name = tmp ] || [ -L $name ] || [ -z \"$(ls -A $name)\" ] || echo var/$name
        done
        ls -d /usr/bin /etc/passwd /var/lib /srv
        touch /x /srv/x 2>/dev/null || echo read-only";
    let shown = "/etc/passwd\n/srv\n/usr/bin\n/var/lib\nread-only\n";
    assert_eq!(cell.sh(script).stdout, shown);
}

fn mounts_go_below_the_empty_folders_of_the_root() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let mut plan = node.plan();
    plan.launch.volumes.push(Volume {
        target: b"/var/lib/some/where".to_vec(),
        mode: 0o755,
        size_bytes: 1 << 20,
        uid: 0,
        gid: 0,
        no_exec: false,
    });
    let cell = daemon.cell(&node, plan);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "content").unwrap();
    let mount = |target| {
        Plan::bare("unused", IDS)
            .mounting(folder.path(), target)
            .mounts
    };
    cell.mount(mount("/srv/late/one")).unwrap();
    let script = "cat /srv/late/one/file; touch /var/lib/some/where/x && ls /var/lib/some/where";
    assert_eq!(cell.sh(script).stdout, "contentx\n");
    for nowhere in ["/usr/nosuch/a", "/nosuch/a", "/var/nosuch/a"] {
        let failure = cell.mount(mount(nowhere)).unwrap_err();
        let words = format!("{nowhere} can't be made in a cell: mount below /mnt, /srv or /tmp");
        assert_eq!(failure.detail, words);
    }
}

/// Unmounts a folder, whatever becomes of the story.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

fn what_is_mounted_later_is_seen_once_the_root_is_made_anew() {
    let house = House::new();
    let node = Node::showing(house.path());
    let mut daemon = node.daemon();
    let before = daemon.cell(&node, node.plan());
    let quiet = kernel::mount::Attributes::NONE;
    let disk = kernel::mount::tmpfs(1 << 20, 0o755, quiet).unwrap();
    kernel::mount::attach(disk, house.folder.path()).unwrap();
    let _mounted = Mounted(house.folder.path());
    std::fs::write(house.folder.path().join("file"), "of the disk").unwrap();
    let knocks = |cell: &Cell| cell.workload(&["knock", house.path()]).stdout;
    let plan = || Plan::new("later", IDS + 200_000, 65_536);
    let other = daemon.cell(&node, plan());
    assert_eq!(knocks(&other), "content\n", "it isn't asked for yet");
    send(&daemon.socket, &NodeRequest::RenewRoot, &[]);
    let plan = Plan::new("anew", IDS + 400_000, 65_536);
    let after = daemon.cell(&node, plan);
    assert_eq!(knocks(&after), "of the disk\n");
    for cell in [&before, &other] {
        assert_eq!(knocks(cell), "content\n", "cells stay as they are");
    }
}
