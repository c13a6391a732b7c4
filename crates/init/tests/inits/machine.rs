// SPDX-License-Identifier: Apache-2.0
//! Node-init as PID 1 of a machine: this binary as the `/init` of an initramfs, in QEMU, with the
//! kernel of the test bed.
//!
//! The daemon in there runs the story itself and says each step on the console; the host reads
//! along. Skipped where a program is missing that `./x test` installs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Story;
use crate::bed::*;
use crate::images::*;
use init::protocol::*;
use kernel::cgroup::Cgroup;
use testkit::cpio::Archive;
use testkit::kernel::Kernel;
use testkit::machine::{Accel, Console, Disk, Machine, Spec};
use testkit::until;

/// A translated machine on a busy host is off long before.
const OFF: Duration = Duration::from_secs(240);

pub(crate) const STORIES: &[Story] = &[
    (
        "a_machine_boots_runs_a_cell_and_goes_off",
        a_machine_boots_runs_a_cell_and_goes_off,
    ),
    (
        "a_machine_passes_from_its_initramfs_to_a_disk",
        a_machine_passes_from_its_initramfs_to_a_disk,
    ),
];

pub(crate) fn be_init() -> ! {
    let options = init::Options {
        daemon: vec!["/init".into(), "serve-machine".into()],
        shutdown_bound: Duration::from_secs(20),
        ..init::Options::default()
    };
    let error = init::run(options).unwrap_err();
    println!("init could not start: {error}");
    std::thread::sleep(Duration::from_secs(1000));
    unreachable!()
}

pub(crate) fn step(what: &str) {
    println!("STEP {what}");
}

/// The story, told from inside.
pub(crate) fn be_daemon(arguments: Vec<String>) {
    crate::wrong::end_at_once();
    let socket = kernel::inherit::take(arguments[1].parse().unwrap()).unwrap();
    send(
        &socket,
        &NodeRequest::Hello {
            version: VERSION,
            build: "test".into(),
        },
        &[],
    );
    let (event, _) = receive(&socket).unwrap();
    let NodeEvent::Welcome(welcome) = event else {
        panic!("{event:?}")
    };
    let second = welcome.daemon_starts > 1;
    let mut daemon = Daemon {
        socket,
        pid: 0,
        welcome,
        request: 0,
    };
    step(&format!(
        "welcome {:?} {:?}",
        daemon.welcome.role, daemon.welcome.isolation
    ));
    if crate::wrong::look() {
        power_off(&daemon);
    }
    if Path::new("/etc/short").exists() {
        let mounts = kernel::mount::info::read().unwrap();
        let root = mounts
            .iter()
            .find(|mount| mount.target == Path::new("/"))
            .unwrap();
        step(&format!("root {} {}", root.fs_type, root.source.display()));
        step(&format!(
            "seeded {}",
            Path::new("/var/lib/aurae/random-seed").exists()
        ));
        contain(&mut daemon);
        let mode = PowerMode::Reboot;
        send(
            &daemon.socket,
            &NodeRequest::Shutdown {
                mode,
                bound_ms: 20_000,
            },
            &[],
        );
        std::thread::sleep(Duration::from_secs(60));
    }
    if second {
        assert_eq!(daemon.welcome.cells.len(), 1);
        step("the cell is still there");
        power_off(&daemon);
    }
    look_around();
    tell(&mut daemon);
    orphans();
    send(&daemon.socket, &NodeRequest::Ready, &[]);
    step("killed");
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
}

/// Asks for it, and waits until it is.
fn power_off(daemon: &Daemon) {
    let mode = PowerMode::PowerOff;
    send(
        &daemon.socket,
        &NodeRequest::Shutdown { mode, bound_ms: 0 },
        &[],
    );
    std::thread::sleep(Duration::from_secs(60));
}

