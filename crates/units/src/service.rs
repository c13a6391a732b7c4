// SPDX-License-Identifier: Apache-2.0
//! A service as its settings make it: types, time-outs, restarts, how it is killed, with systemd's
//! defaults, and what can't be (systemd.service(5), systemd.kill(5)). It starts nothing.

use model::signal::Signal;

use crate::finding::{Finding, Position, Severity};
use crate::time::Span;
use crate::unit::{Settings, Unit};
use crate::value::{Statuses, Value};

/// When a service counts as started, and which process is its main one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// Once its process is forked.
    Simple,
    /// Once its program is executed.
    Exec,
    /// Once the process that was started has ended; what it left is the service.
    Forking,
    /// Once it has ended.
    Oneshot,
    /// Once it has its name on the bus.
    Dbus,
    /// Once it says so.
    Notify,
    /// As `Notify`; a signal asks it to read its configuration again. Of systemd 253.
    NotifyReload,
    /// As `Simple`, after all jobs, or 5 seconds.
    Idle,
}

/// After which ends a service is started again (systemd.service(5), table 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Restart {
    /// After none.
    No,
    /// After a clean one.
    OnSuccess,
    /// After any that isn't clean.
    OnFailure,
    /// After signals, time-outs and the watchdog.
    OnAbnormal,
    /// After the watchdog.
    OnWatchdog,
    /// After a signal that isn't clean.
    OnAbort,
    /// After all.
    Always,
}

/// How a service has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// With a status.
    Exited(u8),
    /// By a signal, and whether it dumped its memory.
    Signalled(Signal),
    /// It took too long to start, stop, or run.
    TimedOut,
    /// It didn't report in time.
    Watchdog,
    /// It could not be set up.
    Resources,
}

/// Which processes a stop reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KillMode {
    /// All processes of the unit.
    ControlGroup,
    /// The main one gets the signal, all get the last one.
    Mixed,
    /// The main one.
    Process,
    /// No process.
    None,
}

/// What becomes of a service of which the kernel has ended a process for want of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OomPolicy {
    /// It goes on.
    Continue,
    /// It is stopped.
    Stop,
    /// All of its processes end with that one.
    Kill,
}

/// How it is stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kill {
    /// The processes that a stop reaches.
    pub mode: KillMode,
    /// The signal that is sent first.
    pub signal: Signal,
    /// First, where it is to be started again.
    pub restart_signal: Signal,
    /// Last, after the time-out.
    pub final_signal: Signal,
    /// Where the watchdog ran out.
    pub watchdog_signal: Signal,
    /// Whether the last one is sent.
    pub sends_final: bool,
    /// Whether `SIGHUP` follows the first.
    pub sends_hup: bool,
}

/// What a manager gives where a unit says nothing (systemd-system.conf(5)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Defaults {
    /// `DefaultTimeoutStartSec=`.
    pub start: Span,
    /// `DefaultTimeoutStopSec=`.
    pub stop: Span,
    /// `DefaultRestartSec=`.
    pub restart: Span,
    /// `DefaultStartLimitIntervalSec=`.
    pub limit_interval: Span,
    /// `DefaultStartLimitBurst=`.
    pub limit_burst: u32,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            start: Span::from_secs(90),
            stop: Span::from_secs(90),
            restart: Span::from_micros(100_000),
            limit_interval: Span::from_secs(10),
            limit_burst: 5,
        }
    }
}

