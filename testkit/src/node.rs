// SPDX-License-Identifier: Apache-2.0
//! A node for a story: boots one, runs scripts on it, asserts, shuts it down.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! let bed = testkit::node::Bed::new("target".as_ref(), "target/debug".as_ref())?;
//! let node = bed.boot(&Default::default())?;
//! assert!(node.sh("aurae ps")?.contains("boot"));
//! node.shutdown()
//! # }
//! ```

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

pub use crate::bed::{AGENT, Bed, Options};

use crate::agent::{Agent, Finished, Running};
use crate::exec;
use crate::machine::{self, Console, Disk, Forward, HOST, Machine, Spec};
use crate::watchdog::{PowerCord, Watchdog, processor_time};

/// How much of a processor's time a boot may take: on a busy machine that is more than as long.
const BOOT_LIMIT: Duration = Duration::from_secs(120);
/// The longest that a boot may take, by the clock.
const BOOT_DEADLINE: Duration = Duration::from_secs(600);
/// The longest that a power-off may take: the node's own bound (90 s), and what a busy machine
/// needs before and after. A node that takes longer hangs.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(240);
/// How often a wait reads the console again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a story's script may take, unless it says otherwise.
pub const SCRIPT_LIMIT: Duration = Duration::from_secs(120);
/// Shows what lives on a node where a script didn't come back: number, parent, state, what it waits
/// for in the kernel, arguments. Only of what every node of the bed has.
const PROCESSES: &str = r#"for it in /proc/[0-9]*; do
    line=$(tr '\0' ' ' < $it/cmdline 2> /dev/null) && [ -n "$line" ] || continue
    set -- $(sed 's/.*) //' $it/stat)
    echo "${it#/proc/} $2 $1 $(cat $it/wchan) $line"
done"#;
/// How long that may take.
const PROCESSES_LIMIT: Duration = Duration::from_secs(20);
/// How often it is looked where the processors are of a node that doesn't answer.
const LOOKS: usize = 4;

impl Bed {
    /// Boots a node and waits until it runs scripts.
    ///
    /// # Errors
    /// When it doesn't get there; the end of its console is in the message.
    pub fn boot(&self, options: &Options) -> Result<Node> {
        let Some(other) = &options.beside else {
            return self.boot_one(options);
        };
        let host = free_port()?;
        let other = Options {
            forward: Some(Forward { host, guest: 7443 }),
            ..Options::clone(other)
        };
        let beside = self.boot_one(&other)?;
        let mut node = self.boot_one(&Options {
            append: options.append.replace("BESIDE", &format!("{HOST}:{host}")),
            ..options.clone()
        })?;
        node.beside = Some(Box::new(beside));
        Ok(node)
    }

    fn boot_one(&self, options: &Options) -> Result<Node> {
        let scratch = tempfile::tempdir()?;
        let console = scratch.path().join("console");
        let mut spec = self.machine(options, Console::File(console.clone()))?;
        let kept = match (&spec.disk, options.reboots) {
            (Some(Disk::Fresh(disk)), true) => Some(self.disk_of_its_own(disk)?),
            _ => None,
        };
        if let Some(kept) = &kept {
            spec.disk = Some(Disk::Kept(kept.to_path_buf()));
        }
        let socket = scratch.path().join("agent");
        let listener = UnixListener::bind(&socket)?;
        listener.set_nonblocking(true)?;
        spec.agent = Some(socket);
        let monitor = scratch.path().join("monitor");
        spec.monitor = Some(monitor.clone());
        let started = Instant::now();
        let (machine, agent) = start(&spec, &listener, &console)?;
        let mut node = Node {
            cord: PowerCord::of(&machine)?,
            machine,
            agent,
            spec,
            listener,
            console,
            monitor,
            off: options.off.clone(),
            scratch,
            _kept: kept,
            beside: None,
        };
        node.wait_ready(started)?;
        Ok(node)
    }
}

/// A port of the loopback address that nothing listens at now.
fn free_port() -> Result<u16> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(free.local_addr()?.port())
}

/// Starts the machine and meets its agent's end of the channel.
fn start(spec: &Spec, listener: &UnixListener, console: &Path) -> Result<(Machine, Agent)> {
    let mut machine = Machine::start(spec)?;
    let stream = accept(listener, &mut machine)
        .with_context(|| format!("QEMU didn't start the machine\n{}", tail(console)))?;
    Ok((machine, Agent::over(stream)?))
}

/// QEMU connects while it sets the machine up, or ends with an error.
fn accept(listener: &UnixListener, machine: &mut Machine) -> Result<UnixStream> {
    let until = Instant::now() + BOOT_DEADLINE;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(status) = machine.wait(Duration::from_millis(20))? {
            bail!("QEMU ended: {status}");
        }
        ensure!(
            Instant::now() < until,
            "QEMU didn't connect within {BOOT_DEADLINE:?}"
        );
    }
}

