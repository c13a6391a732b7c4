// SPDX-License-Identifier: Apache-2.0
//! The interfaces of units' types: `org.freedesktop.systemd1.Service` and so on. What isn't here
//! has no property, and `systemctl` shows its default.

use schedule::unit::View;
use units::name::UnitType;
use units::service::{KillMode, Restart, Type};
use units::time::Span;
use units::value::{Address, Clock, Value};
use zbus::Variant;

use super::settings::{bound, commands, environment, flag, micros, span, word};
use super::unit::moments;
use super::{Properties, group_name};

const MINUTE_AND_A_HALF: Span = Span::from_secs(90);
const COMMANDS: [&str; 7] = [
    "ExecCondition",
    "ExecStartPre",
    "ExecStart",
    "ExecStartPost",
    "ExecReload",
    "ExecStop",
    "ExecStopPost",
];

fn text(text: &str) -> Variant<'static> {
    Variant::from(text.to_owned())
}

/// All of a unit's type.
pub(super) fn properties(view: &View) -> Properties {
    let mut all = match view.id.kind() {
        UnitType::Service => service(view),
        UnitType::Scope => scope(view),
        UnitType::Socket => socket(view),
        UnitType::Timer => timer(view),
        UnitType::Mount => mount(view),
        UnitType::Swap => swap(view),
        UnitType::Path => path(view),
        UnitType::Device => vec![("SysFSPath", text(""))],
        _ => Properties::new(),
    };
    let has_group = matches!(
        view.id.kind(),
        UnitType::Service
            | UnitType::Scope
            | UnitType::Socket
            | UnitType::Mount
            | UnitType::Swap
            | UnitType::Slice
    );
    if has_group {
        group(view, &mut all);
    }
    all
}

/// The group, what may be used in it and what is.
fn group(view: &View, all: &mut Properties) {
    let settings = &view.unit.settings;
    let group = view
        .group
        .as_deref()
        .and_then(|it| kernel::cgroup::Cgroup::open(it).ok());
    let usage = |of: Option<u64>| Variant::from(of.unwrap_or(u64::MAX));
    let memory = group
        .as_ref()
        .and_then(|it| it.memory_current().ok().flatten());
    let tasks = group.as_ref().and_then(|it| it.pids_usage().ok().flatten());
    let cpu = group.as_ref().and_then(|it| it.cpu_stat().ok());
    let slice = settings.units("Slice").first();
    let slice = slice.map_or("system.slice", |it| it.as_str());
    let slice = match view.id.kind() {
        UnitType::Slice => units::name::slice_parent(&view.id).map(|it| it.to_string()),
        _ => Some(slice.to_owned()),
    };
    all.extend([
        ("Slice", text(&slice.unwrap_or_default())),
        ("ControlGroup", text(&group_name(view).unwrap_or_default())),
        ("MemoryCurrent", usage(memory)),
        ("TasksCurrent", usage(tasks.map(|it| it.current))),
        (
            "CPUUsageNSec",
            usage(cpu.map(|it| it.usage_us.saturating_mul(1_000))),
        ),
        (
            "Delegate",
            Variant::from(units::service::delegates(settings)),
        ),
    ]);
    for field in ["MemoryMin", "MemoryLow"] {
        let value = match settings.limit(field) {
            Some(units::value::Limit::Of(amount)) => amount,
            _ => 0,
        };
        all.push((field, Variant::from(value)));
    }
    for field in [
        "MemoryHigh",
        "MemoryMax",
        "MemorySwapMax",
        "TasksMax",
        "CPUWeight",
        "IOWeight",
    ] {
        all.push((field, Variant::from(bound(settings, field))));
    }
}

fn kill(view: &View, all: &mut Properties) {
    let settings = &view.unit.settings;
    let signal = match settings.get("KillSignal") {
        Some(Value::Signal(signal)) => i32::from(signal.number()),
        _ => 15,
    };
    all.extend([
        (
            "KillMode",
            text(word(settings, "KillMode", "control-group")),
        ),
        ("KillSignal", Variant::from(signal)),
        (
            "SendSIGKILL",
            Variant::from(flag(settings, "SendSIGKILL", true)),
        ),
        (
            "SendSIGHUP",
            Variant::from(flag(settings, "SendSIGHUP", false)),
        ),
    ]);
}

const fn type_word(kind: Type) -> &'static str {
    match kind {
        Type::Simple => "simple",
        Type::Exec => "exec",
        Type::Forking => "forking",
        Type::Oneshot => "oneshot",
        Type::Dbus => "dbus",
        Type::Notify => "notify",
        Type::NotifyReload => "notify-reload",
        Type::Idle => "idle",
    }
}

