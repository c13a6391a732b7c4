// SPDX-License-Identifier: Apache-2.0
//! A service as an executable and what a schedule says of its ends.

use units::exec::environment::Environment;
use units::exec::expand::argv;
use units::exec::{Command, Privileges};
use units::files::Files;
use units::service::{Defaults, Restart, Service as Meant, Type};
use units::time::Span;
use units::unit::{Settings, Unit};
use units::value::{Limit, Value};

use super::timer::Time;
use super::{number, said};
use crate::import::NotImported;
use crate::import::write::Expression;

/// What the executable of a run is called.
const MAIN: &str = "main";
/// The longest time from a stop signal to SIGKILL, in seconds.
const LONGEST_GRACE: u64 = 3600;

type Field = (String, Expression);

/// A service, on its way into the program.
pub(super) struct Service {
    fields: Vec<Field>,
    of_schedule: Vec<Field>,
    /// What of it can't be taken, and isn't told by a field's own reason.
    pub(super) notes: Vec<String>,
}

/// Collects fields and notes.
struct Made<'u> {
    settings: &'u Settings,
    fields: Vec<Field>,
    notes: Vec<String>,
}

impl Made<'_> {
    fn field(&mut self, name: &str, value: Expression) {
        self.fields.push((name.to_owned(), value));
    }

    fn note(&mut self, field: &str, words: &str) {
        let note = self
            .settings
            .setting(field)
            .map(|setting| said(setting, words));
        self.notes.extend(note);
    }
}

impl Service {
    pub(super) fn of(unit: &Unit, files: &dyn Files) -> Result<Service, NotImported> {
        let settings = &unit.settings;
        let mut made = Made {
            settings,
            fields: Vec::new(),
            notes: Vec::new(),
        };
        let environment = environment(&mut made, files);
        let commands = settings.commands("ExecStart");
        let Some((command, others)) = commands.split_first() else {
            let words = "has no ExecStart=: there is nothing to run".to_owned();
            return Err(NotImported::Unit(unit.id.to_string(), words));
        };
        program(&mut made, command, &environment)
            .map_err(|words| NotImported::Unit(unit.id.to_string(), words))?;
        for other in others {
            made.note(
                "ExecStart",
                &format!("`{other}`: a run is one program, the first"),
            );
        }
        if !environment.is_empty() {
            let variables = environment.into_iter();
            let variables = variables.map(|(name, value)| (name, Expression::Text(value)));
            made.field("env", Expression::Object(variables.collect()));
        }
        who(&mut made);
        let meant = Meant::of(unit, Defaults::default()).0;
        limits(&mut made);
        rights(&mut made);
        stop(&mut made, &meant);
        resources(&mut made);
        kind(&mut made, meant.kind);
        let of_schedule = ends(&mut made, &meant);
        Ok(Service {
            fields: made.fields,
            of_schedule,
            notes: made.notes,
        })
    }

    /// The executable of a schedule of that name.
    pub(super) fn executable(&self, name: &str) -> Expression {
        let own = (
            "name".to_owned(),
            Expression::Text(format!("{name}/{MAIN}")),
        );
        let fields = self.fields.iter().cloned();
        Expression::Object(std::iter::once(own).chain(fields).collect())
    }

    /// What `schedule.Declare` takes.
    pub(super) fn schedule(&self, name: &str, constant: &str, time: Time) -> Expression {
        let run = Expression::Object(vec![
            (
                "executable".to_owned(),
                Expression::Code(constant.to_owned()),
            ),
            ("ownCell".to_owned(), Expression::Object(Vec::new())),
        ]);
        let work = Expression::Object(vec![("executable".to_owned(), run)]);
        let mut spec = vec![("work".to_owned(), work), ("when".to_owned(), time.when)];
        if time.missed {
            let missed = Expression::Text("run_once".to_owned());
            spec.push(("missed".to_owned(), missed));
        }
        spec.extend(self.of_schedule.iter().cloned());
        Expression::Object(vec![
            ("name".to_owned(), Expression::Text(name.to_owned())),
            ("spec".to_owned(), Expression::Object(spec)),
        ])
    }
}

