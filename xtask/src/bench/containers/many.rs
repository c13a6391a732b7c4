// SPDX-License-Identifier: Apache-2.0
//! What many containers and pods cost: the memory of who watches over an idle one, and how long a
//! killed daemon is away among many pods.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use testkit::exec;

use super::{Bed, IMAGE};
use crate::bench::table::Row;

/// Of a supervisor for each idle container, in MiB.
const GOAL_SUPERVISOR: &str = "<= 0.5";
/// Milliseconds from the daemon's death to the first correct list of its pods.
const GOAL_RESTART: &str = "<= 100";
/// Until all pods are listed again.
const BOUND: Duration = Duration::from_secs(120);
/// How often the daemon is killed; the median counts.
const KILLS: usize = 3;

impl Bed {
    /// The memory of an init of ours, of containerd's shim and of conmon, for each idle container.
    pub(super) fn supervisor(&self, count: usize) -> Result<Vec<Row>> {
        let names: Vec<String> = (0..count.max(1)).map(|it| format!("idle{it}")).collect();
        for name in &names {
            let words = [
                "run", "-d", "-o", "name", "--name", name, IMAGE, "sleep", "1000000",
            ];
            exec::read(&mut self.aurae(&words))?;
        }
        let ours = each("aurae-cell", names.len());
        // Nothing in them ends by itself: as PID 1 of its container `sleep` has no handler.
        exec::read(self.aurae(&["stop", "-t", "0"]).args(&names))?;
        exec::read(self.aurae(&["rm"]).args(&names))?;
        let ours = ours?;
        let row = "containers, memory of the supervisor for each idle container";
        let mut rows = vec![Row::alone(row, "native", "MiB", ours, GOAL_SUPERVISOR)];
        let shim = self.shim(&names);
        let conmon = self.conmon(&names);
        for (peer, theirs) in [("containerd-shim", shim), ("conmon", conmon)] {
            let row = format!("{row}, beside {peer}");
            rows.push(match theirs {
                Ok(theirs) => Row::alone(&row, "native", "MiB", ours, "").beside((peer, theirs)),
                Err(error) => Row::failed(&row, "native", &error),
            });
        }
        Ok(rows)
    }

    fn shim(&self, names: &[String]) -> Result<f64> {
        let ctr = self.ctr();
        let begin = |name: &String| format!("{ctr} run -d {IMAGE} {name} sleep 1000000");
        let end = |name: &String| format!("{ctr} task rm -f {name}; {ctr} container rm {name}");
        self.peer("containerd-shim", names, begin, end)
    }

    fn conmon(&self, names: &[String]) -> Result<f64> {
        let podman = self.podman();
        let flags = "--network none --pull never";
        let begin =
            |name: &String| format!("{podman} run -d --name {name} {flags} {IMAGE} sleep 1000000");
        let end = |name: &String| format!("{podman} rm -f -t 0 {name}");
        self.peer("conmon", names, begin, end)
    }

    /// One shell starts them all; another one ends them, whatever came of it.
    fn peer(
        &self,
        supervisor: &str,
        names: &[String],
        begin: impl Fn(&String) -> String,
        end: impl Fn(&String) -> String,
    ) -> Result<f64> {
        let all: Vec<String> = names.iter().map(begin).collect();
        // In one mount namespace: an engine's mounts have to be there when it ends them.
        let script = format!("{{ {}; }} </dev/null", all.join(" && "));
        let begun = exec::read(&mut self.arena.shell(&script));
        let memory = begun.and_then(|_| each(supervisor, names.len()));
        let all: Vec<String> = names.iter().map(end).collect();
        let _ = exec::capture(&mut self.arena.shell(&all.join("\n")));
        memory
    }

    /// Many pods stand while the daemon is killed.
    pub(super) fn density(&self, pods: usize) -> Result<Vec<Row>> {
        let manifest = |number: usize| {
            format!(
                "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: many{number}}}\nspec:\n  \
                 terminationGracePeriodSeconds: 0\n  containers:\n  - {{name: a, image: \"{IMAGE}\", \
                 imagePullPolicy: Never, command: [sleep, \"1000000\"]}}\n"
            )
        };
        let file = self.folder.0.join("pods.yaml");
        fs::write(&file, (0..pods).map(manifest).collect::<String>())?;
        let mut run = self.aurae(&["pod", "run", "--wait", "ready", "-f"]);
        exec::read(run.arg(&file))?;
        let mut taken = Vec::new();
        for _ in 0..KILLS {
            taken.push(self.killed(pods)?);
        }
        taken.sort_by(f64::total_cmp);
        let middle = taken.get(KILLS / 2).copied().context("no kill")?;
        let row = format!("containers, {pods} pods: kill -9 to the first correct list");
        // The pods go with the node.
        Ok(vec![Row::alone(&row, "native", "ms", middle, GOAL_RESTART)])
    }

    fn killed(&self, pods: usize) -> Result<f64> {
        let daemon = daemon(self.node.process()).context("the daemon of the node")?;
        let begun = Instant::now();
        kill_process(daemon, Signal::KILL)?;
        loop {
            let output = exec::capture(&mut self.aurae(&["pod", "ls", "-o", "json"]))?;
            let text = String::from_utf8_lossy(&output.stdout);
            if output.status.success() && text.matches("\"many").count() >= pods {
                return Ok(begun.elapsed().as_secs_f64() * 1e3);
            }
            ensure!(
                begun.elapsed() < BOUND,
                "the pods aren't listed again: {text}"
            );
        }
    }
}

/// The memory of all processes of this name for each container, in MiB: proportional set sizes.
fn each(name: &str, containers: usize) -> Result<f64> {
    let mut kib = 0;
    for process in processes()? {
        let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let program = words.split(|byte| *byte == 0 || *byte == b' ').next();
        let program = String::from_utf8_lossy(program.unwrap_or_default());
        if program
            .rsplit('/')
            .next()
            .is_some_and(|it| it.starts_with(name))
        {
            kib += super::super::pull::memory::of(process);
        }
    }
    ensure!(kib > 0, "no process {name} is there");
    #[expect(clippy::cast_precision_loss, reason = "a figure to be shown")]
    let (kib, containers) = (kib as f64, containers as f64);
    Ok(kib / 1024.0 / containers)
}

fn processes() -> Result<Vec<u32>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        all.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(all)
}

/// The child of the node's init that serves.
fn daemon(init: u32) -> Option<Pid> {
    let children = fs::read_to_string(format!("/proc/{init}/task/{init}/children")).ok()?;
    let is_daemon = |process: &&str| {
        let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == b"serve")
    };
    let process = children.split_whitespace().find(is_daemon)?;
    Pid::from_raw(process.parse().ok()?)
}
