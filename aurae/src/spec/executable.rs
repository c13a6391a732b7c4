// SPDX-License-Identifier: Apache-2.0
//! Flags that describe an executable, for `run` and `exec`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use api::runtime::v0::{ExecutableSpec, LogPolicy, Rlimit};

use super::capabilities::CapabilityFlags;
use super::mount::parse_mode;
use super::property::{Property, parse_property};
use super::seccomp::SeccompFlags;
use super::{parse_pair, wire_duration};
use crate::failure::Failure;
use crate::quantity::{parse_bytes, parse_duration, parse_numbers};

/// `--label`, for cells and executables.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct LabelFlags {
    /// A label for selectors
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub(crate) label: Vec<(String, String)>,
}

impl LabelFlags {
    /// By key; the last one given counts.
    pub(crate) fn build(&self) -> BTreeMap<String, String> {
        self.label.iter().cloned().collect()
    }
}

/// How a program is run.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "The process")]
pub(crate) struct ExecutableFlags {
    /// A variable of its environment; KEY alone takes the value from yours
    #[arg(short, long, value_name = "KEY[=VALUE]")]
    env: Vec<String>,
    /// Variables from a file, KEY=VALUE a line
    #[arg(long, value_name = "FILE")]
    env_file: Vec<PathBuf>,
    /// Its user, by name or number, and its group: USER[:GROUP]
    #[arg(short, long, value_name = "USER[:GROUP]")]
    user: Option<String>,
    /// Its group, by name or number
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Supplementary groups
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    group_add: Vec<String>,
    /// Its working directory
    #[arg(short, long, value_name = "PATH")]
    workdir: Option<String>,
    /// Its umask, in octal (0022)
    #[arg(long, value_name = "OCTAL", value_parser = parse_mode)]
    umask: Option<u32>,
    /// A resource limit of setrlimit(2), as in nofile=1024:4096
    #[arg(long, value_name = "NAME=SOFT[:HARD]", value_parser = parse_rlimit)]
    ulimit: Vec<Rlimit>,
    /// Its nice value, -20 to 19
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    nice: Option<i32>,
    /// Its OOM score adjustment, -1000 to 1000
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    oom_score_adj: Option<i32>,
    /// The CPUs that it may run on, as in 0,2-3
    #[arg(long, value_name = "CPUS")]
    cpu_affinity: Option<String>,
    #[command(flatten)]
    capabilities: CapabilityFlags,
    /// Let exec raise privileges (setuid programs)
    #[arg(long)]
    allow_new_privileges: bool,
    #[command(flatten)]
    seccomp: SeccompFlags,
    /// Confine it by a profile of AppArmor's that the node has
    #[arg(long, value_name = "PROFILE")]
    apparmor: Option<String>,
    /// Run it with a label of SELinux's (administrators), as in
    /// system_u:system_r:container_t:s0
    #[arg(long, value_name = "LABEL")]
    selinux: Option<String>,
    /// The signal that asks it to end (SIGTERM)
    #[arg(long, value_name = "SIGNAL")]
    stop_signal: Option<String>,
    /// How long it has from that to SIGKILL (10s)
    #[arg(long, visible_alias = "stop-grace")]
    #[arg(value_name = "DURATION", value_parser = parse_duration)]
    stop_timeout: Option<Duration>,
    /// How much of its output is kept
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    log_max_size: Option<u64>,
    /// How long its output is kept
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    log_max_age: Option<Duration>,
    /// A property in systemd's words, as in MemoryMax=64M or Nice=5
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_property)]
    property: Vec<Property>,
}

impl ExecutableFlags {
    /// The specification, without what the command itself decides: terminal, stdin, resources,
    /// removal.
    pub(crate) fn build(&self, argv: &[String]) -> Result<ExecutableSpec, Failure> {
        let (user, group) = self.user_and_group();
        let affinity = self.cpu_affinity.as_deref().map(parse_numbers).transpose();
        let mut spec = ExecutableSpec {
            argv: argv.to_vec(),
            env: self.environment()?,
            cwd: self.workdir.clone().unwrap_or_default(),
            user,
            group,
            groups: self.group_add.clone(),
            umask: self.umask,
            rlimits: self.ulimit.clone(),
            nice: self.nice,
            oom_score_adj: self.oom_score_adj,
            cpu_affinity: affinity
                .map_err(|problem| Failure::usage(format!("--cpu-affinity: {problem}")))?
                .unwrap_or_default(),
            capabilities: self.capabilities.build(),
            no_new_privileges: self.allow_new_privileges.then_some(false),
            seccomp: self.seccomp.build()?,
            apparmor_profile: self.apparmor.clone().unwrap_or_default(),
            selinux_label: self.selinux.clone().unwrap_or_default(),
            stop_signal: self.stop_signal.clone().unwrap_or_default(),
            stop_grace: self.stop_timeout.map(wire_duration),
            logs: self.logs(),
            ..Default::default()
        };
        for property in &self.property {
            property.apply(&mut spec);
        }
        Ok(spec)
    }

