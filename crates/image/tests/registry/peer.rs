// SPDX-License-Identifier: Apache-2.0
//! Debian's `docker-registry` as a process of its own: in the clear, with TLS, with passwords, or
//! with a token server.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take to listen.
const READY: Duration = Duration::from_secs(30);
/// `ada` with the password `secret`, as `htpasswd -B` writes it.
const HTPASSWD: &str = "ada:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";

/// A registry that runs until this is dropped.
pub(crate) struct Peer {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

/// What it is started with.
#[derive(Default)]
pub(crate) struct Setup {
    /// The section `http.tls`, indented by four.
    pub(crate) tls: String,
    /// The section `auth`, indented by two.
    pub(crate) auth: String,
    /// Further sections.
    pub(crate) more: String,
}

/// A port of the loopback that is free now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

impl Peer {
    /// In the clear, for everyone; `None` where the program isn't installed.
    pub(crate) fn plain() -> Option<Self> {
        Self::start(&Setup::default())
    }

    /// In the clear, for `ada` with the password `secret`.
    pub(crate) fn with_passwords(folder: &Path) -> Option<Self> {
        let path = folder.join("htpasswd");
        std::fs::write(&path, HTPASSWD).unwrap();
        let auth = format!(
            "  htpasswd:\n    realm: test\n    path: {}\n",
            path.display()
        );
        Self::start(&Setup {
            auth,
            ..Setup::default()
        })
    }

    pub(crate) fn start(setup: &Setup) -> Option<Self> {
        let deadline = Instant::now() + READY;
        while Instant::now() < deadline {
            let mut peer = Self::spawn(setup)?;
            if peer.listens(deadline) {
                return Some(peer);
            }
            // Another process took the port in between.
        }
        panic!("docker-registry doesn't start");
    }

    fn spawn(setup: &Setup) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let config = write_config(folder.path(), port, setup);
        let child = Command::new("docker-registry")
            .arg("serve")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            testkit::skip("Debian's docker-registry isn't installed");
            return None;
        };
        Some(Self {
            child,
            port,
            folder,
        })
    }

    /// Waits until it listens; `false` where it has ended.
    fn listens(&mut self, deadline: Instant) -> bool {
        while Instant::now() < deadline {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
                return self.child.try_wait().unwrap().is_none();
            }
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("docker-registry doesn't listen");
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn name(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where it keeps a blob.
    pub(crate) fn blob_path(&self, hex: &str) -> PathBuf {
        let blobs = self
            .folder
            .path()
            .join("data/docker/registry/v2/blobs/sha256");
        blobs.join(&hex[..2]).join(hex).join("data")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn write_config(folder: &Path, port: u16, setup: &Setup) -> PathBuf {
    let data = folder.join("data");
    let mut text = format!(
        "version: 0.1\nlog:\n  level: error\n  accesslog:\n    disabled: true\n\
         storage:\n  filesystem:\n    rootdirectory: {}\n\
         http:\n  addr: 127.0.0.1:{port}\n",
        data.display()
    );
    if !setup.tls.is_empty() {
        write!(text, "  tls:\n{}", setup.tls).unwrap();
    }
    if !setup.auth.is_empty() {
        write!(text, "auth:\n{}", setup.auth).unwrap();
    }
    text += &setup.more;
    let path = folder.join("config.yml");
    std::fs::write(&path, text).unwrap();
    path
}
