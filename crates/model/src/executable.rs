// SPDX-License-Identifier: Apache-2.0
//! The spec of an executable, in three forms. A client's message becomes a [`Draft`]. The draft is
//! checked here and nowhere else, and becomes an [`ExecutableSpec`]. With every default filled in,
//! that becomes an [`Effective`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::capability::{Capabilities, CapabilitySet};
use crate::container::Defaults;
use crate::error::{Error, Result, Within};
use crate::launch::{Ending, Keyring, Personality, Scheduling, Streams};
use crate::resources::{MAX_CPUS, Resources};
use crate::rlimit::{self, Rlimit};
use crate::seccomp::Seccomp;
use crate::selinux;
use crate::signal::Signal;
use crate::text::{check_absolute_path, check_count, check_length, check_printable, weight};

/// The most that `argv` and `env` may take together in the executable's record, in bytes: 1.5 MiB.
/// `execve` takes 2 MiB where the stack may have its usual 8, and an answer with this twice, as
/// asked for and with all defaults, is no longer than the 4 MiB that gRPC clients read.
pub const MAX_PROGRAM_WEIGHT: usize = 1536 * 1024;
/// The longest argument, and the longest variable with its name, in bytes: what `execve` takes
/// (`MAX_ARG_STRLEN`) less the NUL.
pub const MAX_WORD: usize = 128 * 1024 - 1;
/// The most that `seccomp.custom` may take in the record, in bytes.
pub const MAX_FILTER_WEIGHT: usize = 48 * 1024;
/// The most that the names and lists of the rest of the spec may take, in bytes.
pub const MAX_REST_WEIGHT: usize = 8 * 1024;
/// The longest stop grace.
pub const MAX_STOP_GRACE: Duration = Duration::from_secs(3600);
/// The grace of a stop where the spec has none.
pub const DEFAULT_STOP_GRACE: Duration = Duration::from_secs(10);
/// `PATH` of a program whose environment has none.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The spec as a client sent it; no field is checked yet.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Draft {
    /// The program and its arguments.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub argv: Vec<String>,
    /// The environment as given.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub env: BTreeMap<String, String>,
    /// Variables of `env` whose texts are never shown. No client can say so.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub secret_env: BTreeSet<String>,
    /// The working directory, an absolute path in the cell. Empty: `/`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub cwd: String,
    /// A name, or a number. Empty: root of the cell.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub user: String,
    /// A name, or a number. Empty: the user's own.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub group: String,
    /// Supplementary groups: names of the cell's `/etc/group`, or numbers.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub groups: Vec<String>,
    /// File mode bits that new files lack.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub umask: Option<u32>,
    /// Limits of the process (`RLIMIT_*`), each name once.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub rlimits: Vec<Rlimit>,
    /// -20 (first) to 19 (last). `None`: 0.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub nice: Option<i32>,
    /// -1000 (never killed) to 1000 (killed first). `None`: 0.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub oom_score_adj: Option<i32>,
    /// CPU numbers; empty: all.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub cpu_affinity: Vec<u32>,
    /// `None`: the default set of container runtimes.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub capabilities: Option<Capabilities>,
    /// Exec never grants new privileges. `None`: true.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub no_new_privileges: Option<bool>,
    /// The system calls that it may use.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub seccomp: Seccomp,
    /// A terminal instead of pipes.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub terminal: Option<Terminal>,
    /// Keep standard input open for Attach.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub stdin: bool,
    /// A name or number. Empty: SIGTERM.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub stop_signal: String,
    /// From the stop signal to SIGKILL.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub stop_grace: Option<Duration>,
    /// Limits of this executable alone.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub resources: Resources,
    /// Remove the record and the logs once it has ended.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub auto_remove: bool,
    /// How much output is kept.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub logs: LogPolicy,
    /// The main process of its container: PID 1 there, and what the image says is its default.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub main: bool,
    /// Of a main process: in place of the image's entrypoint and arguments.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub entrypoint: Vec<String>,
    /// The file to execute, where `argv[0]` is but the name that the program sees. Empty:
    /// `argv[0]`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub program: String,
    /// Where `cwd` can't be entered, the program begins in `/`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub cwd_optional: bool,
    /// Which process is the main one, and what a stop does to the others.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub ending: Ending,
    /// Where the standard streams lead.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub streams: Streams,
    /// How its threads get the processor and the disks.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub scheduling: Scheduling,
    /// A write to a pipe without readers fails, and doesn't kill.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub ignore_sigpipe: bool,
    /// Its session keyring.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub keyring: Keyring,
    /// The kernel that it believes to run on.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub personality: Personality,
    /// The profile of AppArmor's that confines it. Empty: none; beside a main process, that one's.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub apparmor_profile: String,
    /// The label of SELinux's that it runs with. Empty: what the policy says; beside a main
    /// process, that one's.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub selinux_label: String,
}

