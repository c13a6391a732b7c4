// SPDX-License-Identifier: Apache-2.0
//! Debian's cron, as it is packaged, in a mount namespace with an `/etc`, a spool and a `/run` of
//! its own, on a clock that stands still until it is set: libfaketime reads it from a file whenever
//! cron asks. SIGHUP ends cron's sleep, so a minute lasts as long as its jobs do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// One minute's jobs end before that.
const LIMIT: Duration = Duration::from_secs(60);
/// Its arguments: the folder that is to be `/etc`, and a command.
const PRIVATE: &str = "set -eu
for place in /run /var/spool /dev/shm; do mount -t tmpfs tmpfs $place; done
mkdir -p /var/spool/cron/crontabs
mount --bind \"$1\" /etc
shift
exec \"$@\"";
const PAM: &str = "auth required pam_permit.so
account required pam_permit.so
session required pam_permit.so
";

/// Where the packages `cron` and `libfaketime` were unpacked.
pub(super) struct Packages {
    cron: PathBuf,
    library: PathBuf,
}

impl Packages {
    /// `None`: the environment names none.
    pub(super) fn given() -> Option<Self> {
        let folder = |name| std::env::var_os(name).map(PathBuf::from);
        let arch = std::env::consts::ARCH;
        let library = format!("usr/lib/{arch}-linux-gnu/faketime/libfaketime.so.1");
        Some(Self {
            cron: folder("AURAE_CRON")?,
            library: folder("AURAE_FAKETIME")?.join(library),
        })
    }

    /// Which of these crontabs `crontab -n` takes. They have a line each.
    pub(super) fn taken(&self, lines: &[String]) -> Vec<bool> {
        let scratch = scratch("");
        for (number, line) in lines.iter().enumerate() {
            write(&scratch.path().join(number.to_string()), line);
        }
        let each = "i=0
            while [ $i -lt $2 ]; do
                if $0 -n $1/$i >$1/said 2>&1; then echo true; else echo false; fi
                i=$((i + 1))
            done";
        let mut ask = private(&scratch);
        ask.args(["sh", "-c", each]);
        ask.arg(self.cron.join("usr/bin/crontab"));
        let output = ask.arg(scratch.path()).arg(lines.len().to_string());
        let output = output.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let answers: Vec<bool> = text.lines().map(|it| it.parse().unwrap()).collect();
        assert_eq!(answers.len(), lines.len(), "{:?}", output.stderr);
        answers
    }
}

/// A cron that runs.
pub(super) struct Cron {
    child: Child,
    scratch: TempDir,
    read: usize,
    sentinel: usize,
}

impl Cron {
    /// Starts it at a time (seconds since 1970) with these lines, which have no command.
    pub(super) fn start(packages: &Packages, lines: &[String], zone: &str, time: i64) -> Self {
        let scratch = scratch(&crontab(lines));
        write(&scratch.path().join("etc/log"), "");
        set(&scratch, time);
        let now = scratch.path().join("now");
        let mut start = private(&scratch);
        // It ends with this thread, however that ends.
        start.args(["setpriv", "--pdeathsig", "TERM"]);
        start.args(["env", "-i", "PATH=/usr/bin:/bin"]);
        start.arg(format!("TZ={zone}"));
        start.arg(format!("LD_PRELOAD={}", packages.library.display()));
        start.arg(format!("FAKETIME_TIMESTAMP_FILE={}", now.display()));
        start.args(["FAKETIME_FMT=%s", "FAKETIME_NO_CACHE=1", "NO_FAKE_STAT=1"]);
        start.arg(packages.cron.join("usr/sbin/cron"));
        let child = start.args(["-f", "-L", "0"]).spawn().unwrap();
        let it = Self {
            child,
            scratch,
            read: 0,
            sentinel: lines.len(),
        };
        it.until("starts", || it.is_cron());
        it.settle();
        it
    }

    /// Sets the clock to the next minute, or past a change of the clock; the number of each line
    /// that ran, as often as it did, once all have ended.
    ///
    /// Where cron makes up for skipped times it sleeps between them, too, so it is woken until
    /// that makes nothing run any more.
    pub(super) fn ran_at(&mut self, time: i64) -> Vec<usize> {
        set(&self.scratch, time);
        let (mut ran, started) = (Vec::new(), Instant::now());
        loop {
            let slept = self.sleeps();
            kill_process(Pid::from_child(&self.child), Signal::HUP).unwrap();
            self.until("wakes", || self.sleeps() > slept);
            self.settle();
            let news = self.news();
            if news.is_empty() && ran.contains(&self.sentinel) {
                return ran.into_iter().filter(|it| *it != self.sentinel).collect();
            }
            ran.extend(news);
            assert!(started.elapsed() < LIMIT, "cron missed the minute {time}");
        }
    }

    /// What was written since the last time.
    fn news(&mut self) -> Vec<usize> {
        let log = fs::read_to_string(self.scratch.path().join("etc/log")).unwrap();
        let news = log.get(self.read..).unwrap();
        self.read = log.len();
        news.lines().map(|it| it.parse().unwrap()).collect()
    }

    fn proc(&self, file: &str) -> String {
        let pid = self.child.id();
        fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap()
    }

    fn is_cron(&self) -> bool {
        self.proc("comm").trim() == "cron"
    }

    /// How often it has gone to sleep.
    fn sleeps(&self) -> u64 {
        let status = self.proc("status");
        let count = status
            .lines()
            .find_map(|it| it.strip_prefix("voluntary_ctxt_switches:"));
        count.unwrap().trim().parse().unwrap()
    }

    /// Waits until it sleeps and no job is left.
    fn settle(&self) {
        let children = format!("task/{}/children", self.child.id());
        self.until("comes to rest", || {
            let sleeps = self.proc("status").contains("State:\tS");
            sleeps && self.proc(&children).trim().is_empty()
        });
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let started = Instant::now();
        while !is_so() {
            assert!(
                started.elapsed() < LIMIT,
                "waited in vain until cron {what}"
            );
            // /proc tells no event.
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

impl Drop for Cron {
    fn drop(&mut self) {
        let _ = testkit::exec::end(&mut self.child, LIMIT);
    }
}

/// The lines with commands that write their numbers, and the last of all: one for each minute.
fn crontab(lines: &[String]) -> String {
    let each = "* * * * *".to_owned();
    let all = lines.iter().chain([&each]).enumerate();
    let all = all.map(|(number, line)| format!("{line} root echo {number} >>/etc/log\n"));
    format!("MAILTO=\"\"\n{}", all.collect::<String>())
}

/// A folder with what is to be `/etc`.
fn scratch(crontab: &str) -> TempDir {
    let scratch = tempfile::tempdir().unwrap();
    let etc = scratch.path().join("etc");
    fs::create_dir_all(etc.join("pam.d")).unwrap();
    write(&etc.join("pam.d/cron"), PAM);
    write(&etc.join("passwd"), "root:x:0:0:root:/:/bin/sh\n");
    write(&etc.join("group"), "root:x:0:\ncrontab:x:1:\n");
    write(&etc.join("crontab"), crontab);
    scratch
}

fn write(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
}

/// The clock is never seen half written.
fn set(scratch: &TempDir, time: i64) {
    let next = scratch.path().join("next");
    write(&next, &format!("{time}\n"));
    fs::rename(next, scratch.path().join("now")).unwrap();
}

/// Runs the command that follows in the namespace.
fn private(scratch: &TempDir) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", PRIVATE, "sh"]);
    command.arg(scratch.path().join("etc"));
    command
}