/// Cells with limits and cells in cells, on a kernel that has all controllers.
fn tell(daemon: &mut Daemon) {
    let base = Cgroup::open(Path::new("/sys/fs/cgroup/aurae")).unwrap();
    let place = Place::of_machine(&base);
    let cell = daemon.try_at(&place, Plan::bare("web", IDS), None).unwrap();
    let went = cell.run(&["/bin/busybox", "sh", "-c", "echo $$ $(hostname); exit 42"]);
    step(&format!("cell {:?} {}", went.exit.how, went.stdout.trim()));
    let mut plan = Plan::bare("inner", IDS + 100);
    // The init is the last id of the range, which is not in the map.
    plan.launch.init_id = IDS + 199;
    plan.launch.uid_map[0].count = 99;
    plan.launch.gid_map[0].count = 99;
    let inner = daemon.try_at(&place, plan, Some(&cell)).unwrap();
    let went = inner.run(&["/bin/busybox", "cat", "/proc/self/cgroup"]);
    step(&format!(
        "nested {:?} {}",
        went.exit.how,
        went.stdout.trim()
    ));
    let mut plan = Plan::bare("hog", IDS + 100_000);
    plan.limits = vec![("memory.max", "20000000"), ("memory.swap.max", "0")];
    let hog = daemon.try_at(&place, plan, None).unwrap();
    let went = hog.run(&[
        "/bin/busybox",
        "sh",
        "-c",
        "x=1234567890; while :; do x=$x$x; done",
    ]);
    step(&format!(
        "hog {:?} {:?}",
        went.exit.how, went.exit.oom_kills
    ));
    end(daemon, &hog);
    end(daemon, &inner);
}

/// Containers, of layers on a disk, on a kernel that takes folders of an overlay by name alone.
fn contain(daemon: &mut Daemon) {
    let base = Cgroup::open(Path::new("/sys/fs/cgroup/aurae")).unwrap();
    let place = Place::of_machine(&base);
    let image = Image::on(Path::new("/var/lib")).with(|root| {
        std::fs::write(root.join("second"), "layer").unwrap();
    });
    let mut make = |name: &str, number: u32, writable| {
        let plan = Plan::bare(name, IDS + number * 70_000);
        let plan = image.container_of(plan, writable, 0);
        daemon.try_at(&place, plan, None).unwrap()
    };
    let script = "cat /second; echo \" $$ $(stat -c %u /bin/busybox) $(cat /proc/1/comm)\"
        touch /x 2>/dev/null && echo written || echo read-only";
    for (number, writable) in [(0, true), (1, false)] {
        let cell = make(&format!("container{number}"), number, writable);
        let went = cell.main(script);
        step(&format!(
            "container {}",
            went.stdout.trim().replace('\n', " ")
        ));
        let main = cell.main_that_waits();
        let went = cell.beside(main.uid, "cat /proc/1/comm");
        step(&format!("beside {}", went.stdout.trim()));
        let went = cell.play(&["unlock", "/"]);
        let cleared = went.stdout.lines().any(|line| line.starts_with("nodev"));
        step(&format!("unlocked {cleared}"));
    }
    let mut plan = image.container_of(Plan::bare("tmpfs", IDS), false, 0);
    let quiet = kernel::mount::Attributes::NONE;
    plan.root = vec![kernel::mount::tmpfs(1 << 20, 0o755, quiet).unwrap()];
    let failure = daemon.try_at(&place, plan, None).map(|_| ()).unwrap_err();
    step(&failure.detail);
}

/// The end of a cell that nothing runs in.
fn end(daemon: &Daemon, cell: &Cell) {
    cell.link
        .ask(|request| CellRequest::Exit { request }, &[])
        .unwrap();
    let (event, _) = daemon.event();
    let NodeEvent::CellExited { uid, .. } = event else {
        panic!("{event:?}")
    };
    send(&daemon.socket, &NodeRequest::AckCell { uid }, &[]);
}

/// What PID 1 must do for all other processes.
fn look_around() {
    for place in [
        "/proc",
        "/sys",
        "/dev",
        "/dev/pts",
        "/dev/shm",
        "/run",
        "/tmp",
        "/sys/fs/cgroup",
    ] {
        assert!(
            kernel::mount::is_mount_point(Path::new(place)).unwrap(),
            "{place}"
        );
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let cgroup = mounts
        .lines()
        .find(|line| line.contains("cgroup2"))
        .unwrap();
    assert!(
        cgroup.contains("nsdelegate") && cgroup.contains("memory_recursiveprot"),
        "{cgroup}"
    );
    let root = mounts.lines().find(|line| line.contains(" / / ")).unwrap();
    assert!(root.contains("tmpfs"), "{root}");
    assert_eq!(
        std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap(),
        "testnode\n"
    );
    assert_eq!(
        std::fs::read_to_string("/etc/machine-id").unwrap().len(),
        33
    );
    assert!(std::net::TcpListener::bind("127.0.0.1:0").is_ok());
    std::net::UdpSocket::bind("[::1]:0").unwrap();
    let enabled = std::fs::read_to_string("/sys/fs/cgroup/aurae/cgroup.subtree_control").unwrap();
    assert!(
        enabled.contains("memory") && enabled.contains("pids"),
        "{enabled}"
    );
    step(&format!(
        "around {}",
        std::fs::read_to_string("/proc/self/cgroup").unwrap().trim()
    ));
}

/// Children of a process that doesn't wait for them.
fn orphans() {
    let mut parent = Command::new("/init")
        .args(["workload", "orphans", ORPHANS])
        .spawn()
        .unwrap();
    assert!(parent.wait().unwrap().success());
    let zombies = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let stats = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        stats.filter(|stat| stat.contains(") Z ")).count()
    };
    until("no orphan is left", || zombies() == 0);
    step("the orphans are gone");
}

