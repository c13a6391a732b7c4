// SPDX-License-Identifier: Apache-2.0
//! One run of one program. Bounded in time and in words; its children end with it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::apart::Apart;
use crate::{Error, PATH};

/// The most that is read of each of its streams, in bytes.
const MAX_WORDS: u64 = 1 << 20;
/// For how long its output is read on when it has ended.
const GRACE: Duration = Duration::from_secs(1);

/// A program to be run.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its file.
    pub path: PathBuf,
    /// Its arguments; of one that a starter starts, what that makes of them.
    pub words: Vec<OsString>,
    /// Its whole environment, but for `PATH` where that isn't among it.
    pub environment: Vec<(OsString, OsString)>,
    /// What it reads on its standard input.
    pub input: Vec<u8>,
    /// How long it may take.
    pub timeout: Duration,
}

/// What a program wrote, and how it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// The first MiB of its standard output.
    pub out: Vec<u8>,
    /// The first MiB of its standard error.
    pub err: Vec<u8>,
    /// How it ended.
    pub status: ExitStatus,
}

impl Program {
    /// Runs it to its end. Nothing of it is left then, where it has a group of its own; given up,
    /// it is killed.
    ///
    /// # Errors
    /// It can't be started, took too long, or something of it lives on.
    pub async fn run(&self, apart: Option<&Apart>) -> Result<Said, Error> {
        let leaf = apart.map(Apart::leaf).transpose()?.flatten();
        let mut command = match apart {
            Some(apart) => Command::from(apart.command(leaf.as_ref(), &self.path)),
            None => Command::new(&self.path),
        };
        command
            .args(&self.words)
            .env_clear()
            .env("PATH", PATH)
            .envs(self.environment.iter().map(|(key, value)| (key, value)))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Of its own, so that its children can be killed with it.
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(Error::io(&self.path, "running"))?;
        let mut group = Group(child.id());
        let said = tokio::time::timeout(self.timeout, converse(&mut child, &self.input)).await;
        // Once it is waited for, its number may be another's.
        if said.is_ok() {
            group.0 = None;
        }
        drop(group);
        // Nothing of it lives on when the next one runs, not even what has made itself a daemon.
        if let Some(leaf) = leaf {
            leaf.end().await?;
        }
        match said {
            Err(_) => Err(Error::Timeout {
                seconds: self.timeout.as_secs(),
            }),
            Ok(said) => said.map_err(Error::io(&self.path, "speaking with it")),
        }
    }
}

/// The process group of a program that isn't waited for yet, killed where no caller will.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        let pid = self
            .0
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // No process may be left in it, which is as good.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

async fn converse(child: &mut Child, input: &[u8]) -> std::io::Result<Said> {
    let (mut stdin, stdout, stderr) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let tell = async {
        if let Some(mut stdin) = stdin.take() {
            // One that doesn't read ends all the same.
            let _ = stdin.write_all(input).await;
        }
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let hear = async {
        match stdout {
            Some(stdout) => stdout.take(MAX_WORDS).read_to_end(&mut out).await,
            None => Ok(0),
        }
    };
    let overhear = async {
        match stderr {
            Some(stderr) => stderr.take(MAX_WORDS).read_to_end(&mut err).await,
            None => Ok(0),
        }
    };
    {
        let speech = async { tokio::join!(tell, hear, overhear) };
        let mut speech = std::pin::pin!(speech);
        let spoken = tokio::select! {
            biased;
            spoken = &mut speech => Some(spoken),
            status = child.wait() => {
                status?;
                // What it has left behind may hold its output open.
                tokio::time::timeout(GRACE, &mut speech).await.ok()
            }
        };
        if let Some(((), heard, overheard)) = spoken {
            heard.and(overheard)?;
        }
    }
    // The same answer again where it was waited for.
    let status = child.wait().await?;
    Ok(Said { out, err, status })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str, seconds: u64) -> Program {
        Program {
            path: "/bin/sh".into(),
            words: ["-c", text].map(OsString::from).to_vec(),
            environment: vec![("WHO".into(), "me".into())],
            input: b"word".to_vec(),
            timeout: Duration::from_secs(seconds),
        }
    }

    #[tokio::test]
    async fn a_program_hears_its_input_and_has_its_environment_alone() {
        let text = "cat; echo \"$WHO ${HOME-none}\" >&2; exit 3";
        let said = shell(text, 60).run(None).await.unwrap();
        assert_eq!(
            (&said.out[..], &said.err[..]),
            (&b"word"[..], &b"me none\n"[..])
        );
        assert_eq!(
            (said.status.success(), said.status.code()),
            (false, Some(3))
        );
        let deaf = shell("exec <&-; exit 0", 60).run(None).await.unwrap();
        assert!(deaf.status.success());
    }

    #[tokio::test]
    async fn a_program_that_takes_too_long_is_ended_with_what_it_has_begun() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let text = format!("sleep 1000 & echo $! > {}; wait", file.display());
        let error = shell(&text, 1).run(None).await.unwrap_err();
        assert!(matches!(error, Error::Timeout { seconds: 1 }), "{error}");
        let pid = std::fs::read_to_string(file).unwrap();
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            stat.map_or(true, |stat| stat.contains(") Z "))
        };
        testkit::until("its child is gone", gone);
        let missing = Program {
            path: "/no/such".into(),
            ..shell("", 1)
        };
        let error = missing.run(None).await.unwrap_err();
        assert!(error.to_string().contains("/no/such"), "{error}");
    }

    #[tokio::test]
    async fn what_a_program_says_has_a_bound() {
        let said = shell("yes | head -c 3000000", 60).run(None).await.unwrap();
        assert_eq!(said.out.len() as u64, MAX_WORDS);
    }
}