/// A terminal's size, in characters; 0: the default, 24 × 80.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Terminal {
    /// Lines on the screen.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

/// How much output is kept. `None`: the node's default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LogPolicy {
    /// Of both streams together, in bytes. `None`: the node's default.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub max_bytes: Option<u64>,
    /// Output older than this is removed. `None`: the node's default.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub max_age: Option<Duration>,
}

/// A user or group: by number, or by a name of the cell's own files.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Principal {
    /// An id of the cell's user namespace.
    Id(u32),
    /// A user or a group of the cell's `/etc`.
    Name(String),
}

impl std::fmt::Display for Principal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Principal::Id(id) => write!(f, "{id}"),
            Principal::Name(name) => f.write_str(name),
        }
    }
}

/// A checked draft, as sent. It reads like one; to change it, take the draft, change that, check
/// again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "Draft", try_from = "Draft")]
pub struct ExecutableSpec(Draft);

impl Deref for ExecutableSpec {
    type Target = Draft;

    fn deref(&self) -> &Draft {
        &self.0
    }
}

impl From<ExecutableSpec> for Draft {
    fn from(spec: ExecutableSpec) -> Draft {
        spec.0
    }
}

impl TryFrom<Draft> for ExecutableSpec {
    type Error = Error;

    fn try_from(draft: Draft) -> Result<Self> {
        check_program(&draft)?;
        resolve(&draft)?;
        check_rest(&draft)?;
        Ok(Self(draft))
    }
}

/// A spec with every default filled in, and every name that needs no look into a cell resolved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Effective {
    /// The program and its arguments; at least one.
    pub argv: Vec<String>,
    /// As given, with PATH (and TERM with a terminal) where absent. HOME, USER, LOGNAME and SHELL
    /// depend on the cell's own files and are filled in there.
    pub env: BTreeMap<String, String>,
    /// The working directory, an absolute path in the cell.
    pub cwd: String,
    /// The user that it runs as.
    pub user: Principal,
    /// `None`: the user's own.
    pub group: Option<Principal>,
    /// Supplementary groups of the process.
    pub groups: Vec<Principal>,
    /// The file mode creation mask, at most 0o777.
    pub umask: u32,
    /// `RLIMIT_*` number, soft, hard; `u64::MAX` is unlimited.
    pub rlimits: Vec<(u8, u64, u64)>,
    /// -20 (first) to 19 (last).
    pub nice: i8,
    /// -1000 (never killed) to 1000 (killed first).
    pub oom_score_adj: i16,
    /// CPU numbers in ascending order; empty: all that the cell has.
    pub cpu_affinity: Vec<u32>,
    /// The capabilities that the process may ever gain.
    pub bounding: CapabilitySet,
    /// The capabilities that a process without root's uid keeps across exec.
    pub ambient: CapabilitySet,
    /// No exec may raise privileges.
    pub no_new_privileges: bool,
    /// The filter as given, with its error number filled in.
    pub seccomp: Seccomp,
    /// The errno of a refused system call.
    pub seccomp_errno: u16,
    /// The terminal, with its size filled in.
    pub terminal: Option<Terminal>,
    /// Keep standard input open.
    pub stdin: bool,
    /// The first signal of a stop.
    pub stop_signal: Signal,
    /// The time from that signal to SIGKILL.
    pub stop_grace: Duration,
    /// Limits of the executable, as given.
    pub resources: Resources,
    /// Remove everything once it has ended.
    pub auto_remove: bool,
    /// The retention of its output, with the node's defaults filled in.
    pub logs: LogPolicy,
    /// It is the main process of its container.
    pub main: bool,
    /// The groups that the cell's own /etc/group lists its user in are its, too.
    pub member: bool,
    /// The file to execute; `None`: as `argv[0]` says.
    pub program: Option<String>,
    /// Where `cwd` can't be entered, the program begins in `/`.
    pub cwd_optional: bool,
    /// Which process is the main one, and what a stop does to the others; defaults filled in.
    pub ending: Ending,
    /// The signal at the end of the grace.
    pub final_signal: Signal,
    /// Where the standard streams lead.
    pub streams: Streams,
    /// How its threads get the processor and the disks.
    pub scheduling: Scheduling,
    /// A write to a pipe without readers fails, and doesn't kill.
    pub ignore_sigpipe: bool,
    /// Its session keyring.
    pub keyring: Keyring,
    /// The kernel that it believes to run on.
    pub personality: Personality,
    /// The profile of AppArmor's that confines it; empty: none.
    pub apparmor_profile: String,
    /// The label of SELinux's that it runs with; empty: what the policy says.
    pub selinux_label: String,
}