/// What machines are booted with: the kernel that stories boot, too.
pub(crate) struct Bed {
    kernel: Kernel,
    accel: Accel,
    pub(crate) folder: tempfile::TempDir,
}

impl Bed {
    /// `None` where a program is missing; then the reason is printed.
    pub(crate) fn new() -> Option<Bed> {
        let programs = ["qemu-system-x86_64", "modprobe", "mke2fs", "e2fsck"];
        let missing = |name: &&str| !testkit::exec::is_there(name);
        if let Some(program) = programs.into_iter().find(missing) {
            testkit::skip(&format!("no {program}"));
            return None;
        }
        if !Path::new(BUSYBOX).exists() {
            testkit::skip("no busybox-static");
            return None;
        }
        let images = testkit::kernel::images();
        let kernel = Kernel::obtain(&images.join("kernel")).unwrap();
        let accel = testkit::accel::choose(&images, &kernel).unwrap();
        Some(Bed {
            kernel,
            accel,
            folder: tempfile::tempdir().unwrap(),
        })
    }

    /// What the machine's console shows until it is off.
    pub(crate) fn boot(&self, initramfs: PathBuf, append: &str, disk: Option<Disk>) -> String {
        self.boot_and_type(initramfs, append, disk, &[])
    }

    /// The same, where a user types: each time that the console shows those words, these.
    pub(crate) fn boot_and_type(
        &self,
        initramfs: PathBuf,
        append: &str,
        disk: Option<Disk>,
        talk: &[(&str, &str)],
    ) -> String {
        let console = self.folder.path().join("console");
        let _ = std::fs::remove_file(&console);
        let mut machine = Machine::start(&Spec {
            accel: self.accel,
            kernel: self.kernel.image.clone(),
            initramfs: Some(initramfs),
            disk,
            append: format!("console=ttyS0 quiet panic=-1 {append}"),
            cpus: 2,
            memory_mib: 2048,
            console: Console::Typed(console.clone()),
            agent: None,
            monitor: None,
            forward: None,
        })
        .unwrap();
        type_there(&mut machine, &console, talk);
        let off = machine.wait(OFF).unwrap();
        let shown = std::fs::read(&console).unwrap_or_default();
        let shown = String::from_utf8_lossy(&shown).into_owned();
        assert!(off.is_some(), "it isn't off after {OFF:?}:\n{shown}");
        shown
    }

    /// An initramfs of a folder.
    pub(crate) fn pack(&self, root: &Path) -> PathBuf {
        let image = self.folder.path().join("image");
        let mut archive = Archive::new(Vec::new());
        archive.tree(root).unwrap();
        std::fs::write(&image, archive.finish().unwrap()).unwrap();
        image
    }

    /// What virtio disks and containers need, listed in the order of dependencies.
    pub(crate) fn add_modules(&self, root: &Path) {
        let folder = root.join("lib/modules");
        std::fs::create_dir_all(&folder).unwrap();
        let mut list = String::from("# for the disk\n");
        // ext4 is built into some kernels; modprobe names no file of it then.
        let wanted = ["virtio_pci", "virtio_blk", "ext4", "overlay"];
        for path in self.kernel.modules(&wanted).unwrap() {
            let name = path.file_name().unwrap();
            std::fs::copy(&path, folder.join(name)).unwrap();
            list += name.to_str().unwrap();
            list.push('\n');
        }
        std::fs::write(folder.join("aurae.load"), list).unwrap();
    }
}

