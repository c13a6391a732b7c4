// SPDX-License-Identifier: Apache-2.0
//! Node-init as PID 1 of a machine: this binary as the `/init` of an initramfs, in QEMU, with Debian's kernel.
//!
//! The daemon in there runs the story itself and says each step on the console; the host reads along. Skipped where
//! there is no QEMU, busybox or kernel.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Story;
use crate::bed::*;
use init::protocol::*;
use kernel::cgroup::Cgroup;

pub(crate) const STORIES: &[Story] = &[("a_machine_boots_runs_a_cell_and_goes_off", a_machine)];

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

fn a_machine() {
    let kernel = std::fs::read_dir("/boot")
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let kernel = kernel
        .filter(|path| path.to_str().unwrap().contains("/vmlinuz-"))
        .max();
    let qemu = Path::new("/usr/bin/qemu-system-x86_64");
    let Some(kernel) = kernel.filter(|_| qemu.exists() && Path::new("/bin/busybox").exists())
    else {
        println!(
            "skipped: needs qemu-system-x86, linux-image-cloud-amd64, busybox-static and cpio"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let image = initramfs(folder.path());
    let shown = boot(qemu, &kernel, &image);
    if std::env::var_os("AURAE_TEST_LOUD").is_some() {
        println!("{shown}");
    }
    let steps: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.trim().strip_prefix("STEP "))
        .collect();
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

/// What the machine's console shows until it is off.
fn boot(qemu: &Path, kernel: &Path, image: &Path) -> String {
    let mut qemu = Command::new(qemu);
    qemu.args([
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max",
        "-m",
        "2048",
        "-smp",
        "2",
        "-nographic",
    ]);
    qemu.args(["-no-reboot", "-net", "none", "-kernel"])
        .arg(kernel)
        .arg("-initrd")
        .arg(image);
    qemu.args(["-append", "console=ttyS0 quiet panic=-1"]);
    qemu.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut machine = qemu.spawn().unwrap();
    let stop = Command::new("timeout")
        .args(["200", "tail", "-f", "/dev/null"])
        .arg(format!("--pid={}", machine.id()))
        .spawn();
    let mut shown = String::new();
    let _ = std::io::Read::read_to_string(&mut machine.stdout.take().unwrap(), &mut shown);
    machine.wait().unwrap();
    drop(stop.unwrap().kill());
    shown
}

/// This binary, busybox and a host name.
fn initramfs(folder: &Path) -> PathBuf {
    let root = folder.join("root");
    for place in [
        "bin", "etc", "proc", "sys", "dev", "run", "tmp", "var/tmp", "root", "var/lib",
    ] {
        std::fs::create_dir_all(root.join(place)).unwrap();
    }
    std::fs::copy(std::env::current_exe().unwrap(), root.join("init")).unwrap();
    std::fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
    std::fs::write(root.join("etc/hostname"), "testnode\n").unwrap();
    let image = folder.join("image");
    let mut pack = Command::new("cpio");
    pack.args(["-o", "-H", "newc", "--quiet"])
        .current_dir(&root);
    pack.stdin(Stdio::piped())
        .stdout(std::fs::File::create(&image).unwrap());
    let mut pack = pack.spawn().unwrap();
    let names = Command::new("find")
        .arg(".")
        .current_dir(&root)
        .output()
        .unwrap()
        .stdout;
    pack.stdin.take().unwrap().write_all(&names).unwrap();
    assert!(pack.wait().unwrap().success());
    image
}
