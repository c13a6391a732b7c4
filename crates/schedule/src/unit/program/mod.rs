// SPDX-License-Identifier: Apache-2.0
//! A command of a unit as a program of the runtime: words, variables, user, limits, and the folders
//! that are made for it (systemd.exec(5)). Blocks: it reads the machine's files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::capability::{Capabilities, CapabilitySet};
use model::executable::{Draft, ExecutableSpec, MAX_STOP_GRACE};
use model::launch::{Ending, KillMode, MainProcess};
use model::rlimit::Rlimit;
use model::seccomp::{Profile, Seccomp};
use runtime::{Descriptor, Extras, Slice, Terminal};
use units::exec::environment::Environment;
use units::exec::{Command, Privileges, expand};
use units::service::{Service, Type, delegates};
use units::unit::{Settings, Unit};
use units::value::Value;

use super::credentials;
use super::dynamic::Realized;
use super::honour::as_user;
use super::mount;
use super::sandbox::{self, Confined};
use super::steps::{End, Outcome, Phase, Step};
use account::Account;

mod account;
mod clear;
mod environment;
mod folders;
pub(crate) mod group;
mod scheduling;
mod streams;
mod terminal;

pub(crate) use clear::{clean, clear, clear_pid_file, kinds as kinds_of_folders};
pub(crate) use folders::{keeps_folders, opened, owner_of_private};
pub(crate) use group::resources;
pub(crate) use scheduling::is_native;
pub(crate) use streams::is_known as is_known_stream;
pub(crate) use terminal::{is_made_ready as has_terminal, make_ready as reset_terminal};

/// Why a command isn't begun: with what status systemd's process would have ended
/// (systemd.exec(5), "Process exit codes"), and words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    pub(crate) status: u8,
    pub(crate) words: String,
}

fn failure(status: u8, words: impl Into<String>) -> Failure {
    Failure {
        status,
        words: words.into(),
    }
}

/// What a command is told of its service.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Told {
    pub(crate) main_pid: Option<u32>,
    pub(crate) result: Outcome,
    pub(crate) ended: Option<End>,
    pub(crate) invocation: String,
    /// Where what commands of its activation share is kept.
    pub(crate) shared: PathBuf,
    /// Where it may say something of itself (`$NOTIFY_SOCKET`).
    pub(crate) notify: Option<String>,
    /// How often the main process is to say that it lives, in microseconds.
    pub(crate) watchdog: Option<u64>,
    /// Of the unit whose end has started this one (`$MONITOR_…`), and of what has triggered it
    /// (`$TRIGGER_…`).
    pub(crate) monitored: Vec<(String, String)>,
    /// The user that it has for itself (`DynamicUser=`).
    pub(crate) dynamic: Realized,
    /// Where a mount is made at first, if not at its own place.
    pub(crate) stage: Option<PathBuf>,
    /// What its cell is to be in.
    pub(crate) slices: Vec<Slice>,
    /// What callers have given all commands (`systemctl set-environment`).
    pub(crate) environment: Environment,
}

/// A command that can be begun.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Ready {
    pub(crate) spec: ExecutableSpec,
    pub(crate) confined: Confined,
    /// What it reads (`StandardInput=data`).
    pub(crate) input: Option<Vec<u8>>,
    /// What becomes of another session that has its terminal.
    pub(crate) terminal: Terminal,
    /// Whose the groups below its own are to make (`Delegate=`).
    pub(crate) delegate: Option<(u32, u32)>,
}

impl Ready {
    /// The program, and what it gets beside its spec. Blocks for a few system calls.
    ///
    /// # Errors
    /// [`Failure`]: what it reads can't be written down.
    pub(crate) fn into_parts(self) -> Result<(ExecutableSpec, Extras), Failure> {
        let mut extras = Extras {
            sandbox: self.confined.sandbox,
            devices: self.confined.devices,
            networks: self.confined.networks,
            terminal: self.terminal,
            delegate: self.delegate,
            ..Extras::default()
        };
        if let Some(bytes) = &self.input {
            // systemd.exec(5), "Process exit codes": EXIT_STDIN.
            let told = |error| failure(208, format!("StandardInputData=: {error}"));
            extras.streams.push(Descriptor {
                name: streams::INPUT.to_owned(),
                fd: streams::written_down(bytes).map_err(told)?,
            });
        }
        Ok((self.spec, extras))
    }
}