/// The variables of the unit, and of the files that it names, which win (systemd.exec(5)).
fn environment(made: &mut Made<'_>, files: &dyn Files) -> Environment {
    let mut all = Environment::new();
    if let Some(Value::Variables(variables)) = made.settings.get("Environment") {
        all.extend(variables.iter().cloned());
    }
    for file in made.settings.paths("EnvironmentFile") {
        match files.read(&file.path) {
            Ok(Some(bytes)) => {
                let read = units::exec::environment::parse_file(&bytes);
                all.extend(read.variables);
                let words = format!("{} is taken as it is now", file.path);
                made.note("EnvironmentFile", &words);
            }
            Ok(None) if file.optional => {}
            _ => {
                let words = format!("{} can't be read: give its variables as `env`", file.path);
                made.note("EnvironmentFile", &words);
            }
        }
    }
    all
}

fn program(made: &mut Made<'_>, command: &Command, variables: &Environment) -> Result<(), String> {
    let mut words = argv(command, variables)?;
    if command.argv0.is_some() {
        made.note(
            "ExecStart",
            "a program is told its own name; `@` has no meaning",
        );
    }
    if let Some(first) = words.first_mut() {
        first.clone_from(&command.program);
    }
    if command.ignores_failure {
        made.note("ExecStart", "`-`: a failure is a failure");
    }
    if command.privileges != Privileges::Restricted {
        made.note(
            "ExecStart",
            "`+`, `!` and `!!`: nothing is run with more rights than asked for",
        );
    }
    let unset = |argument: &&String| {
        let named = argument
            .strip_prefix('$')
            .filter(|it| !it.starts_with(['{', '$']));
        let braced = argument
            .split_once("${")
            .and_then(|(_, it)| it.split_once('}'));
        let name = named.or(braced.map(|(name, _)| name));
        name.is_some_and(|name| !variables.contains_key(name))
    };
    if !command.keeps_variables {
        let found: Vec<_> = command.arguments.iter().filter(unset).cloned().collect();
        if !found.is_empty() {
            let words = format!("{} is empty: nothing here sets it", found.join(" and "));
            made.note("ExecStart", &words);
        }
    }
    made.field("argv", Expression::texts(words));
    Ok(())
}

/// As whom, and where.
fn who(made: &mut Made<'_>) {
    for (field, name) in [("User", "user"), ("Group", "group")] {
        if let Some(text) = made.settings.text(field).filter(|it| !it.is_empty()) {
            made.field(name, Expression::Text(text.to_owned()));
        }
    }
    let groups = made.settings.texts("SupplementaryGroups");
    if !groups.is_empty() {
        made.field("groups", Expression::texts(groups.iter().cloned()));
    }
    match made
        .settings
        .paths("WorkingDirectory")
        .first()
        .map(|it| it.path.clone())
    {
        Some(path) if path == "~" => {
            made.note("WorkingDirectory", "`~`: name the user's folder by `cwd`");
        }
        Some(path) => made.field("cwd", Expression::Text(path)),
        None => {}
    }
    if let Some(Value::Mode(mode)) = made.settings.get("UMask") {
        made.field("umask", Expression::Code(format!("0o{mode:03o}")));
    }
}

/// `LimitNOFILE=` and its like, niceness, processors.
fn limits(made: &mut Made<'_>) {
    let bounds = made.settings.iter().filter_map(|(field, setting)| {
        let name = field.strip_prefix("Limit")?;
        let Value::Bounds(bounds) = setting.value else {
            return None;
        };
        let mut fields = vec![("name".to_owned(), Expression::Text(name.to_owned()))];
        for (name, bound) in [("soft", bounds.soft), ("hard", bounds.hard)] {
            fields.extend(bound.map(|it| (name.to_owned(), whole(it))));
        }
        units::honoured::by_schedules(field).then_some(Expression::Object(fields))
    });
    let bounds: Vec<_> = bounds.collect();
    if !bounds.is_empty() {
        made.field("rlimits", Expression::List(bounds));
    }
    for (field, name) in [("Nice", "nice"), ("OOMScoreAdjust", "oomScoreAdj")] {
        if let Some(value) = made.settings.number(field) {
            made.field(name, number(value));
        }
    }
    if let Some(Value::Indices(processors)) = made.settings.get("CPUAffinity") {
        let numbers = processors
            .iter()
            .map(|it| Expression::Number(u64::from(*it)));
        made.field("cpuAffinity", Expression::List(numbers.collect()));
    }
}