impl ExecutableSpec {
    /// Fills in every default; `logs` are the node's.
    pub fn effective(&self, logs: LogPolicy) -> Effective {
        effective(self.0.clone(), logs)
    }

    /// The same in a container, where what its image says is the default. The set-id bits of
    /// programs count there, as in Docker: its users are none of the node's.
    ///
    /// # Errors
    /// `INVALID_FIELD` where the image and the spec together make no program, or where the image
    /// says what can't be (`user`, `cwd`, `stop_signal`).
    pub fn effective_in(&self, logs: LogPolicy, image: &Defaults) -> Result<Effective> {
        let mut draft = self.0.clone();
        if draft.main {
            draft.argv = image.program(&draft.entrypoint, &draft.argv);
            draft.entrypoint = Vec::new();
        }
        for (name, value) in &image.env {
            let env = draft.env.entry(name.clone());
            env.or_insert_with(|| value.clone());
        }
        if draft.user.is_empty() {
            draft.user = image.user.clone();
            draft.group = or_default(draft.group, &image.group);
            if draft.groups.is_empty() {
                draft.groups = image.groups.clone();
            }
        }
        draft.cwd = or_default(draft.cwd, &image.cwd);
        draft.stop_signal = or_default(draft.stop_signal, &image.stop_signal);
        draft.apparmor_profile = or_default(draft.apparmor_profile, &image.apparmor_profile);
        draft.selinux_label = or_default(draft.selinux_label, &image.selinux_label);
        draft.capabilities = draft.capabilities.or_else(|| image.capabilities.clone());
        if draft.seccomp == Seccomp::default() {
            draft.seccomp = image.seccomp.clone();
        }
        let privileges = draft.no_new_privileges.or(image.no_new_privileges);
        draft.no_new_privileges = privileges.or(Some(false));
        if draft.argv.first().is_none_or(String::is_empty) {
            let problem = "must name a program: the image of this cell names none";
            return Err(Error::invalid("argv", problem));
        }
        let member = draft.group.is_empty();
        let mut effective = effective(Self::try_from(draft)?.0, logs);
        effective.member = member;
        Ok(effective)
    }
}

fn effective(draft: Draft, logs: LogPolicy) -> Effective {
    // A spec is checked, so that resolving it again can't fail; were it otherwise, the empty
    // defaults of `Resolved` would grant nothing.
    let resolved = resolve(&draft).unwrap_or_default();
    let terminal = draft.terminal.map(Terminal::or_default);
    Effective {
        env: complete_env(draft.env, terminal.is_some()),
        cwd: or_default(draft.cwd, "/"),
        user: resolved.user.unwrap_or(Principal::Id(0)),
        group: resolved.group,
        groups: resolved.groups,
        umask: draft.umask.unwrap_or(0o022),
        rlimits: resolved.rlimits,
        nice: resolved.nice,
        oom_score_adj: resolved.oom_score_adj,
        cpu_affinity: resolved.cpu_affinity,
        bounding: resolved.bounding,
        ambient: resolved.ambient,
        no_new_privileges: draft.no_new_privileges.unwrap_or(true),
        seccomp: draft.seccomp.with_errno(resolved.seccomp_errno),
        seccomp_errno: resolved.seccomp_errno,
        terminal,
        stdin: draft.stdin,
        stop_signal: resolved.stop_signal.unwrap_or(Signal::TERM),
        stop_grace: draft.stop_grace.unwrap_or(DEFAULT_STOP_GRACE),
        resources: draft.resources,
        auto_remove: draft.auto_remove,
        logs: LogPolicy {
            max_bytes: draft.logs.max_bytes.or(logs.max_bytes),
            max_age: draft.logs.max_age.or(logs.max_age),
        },
        main: draft.main,
        member: false,
        program: Some(draft.program).filter(|program| !program.is_empty()),
        cwd_optional: draft.cwd_optional,
        final_signal: draft.ending.final_signal().unwrap_or(Signal::KILL),
        ending: draft.ending.effective(),
        streams: draft.streams,
        scheduling: draft.scheduling,
        ignore_sigpipe: draft.ignore_sigpipe,
        keyring: draft.keyring,
        personality: draft.personality,
        apparmor_profile: draft.apparmor_profile,
        selinux_label: draft.selinux_label,
        argv: draft.argv,
    }
}

