// SPDX-License-Identifier: Apache-2.0
//! Whatever system call fails while a machine boots or goes down, PID 1 doesn't end, doesn't hang,
//! and what fails but for a moment costs nothing but that moment.
//!
//! The machine is a box: namespaces of every kind but users', an empty tmpfs as root, and a
//! node-init that was told to be a machine's. In such a box reboot(2) ends its PID 1: by SIGINT for
//! power-off. It is traced from its first call as init to its last.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use init::protocol::*;
use kernel::cgroup::{Cgroup, find};
use kernel::mount::{self, Attributes, Propagation};
use kernel::namespace;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;
use syscalls::Sysno;

use crate::Story;
use crate::bed::*;
use testkit::tracer::{Fault, Tracer};

pub(crate) const STORIES: &[Story] = &[
    (
        "a_boot_bears_a_failure_of_every_call",
        a_boot_bears_a_failure_of_every_call,
    ),
    (
        "a_shutdown_bears_a_failure_of_every_call",
        a_shutdown_bears_a_failure_of_every_call,
    ),
];

/// A boot, or an end, takes no longer, however often a call failed.
const SOON: Duration = Duration::from_secs(20);
/// How long a call of a kind fails that "always" fails.
const LASTING: Duration = Duration::from_millis(300);
/// By then it listens to signals, where nothing fails.
const LISTENS: Duration = Duration::from_secs(2);
/// When it is told again to power off, where it may not listen yet.
const AGAIN: Duration = Duration::from_secs(1);
/// How often in a row a kind fails that is to cost no more than time.
const TIMES: u64 = 3;
/// The inode of the first pid namespace: nothing here may ever run in that.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;
/// Said when the box is furnished, and when the daemon has looked around in it.
const FURNISHED: &str = "STEP furnished";
const AROUND: &str = "STEP around ";

/// PID 1 of a box: furnishes it, waits for the word, and is the init of a machine.
pub(crate) fn be_boxed(arguments: Vec<String>) -> ! {
    let (_, inode) = namespace::open(Path::new("/proc/self/ns/pid"))
        .and_then(namespace::identity)
        .unwrap();
    assert_ne!(inode, FIRST_PID_NAMESPACE, "this isn't a box");
    let root = Path::new(&arguments[0]);
    mount::set_propagation(Path::new("/"), Propagation::Private, true).unwrap();
    let tmpfs = mount::tmpfs(16 << 20, 0o755, Attributes::NONE).unwrap();
    mount::attach(tmpfs, root).unwrap();
    std::fs::create_dir(root.join("etc")).unwrap();
    std::fs::write(root.join("etc/hostname"), "boxed\n").unwrap();
    mount::pivot_root(mount::open_path(root).unwrap()).unwrap();
    println!("{FURNISHED}");
    // By a call that init doesn't make: before it begins, failures are none of its business.
    let word = || {
        let mut byte = [0];
        let mut into = [rustix::io::IoSliceMut::new(&mut byte)];
        rustix::io::readv(rustix::stdio::stdin(), &mut into)
    };
    while word() != Ok(1) {}
    let options = init::Options {
        daemon: vec!["inits".into(), "serve-boxed".into()],
        shutdown_bound: Duration::from_secs(4),
        role: Some(Role::Machine),
        ..init::Options::default()
    };
    let error = init::run(options).unwrap_err();
    panic!("{error}");
}

