// SPDX-License-Identifier: Apache-2.0
//! Conditions and assertions, decided from what a machine says of itself (systemd.unit(5),
//! "Conditions and asserts"). A failed condition skips a unit, a failed assertion fails it: that is
//! the caller's.

mod compare;

use compare::{Comparison, version};

use crate::finding::shown;
use crate::glob;
use crate::value::Condition;
use crate::value::scalar::{boolean, size};

/// What a path may be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathTest {
    /// It is there.
    Exists,
    /// Something is there that the pattern matches.
    GlobExists,
    /// It is a folder.
    IsDirectory,
    /// It is a symbolic link.
    IsSymbolicLink,
    /// It is a mount point.
    IsMountPoint,
    /// What it is on is mounted writable.
    IsReadWrite,
    /// What it is on is encrypted.
    IsEncrypted,
    /// It is a folder with something in it.
    DirectoryNotEmpty,
    /// It is a file that isn't empty.
    FileNotEmpty,
    /// It is a file that may be executed.
    FileIsExecutable,
    /// It is older than /usr.
    NeedsUpdate,
}

/// What a machine runs in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Virtualization {
    /// `kvm`, `docker` and so on, as systemd-detect-virt(1) says.
    pub name: String,
    /// Whether it is a container, not a machine.
    pub container: bool,
}

/// What is asked of a machine. Each answer is `None` where it can't be found out; the condition
/// doesn't hold then.
pub trait Facts {
    /// Of a path.
    fn path(&self, test: PathTest, path: &str) -> Option<bool>;
    /// A text: `architecture`, `kernel-release`, `machine-id`, `host-name`, `firmware`, `user` (its
    /// number), `group`.
    fn text(&self, what: &str) -> Option<String>;
    /// A number: `memory` in bytes, `cpus`.
    fn number(&self, what: &str) -> Option<u64>;
    /// Whether a list has a word: `security`, `capability`, `cpu-feature`, `controller`,
    /// `credential`, `users-name`, `groups-name`.
    fn has(&self, what: &str, word: &str) -> Option<bool>;
    /// What it runs in; `Some(None)` is bare metal.
    fn virtualization(&self) -> Option<Option<Virtualization>>;
    /// The words of the kernel's command line.
    fn command_line(&self) -> Option<Vec<String>>;
    /// A variable of the manager's environment.
    fn environment(&self, name: &str) -> Option<String>;
    /// A field of os-release.
    fn os_release(&self, field: &str) -> Option<String>;
    /// Whether it is on mains.
    fn on_mains(&self) -> Option<bool>;
    /// Whether it boots for the first time.
    fn first_boot(&self) -> Option<bool>;
    /// The pressure of a resource (`memory`, `cpu`, `io`) over the last 5 minutes, in hundredths of
    /// a percent, of a slice or all.
    fn pressure(&self, resource: &str, slice: Option<&str>) -> Option<u64>;
}

/// What a list of conditions comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All hold.
    Holds,
    /// Not so: the first one that doesn't, as a person writes it.
    Fails(String),
}

/// All without `|` must hold, and one of those with it where there are any.
pub fn evaluate(conditions: &[Condition], facts: &dyn Facts) -> Verdict {
    let mut triggers = Vec::new();
    let mut triggered = false;
    for condition in conditions {
        let holds = test(condition, facts).is_ok_and(|it| it != condition.negated);
        if condition.triggering {
            triggered |= holds;
            triggers.push(condition);
        } else if !holds {
            return Verdict::Fails(written(condition));
        }
    }
    match triggers.first() {
        Some(first) if !triggered => Verdict::Fails(written(first)),
        _ => Verdict::Holds,
    }
}

fn written(condition: &Condition) -> String {
    let trigger = if condition.triggering { "|" } else { "" };
    let negation = if condition.negated { "!" } else { "" };
    format!(
        "{}={trigger}{negation}{}",
        condition.test, condition.parameter
    )
}

/// The names of the tests of paths.
const PATHS: [(&str, PathTest); 11] = [
    ("PathExists", PathTest::Exists),
    ("PathExistsGlob", PathTest::GlobExists),
    ("PathIsDirectory", PathTest::IsDirectory),
    ("PathIsSymbolicLink", PathTest::IsSymbolicLink),
    ("PathIsMountPoint", PathTest::IsMountPoint),
    ("PathIsReadWrite", PathTest::IsReadWrite),
    ("PathIsEncrypted", PathTest::IsEncrypted),
    ("DirectoryNotEmpty", PathTest::DirectoryNotEmpty),
    ("FileNotEmpty", PathTest::FileNotEmpty),
    ("FileIsExecutable", PathTest::FileIsExecutable),
    ("NeedsUpdate", PathTest::NeedsUpdate),
];