const fn restart_word(restart: Restart) -> &'static str {
    match restart {
        Restart::No => "no",
        Restart::Always => "always",
        Restart::OnSuccess => "on-success",
        Restart::OnFailure => "on-failure",
        Restart::OnAbnormal => "on-abnormal",
        Restart::OnWatchdog => "on-watchdog",
        Restart::OnAbort => "on-abort",
    }
}

const fn kill_word(mode: KillMode) -> &'static str {
    match mode {
        KillMode::ControlGroup => "control-group",
        KillMode::Mixed => "mixed",
        KillMode::Process => "process",
        KillMode::None => "none",
    }
}

fn service(view: &View) -> Properties {
    let (status, settings) = (&view.status, &view.unit.settings);
    let main = status.main_pid.unwrap_or(0);
    let (begun, begun_boot) = moments(view.begun);
    let (ended, ended_boot) = moments(view.inactive.filter(|_| view.ended.is_some()));
    let (code, exit) = view.ended.unwrap_or_default();
    let mut all: Properties = vec![
        ("MainPID", Variant::from(main)),
        ("ControlPID", Variant::from(view.control_pid.unwrap_or(0))),
        ("StatusText", text(&view.said)),
        ("StatusErrno", Variant::from(0_i32)),
        ("Result", text(status.result)),
        ("NRestarts", Variant::from(status.restarts)),
        ("ExecMainPID", Variant::from(main)),
        ("ExecMainStartTimestamp", Variant::from(begun)),
        ("ExecMainStartTimestampMonotonic", Variant::from(begun_boot)),
        ("ExecMainExitTimestamp", Variant::from(ended)),
        ("ExecMainExitTimestampMonotonic", Variant::from(ended_boot)),
        ("ExecMainCode", Variant::from(code)),
        ("ExecMainStatus", Variant::from(exit)),
        ("User", text(settings.text("User").unwrap_or_default())),
        ("Group", text(settings.text("Group").unwrap_or_default())),
        ("Environment", Variant::from(environment(settings))),
        (
            "DynamicUser",
            Variant::from(flag(settings, "DynamicUser", false)),
        ),
    ];
    for field in COMMANDS {
        all.push((field, commands(settings, field)));
    }
    let Some(rules) = &view.service else {
        return all;
    };
    all.extend([
        ("Type", text(type_word(rules.kind))),
        ("Restart", text(restart_word(rules.restart))),
        (
            "PIDFile",
            text(rules.pid_file.as_deref().unwrap_or_default()),
        ),
        (
            "BusName",
            text(rules.bus_name.as_deref().unwrap_or_default()),
        ),
        ("NotifyAccess", text(rules.notify_access)),
        ("RemainAfterExit", Variant::from(rules.remains)),
        ("GuessMainPID", Variant::from(rules.guesses_main)),
        ("RestartUSec", Variant::from(micros(rules.restart_after))),
        (
            "TimeoutStartUSec",
            Variant::from(micros(rules.start_timeout)),
        ),
        ("TimeoutStopUSec", Variant::from(micros(rules.stop_timeout))),
        ("RuntimeMaxUSec", Variant::from(micros(rules.runtime_max))),
        (
            "WatchdogUSec",
            Variant::from(rules.watchdog.map_or(0, micros)),
        ),
        ("KillMode", text(kill_word(rules.kill.mode))),
        (
            "KillSignal",
            Variant::from(i32::from(rules.kill.signal.number())),
        ),
        ("SendSIGKILL", Variant::from(rules.kill.sends_final)),
        ("SendSIGHUP", Variant::from(rules.kill.sends_hup)),
    ]);
    all
}

fn scope(view: &View) -> Properties {
    let settings = &view.unit.settings;
    let mut all = vec![
        ("Controller", text("")),
        ("Result", text(view.status.result)),
        (
            "TimeoutStopUSec",
            Variant::from(span(settings, "TimeoutStopSec", MINUTE_AND_A_HALF)),
        ),
        (
            "RuntimeMaxUSec",
            Variant::from(span(settings, "RuntimeMaxSec", Span::INFINITY)),
        ),
    ];
    kill(view, &mut all);
    all
}

/// `Stream` and `/run/x.sock`, as `systemctl list-sockets` shows them.
fn listens(view: &View) -> Vec<(String, String)> {
    let listens = view.unit.settings.listens("Listen").iter();
    let shown = listens.map(|it| {
        let kind = it.directive.strip_prefix("Listen").unwrap_or(it.directive);
        let kind = match kind {
            "FIFO" | "Netlink" | "Special" | "MessageQueue" | "SequentialPacket" => kind,
            "Datagram" => "Datagram",
            _ => "Stream",
        };
        let address = match &it.address {
            Address::Path(path) => path.clone(),
            Address::Abstract(name) => format!("@{name}"),
            Address::Port(port) => format!("[::]:{port}"),
            Address::Inet(ip, port, _) if ip.is_ipv6() => format!("[{ip}]:{port}"),
            Address::Inet(ip, port, _) => format!("{ip}:{port}"),
            Address::Vsock(cid, port) => match cid {
                Some(cid) => format!("vsock:{cid}:{port}"),
                None => format!("vsock::{port}"),
            },
            Address::Netlink(family, group) => format!("{family} {group}"),
        };
        (kind.to_owned(), address)
    });
    shown.collect()
}