/// A service with all defaults put in. Commands and restrictions stay in the settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service {
    /// The type.
    pub kind: Type,
    /// Whether it goes on being active without a process.
    pub remains: bool,
    /// Whether all processes of the group must have ended, not the main one alone.
    pub ends_with_group: bool,
    /// The file with the main process' number, absolute.
    pub pid_file: Option<String>,
    /// Whether the main process is guessed without such a file.
    pub guesses_main: bool,
    /// The name on the bus.
    pub bus_name: Option<String>,
    /// Who may report: `none`, `main`, `exec`, `all`.
    pub notify_access: &'static str,
    /// After which ends it is started again.
    pub restart: Restart,
    /// How long it waits before.
    pub restart_after: Span,
    /// How long starting may take.
    pub start_timeout: Span,
    /// How long stopping may take.
    pub stop_timeout: Span,
    /// How long it may take after an abort.
    pub abort_timeout: Span,
    /// How long it may run.
    pub runtime_max: Span,
    /// Within which it reports; none is never.
    pub watchdog: Option<Span>,
    /// So many starts …
    pub limit_burst: u32,
    /// … within this time; none is no limit.
    pub limit_interval: Span,
    /// How it is stopped.
    pub kill: Kill,
    /// What becomes of it where the memory doesn't suffice.
    pub oom_policy: OomPolicy,
    /// Ends that are clean beside 0 and the usual signals.
    pub success: Statuses,
    /// Ends after which it isn't started again.
    pub prevents_restart: Statuses,
    /// Ends after which it always is.
    pub forces_restart: Statuses,
}

impl Service {
    /// The service of a unit, and what keeps it from being used.
    pub fn of(unit: &Unit, defaults: Defaults) -> (Service, Vec<Finding>) {
        let settings = &unit.settings;
        let span = |field: &str| settings.span(field);
        let kind = kind(unit);
        let stop = settings
            .last_span(&["TimeoutStopSec", "TimeoutSec"])
            .unwrap_or(defaults.stop);
        let start = match kind {
            Type::Oneshot => Span::INFINITY,
            _ => defaults.start,
        };
        let watchdog = span("WatchdogSec").filter(|it| *it != Span::ZERO && *it != Span::INFINITY);
        let notify = matches!(kind, Type::Notify | Type::NotifyReload) || watchdog.is_some();
        let access = settings.word("NotifyAccess").unwrap_or("none");
        let pid_file = settings
            .text("PIDFile")
            .map(|path| match path.starts_with('/') {
                true => path.to_owned(),
                // systemd.service(5): relative ones are below /run.
                false => format!("/run/{path}"),
            });
        let service = Service {
            kind,
            remains: settings.flag("RemainAfterExit").unwrap_or(false),
            ends_with_group: settings.word("ExitType") == Some("cgroup"),
            pid_file,
            guesses_main: settings.flag("GuessMainPID").unwrap_or(true),
            bus_name: settings.text("BusName").map(str::to_owned),
            notify_access: if notify && access == "none" {
                "main"
            } else {
                access
            },
            restart: restart(settings.word("Restart").unwrap_or("no")),
            restart_after: span("RestartSec").unwrap_or(defaults.restart),
            start_timeout: settings
                .last_span(&["TimeoutStartSec", "TimeoutSec"])
                .unwrap_or(start),
            stop_timeout: stop,
            abort_timeout: span("TimeoutAbortSec").unwrap_or(stop),
            runtime_max: span("RuntimeMaxSec").unwrap_or(Span::INFINITY),
            watchdog,
            limit_burst: settings
                .number("StartLimitBurst")
                .and_then(|it| u32::try_from(it).ok())
                .unwrap_or(defaults.limit_burst),
            limit_interval: span("StartLimitIntervalSec").unwrap_or(defaults.limit_interval),
            kill: kill(unit),
            oom_policy: oom_policy(unit),
            success: statuses(unit, "SuccessExitStatus"),
            prevents_restart: statuses(unit, "RestartPreventExitStatus"),
            forces_restart: statuses(unit, "RestartForceExitStatus"),
        };
        let findings = service.check(unit);
        (service, findings)
    }

    /// Whether an end is clean: status 0, the signals that ask a service to end, and its own.
    pub fn is_clean(&self, end: End) -> bool {
        match end {
            End::Exited(0) => true,
            End::Exited(code) => self.success.codes.contains(&code),
            // SIGHUP, SIGINT, SIGTERM, SIGPIPE; a oneshot service has none.
            End::Signalled(signal) if self.success.signals.contains(&signal) => true,
            End::Signalled(signal) => {
                self.kind != Type::Oneshot && matches!(signal.number(), 1 | 2 | 15 | 13)
            }
            End::TimedOut | End::Watchdog | End::Resources => false,
        }
    }

