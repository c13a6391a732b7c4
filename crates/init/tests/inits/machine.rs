// SPDX-License-Identifier: Apache-2.0
//! Node-init as PID 1 of a machine: this binary as the `/init` of an initramfs, in QEMU, with
//! Debian's kernel.
//!
//! The daemon in there runs the story itself and says each step on the console; the host reads
//! along. Skipped where there is no QEMU, busybox or kernel.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Story;
use crate::bed::*;
use init::protocol::*;
use kernel::cgroup::Cgroup;

pub(crate) const STORIES: &[Story] = &[
    ("a_machine_boots_runs_a_cell_and_goes_off", a_machine),
    (
        "a_machine_passes_from_its_initramfs_to_a_disk",
        a_machine_with_a_disk,
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

fn step(what: &str) {
    println!("STEP {what}");
}

/// The story, told from inside.
pub(crate) fn be_daemon(arguments: Vec<String>) {
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
        let mode = PowerMode::Reboot;
        send(
            &daemon.socket,
            &NodeRequest::Shutdown {
                mode,
                bound_ms: 5000,
            },
            &[],
        );
        std::thread::sleep(Duration::from_secs(60));
    }
    if second {
        assert_eq!(daemon.welcome.cells.len(), 1);
        step("the cell is still there");
        let mode = PowerMode::PowerOff;
        send(
            &daemon.socket,
            &NodeRequest::Shutdown { mode, bound_ms: 0 },
            &[],
        );
        std::thread::sleep(Duration::from_secs(60));
    }
    look_around();
    tell(&mut daemon);
    orphans();
    send(&daemon.socket, &NodeRequest::Ready, &[]);
    step("killed");
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
}

/// Cells with limits and cells in cells, on a kernel that has all controllers.
fn tell(daemon: &mut Daemon) {
    let base = Cgroup::open(Path::new("/sys/fs/cgroup/aurae")).unwrap();
    let place = Place::of_machine(&base);
    let cell = daemon.try_at(&place, Plan::bare("web", IDS), None).unwrap();
    let went = cell.run(&["/bin/busybox", "sh", "-c", "echo $$ $(hostname); exit 42"]);
    step(&format!("cell {:?} {}", went.exit.how, went.stdout.trim()));
    let mut plan = Plan::bare("inner", IDS + 100);
    plan.launch.uid_map[0].count = 100;
    plan.launch.gid_map[0].count = 100;
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

/// What PID 1 owes everybody else.
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

/// Ten thousand children of a process that doesn't wait for them.
fn orphans() {
    let mut parent = Command::new("/init")
        .args(["workload", "orphans", "10000"])
        .spawn()
        .unwrap();
    assert!(parent.wait().unwrap().success());
    let zombies = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let stats = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        stats.filter(|stat| stat.contains(") Z ")).count()
    };
    until("no orphan is left", || zombies() == 0);
    step("10000 orphans are gone");
}

/// The newest kernel in /boot, where everything is there to boot it.
fn kernel_to_boot() -> Option<PathBuf> {
    let all = std::fs::read_dir("/boot")
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    let kernel = all.filter(|path| path.to_str().is_some_and(|path| path.contains("/vmlinuz-")));
    let tools = [
        QEMU,
        "/bin/busybox",
        "/usr/bin/cpio",
        "/usr/sbin/modprobe",
        "/usr/sbin/mkfs.ext4",
    ];
    let kernel = kernel
        .max()
        .filter(|_| tools.iter().all(|tool| Path::new(tool).exists()));
    if kernel.is_none() {
        testkit::skip(&format!(
            "needs linux-image-cloud-amd64 in /boot and {}",
            tools.join(", ")
        ));
    }
    kernel
}

const QEMU: &str = "/usr/bin/qemu-system-x86_64";

fn steps(shown: &str) -> Vec<&str> {
    if std::env::var_os("AURAE_TEST_LOUD").is_some() {
        println!("{shown}");
    }
    shown
        .lines()
        .filter_map(|line| line.trim().strip_prefix("STEP "))
        .collect()
}

fn a_machine() {
    let Some(kernel) = kernel_to_boot() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let root = root_folder(folder.path(), "init");
    let shown = boot(&kernel, &pack(folder.path(), &root), "", &[]);
    let steps = steps(&shown);
    let expected = [
        "welcome Machine Ok(())",
        "around 0::/aurae/_daemon",
        "cell Code(42) 2 web",
        "nested Code(0) 0::/",
        "hog Signal { signal: 9, core: false } Some(1)",
        "10000 orphans are gone",
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

fn a_machine_with_a_disk() {
    let Some(kernel) = kernel_to_boot() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    // The disk: the same program where `init=` is not needed.
    let root = root_folder(folder.path(), "sbin/auraed");
    std::os::unix::fs::symlink("sbin/auraed", root.join("init")).unwrap();
    std::fs::write(root.join("etc/short"), "").unwrap();
    let disk = folder.path().join("disk");
    std::fs::File::create(&disk)
        .unwrap()
        .set_len(200 << 20)
        .unwrap();
    run(
        "mkfs.ext4",
        &["-q", "-d", root.to_str().unwrap(), disk.to_str().unwrap()],
    );
    // The initramfs: the program, and the modules of the disk.
    let first = root_folder(&folder.path().join("first"), "init");
    add_modules(&first, &kernel);
    let image = pack(folder.path(), &first);
    let drive = format!("file={},format=raw,if=virtio", disk.display());
    let shown = boot(&kernel, &image, "root=/dev/vda rw", &["-drive", &drive]);
    let expected = [
        "welcome Machine Ok(())",
        "root ext4 /dev/vda",
        "seeded true",
    ];
    assert_eq!(steps(&shown), expected, "{shown}");
    assert!(shown.contains("Reboot follows, in 5s at most"), "{shown}");
    // It was left in order: nothing is to be repaired.
    run("e2fsck", &["-n", disk.to_str().unwrap()]);
    let missing = boot(&kernel, &pack(folder.path(), &first), "root=nonsense", &[]);
    assert!(
        missing.contains("PARTUUID=ID or PARTLABEL=NAME is expected"),
        "{missing}"
    );
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{program}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// What virtio disks need, listed in the order of dependencies.
fn add_modules(root: &Path, kernel: &Path) {
    let release = kernel.to_str().unwrap().rsplit_once("vmlinuz-").unwrap().1;
    let folder = root.join("lib/modules");
    std::fs::create_dir_all(&folder).unwrap();
    let mut list = String::from("# for the disk\n");
    for module in ["virtio_pci", "virtio_blk", "ext4"] {
        for line in run("modprobe", &["-S", release, "--show-depends", module]).lines() {
            let Some(path) = line.strip_prefix("insmod ") else {
                continue;
            };
            let path = Path::new(path.trim());
            let name = path.file_name().unwrap();
            if std::fs::copy(path, folder.join(name)).is_ok()
                && !list.contains(name.to_str().unwrap())
            {
                list += name.to_str().unwrap();
                list.push('\n');
            }
        }
    }
    std::fs::write(folder.join("aurae.load"), list).unwrap();
}

/// What the machine's console shows until it is off; at most some minutes.
fn boot(kernel: &Path, image: &Path, append: &str, more: &[&str]) -> String {
    let append = format!("console=ttyS0 quiet panic=-1 {append}");
    let mut qemu = Command::new("timeout");
    qemu.args([
        "240",
        QEMU,
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max",
        "-m",
        "2048",
    ]);
    qemu.args([
        "-smp",
        "2",
        "-nographic",
        "-no-reboot",
        "-net",
        "none",
        "-append",
        &append,
    ]);
    qemu.arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(image)
        .args(more);
    let output = qemu
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// This binary under a name, busybox and a host name.
fn root_folder(folder: &Path, program: &str) -> PathBuf {
    let root = folder.join("root");
    let places = [
        "bin", "sbin", "etc", "proc", "sys", "dev", "run", "tmp", "var/tmp", "root", "var/lib",
    ];
    for place in places {
        std::fs::create_dir_all(root.join(place)).unwrap();
    }
    std::fs::copy(std::env::current_exe().unwrap(), root.join(program)).unwrap();
    std::fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
    std::fs::write(root.join("etc/hostname"), "testnode\n").unwrap();
    root
}

fn pack(folder: &Path, root: &Path) -> PathBuf {
    let image = folder.join("image");
    let names = Command::new("find")
        .arg(".")
        .current_dir(root)
        .output()
        .unwrap()
        .stdout;
    let mut pack = Command::new("cpio");
    pack.args(["-o", "-H", "newc", "--quiet"]).current_dir(root);
    pack.stdin(Stdio::piped())
        .stdout(std::fs::File::create(&image).unwrap());
    let mut pack = pack.spawn().unwrap();
    pack.stdin.take().unwrap().write_all(&names).unwrap();
    assert!(pack.wait().unwrap().success());
    image
}