/// Makes what a command needs, and says what is to be run.
///
/// # Errors
/// [`Failure`]: no such user, a file of variables that isn't there, a folder that can't be made.
pub(crate) fn prepare(
    unit: &Unit,
    service: &Service,
    step: Step,
    told: &Told,
) -> Result<Ready, Failure> {
    let settings = &unit.settings;
    let command = &command_of(unit, step, told)?;
    let account = Account::of(settings, &told.dynamic)?;
    let (folders, mut variables) = folders::make(settings, &account)?;
    let owner = (account.uid(), account.group);
    let credentials = credentials::put(unit, owner).map_err(|it| failure(243, it))?;
    if let Some(folder) = &credentials {
        variables.push(("CREDENTIALS_DIRECTORY", folder.clone()));
    }
    // systemd.service(5): `+` has full privileges, file systems among them.
    let confined = match command.privileges {
        Privileges::Full => Confined::default(),
        _ => {
            let own = sandbox::Own {
                folders: &folders,
                shared: &told.shared,
                dynamic: told.dynamic.own(),
                credentials: credentials.as_deref(),
            };
            sandbox::of(settings, &own).map_err(|(status, words)| failure(status, words))?
        }
    };
    let mut environment = environment::of(settings, &account, variables, step.phase, told)?;
    environment::of_init_script(&command.program, &mut environment);
    let mut argv = expand::argv(command, &environment).map_err(|e| failure(203, e))?;
    let program = environment::found(&command.program, settings)?;
    // systemd.service(5), "@": what the program is told that it is called.
    let called = command.argv0.clone();
    if let Some(first) = argv.first_mut() {
        *first = called.unwrap_or_else(|| program.clone());
    }
    let mut draft = Draft {
        argv,
        program,
        ending: ending(service, step.phase),
        env: environment,
        cwd: directory(settings, &account)?,
        stop_signal: service.kill.signal.to_string(),
        stop_grace: Some(grace(service)),
        ..Draft::default()
    };
    restrict(&mut draft, settings, command, &account, &confined);
    draft.rlimits = limits(settings);
    // systemd.exec(5), IgnoreSIGPIPE=: true by default.
    draft.ignore_sigpipe = settings.flag("IgnoreSIGPIPE").unwrap_or(true);
    let number = |field: &str| settings.number(field).and_then(|it| i32::try_from(it).ok());
    draft.nice = number("Nice");
    draft.oom_score_adj = number("OOMScoreAdjust");
    if let Some(Value::Mode(mode)) = settings.get("UMask") {
        draft.umask = Some(*mode);
    }
    if let Some(Value::Indices(cpus)) = settings.get("CPUAffinity") {
        draft.cpu_affinity = cpus.iter().copied().collect();
    }
    draft.streams = streams::of(settings);
    terminal::make_ready(settings);
    draft.scheduling = scheduling::of(settings);
    draft.keyring = scheduling::keyring(settings);
    draft.personality = scheduling::personality(settings);
    let spec = draft
        .try_into()
        .map_err(|e: model::error::Error| failure(203, e.to_string()))?;
    Ok(Ready {
        spec,
        confined,
        input: streams::input(settings).map(<[u8]>::to_vec),
        terminal: terminal::of_others(settings),
        delegate: handed_on(settings, step.phase, &account),
    })
}

/// The main process's groups are the unit's user's to make; what runs beside has a leaf of its own.
fn handed_on(settings: &Settings, phase: Phase, account: &Account) -> Option<(u32, u32)> {
    let handed = phase == Phase::Start && delegates(settings);
    handed.then(|| (account.uid().unwrap_or(0), account.group.unwrap_or(0)))
}

/// The command of a step, with the privileges that it has there.
fn command_of(unit: &Unit, step: Step, told: &Told) -> Result<Command, Failure> {
    let commands = match &told.stage {
        Some(stage) => mount::staged(unit, stage),
        None => mount::commands(unit, step.phase),
    };
    let command = commands.get(step.index).cloned();
    let mut command = command.ok_or_else(|| failure(203, "there is no such command"))?;
    // In systemd.service(5) up to version 230: all commands but `ExecStart=` are as with `+`.
    let start_only = unit.settings.flag("PermissionsStartOnly") == Some(true);
    if start_only && step.phase != Phase::Start {
        command.privileges = Privileges::Full;
    }
    Ok(command)
}