fn socket(view: &View) -> Properties {
    let settings = &view.unit.settings;
    let mut all = vec![
        ("Listen", Variant::from(listens(view))),
        ("Accept", Variant::from(flag(settings, "Accept", false))),
        ("Result", text(view.status.result)),
        ("SocketMode", Variant::from(0o666_u32)),
    ];
    kill(view, &mut all);
    all
}

fn timer(view: &View) -> Properties {
    let (status, settings) = (&view.status, &view.unit.settings);
    let micros_of = |at: Option<model::time::Timestamp>| at.map_or(0, |at| at.0 / 1_000);
    let next = micros_of(status.next);
    let calendars = settings.clocks("Clocks").iter().filter_map(|it| match it {
        Clock::Calendar(calendar) => Some(("OnCalendar".to_owned(), calendar.to_string(), next)),
        Clock::After(..) => None,
    });
    let calendars: Vec<(String, String, u64)> = calendars.collect();
    let spans = settings.clocks("Clocks").iter().filter_map(|it| match it {
        Clock::After(name, after) => {
            let name = name.strip_suffix("Sec").unwrap_or(name);
            Some((format!("{name}USec"), micros(*after), 0))
        }
        Clock::Calendar(_) => None,
    });
    let spans: Vec<(String, u64, u64)> = spans.collect();
    vec![
        ("Unit", text(&status.triggers)),
        // One clock is enough to say when; where the timer's is the other one, this is its time.
        ("NextElapseUSecRealtime", Variant::from(next)),
        ("NextElapseUSecMonotonic", Variant::from(0_u64)),
        ("LastTriggerUSec", Variant::from(micros_of(status.last))),
        ("TimersCalendar", Variant::from(calendars)),
        ("TimersMonotonic", Variant::from(spans)),
        (
            "AccuracyUSec",
            Variant::from(span(settings, "AccuracySec", Span::from_secs(60))),
        ),
        (
            "RandomizedDelayUSec",
            Variant::from(span(settings, "RandomizedDelaySec", Span::ZERO)),
        ),
        (
            "Persistent",
            Variant::from(flag(settings, "Persistent", false)),
        ),
        (
            "WakeSystem",
            Variant::from(flag(settings, "WakeSystem", false)),
        ),
        (
            "RemainAfterElapse",
            Variant::from(flag(settings, "RemainAfterElapse", true)),
        ),
        ("Result", text(status.result)),
    ]
}

fn mount(view: &View) -> Properties {
    let settings = &view.unit.settings;
    let own = units::name::unescape_path(view.id.stem()).unwrap_or_default();
    let given = |field| settings.text(field).unwrap_or_default();
    let place = match given("Where") {
        "" => own.as_str(),
        place => place,
    };
    let mut all = vec![
        ("Where", text(place)),
        ("What", text(given("What"))),
        ("Type", text(given("Type"))),
        ("Options", text(given("Options"))),
        ("Result", text(view.status.result)),
        ("ControlPID", Variant::from(view.control_pid.unwrap_or(0))),
        (
            "TimeoutUSec",
            Variant::from(span(settings, "TimeoutSec", MINUTE_AND_A_HALF)),
        ),
    ];
    kill(view, &mut all);
    all
}

fn swap(view: &View) -> Properties {
    let settings = &view.unit.settings;
    let own = units::name::unescape_path(view.id.stem()).unwrap_or_default();
    let what = settings.text("What").unwrap_or(&own);
    let mut all = vec![
        ("What", text(what)),
        ("Result", text(view.status.result)),
        (
            "TimeoutUSec",
            Variant::from(span(settings, "TimeoutSec", MINUTE_AND_A_HALF)),
        ),
    ];
    kill(view, &mut all);
    all
}

fn path(view: &View) -> Properties {
    let watches = match view.unit.settings.get("Watches") {
        Some(Value::Watches(all)) => all
            .iter()
            .map(|(name, path)| ((*name).to_owned(), path.clone()))
            .collect(),
        _ => Vec::<(String, String)>::new(),
    };
    vec![
        ("Unit", text(&view.status.triggers)),
        ("Paths", Variant::from(watches)),
        ("Result", text(view.status.result)),
    ]
}
