// SPDX-License-Identifier: Apache-2.0
//! What a unit's files say, as values of properties: read by crate `units` as the node reads them,
//! with specifiers put in, and written as systemctl writes them. Values whose form on the bus has
//! no simple text aren't here: `properties` shows their lines.

use std::collections::BTreeMap;
use std::path::Path;

use api::schedule::v0::UnitFile;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use units::calendar::zones::FileZones;
use units::exec::{Command, Privileges};
use units::name::UnitName;
use units::unit::{Settings, from_texts};
use units::value::{Limit, Value};

use crate::cmd::units::Machine;

/// What every unit with a cgroup has (systemd.resource-control(5)).
const OF_GROUPS: [(&str, &str); 6] = [
    ("MemoryMin", "0"),
    ("MemoryLow", "0"),
    ("MemoryHigh", "infinity"),
    ("MemoryMax", "infinity"),
    ("MemorySwapMax", "infinity"),
    ("CPUQuotaPerSecUSec", "infinity"),
];
/// Types without one.
const WITHOUT_GROUP: [&str; 5] = ["target", "timer", "path", "device", "automount"];

/// The properties of these files; none where the name is no unit's.
pub(super) fn of(name: &str, files: &[UnitFile]) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let Ok(name) = UnitName::parse(name) else {
        return all;
    };
    if !WITHOUT_GROUP.contains(&name.kind().to_string().as_str()) {
        let defaults = OF_GROUPS.iter();
        all.extend(defaults.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    }
    let Ok(machine) = Machine::new(Path::new("/"), None) else {
        return all;
    };
    let texts: Vec<(&str, &[u8])> = files
        .iter()
        .map(|it| (it.path.as_str(), it.text.as_bytes()))
        .collect();
    let unit = from_texts(&name, &texts, &machine, &FileZones(&machine));
    for (field, setting) in unit.settings.iter() {
        put(&mut all, field, &setting.value);
    }
    signals(&mut all, &unit.settings);
    all
}

fn put(all: &mut BTreeMap<String, String>, field: &str, value: &Value) {
    let words = match value {
        Value::Flag(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::Word(word) => (*word).to_owned(),
        Value::Text(text) => text.clone(),
        Value::Texts(words) => words.join(" "),
        Value::Number(number) => number.to_string(),
        Value::Size(bytes) => bytes.to_string(),
        Value::Bytes(bytes) => BASE64_STANDARD.encode(bytes),
        Value::Mode(bits) => format!("{bits:04o}"),
        Value::Signal(signal) => signal.number().to_string(),
        Value::Limit(Limit::Infinity) => "infinity".to_owned(),
        Value::Limit(Limit::Of(amount)) => amount.to_string(),
        Value::Quota(share) => {
            all.insert("CPUQuotaPerSecUSec".to_owned(), quota(*share));
            return;
        }
        Value::Commands(commands) => {
            let show = |flags: bool| {
                let lines = commands.iter().map(|it| command(it, flags));
                lines.collect::<Vec<_>>().join("\n")
            };
            all.insert(format!("{field}Ex"), show(true));
            all.insert(field.to_owned(), show(false));
            return;
        }
        _ => return,
    };
    all.insert(field.to_owned(), words);
}

/// Hundredths of a percent of a processor as its time in a second.
fn quota(share: Option<u64>) -> String {
    let micros = share.map(|it| it.saturating_mul(100));
    let span = micros.map(units::time::span::Span::from_micros);
    span.map_or_else(|| "infinity".to_owned(), |it| it.to_string())
}

/// What is sent where nothing is said: systemd.kill(5).
fn signals(all: &mut BTreeMap<String, String>, settings: &Settings) {
    if settings.get("KillSignal").is_none() {
        return;
    }
    if settings.get("RestartKillSignal").is_none()
        && let Some(signal) = all.get("KillSignal").cloned()
    {
        all.insert("RestartKillSignal".to_owned(), signal);
    }
}

/// A command as `systemctl show` prints it: whether its failure counts, or all of its flags.
fn command(it: &Command, flags: bool) -> String {
    let first = it.argv0.as_ref().unwrap_or(&it.program);
    let words: Vec<&str> = std::iter::once(first)
        .chain(&it.arguments)
        .map(String::as_str)
        .collect();
    let how = match flags {
        true => format!("flags={}", flags_of(it)),
        false => format!(
            "ignore_errors={}",
            if it.ignores_failure { "yes" } else { "no" }
        ),
    };
    format!(
        "{{ path={} ; argv[]={} ; {how} ; start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; \
         code=(null) ; status=0/0 }}",
        it.program,
        words.join(" ")
    )
}

fn flags_of(it: &Command) -> String {
    let privileges = match it.privileges {
        Privileges::Full => "privileged",
        Privileges::KeepUser => "no-setuid",
        Privileges::AmbientFallback => "ambient",
        Privileges::Restricted => "",
    };
    let all = [
        (it.ignores_failure, "ignore-failure"),
        (!privileges.is_empty(), privileges),
        (it.keeps_variables, "no-env-expand"),
    ];
    let set: Vec<&str> = all
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, word)| *word)
        .collect();
    set.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str, text: &str) -> BTreeMap<String, String> {
        let file = UnitFile {
            path: format!("/etc/systemd/system/{name}"),
            text: text.to_owned(),
        };
        of(name, &[file])
    }

    #[test]
    fn values_are_written_as_systemctl_writes_them() {
        let all = shown(
            "a.service",
            "[Service]\nExecStart=-:/bin/echo \"%n\" ${A}\nRemainAfterExit=true\nKillSignal=INT\n\
             MemoryMax=1M\nCPUQuota=10%\nRuntimeDirectoryMode=750\nExecCondition=/bin/true\n\
             StandardInputData=eHh4Cg==\nStandardInputText=aaa\n",
        );
        let get = |name: &str| all.get(name).map_or("(none)", String::as_str);
        assert_eq!((get("RemainAfterExit"), get("KillSignal")), ("yes", "2"));
        assert_eq!(get("RestartKillSignal"), "2");
        assert_eq!(
            (get("MemoryMax"), get("MemoryHigh")),
            ("1048576", "infinity")
        );
        assert_eq!(get("CPUQuotaPerSecUSec"), "100ms");
        assert_eq!(get("RuntimeDirectoryMode"), "0750");
        assert_eq!(get("StandardInputData"), "eHh4CmFhYQo=");
        let (start, flags) = (get("ExecStart"), get("ExecStartEx"));
        assert!(
            start.starts_with(
                "{ path=/bin/echo ; argv[]=/bin/echo a.service ${A} ; ignore_errors=yes ;"
            ),
            "{start}"
        );
        assert!(
            flags.contains("; flags=ignore-failure no-env-expand ;"),
            "{flags}"
        );
    }

    #[test]
    fn a_unit_without_files_has_defaults() {
        let all = of("a-b.slice", &[]);
        assert_eq!(all.get("MemoryMax").unwrap(), "infinity");
        assert!(of("a.target", &[]).is_empty());
    }
}
