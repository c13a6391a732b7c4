// SPDX-License-Identifier: Apache-2.0
//! A node of its own for one story: folders, a cgroup, node-init as a service; all gone afterwards.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use init::protocol::Role;

use crate::client::Client;

/// Becomes node-init.
pub(crate) fn be_init(dir: &str) -> ! {
    let dir = Path::new(dir);
    let program = std::env::current_exe().unwrap();
    let cgroup = std::fs::read_to_string(dir.join("cgroup")).unwrap();
    let options = init::Options {
        daemon: vec!["aurae-test".into(), "serve".into(), dir.into()],
        program,
        state_dir: dir.join("state"),
        run_dir: dir.join("run"),
        cgroup: Some(cgroup.into()),
        back_off: Duration::ZERO,
        shutdown_bound: Duration::from_secs(10),
        role: Some(Role::Service),
        ..init::Options::default()
    };
    let error = init::run(options).unwrap_err();
    panic!("node-init: {error}");
}

/// A running node.
pub(crate) struct Node {
    dir: tempfile::TempDir,
    base: PathBuf,
    /// Below it are the tenants.
    cgroup: PathBuf,
    init: Child,
}

impl Node {
    /// Starts one and waits until its daemon answers.
    pub(crate) fn start(name: &str) -> Node {
        let dir = tempfile::Builder::new()
            .prefix("aurae-node-")
            .tempdir()
            .unwrap();
        let mount = kernel::cgroup::find::mount_point().unwrap();
        let cgroup = mount.join(format!("aurae-test-{}-{name}", std::process::id()));
        std::fs::create_dir(&cgroup).unwrap();
        std::fs::write(dir.path().join("cgroup"), cgroup.to_str().unwrap()).unwrap();
        let log = std::fs::File::create(dir.path().join("console")).unwrap();
        let init = Command::new(std::env::current_exe().unwrap())
            .arg("init")
            .arg(dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let node = Node {
            dir,
            cgroup: cgroup.join("tenants"),
            base: cgroup,
            init,
        };
        node.client();
        node
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The group that the tenants' are in.
    pub(crate) fn cgroup(&self) -> &Path {
        &self.cgroup
    }

    /// The node's own group.
    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    /// Connects to the daemon, waiting for one.
    pub(crate) fn client(&self) -> Client {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            match Client::connect(&self.dir.path().join("control")) {
                Ok(client) => return client,
                Err(error) if Instant::now() > deadline => {
                    self.show_console();
                    panic!("the daemon does not answer: {error}");
                }
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// Where the cells' sockets are.
    pub(crate) fn cells(&self) -> PathBuf {
        self.dir.path().join("run/cells")
    }

    /// SIGKILL to the daemon that answers now; what is done before the next one can come.
    pub(crate) fn kill_daemon_while<T>(&self, steps: impl FnOnce() -> T) -> T {
        let init = kernel::pidfd::open(i32::try_from(self.init.id()).unwrap()).unwrap();
        let send = |signal| kernel::pidfd::send_signal(&init, signal).unwrap();
        send(kernel::signal::Signal::STOP);
        self.kill_daemon();
        let done = steps();
        send(kernel::signal::Signal::CONT);
        done
    }

    /// SIGKILL to the daemon that answers now.
    pub(crate) fn kill_daemon(&self) {
        let pid = std::fs::read_to_string(self.dir.path().join("daemon.pid")).unwrap();
        let pidfd = kernel::pidfd::open(pid.trim().parse().unwrap()).unwrap();
        kernel::pidfd::send_signal(&pidfd, kernel::signal::Signal::KILL).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !kernel::pidfd::has_ended(&pidfd).unwrap() {
            assert!(Instant::now() < deadline, "the daemon does not die");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// SIGTERM to node-init, and waits for its end.
    pub(crate) fn end_in_order(&mut self) {
        let init = kernel::pidfd::open(i32::try_from(self.init.id()).unwrap()).unwrap();
        kernel::pidfd::send_signal(&init, kernel::signal::Signal::TERM).unwrap();
        assert!(self.init.wait().unwrap().success());
    }

    pub(crate) fn show_console(&self) {
        let console = std::fs::read_to_string(self.dir.path().join("console")).unwrap_or_default();
        let lines: Vec<&str> = console.lines().collect();
        for line in lines.iter().skip(lines.len().saturating_sub(60)) {
            eprintln!("    | {line}");
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show_console();
        }
        let group = kernel::cgroup::Cgroup::open(&self.base).unwrap();
        let _ = group.kill_and_wait(Duration::from_secs(10));
        let _ = self.init.kill();
        let _ = self.init.wait();
        let parent = kernel::cgroup::Cgroup::open(self.base.parent().unwrap()).unwrap();
        let name = self.base.file_name().unwrap().to_str().unwrap();
        if let Err(error) = parent.remove(name, Duration::from_secs(10)) {
            eprintln!("    left behind: {error}");
        }
    }
}