/// The daemon in the box: says what is missing there.
pub(crate) fn be_daemon(arguments: Vec<String>) {
    let socket = kernel::inherit::take(arguments[1].parse().unwrap()).unwrap();
    let hello = NodeRequest::Hello {
        version: VERSION,
        build: "test".into(),
    };
    send(&socket, &hello, &[]);
    let Some((NodeEvent::Welcome(_), _)) = receive::<NodeEvent>(&socket) else {
        panic!("no welcome")
    };
    let mut missing = Vec::new();
    let mut want = |what: &str, there: bool| {
        if !there {
            missing.push(what.to_owned());
        }
    };
    for place in [
        "/proc", "/sys", "/dev", "/dev/pts", "/dev/shm", "/run", "/tmp",
    ] {
        want(
            place,
            mount::is_mount_point(Path::new(place)).unwrap_or(false),
        );
    }
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    want("a name", text("/proc/sys/kernel/hostname") == "boxed\n");
    want("an id", text("/etc/machine-id").len() == 33);
    want(
        "loopback",
        std::net::TcpListener::bind("127.0.0.1:0").is_ok(),
    );
    want("a seed", Path::new("/var/lib/aurae/random-seed").exists());
    want("cells", Path::new("/run/aurae/cells").is_dir());
    let own = text("/proc/self/cgroup");
    want(
        "a group",
        own.lines().any(|line| line == "0::/aurae/_daemon"),
    );
    println!("{AROUND}{missing:?}");
    send(&socket, &NodeRequest::Ready, &[]);
    std::thread::sleep(Duration::from_secs(600));
}

/// A machine in a box, under a tracer.
struct Machine {
    outer: Child,
    pid: i32,
    tracer: Tracer,
    group: Cgroup,
    lines: Receiver<String>,
    said: Vec<String>,
    _folder: tempfile::TempDir,
}

/// In a group of its own, which is the root of all groups in the box.
const BOX: &str = "echo $$ > \"$0/cgroup.procs\" && exec unshare --pid --mount --net --uts --ipc \
    --cgroup --fork --kill-child=KILL -- \"$1\" boxed \"$2\"";

impl Machine {
    /// One that waits for the word.
    fn furnish() -> Machine {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().file_name().unwrap().to_str().unwrap();
        let root = Cgroup::open(&find::mount_point().unwrap()).unwrap();
        let group = root.ensure(&name.replace('.', "aurae-test-")).unwrap();
        let mut outer = Command::new("sh");
        outer
            .args(["-c", BOX])
            .arg(group.path())
            .arg(std::env::current_exe().unwrap())
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut outer = outer.spawn().unwrap();
        let (lines, said) = (channel(), Vec::new());
        follow(outer.stdout.take().unwrap(), lines.0.clone());
        follow(outer.stderr.take().unwrap(), lines.0);
        let first = lines.1.recv_timeout(SOON).expect("the box is furnished");
        assert_eq!(first, FURNISHED);
        let id = outer.id();
        let inner = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        let pid = inner.trim().parse().unwrap();
        Machine {
            tracer: Tracer::attach(pid),
            outer,
            pid,
            group,
            lines: lines.1,
            said,
            _folder: folder,
        }
    }

    /// Gives it the word.
    fn go(&mut self) {
        let stdin = self.outer.stdin.as_mut().unwrap();
        stdin.write_all(b"!").unwrap();
    }

    /// What the daemon misses, once it has looked around; `None` if it hasn't by then.
    fn look_around(&mut self, timeout: Duration) -> Option<String> {
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if let Some(missing) = line.strip_prefix(AROUND) {
                        return Some(missing.to_owned());
                    }
                }
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => panic!("PID 1 ended: {:#?}", self.said),
            }
        }
    }

    fn boot(&mut self) {
        self.go();
        let missing = self.look_around(SOON);
        assert_eq!(missing.as_deref(), Some("[]"), "{:#?}", self.said);
        assert_eq!(self.tracer.ended(), None);
    }

    /// Has it power off, and waits for that.
    fn power_off(&mut self) {
        self.order().unwrap();
        self.go_off(Duration::MAX);
    }

    /// Orders it to power off.
    fn order(&self) -> nix::Result<()> {
        let pid = nix::unistd::Pid::from_raw(self.pid);
        nix::sys::signal::kill(pid, Signal::SIGTERM)
    }

    /// Waits until it has powered off, and repeats the order each time that so long has passed.
    fn go_off(&mut self, again: Duration) {
        let start = Instant::now();
        let mut ordered = start;
        while self.tracer.ended().is_none() {
            assert!(start.elapsed() < SOON, "it hangs: {:#?}", self.rest());
            if ordered.elapsed() > again {
                // It may have gone meanwhile.
                let _ = self.order();
                ordered = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        match self.tracer.ended() {
            Some(WaitStatus::Signaled(_, Signal::SIGINT, _)) => {}
            other => panic!("it ended otherwise: {other:?} {:#?}", self.rest()),
        }
    }

    fn rest(&mut self) -> &[String] {
        self.said.extend(self.lines.try_iter());
        &self.said
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.outer.kill();
        let _ = self.outer.wait();
        let _ = self.group.kill_and_wait(TIMEOUT);
        let above = Cgroup::open(self.group.path().parent().unwrap()).unwrap();
        let name = self.group.path().file_name().unwrap().to_str().unwrap();
        let _ = above.remove(name, TIMEOUT);
    }
}

fn follow(stream: impl Read + Send + 'static, lines: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = lines.send(line);
        }
    });
}

