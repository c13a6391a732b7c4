// SPDX-License-Identifier: Apache-2.0
//! What the bare kernel takes for the same work: fork, exec, wait; with seven namespaces and a
//! cgroup; and, for memory, as many of those standing at once, or of all that a cell is made of
//! ([`crate::prototype`]).
//!
//! A process of its own, because a clone wants a single-threaded parent and a small one. It is
//! asked over its stdin, a line a request, and answers in a line of JSON: the microseconds of each
//! time.

use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kernel::cgroup::{self, Cgroup};
use kernel::clone::{Cloned, Options, clone};
use kernel::exec::Prepared;
use kernel::namespace::Namespaces;
use kernel::process;
use kernel::wait::{Reap, Target, wait};

use crate::prototype::{self, Standing};
use crate::stats::Samples;

/// The same static program that the node is asked to run.
pub(crate) const PROGRAM: &str = "/bin/busybox";
/// The group's name.
const PLACE: &str = "aurae-bench";
/// In it the group of those with all that a cell is made of.
const FULL: &str = "full";
/// How long a group may take to empty.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The reference process, seen from the one that measures.
pub(crate) struct Reference {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Reference {
    pub(crate) fn start() -> Result<Self> {
        let mut child = Command::new("/proc/self/exe")
            .arg("--reference")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("the reference's stdin")?;
        let output = BufReader::new(child.stdout.take().context("the reference's stdout")?);
        Ok(Self {
            child,
            input,
            output,
        })
    }

    /// So many forks, execs and waits of the static program.
    pub(crate) fn forks(&mut self, count: usize) -> Result<Samples> {
        self.ask("fork", count)
    }

    /// The same, each in seven new namespaces and a cgroup of its own.
    pub(crate) fn cells(&mut self, count: usize) -> Result<Samples> {
        self.ask("cell", count)
    }

    /// So many runs by an init that stands, without a daemon: the bound of a run.
    pub(crate) fn runs(&mut self, count: usize) -> Result<Samples> {
        self.ask("run", count)
    }

    /// So many of all that a cell is made of, without a daemon: the bound of a cell.
    pub(crate) fn full_cells(&mut self, count: usize) -> Result<Samples> {
        self.ask("full-cell", count)
    }

    /// So many of those at once, sleeping until [`Self::drop_all`].
    pub(crate) fn hold(&mut self, count: usize) -> Result<Samples> {
        self.ask("hold", count)
    }

    /// So many with all that a cell is made of at once, until [`Self::drop_all`].
    pub(crate) fn hold_full(&mut self, count: usize) -> Result<Samples> {
        self.ask("full", count)
    }

    /// The process, to be pinned as others are.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends what [`Self::hold`] and [`Self::hold_full`] made.
    pub(crate) fn drop_all(&mut self) -> Result<Samples> {
        self.ask("drop", 0)
    }

    fn ask(&mut self, what: &str, count: usize) -> Result<Samples> {
        writeln!(self.input, "{what} {count}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let times: Vec<f64> = serde_json::from_str(&line)
            .with_context(|| format!("the reference process failed at `{what}` (see above)"))?;
        Ok(times.into_iter().collect())
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // It takes its cgroup away before it ends; one that hangs is not waited for.
        if self.ask("drop", 0).is_err() || self.ask("end", 0).is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// The reference process itself.
pub(crate) fn serve() -> Result<()> {
    let place = place()?;
    let mut held = Vec::new();
    for line in stdin().lock().lines() {
        let line = line?;
        let (what, count) = line
            .split_once(' ')
            .context("a request is a word and a number")?;
        let count: usize = count.parse()?;
        let mut times: Vec<f64> = Vec::new();
        match what {
            "fork" => repeat(count, &mut times, |_| fork())?,
            "cell" => repeat(count, &mut times, |_| cell(&place))?,
            "run" => {
                let standing = Standing::start(prototype::place(&place, FULL)?)?;
                repeat(count, &mut times, |_| standing.run())?;
            }
            "full-cell" => {
                let full = prototype::place(&place, FULL)?;
                repeat(count, &mut times, |_| prototype::cell(&full))?;
            }
            "hold" => repeat(count, &mut times, |turn| {
                held.push(begin(
                    &place,
                    &format!("held-{turn}"),
                    &["busybox", "sleep", "1000000"],
                )?);
                Ok(())
            })?,
            "full" => {
                let full = prototype::place(&place, FULL)?;
                repeat(count, &mut times, |turn| {
                    let pidfd = prototype::begin(&full, &format!("cell-{turn}"))?;
                    held.push((pidfd, FULL.to_owned()));
                    Ok(())
                })?;
            }
            "drop" => {
                place.kill()?;
                for (pidfd, name) in held.drain(..) {
                    wait(Target::PidFd(pidfd.as_fd()), Reap::Yes)?;
                    place.remove(&name, TIMEOUT)?;
                }
            }
            "end" => remove_place()?,
            other => bail!("unknown request {other}"),
        }
        writeln!(stdout(), "{}", serde_json::Value::from_iter(times))?;
        if what == "end" {
            break;
        }
    }
    Ok(())
}

/// A group beside the node's for ours.
fn place() -> Result<Cgroup> {
    let place = root()?.ensure(PLACE)?;
    // A reference that failed leaves what it held.
    place.kill()?;
    for left in place.children()? {
        place.remove(&left.to_string_lossy(), TIMEOUT)?;
    }
    Ok(place)
}

fn remove_place() -> Result<()> {
    root()?.remove(PLACE, TIMEOUT)?;
    Ok(())
}

fn root() -> Result<Cgroup> {
    Ok(Cgroup::open(&cgroup::find::mount_point()?)?)
}

fn repeat(
    count: usize,
    times: &mut Vec<f64>,
    mut work: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    for turn in 0..count {
        let started = Instant::now();
        work(turn)?;
        times.push(started.elapsed().as_secs_f64() * 1e6);
    }
    Ok(())
}

fn fork() -> Result<()> {
    let options = Options::default();
    let pidfd = start(options, &["busybox", "true"])?;
    wait(Target::PidFd(pidfd.as_fd()), Reap::Yes)?;
    Ok(())
}

fn cell(place: &Cgroup) -> Result<()> {
    let (pidfd, name) = begin(place, "one", &["busybox", "true"])?;
    wait(Target::PidFd(pidfd.as_fd()), Reap::Yes)?;
    place.remove(&name, TIMEOUT)?;
    Ok(())
}

fn begin(place: &Cgroup, name: &str, words: &[&str]) -> Result<(OwnedFd, String)> {
    let group = place.create(name)?.into_fd();
    let options = Options {
        namespaces: Namespaces::ALL,
        cgroup: Some(group.as_fd()),
        ..Options::default()
    };
    Ok((start(options, words)?, name.to_owned()))
}

fn start(options: Options<'_>, words: &[&str]) -> Result<OwnedFd> {
    let environment: [&str; 0] = [];
    let program = Prepared::new(words, &environment)?;
    let path = std::ffi::CString::new(PROGRAM)?;
    match clone(options)? {
        Cloned::Child => {
            let failed = program.exec(&path).err();
            eprintln!("reference: {failed:?}");
            process::exit(127)
        }
        Cloned::Parent(_, pidfd) => Ok(pidfd),
    }
}
