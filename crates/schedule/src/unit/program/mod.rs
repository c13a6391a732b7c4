// SPDX-License-Identifier: Apache-2.0
//! A command of a unit as a program of the runtime: words, variables, user, limits, and the folders
//! that are made for it (systemd.exec(5)). Blocks: it reads the machine's files.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::capability::{Capabilities, CapabilitySet};
use model::executable::{DEFAULT_PATH, Draft, ExecutableSpec, MAX_STOP_GRACE};
use model::launch::{Ending, KillMode, MainProcess};
use model::rlimit::Rlimit;
use model::seccomp::{Profile, Seccomp};
use rustix::fs::{CWD, Gid, Mode, OFlags, Uid, fchmod, fchown, mkdirat, openat};
use rustix::io::Errno;
use units::exec::environment::{Environment, parse_file};
use units::exec::{Command, Privileges, expand};
use units::service::{Service, Type};
use units::unit::{Settings, Unit};
use units::value::Value;

use super::accounts::{self, User};
use super::honour::as_user;
use super::mount;
use super::sandbox::{self, Confined, Folder};
use super::steps::{End, Outcome, Phase, Step};

mod group;

pub(crate) use group::resources;

/// At most so many bytes of variables are read from a file.
const MOST_VARIABLES: u64 = 1 << 20;

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
    /// Of the unit whose end has started this one (`$MONITOR_…`).
    pub(crate) monitored: Vec<(String, String)>,
}

/// A command that can be begun.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Ready {
    pub(crate) spec: ExecutableSpec,
    pub(crate) confined: Confined,
}

/// The folders that systemd makes for units: the directive, where, the variable.
pub(crate) const FOLDERS: [(&str, &str, &str); 5] = [
    ("RuntimeDirectory", "/run", "RUNTIME_DIRECTORY"),
    ("StateDirectory", "/var/lib", "STATE_DIRECTORY"),
    ("CacheDirectory", "/var/cache", "CACHE_DIRECTORY"),
    ("LogsDirectory", "/var/log", "LOGS_DIRECTORY"),
    ("ConfigurationDirectory", "/etc", "CONFIGURATION_DIRECTORY"),
];

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
    let commands = mount::commands(unit, step.phase);
    let command = commands.get(step.index);
    let command = command.ok_or_else(|| failure(203, "there is no such command"))?;
    let account = Account::of(settings)?;
    let (folders, variables) = make_folders(settings, &account)?;
    // systemd.service(5): `+` has full privileges, file systems among them.
    let confined = match command.privileges {
        Privileges::Full => Confined::default(),
        _ => sandbox::of(settings, &folders, &told.shared)
            .map_err(|(status, words)| failure(status, words))?,
    };
    let environment = environment(settings, &account, variables, step.phase, told)?;
    let mut argv = expand::argv(command, &environment).map_err(|e| failure(203, e))?;
    let program = found(&command.program)?;
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
    let spec = draft
        .try_into()
        .map_err(|e: model::error::Error| failure(203, e.to_string()))?;
    Ok(Ready { spec, confined })
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

/// Whom a unit runs as.
#[derive(Default)]
struct Account {
    user: Option<User>,
    /// The number of its own group.
    group: Option<u32>,
    /// The others.
    groups: Vec<u32>,
}

impl Account {
    fn of(settings: &Settings) -> Result<Account, Failure> {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let (passwd, groups) = (read("/etc/passwd"), read("/etc/group"));
        let mut account = Account::default();
        if let Some(name) = settings.text("User") {
            let user = accounts::user(&passwd, name);
            let user = user.ok_or_else(|| failure(217, format!("User={name}: there is none")))?;
            account.group = Some(user.gid);
            account.groups = accounts::groups_of(&groups, &user.name);
            account.user = Some(user);
        }
        let group = |name: &str, field: &str| {
            let words = format!("{field}={name}: there is no such group");
            accounts::group(&groups, name).ok_or_else(|| failure(216, words))
        };
        if let Some(name) = settings.text("Group") {
            account.group = Some(group(name, "Group")?);
        }
        for name in settings.texts("SupplementaryGroups") {
            account.groups.push(group(name, "SupplementaryGroups")?);
        }
        account.groups.sort_unstable();
        account.groups.dedup();
        Ok(account)
    }
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

fn environment(
    settings: &Settings,
    account: &Account,
    folders: Variables,
    phase: Phase,
    told: &Told,
) -> Result<Environment, Failure> {
    let mut all = Environment::new();
    all.insert("PATH".to_owned(), DEFAULT_PATH.to_owned());
    all.insert("INVOCATION_ID".to_owned(), told.invocation.clone());
    let mut put = |name: &str, value: &str| all.insert(name.to_owned(), value.to_owned());
    if let Some(user) = &account.user {
        put("USER", &user.name);
        put("LOGNAME", &user.name);
        put("HOME", &user.home);
        put("SHELL", &user.shell);
    }
    for (variable, value) in &folders {
        put(variable, value);
    }
    if let Some(pid) = told.main_pid {
        put("MAINPID", &pid.to_string());
    }
    if let Some(socket) = &told.notify {
        put("NOTIFY_SOCKET", socket);
    }
    if let Some(every) = told.watchdog {
        put("WATCHDOG_USEC", &every.to_string());
    }
    for (variable, value) in &told.monitored {
        put(variable, value);
    }
    if matches!(phase, Phase::Stop | Phase::StopPost) {
        put("SERVICE_RESULT", told.result.as_str());
        if let Some((code, status)) = told.ended.map(End::words) {
            put("EXIT_CODE", code);
            put("EXIT_STATUS", &status);
        }
    }
    if let Some(Value::Variables(variables)) = settings.get("Environment") {
        all.extend(variables.iter().cloned());
    }
    for file in settings.paths("EnvironmentFile") {
        variables_from(&file.path, file.optional, &mut all)?;
    }
    for unset in settings.texts("UnsetEnvironment") {
        match unset.split_once('=') {
            Some((name, value)) if all.get(name).is_some_and(|it| it == value) => {
                all.remove(name);
            }
            Some(_) => {}
            None => {
                all.remove(unset);
            }
        }
    }
    Ok(all)
}

/// The variables of a file, or of all that a pattern names, in their order.
fn variables_from(path: &str, optional: bool, all: &mut Environment) -> Result<(), Failure> {
    let wrong = |path: &str, error: &dyn std::fmt::Display| {
        let words = format!("EnvironmentFile={path}: {error}");
        Err(failure(1, words))
    };
    let paths = match path.contains(['*', '?', '[']) {
        true => super::facts::matching(path),
        false => vec![path.to_owned()],
    };
    if paths.is_empty() && !optional {
        return wrong(path, &"no file matches");
    }
    for path in paths {
        match variables_of(&path) {
            Ok(bytes) => all.extend(parse_file(&bytes).variables),
            Err(_) if optional => {}
            Err(error) => return wrong(&path, &error),
        }
    }
    Ok(())
}

/// A file of variables. The workload may own it: what isn't a file, or never ends, isn't read.
fn variables_of(path: &str) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    let refused = |words| io::Error::new(io::ErrorKind::InvalidInput, words);
    if !file.metadata()?.is_file() {
        return Err(refused("it isn't a file"));
    }
    let mut bytes = Vec::new();
    file.take(MOST_VARIABLES + 1).read_to_end(&mut bytes)?;
    match u64::try_from(bytes.len()) {
        Ok(0..=MOST_VARIABLES) => Ok(bytes),
        _ => Err(refused("it has more than a mebibyte")),
    }
}