    /// Whether it is started again after an end that no job asked for.
    pub fn restarts_after(&self, end: End) -> bool {
        let within = |set: &Statuses| match end {
            End::Exited(code) => set.codes.contains(&code),
            End::Signalled(signal) => set.signals.contains(&signal),
            _ => false,
        };
        if within(&self.prevents_restart) {
            return false;
        }
        if within(&self.forces_restart) {
            return true;
        }
        let clean = self.is_clean(end);
        match self.restart {
            Restart::No => false,
            Restart::Always => true,
            Restart::OnSuccess => clean,
            Restart::OnFailure => !clean,
            Restart::OnAbnormal => !clean && !matches!(end, End::Exited(_)),
            Restart::OnWatchdog => end == End::Watchdog,
            Restart::OnAbort => !clean && matches!(end, End::Signalled(_)),
        }
    }

    /// The first of what systemd refuses a service for: the field, and why.
    fn refused(&self, unit: &Unit) -> Option<(&'static str, &'static str)> {
        let settings = &unit.settings;
        let starts = settings.commands("ExecStart").len();
        let succeeds = settings
            .word("SuccessAction")
            .is_some_and(|it| it != "none");
        let oneshot = self.kind == Type::Oneshot;
        let often = matches!(self.restart, Restart::Always | Restart::OnSuccess);
        let errors = [
            (
                starts == 0 && settings.commands("ExecStop").is_empty() && !succeeds,
                "ExecStart",
                "the service has neither ExecStart= nor ExecStop= nor SuccessAction=",
            ),
            (
                starts == 0 && !oneshot,
                "ExecStart",
                "there is none, which only Type=oneshot may have",
            ),
            (
                starts == 0 && oneshot && !self.remains && !succeeds,
                "ExecStart",
                "there is none, and neither RemainAfterExit=yes nor SuccessAction=",
            ),
            (
                starts > 1 && !oneshot,
                "ExecStart",
                "there are several, which only Type=oneshot may have",
            ),
            (
                oneshot && often,
                "Restart",
                "Type=oneshot has neither `always` nor `on-success`",
            ),
            (
                oneshot && self.ends_with_group,
                "ExitType",
                "Type=oneshot doesn't have `cgroup`",
            ),
            (
                self.kind == Type::Dbus && self.bus_name.is_none(),
                "BusName",
                "Type=dbus needs it",
            ),
        ];
        let mut wrong = errors.into_iter().filter(|(wrong, ..)| *wrong);
        wrong.next().map(|(_, field, message)| (field, message))
    }

    /// What systemd refuses, and what it warns of.
    fn check(&self, unit: &Unit) -> Vec<Finding> {
        let mut found = Vec::new();
        if let Some((field, message)) = self.refused(unit) {
            let message = format!("{message}; the unit is not used");
            found.push(finding(unit, Severity::Error, field, message));
        }
        if self.kill.mode == KillMode::None {
            let message = "`none` leaves processes behind: prefer `mixed` or `control-group`";
            found.push(finding(
                unit,
                Severity::Warning,
                "KillMode",
                message.to_owned(),
            ));
        }
        if self.kind == Type::NotifyReload {
            let message = "`notify-reload` is of systemd 253; 252 takes it for `simple`";
            found.push(finding(unit, Severity::Note, "Type", message.to_owned()));
        }
        if self.kind == Type::Forking && self.pid_file.is_none() && !self.guesses_main {
            let message = "without PIDFile= and with GuessMainPID=no it has no main process";
            found.push(finding(unit, Severity::Note, "Type", message.to_owned()));
        }
        found
    }
}

/// A finding at the place where a field was last set.
pub(crate) fn finding(unit: &Unit, severity: Severity, field: &str, message: String) -> Finding {
    let origin = unit
        .settings
        .setting(field)
        .and_then(|it| it.origins.last());
    let path = match (origin, &unit.fragment) {
        (Some(origin), _) => origin.path.clone(),
        (None, Some(path)) => path.clone(),
        (None, None) => unit.id.to_string(),
    };
    let at = origin.map_or(Position::default(), |it| it.at);
    Finding {
        severity,
        path,
        at,
        subject: field.to_owned(),
        message,
    }
}