/// Answers what a console asks, one after the other. Who asks for a password forgets what was typed
/// before it is ready: an answer that led to nothing is typed again, as a user would.
fn type_there(machine: &mut Machine, console: &Path, talk: &[(&str, &str)]) {
    let (mut read, mut last) = (0, "");
    for (asked, answer) in talk {
        let started = Instant::now();
        let mut typed = Instant::now();
        loop {
            let shown = std::fs::read(console).unwrap_or_default();
            let shown = String::from_utf8_lossy(&shown).into_owned();
            if let Some(at) = shown.get(read..).and_then(|new| new.find(asked)) {
                read += at + asked.len();
                break;
            }
            assert!(started.elapsed() < OFF, "no {asked:?}:\n{shown}");
            if typed.elapsed() > Duration::from_secs(5) {
                machine.type_in(last).unwrap();
                typed = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        machine.type_in(answer).unwrap();
        last = answer;
    }
}

/// How many; as many as a translated machine makes in seconds.
const ORPHANS: &str = "2000";
const BUSYBOX: &str = "/bin/busybox";

pub(crate) fn steps(shown: &str) -> Vec<&str> {
    if std::env::var_os("AURAE_TEST_LOUD").is_some() {
        println!("{shown}");
    }
    shown
        .lines()
        .filter_map(|line| line.trim().strip_prefix("STEP "))
        .collect()
}

fn a_machine_boots_runs_a_cell_and_goes_off() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let root = root_folder(bed.folder.path(), "init");
    let shown = bed.boot(bed.pack(&root), "", None);
    let steps = steps(&shown);
    let expected = [
        "welcome Machine Ok(())",
        "around 0::/aurae/_daemon",
        "cell Code(42) 2 web",
        "nested Code(0) 0::/",
        "hog Signal { signal: 9, core: false } Some(1)",
        "the orphans are gone",
        "killed",
        "welcome Machine Ok(())",
        "the cell is still there",
    ];
    assert_eq!(steps, expected, "{shown}");
    assert!(
        shown.contains("PowerOff follows, in 20s at most"),
        "{shown}"
    );
    assert!(
        shown.contains("the end") && !shown.contains("Kernel panic"),
        "{shown}"
    );
}

fn a_machine_passes_from_its_initramfs_to_a_disk() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let folder = bed.folder.path();
    // The disk: the same program where `init=` is not needed.
    let root = root_folder(folder, "sbin/auraed");
    std::os::unix::fs::symlink("sbin/auraed", root.join("init")).unwrap();
    std::fs::write(root.join("etc/short"), "").unwrap();
    let disk = disk_of(folder, &root);
    let disk_name = disk.to_str().unwrap();
    // The initramfs: the program, and the modules of the disk.
    let first = root_folder(&folder.join("first"), "init");
    bed.add_modules(&first);
    let kept = Some(Disk::Kept(disk.clone()));
    let shown = bed.boot(bed.pack(&first), "root=/dev/vda rw", kept);
    let expected = [
        "welcome Machine Ok(())",
        "root ext4 /dev/vda",
        "seeded true",
        "container layer 1 0 sh written",
        "beside sh",
        "unlocked false",
        "container layer 1 0 sh read-only",
        "beside sh",
        "unlocked false",
        "the layers of images are on tmpfs, whose owners this kernel can't map to a cell's ids: \
         move the images to ext4, xfs or btrfs",
    ];
    assert_eq!(steps(&shown), expected, "{shown}");
    assert!(shown.contains("Reboot follows, in 20s at most"), "{shown}");
    // It was left in order: nothing is to be repaired.
    run("e2fsck", &["-n", disk_name]);
    let missing = bed.boot(bed.pack(&first), "root=nonsense", None);
    assert!(
        missing.contains("PARTUUID=ID or PARTLABEL=NAME is expected"),
        "{missing}"
    );
}

fn run(program: &str, arguments: &[&str]) {
    testkit::exec::read(Command::new(program).args(arguments)).unwrap();
}

/// A disk with what is in a folder.
pub(crate) fn disk_of(folder: &Path, root: &Path) -> PathBuf {
    let disk = folder.join("disk");
    let (from, to) = (root.to_str().unwrap(), disk.to_str().unwrap());
    run("mke2fs", &["-q", "-t", "ext4", "-d", from, to, "200M"]);
    disk
}

/// This binary under a name, busybox and a host name.
pub(crate) fn root_folder(folder: &Path, program: &str) -> PathBuf {
    let root = folder.join("root");
    let places = [
        "bin", "sbin", "etc", "proc", "sys", "dev", "run", "tmp", "var/tmp", "root", "var/lib",
    ];
    for place in places {
        std::fs::create_dir_all(root.join(place)).unwrap();
    }
    std::fs::copy(std::env::current_exe().unwrap(), root.join(program)).unwrap();
    std::fs::copy(BUSYBOX, root.join("bin/busybox")).unwrap();
    std::fs::write(root.join("etc/hostname"), "testnode\n").unwrap();
    root
}
