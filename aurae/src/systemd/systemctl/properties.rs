// SPDX-License-Identifier: Apache-2.0
//! A unit's properties under systemd's names (org.freedesktop.systemd1(5)): from what the node says
//! of it, and from what its files say. What neither says isn't there.

use std::collections::BTreeMap;

use api::schedule::v0::{UnitDetail, UnitFile};
use units::finding::Findings;
use units::syntax;
use units::time::span::Span;

use crate::systemd::time::{self, Style};

/// Settings that every unit of a type has: systemd.service(5), systemd.kill(5).
const OF_SERVICES: [(&str, &str); 17] = [
    ("Type", "simple"),
    ("Restart", "no"),
    ("RestartUSec", "100ms"),
    ("TimeoutStartUSec", "1min 30s"),
    ("TimeoutStopUSec", "1min 30s"),
    ("RuntimeMaxUSec", "infinity"),
    ("WatchdogUSec", "0"),
    ("RemainAfterExit", "no"),
    ("GuessMainPID", "yes"),
    ("NotifyAccess", "none"),
    ("KillMode", "control-group"),
    ("KillSignal", "15"),
    ("RestartKillSignal", "15"),
    ("FinalKillSignal", "9"),
    ("WatchdogSignal", "6"),
    ("SendSIGKILL", "yes"),
    ("SendSIGHUP", "no"),
];
/// Directives that a property of another name shows.
const RENAMED: [(&str, &str); 4] = [
    ("RestartSec", "RestartUSec"),
    ("RuntimeMaxSec", "RuntimeMaxUSec"),
    ("WatchdogSec", "WatchdogUSec"),
    ("StartLimitInterval", "StartLimitIntervalUSec"),
];

/// Section, name and value of every line, the main file's first. An empty value stays: it resets.
pub(super) fn directives(files: &[UnitFile]) -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    for file in files {
        let mut findings = Findings::default();
        let document = syntax::parse(&file.path, file.text.as_bytes(), &mut findings);
        for line in document.assignments {
            all.push((line.section, line.key, line.value));
        }
    }
    all
}

/// What the files say, under the names of properties; several lines of one are joined, as lists
/// are.
fn settings(files: &[UnitFile]) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for (section, name, value) in directives(files) {
        if section == "Install" {
            continue;
        }
        if name.starts_with("Exec") {
            let commands = all.entry(name).or_default();
            match value.is_empty() {
                true => commands.clear(),
                false => {
                    if !commands.is_empty() {
                        commands.push('\n');
                    }
                    commands.push_str(&command(&value));
                }
            }
            continue;
        }
        if name == "TimeoutSec" {
            all.insert("TimeoutStartUSec".to_owned(), spanned(&value));
            all.insert("TimeoutStopUSec".to_owned(), spanned(&value));
            continue;
        }
        let renamed = RENAMED.iter().find(|(from, _)| *from == name);
        match (renamed, name.strip_suffix("Sec")) {
            (Some((_, to)), _) => {
                all.insert((*to).to_owned(), spanned(&value));
            }
            (None, Some(stem)) => {
                all.insert(format!("{stem}USec"), spanned(&value));
            }
            (None, None) => add(&mut all, name, value),
        }
    }
    all
}

/// Lists grow by each line, all else is what the last line says.
fn add(all: &mut BTreeMap<String, String>, name: String, value: String) {
    const LISTS: [&str; 9] = [
        "Environment",
        "Documentation",
        "SupplementaryGroups",
        "ReadWritePaths",
        "ReadOnlyPaths",
        "InaccessiblePaths",
        "SystemCallFilter",
        "PassEnvironment",
        "EnvironmentFile",
    ];
    match all.get_mut(&name) {
        Some(words) if LISTS.contains(&name.as_str()) && !value.is_empty() => {
            words.push(' ');
            words.push_str(&value);
        }
        _ => {
            all.insert(name, value);
        }
    }
}