fn kind(unit: &Unit) -> Type {
    let settings = &unit.settings;
    match settings.word("Type") {
        Some("simple") => Type::Simple,
        Some("exec") => Type::Exec,
        Some("forking") => Type::Forking,
        Some("oneshot") => Type::Oneshot,
        Some("dbus") => Type::Dbus,
        Some("notify") => Type::Notify,
        Some("notify-reload") => Type::NotifyReload,
        Some("idle") => Type::Idle,
        _ if settings.text("BusName").is_some() => Type::Dbus,
        _ if settings.commands("ExecStart").is_empty() => Type::Oneshot,
        _ => Type::Simple,
    }
}

fn restart(word: &str) -> Restart {
    match word {
        "on-success" => Restart::OnSuccess,
        "on-failure" => Restart::OnFailure,
        "on-abnormal" => Restart::OnAbnormal,
        "on-watchdog" => Restart::OnWatchdog,
        "on-abort" => Restart::OnAbort,
        "always" => Restart::Always,
        _ => Restart::No,
    }
}

/// Whether the unit's own processes may make groups below its own (systemd.resource-control(5),
/// Delegate=).
pub fn delegates(settings: &Settings) -> bool {
    const OFF: [&str; 5] = ["no", "false", "off", "n", "f"];
    let mut words = settings.texts("Delegate").iter();
    words.any(|it| it != "0" && !OFF.contains(&it.to_lowercase().as_str()))
}

/// systemd.service(5), OOMPolicy=: stop, and with Delegate= continue, by default.
fn oom_policy(unit: &Unit) -> OomPolicy {
    match unit.settings.word("OOMPolicy") {
        Some("continue") => OomPolicy::Continue,
        Some("kill") => OomPolicy::Kill,
        Some(_) => OomPolicy::Stop,
        None if delegates(&unit.settings) => OomPolicy::Continue,
        None => OomPolicy::Stop,
    }
}

fn kill(unit: &Unit) -> Kill {
    let signal = |field: &str| match unit.settings.get(field) {
        Some(Value::Signal(signal)) => Some(*signal),
        _ => None,
    };
    let first = signal("KillSignal").unwrap_or(Signal::TERM);
    // SIGABRT is 6.
    let abort = Signal::from_number(6).unwrap_or(Signal::KILL);
    Kill {
        mode: match unit.settings.word("KillMode") {
            Some("mixed") => KillMode::Mixed,
            Some("process") => KillMode::Process,
            Some("none") => KillMode::None,
            _ => KillMode::ControlGroup,
        },
        signal: first,
        restart_signal: signal("RestartKillSignal").unwrap_or(first),
        final_signal: signal("FinalKillSignal").unwrap_or(Signal::KILL),
        watchdog_signal: signal("WatchdogSignal").unwrap_or(abort),
        sends_final: unit.settings.flag("SendSIGKILL").unwrap_or(true),
        sends_hup: unit.settings.flag("SendSIGHUP").unwrap_or(false),
    }
}

