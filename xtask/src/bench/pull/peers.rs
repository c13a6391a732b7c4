// SPDX-License-Identifier: Apache-2.0
//! Debian's `docker-registry`, which both sides pull from, and `containerd`, each with state, ports
//! and sockets of its own; ended when dropped.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::exec;

/// Until a peer serves.
const READY: Duration = Duration::from_secs(30);
/// Until it has ended.
const LEAVING: Duration = Duration::from_secs(10);
/// Between two looks at whether it serves: nothing tells.
const LOOK: Duration = Duration::from_millis(20);

/// A process that is ended when this is dropped.
struct Peer(Child);

impl Peer {
    fn start(command: &mut Command, said: &Path) -> Result<Self> {
        let said = fs::File::create(said)?;
        command
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said);
        let shown = exec::shown(command);
        Ok(Self(command.spawn().with_context(|| shown)?))
    }

    fn wait(&mut self, said: &Path, serves: impl Fn() -> bool) -> Result<()> {
        let begun = Instant::now();
        while !serves() {
            let ended = self.0.try_wait()?;
            let words = || fs::read_to_string(said).unwrap_or_default();
            ensure!(
                ended.is_none() && begun.elapsed() < READY,
                "it doesn't serve ({ended:?}):\n{}",
                exec::last_lines(&words(), 12)
            );
            // Neither of them says when it serves.
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // One that doesn't end is killed there.
        let _ = exec::end(&mut self.0, LEAVING);
    }
}

/// The registry.
pub(crate) struct Registry {
    _peer: Peer,
    port: u16,
}

impl Registry {
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let (config, data) = (folder.join("registry.yml"), folder.join("registry"));
        let text = format!(
            "version: 0.1\nlog:\n  level: error\n  accesslog:\n    disabled: true\nstorage:\n  \
             filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{port}\n",
            data.display()
        );
        fs::write(&config, text)?;
        let said = folder.join("registry.out");
        let mut peer = Peer::start(
            Command::new("docker-registry").arg("serve").arg(&config),
            &said,
        )?;
        peer.wait(&said, || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
        })?;
        Ok(Self { _peer: peer, port })
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

/// containerd without the plugin of Kubernetes, which no pull here uses.
pub(crate) struct Containerd {
    peer: Peer,
    socket: PathBuf,
}

impl Containerd {
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let (root, state) = (folder.join("containerd"), folder.join("containerd-run"));
        let (config, socket) = (folder.join("containerd.toml"), state.join("c.sock"));
        fs::create_dir_all(&state)?;
        let text = format!(
            "version = 2\nroot = {root:?}\nstate = {state:?}\n\
             disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = {socket:?}\n"
        );
        fs::write(&config, text)?;
        let said = folder.join("containerd.out");
        let mut command = Command::new("containerd");
        let mut peer = Peer::start(command.arg("--config").arg(&config), &said)?;
        let serves = || {
            let mut ask = ctr(&socket, &["version"]);
            exec::capture(&mut ask).is_ok_and(|output| output.status.success())
        };
        peer.wait(&said, serves)?;
        Ok(Self { peer, socket })
    }

    pub(crate) fn ctr(&self, words: &[&str]) -> Command {
        ctr(&self.socket, words)
    }

    pub(crate) fn process(&self) -> u32 {
        self.peer.0.id()
    }
}

fn ctr(socket: &Path, words: &[&str]) -> Command {
    let mut ctr = Command::new("ctr");
    ctr.arg("--address").arg(socket).args(words);
    ctr
}
