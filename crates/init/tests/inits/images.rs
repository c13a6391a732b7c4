// SPDX-License-Identifier: Apache-2.0
//! Images for stories: folders as an unpacker leaves them, on the disk that the tests are built on.
//!
//! Every image has a layer with busybox, and this test binary, which is static as every program
//! here, so that the parts of `escapes` can be played in it.

use std::cell::Cell as Count;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bed::*;
use init::protocol::*;
use kernel::mount;

/// What container engines mask by default.
const MASKED: [&str; 9] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
/// What they make read-only.
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];
/// Where the test binary is in every image.
pub(crate) const ME: &str = "/inits";

/// A store with the layers of one image, and the folders that its containers write to. All of it
/// goes with the value.
pub(crate) struct Image {
    pub(crate) store: tempfile::TempDir,
    /// The lowest first.
    layers: Vec<String>,
    uppers: Count<u32>,
}

impl Image {
    /// One of busybox alone.
    pub(crate) fn new() -> Image {
        Image::on(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    /// The same, in another folder.
    pub(crate) fn on(folder: &Path) -> Image {
        let store = tempfile::tempdir_in(folder).unwrap();
        std::fs::create_dir(store.path().join("layers")).unwrap();
        let mut image = Image {
            store,
            layers: Vec::new(),
            uppers: 0.into(),
        };
        image.layer(busybox);
        image
    }

    /// Adds a layer on top.
    pub(crate) fn with(mut self, fill: impl FnOnce(&Path)) -> Image {
        self.layer(fill);
        self
    }

    fn layer(&mut self, fill: impl FnOnce(&Path)) {
        let name = format!("sha256-{:064}", self.layers.len());
        let folder = self.store.path().join("layers").join(&name).join("root");
        std::fs::create_dir_all(&folder).unwrap();
        fill(&folder);
        self.layers.push(name + "/root");
    }

    /// Where layer `number` is, the lowest is 0.
    pub(crate) fn folder(&self, number: usize) -> PathBuf {
        self.store.path().join("layers").join(&self.layers[number])
    }

    /// What the container that was planned last writes to.
    pub(crate) fn upper(&self) -> PathBuf {
        let number = self.uppers.get().to_string();
        self.store.path().join(number).join("upper")
    }

    /// The plan of a container with a writable root.
    pub(crate) fn container(&self, node: &Node) -> Plan {
        self.container_of(node.plan(), true, 0)
    }

    /// The plan of a container with a read-only root.
    pub(crate) fn read_only(&self, node: &Node) -> Plan {
        self.container_of(node.plan(), false, 0)
    }

    /// Makes a plan one of a container, whose root is this id of the node's.
    pub(crate) fn container_of(&self, mut plan: Plan, writable: bool, owner: u32) -> Plan {
        let owner = plan.launch.uid_map.first().map_or(owner, |map| map.outside);
        let list = |paths: &[&str]| paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        let layers = self.layers.iter().rev();
        plan.mounts.clear();
        plan.launch.root = Root::Image(ImageRoot {
            layers: layers.map(|layer| layer.clone().into_bytes()).collect(),
            writable,
            masked: list(&MASKED),
            read_only: list(&READ_ONLY),
            shared_memory_bytes: 1 << 20,
            own_groups: false,
            file_label: String::new(),
        });
        let copy = |path: &Path| mount::copy_tree(path, false).unwrap();
        plan.root = vec![copy(&self.store.path().join("layers"))];
        if writable {
            self.uppers.set(self.uppers.get() + 1);
            let upper = self.upper();
            std::fs::create_dir_all(&upper).unwrap();
            std::fs::create_dir(upper.with_file_name("work")).unwrap();
            lchown(&upper, Some(owner), Some(owner)).unwrap();
            plan.root.push(copy(upper.parent().unwrap()));
        }
        plan
    }
}

/// The lowest layer.
fn busybox(root: &Path) {
    for folder in ["bin", "etc", "tmp", "root", "home", "var/lib"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    let mode = |path: &str, mode| {
        std::fs::set_permissions(root.join(path), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("tmp", 0o1777);
    let bin = root.join("bin");
    std::fs::copy("/bin/busybox", bin.join("busybox")).expect("busybox-static is installed");
    let applets = Command::new("/bin/busybox").arg("--list").output().unwrap();
    for applet in String::from_utf8(applets.stdout).unwrap().lines() {
        if applet != "busybox" {
            symlink("busybox", bin.join(applet)).unwrap();
        }
    }
    let text = |path: &str, text: &str| std::fs::write(root.join(path), text).unwrap();
    text(
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\nweb:x:33:33::/home:/bin/sh\n",
    );
    text("etc/group", "root:x:0:\nweb:x:33:\nlogs:x:4:root,web\n");
    let me = std::env::current_exe().unwrap();
    let link = root.join(ME.trim_start_matches('/'));
    if std::fs::hard_link(&me, &link).is_err() {
        std::fs::copy(&me, &link).unwrap();
    }
}

/// A launch in an image, in a pid namespace.
pub(crate) fn launch_in(pids: Pids, argv: &[&str]) -> Launch {
    let mut launch = launch_of(argv);
    launch.env = vec![b"PATH=/bin".to_vec()];
    launch.pids = pids;
    launch
}

impl Cell {
    /// A shell as PID 1 of a namespace of its own, to the end.
    pub(crate) fn main(&self, script: &str) -> Went {
        self.run_launch(&launch_in(Pids::New, &["/bin/sh", "-c", script]))
    }

    /// A shell beside another executable, to the end.
    pub(crate) fn beside(&self, main: Uid, script: &str) -> Went {
        self.run_launch(&launch_in(Pids::Of(main), &["/bin/sh", "-c", script]))
    }

    /// A main process that waits, and has said so.
    pub(crate) fn main_that_waits(&self) -> Running {
        let script = "trap 'exit 3' TERM; echo ready; while :; do sleep 1 & wait $!; done";
        let running = self.start(&launch_in(Pids::New, &["/bin/sh", "-c", script]));
        assert_eq!(read_line(&running.stdout), "ready\n");
        running
    }

    /// A part of [`crate::escapes`] beside a PID 1 of a namespace of its own: as PID 1 itself this
    /// binary would be the init of a machine.
    pub(crate) fn play(&self, what: &[&str]) -> Went {
        let script = "\"$0\" workload \"$@\"; exit $?";
        let argv = [&["/bin/sh", "-c", script, ME], what].concat();
        self.run_launch(&launch_in(Pids::New, &argv))
    }
}