/// Whether one test holds, its `!` aside.
///
/// # Errors
/// It can't be found out, or the parameter is none.
pub fn test(condition: &Condition, facts: &dyn Facts) -> Result<bool, String> {
    let parameter = &*condition.parameter;
    let unknown = || format!("{} can't be found out", condition.test);
    let has = |list: &str| facts.has(list, parameter).ok_or_else(unknown);
    if let Some((_, of)) = PATHS.iter().find(|(name, _)| *name == condition.test) {
        return facts.path(*of, parameter).ok_or_else(unknown);
    }
    match condition.test {
        "FirstBoot" => Ok(facts.first_boot().ok_or_else(unknown)? == boolean(parameter)?),
        "ACPower" => Ok(facts.on_mains().ok_or_else(unknown)? == boolean(parameter)?),
        "Architecture" => {
            let own = facts.text("architecture").ok_or_else(unknown)?;
            Ok(parameter == "native" || own == parameter)
        }
        "Firmware" => Ok(facts.text("firmware").ok_or_else(unknown)? == parameter),
        "Virtualization" => virtualization(parameter, facts).ok_or_else(unknown),
        "Host" => host(parameter, facts).ok_or_else(unknown),
        "KernelCommandLine" => {
            let words = facts.command_line().ok_or_else(unknown)?;
            Ok(words.iter().any(|word| on_command_line(word, parameter)))
        }
        "KernelVersion" => {
            let own = facts.text("kernel-release").ok_or_else(unknown)?;
            version(&own, parameter)
        }
        "OSRelease" => os_release(parameter, facts),
        "Credential" => has("credential"),
        "Security" => has("security"),
        "Capability" => has("capability"),
        "CPUFeature" => has("cpu-feature"),
        "ControlGroupController" => controllers(parameter, facts).ok_or_else(unknown),
        "Memory" => {
            let (how, rest) = Comparison::before(parameter, Comparison::AtLeast);
            Ok(how.holds(
                facts
                    .number("memory")
                    .ok_or_else(unknown)?
                    .cmp(&size(rest, 1024)?),
            ))
        }
        "CPUs" => {
            let (how, rest) = Comparison::before(parameter, Comparison::AtLeast);
            let wanted: u64 = rest
                .parse()
                .map_err(|_| format!("{} is no number", shown(rest)))?;
            Ok(how.holds(facts.number("cpus").ok_or_else(unknown)?.cmp(&wanted)))
        }
        "Environment" => Ok(match parameter.split_once('=') {
            Some((name, value)) => facts.environment(name).is_some_and(|it| it == value),
            None => facts.environment(parameter).is_some(),
        }),
        "User" => account("user", parameter, facts).ok_or_else(unknown),
        "Group" => account("group", parameter, facts).ok_or_else(unknown),
        "MemoryPressure" => pressure("memory", parameter, facts),
        "CPUPressure" => pressure("cpu", parameter, facts),
        "IOPressure" => pressure("io", parameter, facts),
        other => Err(format!("{other} is no test")),
    }
}

fn virtualization(parameter: &str, facts: &dyn Facts) -> Option<bool> {
    if parameter == "private-users" {
        return facts.has("security", "private-users");
    }
    let found = facts.virtualization()?;
    Some(match (boolean(parameter), parameter, found) {
        (Ok(wanted), _, found) => wanted == found.is_some(),
        (_, _, None) => false,
        (_, "vm", Some(it)) => !it.container,
        (_, "container", Some(it)) => it.container,
        (_, name, Some(it)) => it.name == name,
    })
}

/// A machine id, or a pattern of a host's name.
fn host(parameter: &str, facts: &dyn Facts) -> Option<bool> {
    let hex = parameter.replace('-', "");
    if hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Some(facts.text("machine-id")?.eq_ignore_ascii_case(&hex));
    }
    let name = facts.text("host-name")?.to_ascii_lowercase();
    Some(glob::matches(&parameter.to_ascii_lowercase(), &name))
}

/// A word is there, or with `=` as a whole.
fn on_command_line(word: &str, parameter: &str) -> bool {
    if parameter.contains('=') {
        return word == parameter;
    }
    word.split('=').next() == Some(parameter)
}

/// All of several are there.
fn controllers(parameter: &str, facts: &dyn Facts) -> Option<bool> {
    if matches!(parameter, "v1" | "v2") {
        return facts.has("controller", parameter);
    }
    let mut all = true;
    for name in parameter.split_ascii_whitespace() {
        all &= facts.has("controller", name)?;
    }
    Some(all)
}

/// A number, a name, or `@system` (below 1000, and 65534).
fn account(kind: &str, parameter: &str, facts: &dyn Facts) -> Option<bool> {
    let own = facts.text(kind)?;
    if kind == "user" && parameter == "@system" {
        let number: u32 = own.parse().ok()?;
        return Some(number < 1000 || number == 65_534);
    }
    if parameter.bytes().all(|b| b.is_ascii_digit()) {
        return Some(own == parameter || facts.has(&format!("{kind}s-name"), parameter)?);
    }
    facts.has(&format!("{kind}s-name"), parameter)
}

fn os_release(parameter: &str, facts: &dyn Facts) -> Result<bool, String> {
    for word in parameter.split_ascii_whitespace() {
        let end = word.find(['<', '>', '=', '!']);
        let Some((field, rest)) = end.and_then(|end| word.split_at_checked(end)) else {
            return Err(format!("{} has no comparison", shown(word)));
        };
        let own = facts.os_release(field).unwrap_or_default();
        // `=` compares texts, the others versions.
        let (how, value) = Comparison::before(rest, Comparison::Equal);
        let value = value.trim_matches(['"', '\'']);
        let order = match how {
            Comparison::Equal | Comparison::NotEqual => own.as_str().cmp(value),
            _ => compare::versions(&own, value),
        };
        if !how.holds(order) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `[SLICE:]SHARE[/SPAN]`: the pressure is not above it. Of the spans the 5 minutes are known.
fn pressure(resource: &str, parameter: &str, facts: &dyn Facts) -> Result<bool, String> {
    let (slice, rest) = match parameter.split_once(':') {
        Some((slice, rest)) => (Some(slice), rest),
        None => (None, parameter),
    };
    let limit = rest.split('/').next().unwrap_or("").trim();
    let limit = crate::value::scalar::share(limit)?;
    // Without the kernel's pressure files the condition holds.
    Ok(facts.pressure(resource, slice).is_none_or(|it| it <= limit))
}

#[cfg(test)]
mod tests;