/// A number that a program may have to say as a bigint.
fn whole(number: u64) -> Expression {
    const SAFE: u64 = (1 << 53) - 1;
    match number {
        0..=SAFE => Expression::Number(number),
        _ => Expression::Code(format!("{number}n")),
    }
}

/// Capabilities and new privileges.
fn rights(made: &mut Made<'_>) {
    let mut sets = Vec::new();
    for (field, name) in [
        ("CapabilityBoundingSet", "bounding"),
        ("AmbientCapabilities", "ambient"),
    ] {
        if let Some(Value::Capabilities(bits)) = made.settings.get(field) {
            let names = units::value::capability_names(*bits);
            sets.push((name.to_owned(), Expression::texts(names)));
        }
    }
    if !sets.is_empty() {
        made.field("capabilities", Expression::Object(sets));
    }
    if let Some(flag) = made.settings.flag("NoNewPrivileges") {
        made.field("noNewPrivileges", Expression::Flag(flag));
    }
}

/// How it is ended.
fn stop(made: &mut Made<'_>, meant: &Meant) {
    if made.settings.get("KillSignal").is_some() {
        made.field(
            "stopSignal",
            Expression::Text(meant.kill.signal.to_string()),
        );
    }
    let Some(Value::Span(grace)) = made.settings.get("TimeoutStopSec") else {
        return;
    };
    match grace.micros().map(|it| it.div_ceil(1_000_000)) {
        Some(seconds) if seconds <= LONGEST_GRACE => {
            made.field("stopGrace", duration(*grace));
        }
        _ => {
            made.note("TimeoutStopSec", "the longest time is an hour");
            made.field("stopGrace", Expression::Text("1h".to_owned()));
        }
    }
}

/// A time as the language has it.
fn duration(span: Span) -> Expression {
    let micros = span.micros().unwrap_or(0);
    Expression::Text(match micros {
        it if it.is_multiple_of(3_600_000_000) && it > 0 => format!("{}h", it / 3_600_000_000),
        it if it.is_multiple_of(60_000_000) && it > 0 => format!("{}m", it / 60_000_000),
        it if it.is_multiple_of(1_000_000) => format!("{}s", it / 1_000_000),
        it => format!("{}ms", it.div_ceil(1000)),
    })
}

/// Memory, processors, processes.
fn resources(made: &mut Made<'_>) {
    let mut all: Vec<Field> = Vec::new();
    let mut memory: Vec<Field> = Vec::new();
    for (field, name) in [
        ("MemoryMin", "min"),
        ("MemoryLow", "low"),
        ("MemoryHigh", "high"),
        ("MemoryMax", "max"),
    ] {
        match made.settings.limit(field) {
            Some(Limit::Of(bytes)) => memory.push((name.to_owned(), whole(bytes))),
            Some(Limit::Share(_)) => made.note(field, "say it in bytes: a share has no field"),
            Some(Limit::Infinity) | None => {}
        }
    }
    if !memory.is_empty() {
        all.push(("memory".to_owned(), Expression::Object(memory)));
    }
    let mut cpu: Vec<Field> = Vec::new();
    if let Some(Value::Quota(Some(hundredths))) = made.settings.get("CPUQuota") {
        // Of the default period of 100 ms, in hundredths of a percent: 10,000 are one processor.
        let micros = hundredths.saturating_mul(10);
        let time = match micros.is_multiple_of(1000) {
            true => format!("{}ms", micros / 1000),
            false => format!("{micros}us"),
        };
        cpu.push(("quota".to_owned(), Expression::Text(time)));
    }
    if let Some(weight) = weight(made, "CPUWeight") {
        cpu.push(("weight".to_owned(), weight));
    }
    if !cpu.is_empty() {
        all.push(("cpu".to_owned(), Expression::Object(cpu)));
    }
    if let Some(weight) = weight(made, "IOWeight") {
        let io = Expression::Object(vec![("weight".to_owned(), weight)]);
        all.push(("io".to_owned(), io));
    }
    match made.settings.limit("TasksMax") {
        Some(Limit::Of(count)) => all.push(("pidsMax".to_owned(), whole(count))),
        Some(Limit::Share(_)) => made.note("TasksMax", "say how many: a share has no field"),
        Some(Limit::Infinity) | None => {}
    }
    if !all.is_empty() {
        made.field("resources", Expression::Object(all));
    }
}