impl Effective {
    /// The same values as a draft, to be shown.
    pub fn to_draft(&self) -> Draft {
        let unlimited = |n: u64| (n != u64::MAX).then_some(n);
        let rlimit = |&(number, soft, hard): &(u8, u64, u64)| Rlimit {
            name: rlimit::name(number).to_owned(),
            soft: unlimited(soft),
            hard: unlimited(hard),
        };
        Draft {
            secret_env: BTreeSet::new(),
            argv: self.argv.clone(),
            env: self.env.clone(),
            cwd: self.cwd.clone(),
            user: self.user.to_string(),
            group: self
                .group
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            groups: self.groups.iter().map(ToString::to_string).collect(),
            umask: Some(self.umask),
            rlimits: self.rlimits.iter().map(rlimit).collect(),
            nice: Some(self.nice.into()),
            oom_score_adj: Some(self.oom_score_adj.into()),
            cpu_affinity: self.cpu_affinity.clone(),
            capabilities: Some(Capabilities {
                bounding: self.bounding.names(),
                ambient: self.ambient.names(),
            }),
            no_new_privileges: Some(self.no_new_privileges),
            seccomp: self.seccomp.clone(),
            terminal: self.terminal,
            stdin: self.stdin,
            stop_signal: self.stop_signal.to_string(),
            stop_grace: Some(self.stop_grace),
            resources: self.resources.clone(),
            auto_remove: self.auto_remove,
            logs: self.logs,
            main: self.main,
            entrypoint: Vec::new(),
            program: self.program.clone().unwrap_or_default(),
            cwd_optional: self.cwd_optional,
            ending: self.ending.clone(),
            streams: self.streams.clone(),
            scheduling: self.scheduling,
            ignore_sigpipe: self.ignore_sigpipe,
            keyring: self.keyring,
            personality: self.personality,
            apparmor_profile: self.apparmor_profile.clone(),
            selinux_label: self.selinux_label.clone(),
        }
    }

    /// What an executable beside this one, the main process of its container, has by default.
    pub fn defaults_beside(&self) -> Defaults {
        Defaults {
            env: self.env.clone(),
            user: self.user.to_string(),
            group: self
                .group
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            groups: self.groups.iter().map(ToString::to_string).collect(),
            cwd: self.cwd.clone(),
            apparmor_profile: self.apparmor_profile.clone(),
            selinux_label: self.selinux_label.clone(),
            ..Defaults::default()
        }
    }
}

impl Terminal {
    fn or_default(self) -> Self {
        let or = |n: u16, default| if n == 0 { default } else { n };
        Self {
            rows: or(self.rows, 24),
            columns: or(self.columns, 80),
        }
    }
}

fn or_default(text: String, default: &str) -> String {
    if text.is_empty() {
        default.to_owned()
    } else {
        text
    }
}

fn complete_env(mut env: BTreeMap<String, String>, terminal: bool) -> BTreeMap<String, String> {
    let mut add = |name: &str, value: &str| {
        env.entry(name.to_owned())
            .or_insert_with(|| value.to_owned());
    };
    add("PATH", DEFAULT_PATH);
    if terminal {
        add("TERM", "xterm");
    }
    env
}

/// `argv` and `env`: no NUL, names without `=`, and together small enough for the record.
fn check_program(draft: &Draft) -> Result<()> {
    if !draft.main && !draft.entrypoint.is_empty() {
        let problem = "has a meaning only for the main process of a container";
        return Err(Error::invalid("entrypoint", problem).hint("set main as well, or use argv"));
    }
    if !draft.main && draft.argv.first().is_none_or(String::is_empty) {
        return Err(Error::invalid("argv", "must begin with a program"));
    }
    check_program_weight(draft)?;
    let nul = "contains a NUL byte, which no program can be given";
    for (field, list) in [("argv", &draft.argv), ("entrypoint", &draft.entrypoint)] {
        for (i, word) in list.iter().enumerate() {
            check_length(&format!("{field}[{i}]"), word, MAX_WORD).map_err(by_file)?;
            if word.contains('\0') {
                return Err(Error::invalid(format!("{field}[{i}]"), nul));
            }
        }
    }
    for (name, value) in &draft.env {
        let at = || format!("env[{:?}]", name.chars().take(80).collect::<String>());
        if name.is_empty() || name.contains('=') {
            return Err(Error::invalid(at(), "must have a name without '='"));
        }
        check_printable("", name).within(&at())?;
        if value.contains('\0') {
            return Err(Error::invalid(at(), nul));
        }
        let size = name.len() + 1 + value.len();
        if size > MAX_WORD {
            let problem = format!("has {size} bytes with its name; at most {MAX_WORD} are allowed");
            return Err(by_file(Error::invalid(at(), problem)));
        }
    }
    Ok(())
}

