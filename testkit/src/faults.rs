// SPDX-License-Identifier: Apache-2.0
//! A disk that fails, for tests of code that writes to it. The subject is the test's own program,
//! run again; the system calls of *one of its threads* are made to fail from outside, as a broken
//! disk would. The subject doesn't know. The stories of logs and of the store say what must hold
//! then.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "called by tests alone: what fails here is a failed test"
)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use syscalls::Sysno;

use crate::tracer::{Fault, Tracer};

const FOLDER: &str = "AURAE_TEST_FAULTS_FOLDER";

/// A process that does what it is asked to, line by line.
pub struct Subject {
    child: Child,
    control: BufReader<UnixStream>,
}

impl Subject {
    /// Runs that test of this program, which must begin with [`asked`], with a folder to work in.
    pub fn start(test: &str, folder: &Path) -> Self {
        let listener = UnixListener::bind(folder.join("control")).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(FOLDER, folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (control, _) = listener.accept().unwrap();
        Self {
            child,
            control: BufReader::new(control),
        }
    }

    /// Its answer to one line.
    pub fn ask(&mut self, line: &str) -> String {
        writeln!(self.control.get_mut(), "{line}").unwrap();
        let mut answer = String::new();
        self.control.read_line(&mut answer).unwrap();
        assert!(!answer.is_empty(), "it ended when asked to {line}");
        answer.trim_end().to_owned()
    }

    /// Gets hold of its thread of that name.
    pub fn thread(&self, name: &str) -> Victim {
        let tasks = format!("/proc/{}/task", self.child.id());
        let tasks = std::fs::read_dir(tasks).unwrap();
        let mut ids = tasks.map(|task| task.unwrap().file_name().into_string().unwrap());
        let is_it = |id: &String| {
            let comm = format!("/proc/{}/task/{id}/comm", self.child.id());
            std::fs::read_to_string(comm).is_ok_and(|comm| comm.trim_end() == name)
        };
        let id = ids.find(is_it).unwrap_or_else(|| panic!("no {name}"));
        Victim(Tracer::attach(id.parse().unwrap()))
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// A thread whose system calls can be failed.
pub struct Victim(Tracer);

impl Victim {
    /// From now on each call of these kinds fails with `EIO`.
    pub fn fails(&self, calls: [Sysno; 2]) {
        self.0.set(Fault::Kinds {
            calls,
            errno: Errno::EIO,
            times: u64::MAX,
        });
    }

    /// Nothing fails any more; whether anything did.
    pub fn is_well(&self) -> bool {
        let failed = !self.0.failed().is_empty();
        self.0.set(Fault::None);
        failed
    }
}

/// In the subject: the folder to work in. `None`: it wasn't started by a story.
pub fn asked() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// In the subject: answers each line until the story is over.
pub fn answer_all(folder: &Path, mut answer: impl FnMut(&str) -> String) {
    let control = UnixStream::connect(folder.join("control")).unwrap();
    let mut to = control.try_clone().unwrap();
    for line in BufReader::new(control).lines() {
        let answer = answer(&line.unwrap()).replace('\n', " ");
        writeln!(to, "{answer}").unwrap();
    }
}