fn weight(made: &mut Made<'_>, field: &str) -> Option<Expression> {
    match made.settings.limit(field) {
        Some(Limit::Of(0)) => {
            made.note(field, "`idle`: the lowest weight is 1");
            Some(Expression::Number(1))
        }
        Some(Limit::Of(weight)) => Some(Expression::Number(weight)),
        _ => None,
    }
}

/// What a type means for a run.
fn kind(made: &mut Made<'_>, kind: Type) {
    let words = match kind {
        Type::Simple | Type::Exec | Type::Oneshot | Type::Idle => return,
        Type::Forking => {
            "what is started is what runs: give the program the option that keeps it in the \
             foreground"
        }
        Type::Notify | Type::NotifyReload | Type::Dbus => {
            "what it says of itself isn't heard; it counts as started once it runs"
        }
    };
    made.note("Type", words);
}

/// The fields that say what follows the service's end.
fn ends(made: &mut Made<'_>, meant: &Meant) -> Vec<Field> {
    let mut fields = Vec::new();
    let policy = match meant.restart {
        Restart::No => None,
        Restart::Always => Some("always"),
        Restart::OnFailure => Some("on_failure"),
        Restart::OnAbnormal | Restart::OnWatchdog | Restart::OnAbort => {
            made.note(
                "Restart",
                "after any failure: a schedule doesn't tell them apart",
            );
            Some("on_failure")
        }
        Restart::OnSuccess => {
            made.note(
                "Restart",
                "a schedule runs again always, or after a failure",
            );
            None
        }
    };
    let Some(policy) = policy else {
        return fields;
    };
    fields.push(("restart".to_owned(), Expression::Text(policy.to_owned())));
    if let Some(span) = made.settings.span("RestartSec") {
        let least = Span::from_micros(span.micros().unwrap_or(u64::MAX - 1).max(100_000));
        let first = ("first".to_owned(), duration(least));
        fields.push(("backoff".to_owned(), Expression::Object(vec![first])));
    }
    limit(made, &mut fields);
    fields
}

/// How often it may be started.
fn limit(made: &mut Made<'_>, fields: &mut Vec<Field>) {
    let burst = made.settings.number("StartLimitBurst");
    let within = made.settings.span("StartLimitIntervalSec");
    if burst.is_none() && within.is_none() {
        return;
    }
    let defaults = Defaults::default();
    let within = within.unwrap_or(defaults.limit_interval);
    let burst = burst.unwrap_or(i64::from(defaults.limit_burst));
    // Without an interval there is no limit.
    if within == Span::ZERO || burst == 0 {
        return;
    }
    if burst > 100 || within.micros().is_none() {
        return made.note(
            "StartLimitBurst",
            "the most starts are 100, within some time",
        );
    }
    let limit = vec![
        ("starts".to_owned(), number(burst)),
        ("within".to_owned(), duration(within)),
    ];
    fields.push(("startLimit".to_owned(), Expression::Object(limit)));
}