fn by_file(error: Error) -> Error {
    error.hint("put large inputs into a file or a volume, or send them on standard input")
}

/// The fields whose names were looked up.
#[derive(Default)]
struct Resolved {
    user: Option<Principal>,
    group: Option<Principal>,
    groups: Vec<Principal>,
    rlimits: Vec<(u8, u64, u64)>,
    nice: i8,
    oom_score_adj: i16,
    cpu_affinity: Vec<u32>,
    bounding: CapabilitySet,
    ambient: CapabilitySet,
    seccomp_errno: u16,
    stop_signal: Option<Signal>,
}

fn resolve(draft: &Draft) -> Result<Resolved> {
    let (bounding, ambient) = match &draft.capabilities {
        None => (CapabilitySet::container_default(), CapabilitySet::default()),
        Some(given) => given.resolve().within("capabilities")?,
    };
    check_count("groups", draft.groups.len(), 32)?;
    check_count("rlimits", draft.rlimits.len(), 16)?;
    let groups = draft.groups.iter().enumerate();
    Ok(Resolved {
        user: principal("user", &draft.user)?,
        group: principal("group", &draft.group)?,
        groups: groups
            .map(|(i, text)| {
                let field = format!("groups[{i}]");
                principal(&field, text)?.ok_or_else(|| Error::invalid(field, "must not be empty"))
            })
            .collect::<Result<_>>()?,
        rlimits: rlimit::resolve_all(&draft.rlimits)?,
        nice: bounded("nice", draft.nice, -20, 19)?,
        oom_score_adj: bounded("oom_score_adj", draft.oom_score_adj, -1000, 1000)?,
        cpu_affinity: affinity(&draft.cpu_affinity)?,
        bounding,
        ambient,
        seccomp_errno: draft.seccomp.resolve_errno().within("seccomp")?,
        stop_signal: match draft.stop_signal.as_str() {
            "" => None,
            text => Some(text.parse::<Signal>().within("stop_signal")?),
        },
    })
}

fn principal(field: &str, text: &str) -> Result<Option<Principal>> {
    if text.is_empty() {
        return Ok(None);
    }
    check_length(field, text, 64)?;
    if text.bytes().all(|b| b.is_ascii_digit()) {
        // The last number means "no change" to the kernel.
        return match text.parse::<u32>() {
            Ok(id) if id != u32::MAX => Ok(Some(Principal::Id(id))),
            _ => Err(Error::invalid(field, "must be below 4294967295")),
        };
    }
    let good = |b: u8| b.is_ascii_alphanumeric() || b"_.-$@".contains(&b);
    if text.starts_with('-') || !text.bytes().all(good) {
        let problem = "must be a number, or a name of letters, digits, '_', '.', '-'";
        return Err(Error::invalid(field, problem));
    }
    Ok(Some(Principal::Name(text.to_owned())))
}

fn bounded<T: TryFrom<i32> + Default>(
    field: &str,
    value: Option<i32>,
    least: i32,
    most: i32,
) -> Result<T> {
    let Some(value) = value else {
        return Ok(T::default());
    };
    let fail = || {
        Error::invalid(
            field,
            format!("is {value}; it must be from {least} to {most}"),
        )
    };
    if !(least..=most).contains(&value) {
        return Err(fail());
    }
    T::try_from(value).map_err(|_| fail())
}

fn affinity(cpus: &[u32]) -> Result<Vec<u32>> {
    check_count("cpu_affinity", cpus.len(), 512)?;
    if let Some(i) = cpus.iter().position(|cpu| *cpu >= MAX_CPUS) {
        let problem = format!("must be below {MAX_CPUS}");
        return Err(Error::invalid(format!("cpu_affinity[{i}]"), problem));
    }
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    Ok(sorted)
}