fn spanned(value: &str) -> String {
    Span::parse(value).map_or_else(|_| value.to_owned(), |it| it.to_string())
}

/// A command, as `systemctl show` prints it.
fn command(line: &str) -> String {
    let bare = line.trim_start_matches(['-', '@', ':', '+', '!']);
    let prefixes = line.strip_suffix(bare).unwrap_or("");
    let program = bare.split_whitespace().next().unwrap_or("");
    let ignored = match prefixes.contains('-') {
        true => "yes",
        false => "no",
    };
    format!(
        "{{ path={program} ; argv[]={bare} ; ignore_errors={ignored} ; start_time=[n/a] ; \
         stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }}"
    )
}

/// All properties of a unit, by name.
pub(super) fn of(detail: &UnitDetail, style: &Style) -> BTreeMap<String, String> {
    let status = detail.status.clone().unwrap_or_default();
    let is_service = status.name.ends_with(".service");
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    if is_service {
        let defaults = OF_SERVICES.iter();
        all.extend(defaults.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    }
    // Of a unit that a generator has made of another file it names that; invoke-rc.d(8) looks.
    all.insert("SourcePath".to_owned(), String::new());
    all.extend(settings(&detail.files));
    all.extend(super::values::of(&status.name, &detail.files));
    for dependency in &detail.dependencies {
        all.insert(dependency.kind.clone(), dependency.units.join(" "));
    }
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let timestamp = |at: &Option<prost_types::Timestamp>| {
        let at = at.as_ref().map(time::micros);
        at.map_or_else(String::new, |at| style.show(at))
    };
    let names = std::iter::once(&status.name).chain(&status.aliases);
    let names: Vec<&str> = names.map(String::as_str).collect();
    let names = names.join(" ");
    let description = match status.description.is_empty() {
        true => status.name.clone(),
        false => status.description.clone(),
    };
    let mut put = |name: &str, value: String| all.insert(name.to_owned(), value);
    put("Id", status.name.clone());
    put("Names", names);
    put("Description", description);
    put("LoadState", status.load.clone());
    put("LoadError", status.load_error.clone());
    put("ActiveState", status.active.clone());
    put("SubState", status.sub.clone());
    put("FragmentPath", status.fragment.clone());
    put("DropInPaths", status.dropins.join(" "));
    put("UnitFileState", status.file_state.clone());
    put("Markers", status.markers.join(" "));
    put("InvocationID", detail.invocation.clone());
    put("CanStart", yes(status.load == "loaded"));
    put("CanStop", yes(true));
    put("NeedDaemonReload", yes(false));
    put("Transient", yes(status.file_state == "transient"));
    put("ConditionResult", yes(status.condition.is_empty()));
    put("Triggers", status.triggers.clone());
    if !status.name.ends_with(".target") && !status.name.ends_with(".device") {
        put("Result", status.result.clone());
    }
    if status.job_id != 0 {
        put("Job", status.job_id.to_string());
    }
    if is_service {
        of_service(&status, &mut put);
        let control = detail.control_pid.unwrap_or(0);
        put("ControlPID", control.to_string());
    }
    if status.name.ends_with(".timer") {
        put("NextElapseUSecRealtime", timestamp(&status.next));
        put("LastTriggerUSec", timestamp(&status.last));
        put("Unit", status.triggers.clone());
    }
    for (name, at) in times(detail, &status) {
        all.insert(name.to_owned(), timestamp(&at));
    }
    let can_reload = is_service && all.get("ExecReload").is_some_and(|it| !it.is_empty());
    all.insert("CanReload".to_owned(), yes(can_reload));
    let isolates = all.get("AllowIsolate").is_some_and(|it| is_true(it));
    all.insert("CanIsolate".to_owned(), yes(isolates));
    all
}

type At = Option<prost_types::Timestamp>;

/// When it changed, and when its main process did.
fn times(
    detail: &UnitDetail,
    status: &api::schedule::v0::UnitStatus,
) -> impl Iterator<Item = (&'static str, At)> {
    let times = detail.times.unwrap_or_default();
    let of_units = [
        ("ActiveEnterTimestamp", status.active_since),
        ("InactiveEnterTimestamp", status.inactive_since),
        ("StateChangeTimestamp", times.changed),
        ("InactiveExitTimestamp", times.begun),
        ("ActiveExitTimestamp", times.left),
        ("ConditionTimestamp", times.begun),
    ];
    let of_services = [
        ("ExecMainStartTimestamp", times.main_begun),
        ("ExecMainExitTimestamp", times.main_ended),
    ];
    let is_service = status.name.ends_with(".service");
    let of_services = of_services.into_iter().filter(move |_| is_service);
    of_units.into_iter().chain(of_services)
}

fn is_true(word: &str) -> bool {
    matches!(word, "yes" | "true" | "on" | "1" | "y" | "t")
}

fn of_service(
    status: &api::schedule::v0::UnitStatus,
    put: &mut impl FnMut(&str, String) -> Option<String>,
) {
    let pid = status.main_pid.unwrap_or(0).to_string();
    // CLD_EXITED, CLD_KILLED, CLD_DUMPED of waitid(2).
    let code = match status.exit_code.as_str() {
        "exited" => "1",
        "killed" => "2",
        "dumped" => "3",
        _ => "0",
    };
    let number = match status.exit_status.is_empty() {
        true => "0",
        false => status.exit_status.as_str(),
    };
    put("MainPID", pid.clone());
    put("ExecMainPID", pid);
    put("ExecMainCode", code.to_owned());
    put("ExecMainStatus", number.to_owned());
    put("NRestarts", status.restarts.to_string());
    put("StatusText", status.message.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_have_systemds_names_and_values() {
        let file = |text: &str| UnitFile {
            path: "/etc/systemd/system/a.service".to_owned(),
            text: text.to_owned(),
        };
        let detail = UnitDetail {
            status: Some(api::schedule::v0::UnitStatus {
                name: "a.service".to_owned(),
                load: "loaded".to_owned(),
                active: "active".to_owned(),
                main_pid: Some(7),
                ..Default::default()
            }),
            files: vec![
                file("[Service]\nExecStart=/bin/a -b\nRestartSec=2\nEnvironment=A=1\n"),
                file("[Service]\nExecStart=\nExecStart=-/bin/c\nEnvironment=B=2\nTimeoutSec=5\n"),
                file("[Service]\nExecReload=/bin/kill -HUP $MAINPID\n"),
            ],
            ..Default::default()
        };
        let all = of(&detail, &Style::of("utc").unwrap());
        let get = |name: &str| all.get(name).map_or("(none)", String::as_str);
        assert_eq!(get("Type"), "simple");
        assert_eq!(get("RestartUSec"), "2s");
        assert_eq!(
            (get("TimeoutStartUSec"), get("TimeoutStopUSec")),
            ("5s", "5s")
        );
        assert_eq!(get("Environment"), "A=1 B=2");
        assert_eq!((get("MainPID"), get("CanReload")), ("7", "yes"));
        let start = get("ExecStart");
        assert!(start.starts_with("{ path=/bin/c ; argv[]=/bin/c ; ignore_errors=yes ;"));
        assert!(!start.contains("/bin/a"), "{start}");
        assert_eq!(get("SourcePath"), "");
    }

    /// Debian's invoke-rc.d starts what an init script is the source of, and nothing else.
    #[test]
    fn a_generated_unit_names_its_source() {
        let detail = UnitDetail {
            files: vec![UnitFile {
                path: "/run/systemd/generator.late/a.service".to_owned(),
                text: "[Unit]\nSourcePath=/etc/init.d/a\n[Service]\nExecStart=/x\n".to_owned(),
            }],
            ..Default::default()
        };
        let all = of(&detail, &Style::of("utc").unwrap());
        assert_eq!(all.get("SourcePath").unwrap(), "/etc/init.d/a");
    }
}
