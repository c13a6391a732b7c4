// SPDX-License-Identifier: Apache-2.0
//! Natively: a daemon of our own as a service of this machine, with state, sockets and a cgroup
//! apart from any other's, and everything gone afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use testkit::exec;

use super::table::{self, Row};
use crate::build;

/// A tmpfs on every Linux with glibc: see shm_overview(7). `/run` may be a container's disk.
const TMPFS: &str = "/dev/shm";
/// Its cgroup, below the host's root of cgroup2.
const CGROUP: &str = "aurae-bench-node";
/// For the last of its processes to be gone.
const LEAVING: Duration = Duration::from_secs(5);
/// Until it serves.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Measures these rows.
pub(super) fn measure(binaries: &Path, rows: &[&str], wanted: &super::Bench) -> Result<Vec<Row>> {
    let service = Service::start(binaries)?;
    let mut bench = Command::new(binaries.join("aurae-bench"));
    bench.arg("--socket").arg(service.socket());
    bench.arg("--pki").arg(service.pki());
    bench.arg("--state").arg(&service.state);
    bench.args(wanted.sizes()).args(rows);
    bench.stderr(Stdio::inherit());
    table::read(&exec::read(&mut bench)?, "native").context("what aurae-bench printed")
}

/// The daemon and its init; ended when dropped.
pub(crate) struct Service {
    init: Child,
    /// On the disk that the project is on.
    state: PathBuf,
    /// On a tmpfs, as `/run` is on a node; paths of sockets stay short there.
    run: tempfile::TempDir,
}

impl Service {
    pub(crate) fn start(binaries: &Path) -> Result<Self> {
        Self::start_with(binaries, &[])
    }

    /// With more arguments of the daemon's.
    pub(crate) fn start_with(binaries: &Path, more: &[&str]) -> Result<Self> {
        ensure!(
            rustix::process::geteuid().is_root(),
            "natively it takes root: `--only vm` does not"
        );
        let state = build::target()?.join("bench-state");
        if state.exists() {
            fs::remove_dir_all(&state)?;
        }
        fs::create_dir_all(&state)?;
        let run = tempfile::tempdir_in(TMPFS)?;
        let said = fs::File::create(state.join("auraed.out"))?;
        let init = Command::new(binaries.join("auraed"))
            .arg("--state-dir")
            .arg(&state)
            .arg("--run-dir")
            .arg(run.path())
            .args(["--set", &format!("paths.cgroup={CGROUP}")])
            // The machine's own network isn't ours to change.
            .args(["--set", "cell_network.enabled=false"])
            // Row `density` has more than the default allows.
            .args([
                "--set",
                "limits.cells=8192",
                "--set",
                "limits.executables=16384",
            ])
            .args(more)
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said)
            .spawn()
            .context("auraed")?;
        let mut service = Self { init, state, run };
        write_context(service.run.path(), &service.pki())?;
        service.wait(&binaries.join("aurae"))?;
        Ok(service)
    }

    /// Until it answers.
    fn wait(&mut self, aurae: &Path) -> Result<()> {
        let started = Instant::now();
        let answers = |service: &Self| {
            let mut ask = Command::new(aurae);
            service.address(&mut ask).args(["node", "info"]);
            exec::capture(&mut ask)
        };
        while !answers(self)?.status.success() {
            let ended = self.init.try_wait()?;
            let said = || fs::read_to_string(self.state.join("auraed.out")).unwrap_or_default();
            ensure!(ended.is_none(), "auraed ended: {ended:?}\n{}", said());
            ensure!(
                started.elapsed() < TIMEOUT,
                "auraed doesn't serve:\n{}",
                said()
            );
        }
        Ok(())
    }

    /// Has the client talk to this node, as its administrator.
    pub(crate) fn address<'a>(&self, client: &'a mut Command) -> &'a mut Command {
        client
            .env("AURAE_CONFIG", self.run.path().join("client.toml"))
            .env("AURAE_NODE", "bench")
    }

    /// The id of its first process.
    pub(crate) fn process(&self) -> u32 {
        self.init.id()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.run.path().join("aurae.sock")
    }

    pub(crate) fn pki(&self) -> PathBuf {
        self.state.join("pki")
    }
}

/// A client's configuration that names the service.
fn write_context(run: &Path, pki: &Path) -> Result<()> {
    let (run_dir, pki) = (run.display(), pki.display());
    let text = format!(
        "[nodes.bench]\naddress = \"unix://{run_dir}/aurae.sock\"\nca = \"{pki}/ca.pem\"\n\
         [users.admin]\ncertificate = \"{pki}/admin.pem\"\nkey = \"{pki}/admin.key\"\n\
         [contexts.bench]\nnode = \"bench\"\nuser = \"admin\"\n"
    );
    fs::write(run.join("client.toml"), text)?;
    Ok(())
}

/// Init ends its workloads, then itself; what it leaves of its cgroup is taken away.
impl Drop for Service {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.init.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.init.wait();
        if let Some(group) = cgroup2() {
            let (group, since) = (group.join(CGROUP), Instant::now());
            remove_groups(&group);
            while group.exists() && since.elapsed() < LEAVING {
                // What init has killed takes a moment to leave its group; nothing tells when.
                std::thread::sleep(Duration::from_millis(20));
                remove_groups(&group);
            }
        }
    }
}

/// Where the host has cgroup2.
fn cgroup2() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut places = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let place = words.next()?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(place))
    });
    places.next()
}

/// Removes empty groups, from the leaves up; one that isn't empty stays.
fn remove_groups(group: &Path) {
    let inner = fs::read_dir(group).into_iter().flatten().flatten();
    for entry in inner.filter(|entry| entry.path().is_dir()) {
        remove_groups(&entry.path());
    }
    let _ = fs::remove_dir(group);
}
