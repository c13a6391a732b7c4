// SPDX-License-Identifier: Apache-2.0
//! A real node for tests: `auraed` as a service of this machine, in folders and a cgroup of its
//! own, spoken to by the `aurae` that was just built. It needs root; without, a test says so and
//! passes.

use std::fs;
use std::io::Read;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

/// How long a node may take to serve, or to end. A debug build on a loaded machine is slow.
const TIMEOUT: Duration = Duration::from_secs(60);
/// From one look to the next: other tests need the machine, too.
const LOOK: Duration = Duration::from_millis(20);
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A running node.
pub(crate) struct Node {
    folder: tempfile::TempDir,
    cgroup: String,
    init: Child,
}

/// A node, or `None` where this machine can't run one; then the reason is printed.
pub(crate) fn node() -> Option<Node> {
    node_with(&[])
}

/// The same, with settings of its configuration.
pub(crate) fn node_with(settings: &[String]) -> Option<Node> {
    if !testkit::needs_root("a node needs root") {
        return None;
    }
    let binary = Path::new(env!("CARGO_BIN_EXE_aurae")).with_file_name("auraed");
    if !binary.exists() {
        build(&binary);
    }
    Some(Node::start(&binary, settings))
}

/// `cargo test -p aurae` alone has no reason to build the daemon.
fn build(binary: &Path) {
    let profile = if cfg!(debug_assertions) {
        "dev"
    } else {
        "release"
    };
    let built = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--package",
            "auraed",
            "--profile",
            profile,
        ])
        .status()
        .expect("cargo runs");
    assert!(
        built.success() && binary.exists(),
        "can't build {}",
        binary.display()
    );
}

impl Node {
    fn start(binary: &Path, settings: &[String]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let cgroup = format!("aurae-test-{}-{count}", std::process::id());
        let notify = UnixDatagram::bind(folder.path().join("notify")).expect("binds");
        notify.set_read_timeout(Some(TIMEOUT)).expect("sets");
        let log = fs::File::create(folder.path().join("log")).expect("creates");
        let init = Command::new(binary)
            .arg("--state-dir")
            .arg(folder.path().join("state"))
            .arg("--run-dir")
            .arg(folder.path().join("run"))
            .args(["--config", "/dev/null", "--set", "node.name=test"])
            .args(["--set", &format!("paths.cgroup={cgroup}")])
            // The machine's own network isn't ours to change.
            .args(["--set", "cell_network.enabled=false"])
            // However full the machine's disk is, what a test has imported stays.
            .args(["--set", "images.high_threshold=100"])
            .args(["--set", "images.low_threshold=100"])
            .args(settings.iter().flat_map(|it| ["--set", it.as_str()]))
            .env("NOTIFY_SOCKET", folder.path().join("notify"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("clones"))
            .stderr(log)
            .spawn()
            .expect("auraed starts");
        let node = Self {
            folder,
            cgroup,
            init,
        };
        node.wait_until_ready(&notify);
        node.configure("config.toml", &node.path("state/pki"), "admin");
        node
    }

    fn wait_until_ready(&self, notify: &UnixDatagram) {
        let mut message = [0; 256];
        loop {
            let count = match notify.recv(&mut message) {
                // A call with a time limit isn't taken up again after the process was stopped.
                Err(problem) if problem.kind() == std::io::ErrorKind::Interrupted => continue,
                count => count,
            };
            let count =
                count.unwrap_or_else(|problem| panic!("never ready: {problem}\n{}", self.log()));
            if String::from_utf8_lossy(&message[..count]).contains("READY=1") {
                return;
            }
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the node has printed.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Writes a configuration with the credentials `USER.pem` and `USER.key` of a folder.
    pub(crate) fn configure(&self, name: &str, credentials: &Path, user: &str) {
        let text = format!(
            "current-context = \"test\"\n\
             [nodes.test]\naddress = \"unix://{}\"\nca = \"{}\"\n\
             [users.test]\ncertificate = \"{2}/{3}.pem\"\nkey = \"{2}/{3}.key\"\n\
             [contexts.test]\nnode = \"test\"\nuser = \"test\"\n",
            self.path("run/aurae.sock").display(),
            self.path("state/pki/ca.pem").display(),
            credentials.display(),
            user,
        );
        fs::write(self.path(name), text).expect("writes");
    }

    /// The client, as administrator.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_as("config.toml", args)
    }

    pub(crate) fn command_as(&self, config: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aurae"));
        command
            .args(args)
            .env_clear()
            .env("AURAE_CONFIG", self.path(config));
        command.env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        command
    }

    pub(crate) fn aurae(&self, args: &[&str]) -> Run {
        Run::of(self.command(args).output().expect("runs"), self)
    }

    pub(crate) fn aurae_as(&self, config: &str, args: &[&str]) -> Run {
        Run::of(self.command_as(config, args).output().expect("runs"), self)
    }

    /// The pid of the daemon that init runs now.
    pub(crate) fn daemon(&self) -> u32 {
        let children = format!("/proc/{0}/task/{0}/children", self.init.id());
        let children = fs::read_to_string(children).expect("reads");
        let is_daemon = |pid: &&str| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).any(|word| word == b"serve")
        };
        let daemon = children.split_whitespace().find(is_daemon);
        daemon
            .and_then(|pid| pid.parse().ok())
            .unwrap_or_else(|| panic!("no daemon\n{}", self.log()))
    }

    /// Ends the daemon as hard as can be.
    pub(crate) fn kill_daemon(&self) {
        self.signal_daemon(Signal::KILL);
    }

    pub(crate) fn signal_daemon(&self, signal: Signal) {
        let pid = i32::try_from(self.daemon())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.expect("a pid"), signal).expect("kills");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self
            .command(&["node", "shutdown", "--bound", "5s"])
            .output();
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            if let Ok(Some(_)) = self.init.try_wait() {
                break;
            }
            std::thread::sleep(LOOK);
        }
        let _ = self.init.kill();
        let _ = self.init.wait();
        if std::thread::panicking() {
            println!("--- the node said:\n{}", self.log());
        }
        remove_cgroup(&self.cgroup);
    }
}

/// Kills whatever a failed test has left, and removes its cgroups.
fn remove_cgroup(name: &str) {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "));
    let Some(mount) = mount.and_then(|line| line.split(' ').nth(4)) else {
        return;
    };
    let top = Path::new(mount).join(name);
    let _ = fs::write(top.join("cgroup.kill"), "1");
    let deadline = Instant::now() + TIMEOUT;
    while top.exists() && Instant::now() < deadline {
        remove_below(&top);
        std::thread::sleep(LOOK);
    }
}

fn remove_below(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_below(&entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
}

/// What a run of the client came to.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
    log: String,
}

impl Run {
    fn of(output: Output, node: &Node) -> Self {
        Self {
            status: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            log: if output.status.success() {
                String::new()
            } else {
                node.log()
            },
        }
    }

    /// Its output, when it succeeded.
    pub(crate) fn ok(self) -> String {
        assert_eq!(
            self.status,
            Some(0),
            "{}{}\n--- node:\n{}",
            self.out,
            self.err,
            self.log
        );
        self.out
    }

    /// Its complaint, when it ended with that status.
    pub(crate) fn fails(self, status: i32) -> String {
        assert_eq!(
            self.status,
            Some(status),
            "{}{}\n--- node:\n{}",
            self.out,
            self.err,
            self.log
        );
        self.err
    }
}

/// Reads until a line has come.
pub(crate) fn read_line(from: &mut impl Read) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while from.read(&mut byte).expect("reads") == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8_lossy(&line).into_owned()
}
