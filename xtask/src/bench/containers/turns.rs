// SPDX-License-Identifier: Apache-2.0
//! Contenders in turns: one shell runs each one's script, one after the other, again and again, and
//! prints what each took. What they share costs them the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use testkit::exec;

/// The kernel's number of cgroup2's file system, statfs(2).
const CGROUP2: i64 = 0x6367_7270;
/// Where every engine looks for groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// One script, measured, and what is done after it, which isn't.
pub(super) struct Contender {
    name: &'static str,
    script: String,
    after: String,
}

impl Contender {
    pub(super) fn new(name: &'static str, script: String) -> Self {
        Self {
            name,
            script,
            after: ":".to_owned(),
        }
    }

    pub(super) fn then(self, after: String) -> Self {
        Self { after, ..self }
    }
}

/// Where the scripts run: here, or, where the machine has version 1 of cgroups at its usual place,
/// in a mount namespace with version 2 there, since podman's and crun's newer ways need that.
pub(super) struct Arena {
    folder: PathBuf,
    is_version_2: bool,
}

impl Arena {
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let kind = rustix::fs::statfs(GROUPS)?.f_type;
        Ok(Self {
            folder: folder.to_owned(),
            is_version_2: kind == CGROUP2,
        })
    }

    /// A shell there.
    pub(super) fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c"]);
        let place = match self.is_version_2 {
            true => String::new(),
            false => format!("umount -R {GROUPS} && mount -t cgroup2 none {GROUPS} || exit 1\n"),
        };
        command.arg(place + script);
        command
    }

    /// Each once to warm up, and then `rounds` times. One that fails is told of, and left out.
    pub(super) fn turns(&self, rounds: usize, contenders: &[Contender]) -> Result<Taken> {
        let said = |name: &str| self.folder.join(format!("said-{name}"));
        let mut script = String::new();
        for one in contenders {
            let Contender {
                name,
                script: measured,
                after,
            } = one;
            let said = said(name);
            let said = said.display();
            // Standard input is empty: an engine might hand ours over.
            script += &format!(
                "turn_{name}() {{\n  [ -z \"$failed_{name}\" ] || return 0\n  \
                 begin=$(date +%s%N)\n  \
                 ( {measured} ) </dev/null >{said} 2>&1 || {{ failed_{name}=1; return 0; }}\n  \
                 took=$(($(date +%s%N) - begin))\n  ( {after} ) </dev/null >/dev/null 2>&1\n  \
                 [ -z \"$warm\" ] || echo {name} $took\n}}\n"
            );
        }
        // A function of a program's own name would be called in its place.
        let all: Vec<String> = contenders
            .iter()
            .map(|one| format!("turn_{}", one.name))
            .collect();
        let all = all.join("; ");
        script += &format!("{all}\nwarm=1\nfor round in $(seq {rounds}); do {all}; done\n");
        let output = exec::read(&mut self.shell(&script))?;
        let mut taken = Taken::default();
        for line in output.lines() {
            let (name, nanoseconds) = line.split_once(' ').context("a line of the turns")?;
            let nanoseconds: f64 = nanoseconds.parse().context("a time of the turns")?;
            let times = taken.times.entry(name.to_owned()).or_default();
            times.push(nanoseconds / 1e6);
        }
        for one in contenders {
            if taken.times.get(one.name).is_none_or(|it| it.len() < rounds) {
                let words = fs::read_to_string(said(one.name)).unwrap_or_default();
                taken
                    .failed
                    .insert(one.name.to_owned(), exec::last_lines(&words, 3));
            }
        }
        Ok(taken)
    }
}

/// Milliseconds, by contender.
#[derive(Default)]
pub(super) struct Taken {
    times: BTreeMap<String, Vec<f64>>,
    failed: BTreeMap<String, String>,
}

impl Taken {
    pub(super) fn median(&self, name: &str) -> Result<f64> {
        if let Some(said) = self.failed.get(name) {
            bail!("{name} can't do it here: {said}");
        }
        let mut times = self.times.get(name).cloned().unwrap_or_default();
        times.sort_by(f64::total_cmp);
        let middle = times.get(times.len() / 2);
        middle.copied().with_context(|| format!("{name}: no round"))
    }
}
