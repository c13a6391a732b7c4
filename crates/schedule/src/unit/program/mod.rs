// SPDX-License-Identifier: Apache-2.0
//! A command of a unit as a program of the runtime: words, variables, user, limits, and the folders
//! that are made for it (systemd.exec(5)). Blocks: it reads the machine's files.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use model::capability::{Capabilities, CapabilitySet};
use model::executable::{DEFAULT_PATH, Draft, ExecutableSpec, MAX_STOP_GRACE};
use model::resources::Resources;
use model::rlimit::Rlimit;
use model::seccomp::{Profile, Seccomp};
use rustix::fs::{CWD, Gid, Mode, OFlags, Uid, fchmod, fchown, mkdirat, openat};
use rustix::io::Errno;
use units::exec::environment::{Environment, parse_file};
use units::exec::{Command, Privileges, expand};
use units::service::Service;
use units::unit::{Settings, Unit};
use units::value::{Limit, Value};

use super::accounts::{self, User};
use super::honour::as_user;
use super::steps::{End, Outcome, Phase, Step};

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
) -> Result<ExecutableSpec, Failure> {
    let settings = &unit.settings;
    let commands = settings.commands(step.phase.directive());
    let command = commands.get(step.index);
    let command = command.ok_or_else(|| failure(203, "there is no such command"))?;
    let account = Account::of(settings)?;
    let folders = make_folders(settings, &account)?;
    let environment = environment(settings, &account, folders, step.phase, told)?;
    let mut argv = expand::argv(command, &environment).map_err(|e| failure(203, e))?;
    if let Some(first) = argv.first_mut() {
        *first = found(&command.program)?;
    }
    let mut draft = Draft {
        argv,
        env: environment,
        cwd: directory(settings, &account)?,
        stop_signal: service.kill.signal.to_string(),
        stop_grace: Some(grace(service)),
        ..Draft::default()
    };
    restrict(&mut draft, settings, command, &account);
    draft.rlimits = limits(settings);
    draft.resources = resources(settings);
    let number = |field: &str| settings.number(field).and_then(|it| i32::try_from(it).ok());
    draft.nice = number("Nice");
    draft.oom_score_adj = number("OOMScoreAdjust");
    if let Some(Value::Mode(mode)) = settings.get("UMask") {
        draft.umask = Some(*mode);
    }
    if let Some(Value::Indices(cpus)) = settings.get("CPUAffinity") {
        draft.cpu_affinity = cpus.iter().copied().collect();
    }
    draft
        .try_into()
        .map_err(|e: model::error::Error| failure(203, e.to_string()))
}

/// From the stop signal to SIGKILL, as far as the runtime lets it.
pub(crate) fn grace(service: &Service) -> Duration {
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

/// Its user, its capabilities: without a directive what an init gives, which is everything.
fn restrict(draft: &mut Draft, settings: &Settings, command: &Command, account: &Account) {
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
    let ambient = set("AmbientCapabilities").filter(|_| user).unwrap_or(0) & bounding;
    draft.capabilities = Some(Capabilities {
        bounding: names(bounding),
        ambient: names(ambient),
    });
    let no_new = settings.flag("NoNewPrivileges").unwrap_or(false);
    draft.no_new_privileges = Some(no_new && !full);
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
    folders: Vec<(&'static str, String)>,
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
        match variables_of(&file.path) {
            Ok(bytes) => all.extend(parse_file(&bytes).variables),
            Err(_) if file.optional => {}
            Err(error) => {
                let words = format!("EnvironmentFile={}: {error}", file.path);
                return Err(failure(1, words));
            }
        }
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

/// Makes the folders of a unit, and says what its variables are.
fn make_folders(
    settings: &Settings,
    account: &Account,
) -> Result<Vec<(&'static str, String)>, Failure> {
    let mut variables = Vec::new();
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
            paths.push(path);
        }
        variables.push((variable, paths.join(":")));
    }
    Ok(variables)
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

fn resources(settings: &Settings) -> Resources {
    let mut all = Resources::default();
    let of = |field: &str| match settings.limit(field) {
        Some(Limit::Of(amount)) => Some(amount),
        Some(Limit::Share(share)) => memory_share(share),
        Some(Limit::Infinity) | None => None,
    };
    all.memory.max = of("MemoryMax");
    all.memory.high = of("MemoryHigh");
    all.pids_max = match settings.limit("TasksMax") {
        Some(Limit::Of(count)) => Some(count),
        Some(Limit::Share(share)) => tasks_share(share),
        _ => None,
    };
    all.cpu.weight = match settings.limit("CPUWeight") {
        Some(Limit::Of(weight)) if weight > 0 => Some(weight),
        _ => None,
    };
    if let Some(Value::Quota(Some(share))) = settings.get("CPUQuota") {
        // Hundredths of a percent of one processor, in each 100 ms.
        all.cpu.quota = Some(Duration::from_micros(share.saturating_mul(10)));
    }
    all
}

fn memory_share(share: u32) -> Option<u64> {
    use units::condition::Facts;
    let all = super::facts::Machine.number("memory")?;
    Some(all / 10_000 * u64::from(share))
}

fn tasks_share(share: u32) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/sys/kernel/pid_max").ok()?;
    let all: u64 = text.trim().parse().ok()?;
    Some(all * u64::from(share) / 10_000)
}

#[cfg(test)]
mod tests;