/// The moments at which calls fail.
#[derive(Clone, Copy)]
enum When {
    Booting,
    GoingDown,
}

/// A machine's life under this fault: what failed, and how many calls there were.
fn live(when: When, fault: Fault) -> (Vec<Sysno>, u64, BTreeSet<Sysno>) {
    let told = std::panic::catch_unwind(|| {
        let mut machine = Machine::furnish();
        if matches!(when, When::Booting) {
            machine.tracer.set(fault);
            machine.boot();
        } else {
            machine.boot();
            machine.tracer.forget();
            machine.tracer.set(fault);
            machine.power_off();
        }
        let (failed, calls) = (machine.tracer.failed(), machine.tracer.calls());
        let kinds = machine.tracer.seen().into_keys().collect();
        if matches!(when, When::Booting) {
            machine.tracer.set(Fault::None);
            machine.power_off();
        }
        (failed, calls, kinds)
    });
    told.unwrap_or_else(|panic| {
        println!("    under {fault:?}");
        std::panic::resume_unwind(panic)
    })
}

/// Calls of a kind fail for as long as it lasts, and whatever came of it: PID 1 lives, and goes
/// down in order once they don't.
fn outlast(kind: Sysno) {
    let told = std::panic::catch_unwind(|| {
        let mut machine = Machine::furnish();
        machine.tracer.set(Fault::Kinds {
            calls: [kind, kind],
            errno: Errno::ENOMEM,
            times: u64::MAX,
        });
        machine.go();
        let came_up = machine.look_around(LASTING).is_some();
        assert_eq!(machine.tracer.ended(), None, "{:#?}", machine.said);
        machine.tracer.set(Fault::None);
        if !came_up {
            // Without all that was to be mounted it may not come up; it listens all the same.
            let _ = machine.look_around(LISTENS);
        }
        machine.order().unwrap();
        machine.go_off(AGAIN);
    });
    if let Err(panic) = told {
        println!("    while {kind} failed");
        std::panic::resume_unwind(panic)
    }
}

/// Each call once, with one errno and the other in turn; then each kind, some times in a row.
fn bear_everything(when: When) -> BTreeSet<Sysno> {
    let start = Instant::now();
    let (_, calls, kinds) = live(when, Fault::None);
    let (mut rounds, mut borne) = (0, 0);
    let every = if std::env::var_os("AURAE_FAULTS").is_some() {
        1
    } else {
        5
    };
    for at in (0..calls).step_by(every) {
        let errno = [Errno::ENOMEM, Errno::ENOSPC][rounds % 2];
        borne += live(when, Fault::Nth { at, errno }).0.len();
        rounds += 1;
    }
    for (number, kind) in kinds.iter().enumerate() {
        let fault = Fault::Kinds {
            calls: [*kind, *kind],
            errno: [Errno::ENOMEM, Errno::EMFILE, Errno::ENOSPC][number % 3],
            times: TIMES,
        };
        borne += live(when, fault).0.len();
        rounds += 1;
    }
    println!(
        "    {calls} calls of {} kinds: {rounds} rounds, {borne} failures, {:.1?}",
        kinds.len(),
        start.elapsed()
    );
    kinds
}

fn a_boot_bears_a_failure_of_every_call() {
    for kind in bear_everything(When::Booting) {
        outlast(kind);
    }
}

fn a_shutdown_bears_a_failure_of_every_call() {
    bear_everything(When::GoingDown);
}
