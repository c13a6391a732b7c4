// SPDX-License-Identifier: Apache-2.0
//! The options that `plan` and `apply` share: the program, its set, and which objects are pruned.

use std::path::{Path, PathBuf};

use language::root::{MARK, Root};
use script::host::Mode;
use script::reconcile::change::Report;
use script::reconcile::set::{Claim, check_set, default_name};
use serde::{Deserialize, Serialize};

use super::script::entry::{Source, below, unreadable};
use super::script::execute::Job;
use crate::failure::Failure;
use crate::global::ProgramArgs;

/// What plan and apply share.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DeclaringArgs {
    /// The set that its objects belong to [default: the file's path below the project's root, with
    /// `.` for `/`]
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
    /// Take over existing objects of the same names, and a set of another program
    #[arg(long)]
    adopt: bool,
    /// Whether objects of the set that are no longer declared are stopped
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    prune: bool,
    /// Only this object and the objects in it; may be given several times
    #[arg(long, value_name = "PATH")]
    target: Vec<String>,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    /// The program, or `-`; or workloads as JSON or YAML
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Arguments of the program; flags of its own come after `--`
    #[arg(value_name = "ARGS")]
    pub(crate) args: Vec<String>,
    /// As others spell it: the file follows either way
    #[arg(short = 'f', hide = true)]
    given: bool,
    /// What `kubectl` and others call a plan
    #[arg(long, hide = true, value_name = "HOW", num_args = 0..=1)]
    #[arg(default_missing_value = "client", require_equals = true)]
    dry_run: Option<String>,
}

/// The options of the set, as a saved plan has them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Claimed {
    pub(crate) name: String,
    pub(crate) root: Option<PathBuf>,
    pub(crate) adopt: bool,
    pub(crate) prune: bool,
    pub(crate) target: Vec<String>,
    /// The file of `--values`, absolute.
    #[serde(default)]
    pub(crate) values: Option<PathBuf>,
}

/// The keys of the file that marks a project's root.
#[derive(Debug, Default, Deserialize)]
struct Project {
    /// The project's name.
    name: Option<String>,
}

impl DeclaringArgs {
    /// The set, and the program that claims it.
    pub(crate) fn claim(&self) -> Result<Claim, Failure> {
        if self.dry_run.is_some() {
            return Err(Failure::usage("there is no --dry-run")
                .with_hint("`aurae plan FILE` shows what an apply would do, and changes nothing"));
        }
        let (default, program) = match self.is_stdin() {
            true => (None, "-".to_owned()),
            false => {
                let (root, entry) = below(&self.file, self.program.root.as_deref())?;
                (Some(default_name(&entry)), owner(&root, &entry)?)
            }
        };
        let Some(name) = self.set.clone().or(default) else {
            return Err(Failure::usage("a program without a name needs --set NAME"));
        };
        check_set(&name)
            .map_err(|problem| Failure::usage(problem).with_hint("name the set with --set NAME"))?;
        Ok(Claim {
            adopt: self.adopt,
            keep: !self.prune,
            targets: self.target.clone(),
            ..Claim::new(name, program)
        })
    }

    /// Refuses a target that is nothing of the program's and nothing of the set's: a slip would
    /// pass for a plan with nothing to do.
    pub(crate) fn has_targets(&self, report: &Report) -> Result<(), Failure> {
        let is_there = |target: &String| {
            let claim = Claim {
                targets: vec![target.clone()],
                ..Claim::default()
            };
            report.changes.iter().any(|it| claim.is_about(&it.name))
        };
        match self.target.iter().find(|target| !is_there(target)) {
            None => Ok(()),
            Some(target) => Err(Failure::new(format!(
                "--target {target} is no object of the program or of its set"
            ))
            .with_hint("a target is an object's path, such as web or web/app")),
        }
    }

    /// The program with its arguments.
    pub(crate) fn job(&self, mode: Mode) -> Job {
        let source = match self.is_stdin() {
            true => Source::Stdin,
            false => Source::File(self.file.clone()),
        };
        Job::new(&self.program, source, self.args.clone(), mode)
    }

    /// The options of the set, for a plan that is stored.
    pub(crate) fn claimed(&self, name: &str) -> Claimed {
        Claimed {
            name: name.to_owned(),
            root: self.program.root.clone(),
            adopt: self.adopt,
            prune: self.prune,
            target: self.target.clone(),
            values: self.program.values.as_ref().map(|file| {
                let whole = std::path::absolute(file);
                whole.unwrap_or_else(|_| file.clone())
            }),
        }
    }

    /// The same as a saved plan says it.
    pub(crate) fn retell(&mut self, said: &Claimed) {
        self.set = Some(said.name.clone());
        self.program.root.clone_from(&said.root);
        self.adopt = said.adopt;
        self.prune = said.prune;
        self.target.clone_from(&said.target);
        self.program.values.clone_from(&said.values);
    }

    /// Refuses what a saved plan says already: it would mean nothing, and pass for a wish.
    pub(crate) fn says_nothing_more(&self) -> Result<(), Failure> {
        let said = [
            ("--dry-run", self.dry_run.is_some()),
            ("--set", self.set.is_some()),
            ("--adopt", self.adopt),
            ("--prune", !self.prune),
            ("--target", !self.target.is_empty()),
            ("--root", self.program.root.is_some()),
            ("--values", self.program.values.is_some()),
            ("an argument of the program", !self.args.is_empty()),
        ];
        match said.into_iter().find(|(_, said)| *said) {
            None => Ok(()),
            Some((what, _)) => Err(Failure::usage(format!(
                "{what} can't be combined with a saved plan"
            ))
            .with_hint("plan again with it, and apply that plan")),
        }
    }

    /// Whether the program is standard input.
    pub(crate) fn is_stdin(&self) -> bool {
        self.file == Path::new("-")
    }

    /// Whether it, or its values, can be read but once.
    pub(crate) fn is_read_once(&self) -> bool {
        self.is_stdin() || self.program.values.as_deref() == Some(Path::new("-"))
    }
}

/// Who a set belongs to. A project that has a name is the same wherever it lies. One without is
/// what lies there on this machine: the name of a folder says too little to take away what another
/// program has made.
fn owner(root: &Root, entry: &str) -> Result<String, Failure> {
    let said = match root.path().join(MARK).is_file() {
        false => Project::default(),
        true => {
            let bytes = root.bytes(MARK).map_err(unreadable)?;
            serde_json::from_slice(&bytes)
                .map_err(|problem| Failure::new(format!("{MARK}: {problem}")))?
        }
    };
    Ok(match said.name {
        Some(project) => format!("{project}/{entry}"),
        None => {
            let machine = rustix::system::uname();
            let machine = machine.nodename().to_string_lossy();
            format!("{machine}:{}", root.path().join(entry).display())
        }
    })
}