/// A booted node. Its power is cut when dropped.
#[derive(Debug)]
pub struct Node {
    machine: Machine,
    agent: Agent,
    cord: PowerCord,
    spec: Spec,
    listener: UnixListener,
    console: PathBuf,
    monitor: PathBuf,
    off: String,
    scratch: tempfile::TempDir,
    /// The disk of a node that reboots.
    _kept: Option<tempfile::TempPath>,
    beside: Option<Box<Node>>,
}

impl Node {
    /// The node that was booted beside it ([`Options::beside`]).
    ///
    /// # Errors
    /// When there is none.
    pub fn beside(&mut self) -> Result<&mut Node> {
        self.beside
            .as_deref_mut()
            .context("no node was booted beside this one")
    }

    /// Boots the node again after its reset, on the disk that it left, and waits until it runs
    /// scripts: QEMU ends at a reset, and is started again.
    ///
    /// # Errors
    /// When there is no reset within four minutes, the node wasn't booted to reboot
    /// ([`Options::reboots`]), or doesn't get there.
    pub fn comes_back(&mut self) -> Result<()> {
        let kept = matches!(self.spec.disk, Some(Disk::Kept(_)));
        ensure!(
            kept,
            "the node was booted without `reboots`: its disk is gone"
        );
        self.wait_off(SHUTDOWN_DEADLINE)?;
        let started = Instant::now();
        (self.machine, self.agent) = start(&self.spec, &self.listener, &self.console)?;
        self.cord.plug(&self.machine)?;
        self.wait_ready(started)
    }

    /// [`Node::comes_back`] with a word of the kernel's command line changed.
    ///
    /// # Errors
    /// Those of [`Node::comes_back`], and where there is no such word.
    pub fn comes_back_with(&mut self, old: &str, new: &str) -> Result<()> {
        let append = &mut self.spec.append;
        ensure!(append.contains(old), "{old} isn't in {append}");
        *append = append.replace(old, new);
        self.comes_back()
    }

    /// Cuts the node's power where it isn't called off within this time; then it says what it saw.
    #[must_use]
    pub fn watch(&self, limit: Duration) -> Watchdog {
        Watchdog::start(self.cord.clone(), self.console.clone(), limit)
    }

    /// Waits until the node's agent says that it runs.
    fn wait_ready(&mut self, since: Instant) -> Result<()> {
        while !self.agent.wait_ready(Duration::from_millis(100)) {
            if let Some(status) = self.machine.wait(Duration::ZERO)? {
                bail!(
                    "the node went down while it booted ({status}):\n{}",
                    self.said()
                );
            }
            let used = processor_time(self.machine.pid());
            if used > BOOT_LIMIT || since.elapsed() > BOOT_DEADLINE {
                bail!(
                    "the node didn't serve within {:.0?}, of which QEMU computed {used:.0?}:\n{}",
                    since.elapsed(),
                    self.said()
                );
            }
        }
        Ok(())
    }

    /// Starts a shell script and doesn't wait for it.
    ///
    /// # Errors
    /// When the node is gone.
    pub fn start(&self, script: &str) -> Result<Running> {
        self.agent.start(&["/bin/sh", "-c", script])
    }

    /// Starts a program with these arguments.
    ///
    /// # Errors
    /// When the node is gone.
    pub fn start_program(&self, words: &[&str]) -> Result<Running> {
        self.agent.start(words)
    }

    /// Runs a shell script and returns whatever came of it.
    ///
    /// # Errors
    /// When it takes longer than [`SCRIPT_LIMIT`], with what lives on the node, or the node is
    /// gone.
    pub fn try_sh(&self, script: &str) -> Result<Finished> {
        let finished = self.start(script)?.finish_within(SCRIPT_LIMIT);
        finished.with_context(|| {
            let (processes, said) = (self.processes(), self.said());
            format!("on the node: {script}\n{processes}\n{said}")
        })
    }

    fn processes(&self) -> String {
        let asked = self.start(PROCESSES);
        match asked.and_then(|it| it.finish_within(PROCESSES_LIMIT)) {
            Ok(shown) => String::from_utf8_lossy(&shown.out).into_owned(),
            Err(error) => format!(
                "its processes: {error:#}\nits processors are at\n{}",
                self.processors()
            ),
        }
    }

    /// Runs a shell script that has to succeed, and returns its stdout.
    ///
    /// # Errors
    /// When it fails, takes too long, or the node is gone.
    pub fn sh(&self, script: &str) -> Result<String> {
        let finished = self.try_sh(script)?;
        let out = String::from_utf8_lossy(&finished.out).into_owned();
        if finished.status != 0 {
            let err = String::from_utf8_lossy(&finished.err);
            bail!(
                "on the node: {script}\nended with {}\n{out}{err}",
                finished.status
            );
        }
        Ok(out)
    }

