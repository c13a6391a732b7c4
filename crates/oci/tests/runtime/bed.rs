// SPDX-License-Identifier: Apache-2.0
//! Bundles, and the runtime as a command.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Programs of busybox that the stories use.
const APPLETS: [&str; 24] = [
    "awk", "cat", "dd", "echo", "false", "grep", "head", "hostname", "id", "ls", "mkdir", "mknod",
    "mount", "ps", "pwd", "sed", "sh", "sleep", "sort", "stat", "touch", "true", "tty", "wc",
];

/// A bundle, the folder of the runtime's states, and the id of its container. Dropped, the
/// container goes, too.
pub(crate) struct Bundle {
    folder: TempDir,
    pub(crate) id: String,
}

/// The runtime, as an engine would start it.
pub(crate) fn runtime() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("aurae-oci").stdin(Stdio::null());
    command
}

impl Bundle {
    /// One whose container runs a script; `edit` changes its configuration.
    pub(crate) fn new(script: &str, edit: impl FnOnce(&mut Value)) -> Bundle {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = tempfile::Builder::new().prefix("oci-").tempdir().unwrap();
        let root = folder.path().join("rootfs");
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::create_dir(root.join("etc")).unwrap();
        fs::copy("/bin/busybox", root.join("bin/busybox")).expect("busybox-static is installed");
        for applet in APPLETS {
            symlink("busybox", root.join("bin").join(applet)).unwrap();
        }
        fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\n").unwrap();
        let bundle = Bundle {
            id: format!("aurae-oci-test-{}-{number}", std::process::id()),
            folder,
        };
        let spec = runtime()
            .arg("spec")
            .arg("--bundle")
            .arg(bundle.path())
            .output()
            .unwrap();
        assert!(spec.status.success(), "{}", text(&spec.stderr));
        bundle.edit(|config| {
            config["process"]["terminal"] = false.into();
            config["process"]["args"] = serde_json::json!(["sh", "-c", script]);
            edit(config);
        });
        bundle
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.path().join("rootfs")
    }

    /// Changes the configuration.
    pub(crate) fn edit(&self, change: impl FnOnce(&mut Value)) {
        let path = self.path().join("config.json");
        let mut config = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        change(&mut config);
        fs::write(&path, config.to_string()).unwrap();
    }

    /// A command of the runtime, with this bundle's states.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = runtime();
        command
            .arg("--root")
            .arg(self.path().join("states"))
            .args(words);
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs a command that must succeed; what it has printed. To a file: the container's process
    /// has the same streams, and a pipe would end with it alone.
    pub(crate) fn succeed(&self, words: &[&str]) -> String {
        let mut out = tempfile::tempfile().unwrap();
        let mut command = self.command(words);
        command
            .stdout(out.try_clone().unwrap())
            .stderr(out.try_clone().unwrap());
        let status = command.status().unwrap();
        let mut printed = String::new();
        std::io::Seek::rewind(&mut out).unwrap();
        out.read_to_string(&mut printed).unwrap();
        assert!(status.success(), "{words:?}: {status}\n{printed}");
        printed
    }

    /// Makes the container and lets it run to its end; what it has printed.
    pub(crate) fn run_through(&self) -> String {
        let bundle = self.path().to_str().unwrap().to_owned();
        self.succeed(&["run", "--bundle", &bundle, &self.id])
    }

    pub(crate) fn create(&self) {
        let bundle = self.path().to_str().unwrap().to_owned();
        self.succeed(&["create", "--bundle", &bundle, &self.id]);
    }

    /// `state`, read.
    pub(crate) fn state(&self) -> Value {
        serde_json::from_str(&self.succeed(&["state", &self.id])).unwrap()
    }

    pub(crate) fn status(&self) -> String {
        self.state()["status"].as_str().unwrap().to_owned()
    }

    /// Waits until something is so.
    pub(crate) fn wait(&self, what: &str, is: impl Fn() -> bool) {
        let bound = Instant::now() + Duration::from_secs(20);
        while !is() {
            assert!(Instant::now() < bound, "it never came to be: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        let _ = self.run(&["delete", "--force", &self.id]);
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