/// Which process of a command is the one that counts. What it leaves behind is the unit's to end,
/// and goes on until then.
fn ending(service: &Service, phase: Phase) -> Ending {
    let forks = service.kind == Type::Forking && phase == Phase::Start;
    let file = service.pid_file.clone().filter(|_| forks);
    Ending {
        main_process: match (forks, &file, service.guesses_main) {
            (false, ..) => MainProcess::Executed,
            (true, Some(_), _) => MainProcess::PidFile,
            (true, None, true) => MainProcess::Guessed,
            (true, None, false) => MainProcess::None,
        },
        pid_file: file.unwrap_or_default(),
        kill_mode: KillMode::Process,
        ..Ending::default()
    }
}

/// From the stop signal to SIGKILL, where a person stops a command by the runtime.
fn grace(service: &Service) -> Duration {
    let micros = service.stop_timeout.micros();
    micros.map_or(MAX_STOP_GRACE, |it| {
        Duration::from_micros(it).min(MAX_STOP_GRACE)
    })
}

/// `CAP_SYS_ADMIN`.
const SYS_ADMIN: u64 = 1 << 21;

/// Its user, its capabilities: without a directive what an init gives, which is everything.
fn restrict(
    draft: &mut Draft,
    settings: &Settings,
    command: &Command,
    account: &Account,
    confined: &Confined,
) {
    let full = command.privileges == Privileges::Full;
    let user = as_user(command.privileges);
    if user {
        draft.user = account
            .user
            .as_ref()
            .map_or(String::new(), |it| it.uid.to_string());
        draft.group = account.group.map_or(String::new(), |it| it.to_string());
        draft.groups = account.groups.iter().map(ToString::to_string).collect();
    }
    let set = |field: &str| match settings.get(field) {
        Some(Value::Capabilities(bits)) if !full => Some(*bits),
        _ => None,
    };
    let names = |bits: u64| -> Vec<String> {
        let all = CapabilitySet::ALL.names().into_iter();
        let mut all = all.zip(model_bits()).collect::<Vec<_>>();
        all.retain(|(_, bit)| bits & bit != 0);
        all.into_iter().map(|(name, _)| name).collect()
    };
    let bounding = set("CapabilityBoundingSet").unwrap_or(CapabilitySet::ALL.bits());
    let bounding = bounding & !confined.lost_capabilities;
    let ambient = set("AmbientCapabilities").filter(|_| user).unwrap_or(0) & bounding;
    draft.capabilities = Some(Capabilities {
        bounding: names(bounding),
        ambient: names(ambient),
    });
    let no_new = settings.flag("NoNewPrivileges").unwrap_or(false);
    // systemd.exec(5), NoNewPrivileges=: a filter takes either this or CAP_SYS_ADMIN.
    let is_root = !user || account.user.as_ref().is_none_or(|it| it.uid == 0);
    let held = if is_root { bounding } else { ambient };
    let implied = confined.filtered && held & SYS_ADMIN == 0 || confined.no_new_privileges;
    draft.no_new_privileges = Some((no_new || implied) && !full);
    draft.seccomp = Seccomp {
        profile: Profile::Unconfined,
        ..Seccomp::default()
    };
}

/// The bits of `CapabilitySet::ALL.names()`, in that order.
fn model_bits() -> impl Iterator<Item = u64> {
    (0..64)
        .map(|bit| 1_u64 << bit)
        .filter(|bit| CapabilitySet::ALL.bits() & bit != 0)
}

fn directory(settings: &Settings, account: &Account) -> Result<String, Failure> {
    let Some(wanted) = settings.paths("WorkingDirectory").first() else {
        return Ok(String::new());
    };
    let home = || {
        account
            .user
            .as_ref()
            .map_or("/root", |it| &it.home)
            .to_owned()
    };
    let path = match wanted.path.as_str() {
        "~" => home(),
        path => path.to_owned(),
    };
    match (Path::new(&path).is_dir(), wanted.optional) {
        (true, _) => Ok(path),
        (false, true) => Ok(String::new()),
        (false, false) => {
            let words = format!("WorkingDirectory={path}: there is no such folder");
            Err(failure(200, words))
        }
    }
}

fn limits(settings: &Settings) -> Vec<Rlimit> {
    let of = |(field, setting): (&str, &units::unit::Setting)| {
        let name = field.strip_prefix("Limit")?;
        let Value::Bounds(bounds) = &setting.value else {
            return None;
        };
        Some(Rlimit {
            name: name.to_owned(),
            soft: bounds.soft,
            hard: bounds.hard,
        })
    };
    settings.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests;