fn statuses(unit: &Unit, field: &str) -> Statuses {
    match unit.settings.get(field) {
        Some(Value::Statuses(statuses)) => statuses.clone(),
        _ => Statuses::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::zones::UtcOnly;
    use crate::name::UnitName;
    use crate::specifier::NoHost;
    use crate::unit::from_texts;

    fn service(text: &str) -> (Service, Vec<String>) {
        let name = UnitName::parse("a.service").unwrap();
        let text = format!("[Service]\n{text}");
        let unit = from_texts(&name, &[("/x", text.as_bytes())], &NoHost, &UtcOnly);
        let (service, findings) = Service::of(&unit, Defaults::default());
        (service, findings.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_type_follows_from_what_is_set() {
        // systemd.service(5), Type=.
        for (text, kind) in [
            ("ExecStart=/bin/x", Type::Simple),
            ("ExecStop=/bin/x\nRemainAfterExit=yes", Type::Oneshot),
            ("ExecStart=/bin/x\nBusName=org.x", Type::Dbus),
            ("ExecStart=/bin/x\nType=forking", Type::Forking),
        ] {
            let (service, findings) = service(text);
            assert_eq!((service.kind, findings), (kind, vec![]), "{text}");
        }
    }

    #[test]
    fn what_systemd_refuses_is_refused() {
        for (text, expected) in [
            ("User=a", "neither ExecStart="),
            ("Type=notify\nExecStop=/bin/x", "only Type=oneshot"),
            ("Type=oneshot\nExecStop=/bin/x", "neither RemainAfterExit"),
            ("ExecStart=/bin/x\nExecStart=/bin/y", "several"),
            ("Type=oneshot\nExecStart=/bin/x\nRestart=always", "`always`"),
            ("Type=dbus\nExecStart=/bin/x", "Type=dbus needs it"),
        ] {
            let (_, findings) = service(text);
            assert!(
                findings[0].contains(": error: ") && findings[0].contains(expected),
                "{findings:?}"
            );
        }
        assert!(service("ExecStart=/bin/x\nKillMode=none").1[0].contains("/x:3:1: warning"));
        assert!(service("ExecStart=/bin/x\nType=notify-reload").1[0].contains("253"));
    }

    #[test]
    fn time_outs_have_their_defaults() {
        let (simple, _) = service("ExecStart=/bin/x");
        assert_eq!(
            (simple.start_timeout, simple.stop_timeout),
            (Span::from_secs(90), Span::from_secs(90))
        );
        let (oneshot, _) = service("ExecStart=/bin/x\nType=oneshot\nTimeoutSec=5");
        assert_eq!(oneshot.start_timeout, Span::from_secs(5));
        let (oneshot, _) = service("ExecStart=/bin/x\nType=oneshot\nTimeoutStopSec=0");
        assert_eq!(
            (oneshot.start_timeout, oneshot.abort_timeout),
            (Span::INFINITY, Span::INFINITY)
        );
        let text = "ExecStart=/bin/x\nTimeoutStopSec=7\nTimeoutSec=5\nTimeoutStartSec=3";
        let (last, _) = service(text);
        assert_eq!(
            (last.start_timeout, last.stop_timeout),
            (Span::from_secs(3), Span::from_secs(5))
        );
        let (notify, _) = service("ExecStart=/bin/x\nWatchdogSec=10\nPIDFile=x.pid");
        assert_eq!(
            (notify.notify_access, notify.pid_file.as_deref()),
            ("main", Some("/run/x.pid"))
        );
    }

    #[test]
    fn restarts_are_those_of_the_manuals_table() {
        // systemd.service(5), Restart=, table 2: clean, unclean exit, unclean signal, time-out,
        // watchdog.
        let ends = [
            End::Exited(0),
            End::Exited(3),
            End::Signalled(Signal::KILL),
            End::TimedOut,
            End::Watchdog,
        ];
        for (restart, expected) in [
            ("no", "-----"),
            ("always", "xxxxx"),
            ("on-success", "x----"),
            ("on-failure", "-xxxx"),
            ("on-abnormal", "--xxx"),
            ("on-abort", "--x--"),
            ("on-watchdog", "----x"),
        ] {
            let (service, _) = service(&format!("ExecStart=/bin/x\nRestart={restart}"));
            let shown: String = ends
                .iter()
                .map(|it| {
                    if service.restarts_after(*it) {
                        'x'
                    } else {
                        '-'
                    }
                })
                .collect();
            assert_eq!(shown, expected, "{restart}");
        }
        let text = "ExecStart=/bin/x\nRestart=always\nRestartPreventExitStatus=3 SIGKILL\n\
            SuccessExitStatus=7\n";
        let (service, _) = service(text);
        assert!(!service.restarts_after(ends[1]) && !service.restarts_after(ends[2]));
        assert!(service.is_clean(End::Exited(7)) && service.is_clean(End::Signalled(Signal::TERM)));
    }
}