    fn user_and_group(&self) -> (String, String) {
        let user = self.user.as_deref().unwrap_or_default();
        let (user, group) = user.split_once(':').unwrap_or((user, ""));
        let group = self.group.as_deref().unwrap_or(group);
        (user.to_owned(), group.to_owned())
    }

    fn logs(&self) -> Option<LogPolicy> {
        let policy = LogPolicy {
            max_bytes: self.log_max_size,
            max_age: self.log_max_age.map(wire_duration),
        };
        (policy != LogPolicy::default()).then_some(policy)
    }

    /// Files first, so that flags win.
    fn environment(&self) -> Result<BTreeMap<String, String>, Failure> {
        let mut env = BTreeMap::new();
        for file in &self.env_file {
            let text = std::fs::read_to_string(file).map_err(|problem| {
                Failure::usage(format!(
                    "--env-file: can't read {}: {problem}",
                    file.display()
                ))
            })?;
            for line in text.lines().map(str::trim_start) {
                if !line.is_empty() && !line.starts_with('#') {
                    add_variable(&mut env, line);
                }
            }
        }
        for variable in &self.env {
            if variable.starts_with('=') || variable.is_empty() {
                return Err(Failure::usage(format!(
                    "--env {variable}: write KEY or KEY=VALUE"
                )));
            }
            add_variable(&mut env, variable);
        }
        Ok(env)
    }
}

/// `KEY=VALUE`, or `KEY` with our own value; without one it is left out, as docker does.
fn add_variable(env: &mut BTreeMap<String, String>, text: &str) {
    match text.split_once('=') {
        Some((key, value)) => _ = env.insert(key.to_owned(), value.to_owned()),
        None => {
            if let Ok(value) = std::env::var(text) {
                env.insert(text.to_owned(), value);
            }
        }
    }
}

/// Parses `nofile=1024:4096`; one number is both; `unlimited` is none.
pub(crate) fn parse_rlimit(text: &str) -> Result<Rlimit, String> {
    let fail = || "write NAME=SOFT[:HARD], as in nofile=1024:4096 or core=unlimited".to_owned();
    let (name, values) = text.split_once('=').ok_or_else(fail)?;
    let (soft, hard) = values.split_once(':').unwrap_or((values, values));
    let limit = |text: &str| match text {
        "unlimited" | "infinity" | "-1" => Ok(None),
        _ => text.parse::<u64>().map(Some).map_err(|_| fail()),
    };
    if name.is_empty() {
        return Err(fail());
    }
    Ok(Rlimit {
        name: name.to_owned(),
        soft: limit(soft)?,
        hard: limit(hard)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_setrlimit() {
        let limit = parse_rlimit("nofile=1024:unlimited").unwrap();
        assert_eq!(
            (limit.name.as_str(), limit.soft, limit.hard),
            ("nofile", Some(1024), None)
        );
        for text in ["nofile", "=1", "nofile=x", "nofile=1:2:3"] {
            assert!(parse_rlimit(text).is_err(), "{text}");
        }
    }

    #[test]
    fn flags_win_over_files_and_a_key_alone_takes_our_value() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# comment\nA=1\nB=2\n\n").unwrap();
        let flags = ExecutableFlags {
            env: vec!["B=3".into(), "PATH".into(), "AURAE_TEST_UNSET".into()],
            env_file: vec![file.path().to_owned()],
            user: Some("www-data:adm".into()),
            ..Default::default()
        };
        let spec = flags.build(&["true".into()]).unwrap();
        let keys: Vec<_> = spec.env.keys().map(String::as_str).collect();
        assert_eq!(keys, ["A", "B", "PATH"]);
        assert_eq!(spec.env.get("B").map(String::as_str), Some("3"));
        assert_eq!(
            (spec.user.as_str(), spec.group.as_str()),
            ("www-data", "adm")
        );
    }
}