    /// Runs a shell script that has to fail with this status, and returns its stderr.
    ///
    /// # Errors
    /// When it ends otherwise, takes too long, or the node is gone.
    pub fn sh_fails(&self, script: &str, status: i32) -> Result<String> {
        let finished = self.try_sh(script)?;
        let out = String::from_utf8_lossy(&finished.out);
        let err = String::from_utf8_lossy(&finished.err).into_owned();
        ensure!(
            finished.status == status,
            "on the node: {script}\nended with {} instead of {status}\n{out}{err}",
            finished.status
        );
        Ok(err)
    }

    /// All that the machine's console has shown.
    #[must_use]
    pub fn console(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.console).unwrap_or_default()).into_owned()
    }

    /// Waits until the console shows this text behind its first `from` bytes; returns when it was
    /// seen.
    ///
    /// # Errors
    /// When it doesn't within this time, or the machine goes off without it.
    pub fn wait_console(&mut self, from: usize, text: &str, limit: Duration) -> Result<Instant> {
        let until = Instant::now() + limit;
        loop {
            // What was shown last is there once the machine is off.
            let off = self.machine.wait(LOOK_AGAIN)?;
            let shown = self.console();
            let seen = Instant::now();
            if shown.get(from..).is_some_and(|shown| shown.contains(text)) {
                return Ok(seen);
            }
            let end = match off {
                Some(status) => format!("it was off ({status})"),
                None => "the time was over".to_owned(),
            };
            ensure!(
                off.is_none() && seen < until,
                "{end} before the console showed {text:?}\n{}",
                self.said()
            );
        }
    }

    /// Has QEMU's monitor do this, e.g. `sendkey ctrl-alt-delete` or `system_reset`.
    ///
    /// # Errors
    /// When QEMU is gone.
    pub fn monitor(&self, words: &str) -> Result<()> {
        machine::command_monitor(&self.monitor, words).map(drop)
    }

    /// Where the processors are, looked at a few times: a node that doesn't answer waits, or is
    /// busy with itself.
    fn processors(&self) -> String {
        let looks = (0..LOOKS).map(|_| {
            let told = machine::command_monitor(&self.monitor, "info registers -a");
            told.map_or_else(|error| format!("{error:#}\n"), |told| places(&told))
        });
        looks.collect()
    }

    /// True while the machine has power.
    ///
    /// # Errors
    /// When QEMU's process can't be checked.
    pub fn has_power(&mut self) -> Result<bool> {
        Ok(self.machine.wait(Duration::ZERO)?.is_none())
    }

    /// [`Node::power_off`], and that is all.
    ///
    /// # Errors
    /// Those of [`Node::power_off`].
    pub fn shutdown(mut self) -> Result<()> {
        self.power_off()
    }

    /// Powers the node off as its administrator would.
    ///
    /// # Errors
    /// When it isn't off within four minutes: then its power is cut.
    pub fn power_off(&mut self) -> Result<()> {
        let asked = self.start(&self.off)?;
        if self.machine.wait(SHUTDOWN_DEADLINE)?.is_some() {
            return Ok(());
        }
        let answer = asked.finish_within(Duration::from_secs(1));
        let said = self.said();
        self.machine.kill()?;
        let answer = answer.map_or_else(
            |error| format!("{error:#}"),
            |finished| String::from_utf8_lossy(&finished.err).into_owned(),
        );
        let late = format!("wasn't off {SHUTDOWN_DEADLINE:?} after `{}`", self.off);
        bail!("the node {late}: {answer}\n{said}")
    }

    /// Waits for the machine to go off by itself.
    ///
    /// # Errors
    /// When it doesn't within this time.
    pub fn wait_off(&mut self, limit: Duration) -> Result<()> {
        let off = self.machine.wait(limit)?.is_some();
        ensure!(off, "the node wasn't off after {limit:?}\n{}", self.said());
        Ok(())
    }

    /// A folder of this node's own on the host, gone with it.
    #[must_use]
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    fn said(&self) -> String {
        tail(&self.console)
    }
}

/// Of what QEMU's monitor tells of all registers: each processor's place, flags and whether it
/// waits, in one line.
fn places(registers: &str) -> String {
    let at = registers.lines().filter(|line| line.starts_with("RIP="));
    let mut line = at.collect::<Vec<_>>().join(" | ");
    line.push('\n');
    line
}

/// The last lines of a console.
pub(crate) fn tail(console: &Path) -> String {
    let said = fs::read(console).unwrap_or_default();
    format!(
        "its console ends with:\n{}",
        exec::last_lines(&String::from_utf8_lossy(&said), 40)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_where_all_processors_are() {
        let told = "info registers -a\r\nCPU#0\r\nRAX=0 RBX=0\r\nRIP=1 RFL=46 HLT=0\r\nES =0\r\n\
                    CPU#1\r\nRAX=0\r\nRIP=2 RFL=2 HLT=1\r\n(qemu) ";
        assert_eq!(places(told), "RIP=1 RFL=46 HLT=0 | RIP=2 RFL=2 HLT=1\n");
    }
}