/// Everything but the program: bounds of single fields, then the size together.
fn check_rest(draft: &Draft) -> Result<()> {
    if !draft.cwd.is_empty() {
        check_absolute_path("cwd", &draft.cwd)?;
    }
    if draft.umask.is_some_and(|mask| mask > 0o777) {
        return Err(Error::invalid("umask", "must be from 0 to 0o777"));
    }
    if draft.stop_grace.is_some_and(|grace| grace > MAX_STOP_GRACE) {
        return Err(Error::invalid("stop_grace", "must be at most 1 h"));
    }
    if draft.logs.max_bytes.is_some_and(|bytes| bytes < 4096) {
        return Err(Error::invalid("logs.max_bytes", "must be at least 4096"));
    }
    draft.resources.check().within("resources")?;
    check_launch(draft)?;
    let size = rest_weight(draft);
    if size > MAX_REST_WEIGHT {
        let problem = format!(
            "takes {size} bytes beside argv and env; at most {MAX_REST_WEIGHT} are allowed"
        );
        return Err(Error::invalid("", problem)
            .hint("name groups of system calls instead of single ones, and CPUs as cpuset"));
    }
    Ok(())
}

/// What services of a machine have beside it.
fn check_launch(draft: &Draft) -> Result<()> {
    check_length("program", &draft.program, 4095)?;
    if draft.program.contains('\0') {
        return Err(Error::invalid("program", "contains a NUL byte"));
    }
    check_length("apparmor_profile", &draft.apparmor_profile, 255)?;
    check_printable("apparmor_profile", &draft.apparmor_profile)?;
    selinux::check("selinux_label", &draft.selinux_label)?;
    if !draft.apparmor_profile.is_empty() && !draft.selinux_label.is_empty() {
        let problem = "has no meaning beside apparmor_profile: a kernel uses one of the two";
        return Err(Error::invalid("selinux_label", problem));
    }
    draft.ending.check().within("ending")?;
    let (terminal, stdin) = (draft.terminal.is_some(), draft.stdin);
    draft.streams.check(terminal, stdin).within("streams")?;
    draft.scheduling.check().within("scheduling")?;
    if draft.main && draft.ending.main_process.forks() {
        let problem = "is the executed process in a container, whose PID 1 that is";
        return Err(Error::invalid("ending.main_process", problem));
    }
    Ok(())
}

/// Arguments and variables have one bound together, in the record; a filter has its own.
fn check_program_weight(draft: &Draft) -> Result<()> {
    let program = || draft.entrypoint.iter().chain(&draft.argv);
    let arguments: usize = program().map(|a| weight(a) + 1).sum();
    let env: usize = draft
        .env
        .iter()
        .map(|(k, v)| weight(k) + weight(v) + 2)
        .sum();
    if arguments + env > MAX_PROGRAM_WEIGHT {
        let field = if env > arguments { "env" } else { "argv" };
        let problem = format!(
            "is too large: argv takes {arguments} bytes and env {env}, with what each element \
             costs in the record; together at most {MAX_PROGRAM_WEIGHT} are allowed"
        );
        return Err(by_file(Error::invalid(field, problem)));
    }
    let filter = weight(&draft.seccomp.custom);
    if filter > MAX_FILTER_WEIGHT {
        let problem =
            format!("takes {filter} bytes in the record; at most {MAX_FILTER_WEIGHT} are allowed");
        return Err(Error::invalid("seccomp.custom", problem));
    }
    Ok(())
}

fn rest_weight(draft: &Draft) -> usize {
    let texts = |list: &[String]| list.iter().map(|t| weight(t) + 1).sum::<usize>();
    let capabilities = draft.capabilities.as_ref();
    let devices = draft
        .resources
        .io
        .max
        .iter()
        .map(|m| weight(&m.device) + 200);
    weight(&draft.cwd)
        + texts(&draft.groups)
        + texts(&draft.seccomp.allow)
        + texts(&draft.seccomp.deny)
        + capabilities.map_or(0, |c| texts(&c.bounding) + texts(&c.ambient))
        + draft.cpu_affinity.len() * 5
        + draft.rlimits.len() * 90
        + devices.sum::<usize>()
        + weight(&draft.resources.cpu.cpus)
        + weight(&draft.resources.cpu.mems)
        + draft.resources.unified_weight()
        + weight(&draft.program)
        + weight(&draft.apparmor_profile)
        + weight(&draft.selinux_label)
        + draft.ending.weight()
        + draft.streams.weight()
}