/// The program's file: as it is, or as the search path has it.
fn found(program: &str) -> Result<String, Failure> {
    if program.starts_with('/') {
        return Ok(program.to_owned());
    }
    let mut places = DEFAULT_PATH
        .split(':')
        .map(|folder| format!("{folder}/{program}"));
    let place = places.find(|it| Path::new(it).is_file());
    place.ok_or_else(|| failure(203, format!("{program} is in no folder of {DEFAULT_PATH}")))
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

/// Names of variables, and what folders they say.
type Variables = Vec<(&'static str, String)>;

/// Makes the folders of a unit, and says what its variables are.
fn make_folders(
    settings: &Settings,
    account: &Account,
) -> Result<(Vec<Folder>, Variables), Failure> {
    let (mut made, mut variables) = (Vec::new(), Vec::new());
    for ((field, base, variable), status) in FOLDERS.into_iter().zip([233, 238, 239, 240, 241]) {
        let Some(Value::Binds(folders)) = settings.get(field) else {
            continue;
        };
        let mode = match settings.get(&format!("{field}Mode")) {
            Some(Value::Mode(mode)) => *mode,
            _ => 0o755,
        };
        let mut paths = Vec::new();
        for folder in folders {
            let path = format!("{base}/{}", folder.source);
            // systemd.exec(5): what is below /etc stays root's.
            let own = (field != "ConfigurationDirectory").then_some(account);
            make_folder(&path, mode, own)
                .map_err(|error| failure(status, format!("{field}: {path}: {error}")))?;
            made.push(Folder {
                source: path.clone(),
                target: path.clone(),
                field,
            });
            paths.push(path);
        }
        variables.push((variable, paths.join(":")));
    }
    Ok((made, variables))
}

/// Makes a folder, and those above it. Each step is taken from the folder before it, and none by a
/// symbolic link: whoever owns one of them can't lead rights to another place.
fn make_folder(path: &str, mode: u32, account: Option<&Account>) -> std::io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = openat(CWD, "/", flags, Mode::empty())?;
    for name in path.split('/').filter(|it| !it.is_empty()) {
        if matches!(name, "." | "..") {
            return Err(std::io::Error::other("leads to another place"));
        }
        match mkdirat(&folder, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let next = openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty());
        folder = next.map_err(|error| match error {
            Errno::LOOP | Errno::NOTDIR => std::io::Error::other("is no folder"),
            error => error.into(),
        })?;
    }
    fchmod(&folder, Mode::from_raw_mode(mode))?;
    if let Some(account) = account {
        let uid = account.user.as_ref().map(|it| Uid::from_raw(it.uid));
        fchown(&folder, uid, account.group.map(Gid::from_raw))?;
    }
    Ok(())
}

/// Removes what is a service's alone while it runs: its PID file, which would name a process of
/// somebody else's one day.
pub(crate) fn clear_pid_file(service: &Service) {
    if let Some(path) = &service.pid_file
        && let Err(error) = std::fs::remove_file(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(path, %error, "a PID file stays");
    }
}

/// Removes the folders below /run of a unit that is down.
pub(crate) fn clear(unit: &Unit) {
    if let Some(Value::Binds(folders)) = unit.settings.get("RuntimeDirectory") {
        for folder in folders {
            let path = format!("/run/{}", folder.source);
            if let Err(error) = std::fs::remove_dir_all(&path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(unit = %unit.id, path, %error, "a folder of a unit stays");
            }
        }
    }
}

/// Whether its folders below /run outlive it (`RuntimeDirectoryPreserve=`).
pub(crate) fn keeps_folders(settings: &Settings, restarts: bool) -> bool {
    let word = settings.word("RuntimeDirectoryPreserve");
    settings.flag("RuntimeDirectoryPreserve") == Some(true) || (word.is_some() && restarts)
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
