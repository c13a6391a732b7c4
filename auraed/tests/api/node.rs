// SPDX-License-Identifier: Apache-2.0
//! A node of the test's own: the `auraed` binary as a service, with its files in a folder that goes
//! with it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use client::{Address, NodeIdentity, Target};
use kernel::cgroup::Cgroup;
use rustix::event::{PollFd, PollFlags};
use rustix::process::PidfdFlags;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;

use crate::caller::Person;

/// How long a node may take to open its API, or to end.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct TestNode {
    folder: TempDir,
    cgroup: String,
    process: Child,
    /// A file system is mounted on its state directory.
    small_disk: bool,
    /// Where its pods run.
    there: Option<Box<TestNode>>,
}

const NO_NETWORK: &[&str] = &["cell_network.enabled=false"];
/// However full the machine's disk is, what a test has imported stays.
const KEEPS_IMAGES: &[&str] = &["images.high_threshold=100", "images.low_threshold=100"];

impl TestNode {
    /// Starts one and waits until it answers; `None`, with a word, where this isn't root.
    ///
    /// It has no network of cells: the machine's own is the node's here, and isn't ours to change.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(NO_NETWORK)
    }

    /// The same, with a state directory on a file system of its own.
    pub(crate) fn start_on_small_disk() -> Option<Self> {
        Self::start_in(NO_NETWORK, true)
    }

    /// The same, with these settings, in the caller's network namespace.
    pub(crate) fn start_with(settings: &[&str]) -> Option<Self> {
        Self::start_in(settings, false)
    }

    /// The same, of a program in that folder, which every user can execute.
    pub(crate) fn start_installed(folder: &Path, settings: &[&str]) -> Option<Self> {
        Self::start_program(&installed(folder), settings, false)
    }

    /// The same, whose pods run on another node of its own: they are of the class `vm`, unless they
    /// say `cell`.
    pub(crate) fn start_elsewhere() -> Option<Self> {
        let there = Self::start()?;
        let mut settings: Vec<_> = NO_NETWORK.iter().map(|it| (*it).to_owned()).collect();
        settings.extend(there.as_a_class("vm"));
        settings.push("sandboxes.vm.default=true".to_owned());
        let settings: Vec<_> = settings.iter().map(String::as_str).collect();
        let mut here = Self::start_with(&settings)?;
        here.there = Some(Box::new(there));
        Some(here)
    }

    /// What another node says so that pods of that class run on this one.
    pub(crate) fn as_a_class(&self, class: &str) -> [String; 4] {
        let pki = self.state().join("pki");
        let file = |key: &str, name: &str| {
            let file = pki.join(name);
            format!("sandboxes.{class}.{key}={}", file.display())
        };
        [
            format!(
                "sandboxes.{class}.address=unix://{}",
                self.socket().display()
            ),
            file("ca", "ca.pem"),
            file("certificate", "admin.pem"),
            file("key", "admin.key"),
        ]
    }

    /// Where its pods run: itself, or the other node.
    pub(crate) fn with_pods(&self) -> &Self {
        self.there.as_deref().unwrap_or(self)
    }

    /// The other node on which its pods run.
    pub(crate) fn there(&mut self) -> &mut Self {
        self.there.as_mut().unwrap()
    }

    pub(crate) fn start_in(settings: &[&str], small_disk: bool) -> Option<Self> {
        Self::start_program(Path::new(PROGRAM), settings, small_disk)
    }

    fn start_program(program: &Path, settings: &[&str], small_disk: bool) -> Option<Self> {
        if !testkit::needs_root("a node needs root") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        if small_disk {
            let state = folder.path().join("state");
            std::fs::create_dir(&state).unwrap();
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", "size=64m,mode=0700", "tmpfs"]);
            assert!(mount.arg(&state).status().unwrap().success());
        }
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        // Nodes of one machine have a group each, or they would adopt each other's cells.
        let name = folder
            .path()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let cgroup = format!("aurae-api-{}", name.trim_start_matches('.'));
        std::fs::write(folder.path().join("config.toml"), "").unwrap();
        let mut process = command(program, folder.path(), &cgroup);
        for setting in settings.iter().chain(KEEPS_IMAGES) {
            process.args(["--set", setting]);
        }
        let process = process.stderr(log).spawn().unwrap();
        let mut node = Self {
            folder,
            cgroup,
            process,
            small_disk,
            there: None,
        };
        node.wait_until_it_answers();
        Some(node)
    }

    /// Another one for the same folders, whose standard error is a pipe.
    pub(crate) fn second(&self) -> Child {
        let program = Path::new(PROGRAM);
        let mut second = command(program, self.folder.path(), &self.second_cgroup());
        second.stderr(Stdio::piped()).spawn().unwrap()
    }

    fn second_cgroup(&self) -> String {
        format!("{}-second", self.cgroup)
    }

    /// Whether there is a daemon that takes connections.
    pub(crate) fn answers(&self) -> bool {
        std::os::unix::net::UnixStream::connect(self.socket()).is_ok()
    }

    fn wait_until_it_answers(&mut self) {
        let started = Instant::now();
        while std::os::unix::net::UnixStream::connect(self.socket()).is_err() {
            let ended = self.process.try_wait().unwrap();
            if ended.is_some() || started.elapsed() > TIMEOUT {
                panic!("the node did not come up ({ended:?}):\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("run/aurae.sock")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What its configuration says from the next reload on.
    pub(crate) fn configure(&self, text: &str) {
        std::fs::write(self.folder.path().join("config.toml"), text).unwrap();
    }

    /// The most memory that the daemon has had so far.
    pub(crate) fn daemon_memory_kb(&self) -> u64 {
        self.daemon_status_kb("VmHWM:")
    }

    /// The memory that the daemon has now.
    pub(crate) fn daemon_rss_kb(&self) -> u64 {
        self.daemon_status_kb("VmRSS:")
    }

    /// Its state directory.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Kills the daemon, and waits until the next one answers.
    pub(crate) fn kill_daemon(&mut self) {
        let pid = self.daemon();
        let process = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        let pidfd = rustix::process::pidfd_open(process, PidfdFlags::empty()).unwrap();
        rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL).unwrap();
        let mut gone = [PollFd::new(&pidfd, PollFlags::IN)];
        rustix::event::poll(&mut gone, None).unwrap();
        self.wait_until_it_answers();
    }

    /// Stops the daemon where it stands; it goes on when this is dropped.
    pub(crate) fn stop_daemon(&self) -> Stopped {
        let pid = rustix::process::Pid::from_raw(self.daemon().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        Stopped(pid)
    }

    /// Everything ends at once, as with the power; the state directory alone is there afterwards.
    pub(crate) fn reboot(&mut self, down: Duration) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let mount = kernel::cgroup::find::mount_point().unwrap();
        let all = Cgroup::open(&mount).unwrap();
        all.child(&self.cgroup)
            .unwrap()
            .kill_and_wait(TIMEOUT)
            .unwrap();
        all.remove(&self.cgroup, TIMEOUT).unwrap();
        std::fs::remove_dir_all(self.folder.path().join("run")).unwrap();
        std::thread::sleep(down);
        let log = std::fs::File::options()
            .append(true)
            .open(self.folder.path().join("log"));
        let mut again = command(Path::new(PROGRAM), self.folder.path(), &self.cgroup);
        self.process = again.stderr(log.unwrap()).spawn().unwrap();
        self.wait_until_it_answers();
    }

    /// Takes what is left of the small disk.
    pub(crate) fn fill_disk(&self) {
        use std::io::Write;
        let mut file = std::fs::File::create(self.state().join("filler")).unwrap();
        let block = vec![0; 64 << 10];
        while file.write_all(&block).is_ok() {}
        while file.write_all(&[0]).is_ok() {}
    }

    /// Gives it back.
    pub(crate) fn empty_disk(&self) {
        std::fs::remove_file(self.state().join("filler")).unwrap();
    }

    fn daemon_status_kb(&self, field: &str) -> u64 {
        let daemon = self.daemon();
        let status = std::fs::read_to_string(format!("/proc/{daemon}/status")).unwrap();
        let found = status.lines().find_map(|line| line.strip_prefix(field));
        let found = found.and_then(|words| words.split_whitespace().next());
        found.unwrap().parse().unwrap()
    }

    /// The daemon's process id.
    pub(crate) fn daemon(&self) -> String {
        let mut processes = self.processes().into_iter();
        processes.find(|(name, _)| name == "serve").unwrap().1
    }

    /// Its processes, by what they are: `init` itself, `serve`, the spawner, and each cell's init.
    pub(crate) fn processes(&self) -> Vec<(String, String)> {
        let init = self.process.id();
        let children = format!("/proc/{init}/task/{init}/children");
        let children = std::fs::read_to_string(children).unwrap();
        let name = |pid: &str| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = words.split(|byte| *byte == 0);
            let title = words.next().unwrap_or_default();
            match words.any(|word| word == b"serve") {
                true => "serve".to_owned(),
                false => String::from_utf8_lossy(title).into_owned(),
            }
        };
        let children = children.split_whitespace();
        let named = children.map(|pid| (name(pid), pid.to_owned()));
        std::iter::once(("init".to_owned(), init.to_string()))
            .chain(named)
            .collect()
    }

    /// Its group in the cgroup tree.
    pub(crate) fn group(&self) -> PathBuf {
        kernel::cgroup::find::mount_point()
            .unwrap()
            .join(&self.cgroup)
    }

    /// A way to this node with the certificate and key of that name in its folder.
    pub(crate) fn target(&self, certificate: PathBuf, key: PathBuf) -> Target {
        Target {
            context: None,
            address: Address::Unix(self.socket()),
            ca: self.folder.path().join("state/pki/ca.pem"),
            certificate,
            key,
            expected: NodeIdentity::default(),
            tenant: String::new(),
        }
    }

    /// The administrator that the node made at its first start.
    pub(crate) async fn administrator(&self) -> Person {
        let pki = self.folder.path().join("state/pki");
        Person::new(
            self.target(pki.join("admin.pem"), pki.join("admin.key")),
            String::new(),
        )
        .await
    }

    /// Speaks TLS without a certificate; answers what the node says to that.
    pub(crate) async fn connect_without_certificate(&self) -> String {
        let pem = std::fs::read(self.folder.path().join("state/pki/ca.pem")).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        for certificate in rustls::pki_types::pem::PemObject::pem_slice_iter(&pem) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = tokio::net::UnixStream::connect(self.socket())
            .await
            .unwrap();
        let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
        let name = "localhost".try_into().unwrap();
        let mut tls = connector.connect(name, stream).await.unwrap();
        tls.read_u8().await.unwrap_err().to_string()
    }

    /// Asks the node to end, and waits for that.
    pub(crate) fn stop(mut self) {
        self.end();
    }

    /// The same; its files stay until this goes.
    pub(crate) fn end(&mut self) {
        end(&mut self.process);
    }
}

/// A daemon that was stopped.
pub(crate) struct Stopped(rustix::process::Pid);

impl Drop for Stopped {
    fn drop(&mut self) {
        // One that was killed meanwhile isn't there.
        let _ = rustix::process::kill_process(self.0, rustix::process::Signal::CONT);
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("---- the node's log\n{}", self.log());
        }
        if matches!(self.process.try_wait(), Ok(None)) {
            self.end();
        }
        let mount = kernel::cgroup::find::mount_point().unwrap();
        let all = Cgroup::open(&mount).unwrap();
        for name in [self.cgroup.clone(), self.second_cgroup()] {
            // A node that was killed leaves its cells to the next one, and here is none.
            if let Ok(group) = all.child(&name) {
                let _ = group.kill_and_wait(TIMEOUT);
            }
            if let Err(error) = all.remove(&name, TIMEOUT) {
                eprintln!("---- left behind: {error}");
            }
        }
        if self.small_disk {
            let unmounted = Command::new("umount").arg("-l").arg(self.state()).status();
            assert!(unmounted.is_ok_and(|status| status.success()));
        }
    }
}

/// The daemon with its files below that folder.
/// The daemon's program, where it was built.
const PROGRAM: &str = env!("CARGO_BIN_EXE_auraed");

/// The daemon's program where every user can execute it, as an installed one: a checkout may be in
/// a folder that is root's alone.
fn installed(folder: &Path) -> PathBuf {
    let program = folder.join("auraed");
    if std::fs::hard_link(PROGRAM, &program).is_err() {
        std::fs::copy(PROGRAM, &program).unwrap();
    }
    program
}

fn command(program: &Path, folder: &Path, cgroup: &str) -> Command {
    let mut auraed = Command::new(program);
    auraed.arg("--state-dir").arg(folder.join("state"));
    auraed.arg("--run-dir").arg(folder.join("run"));
    auraed.arg("--config").arg(folder.join("config.toml"));
    auraed.args(["--set", &format!("paths.cgroup={cgroup}")]);
    auraed.stdin(Stdio::null()).stdout(Stdio::null());
    auraed
}

/// Has it end as a service manager would; its exit status, `None` where it took a kill.
pub(crate) fn end(process: &mut Child) -> Option<i32> {
    let status = testkit::exec::end(process, TIMEOUT).unwrap();
    status.and_then(|status| status.code())
}
