// SPDX-License-Identifier: Apache-2.0
//! Objects other than the manager: units of every type, jobs. Properties are made of a view when
//! a client asks; nothing is kept, but what clients have set of the log.

pub(crate) mod introspect;
pub(crate) mod log;
mod settings;
mod types;
mod unit;

use kernel::cgroup::find;
use model::error::Reason;
use model::unit::Verb;
use schedule::unit::{Job, UnitName, View};
use zbus::{OwnedVariant, Variant};

use crate::error::Failure;
use crate::manager::{self, Call, object_path, unit_path};
use crate::path::Object;
use crate::serve::{Answer, Caller, Service, unknown};
use crate::wire::message::{Body, Message};

pub(crate) const UNIT: &str = "org.freedesktop.systemd1.Unit";
pub(crate) const JOB: &str = "org.freedesktop.systemd1.Job";
const PREFIX: &str = "org.freedesktop.systemd1.";

/// Names and values.
pub(crate) type Properties = Vec<(&'static str, Variant<'static>)>;

/// What a unit's group is called: `/user.slice/user-1000.slice/session-4.scope`.
pub(crate) fn group_name(view: &View) -> Option<String> {
    find::group_of_path(view.group.as_deref()?).ok()
}

/// The interface of a unit's type: `org.freedesktop.systemd1.Service`.
pub(crate) fn type_interface(unit: &UnitName) -> String {
    let kind = unit.kind().to_string();
    let mut letters = kind.chars();
    let first = letters.next().map(|it| it.to_ascii_uppercase());
    let word: String = first.into_iter().chain(letters).collect();
    format!("{PREFIX}{word}")
}

/// The properties of a unit by interface.
pub(crate) fn of_unit(view: &View) -> [(String, Properties); 2] {
    [
        (UNIT.to_owned(), unit::properties(view)),
        (type_interface(&view.id), types::properties(view)),
    ]
}

fn of_job(job: &Job) -> Properties {
    let unit = (
        job.unit.to_string(),
        unit_path(job.unit.as_str()).into_inner(),
    );
    vec![
        (
            "Id",
            Variant::from(u32::try_from(job.id).unwrap_or(u32::MAX)),
        ),
        ("Unit", Variant::from(unit)),
        ("JobType", Variant::from(job.kind.clone())),
        (
            "State",
            Variant::from(if job.runs { "running" } else { "waiting" }),
        ),
    ]
}

/// All properties of an object, by interface.
async fn all_of(
    service: &Service,
    caller: &Caller,
    object: &Object,
) -> Result<Vec<(String, Properties)>, Failure> {
    match object {
        Object::Manager => {
            let all = manager::properties::all(service, caller).await?;
            Ok(vec![(manager::INTERFACE.to_owned(), all)])
        }
        Object::Unit(name) => {
            let permit = service
                .permit(caller, "schedule.GetUnit", name.as_str())
                .await?;
            match service.units.view(&permit, name.clone(), true).await {
                Ok(view) => Ok(of_unit(&view).into()),
                // systemctl(1) looks at it, to say that there is none.
                Err(error) if error.reason == Reason::NotFound => {
                    Ok(vec![(UNIT.to_owned(), unit::absent(name))])
                }
                Err(error) => Err(error.into()),
            }
        }
        Object::OwnUnit => {
            let pid = caller.process.pid;
            let permit = service.permit(caller, "schedule.GetUnit", "self").await?;
            let Some(name) = service.units.of_process(&permit, pid).await? else {
                let words = format!("PID {pid} does not belong to any loaded unit.");
                return Err(Failure::of_systemd("NoUnitForPID", words));
            };
            let view = service.units.view(&permit, name, true).await?;
            Ok(of_unit(&view).into())
        }
        Object::Job(id) => {
            let permit = service.permit(caller, "schedule.ListUnits", "").await?;
            let jobs = service.units.jobs(&permit).await?;
            let job = jobs.iter().find(|job| job.id == *id);
            let gone = || Failure::of_bus("UnknownObject", format!("Job {id} does not exist."));
            Ok(vec![(JOB.to_owned(), of_job(job.ok_or_else(gone)?))])
        }
        Object::Log => {
            service.permit(caller, "schedule.ListUnits", "").await?;
            Ok(vec![(
                log::INTERFACE.to_owned(),
                service.log().properties(),
            )])
        }
        Object::Way | Object::Units | Object::Jobs => Ok(Vec::new()),
    }
}

/// `org.freedesktop.DBus.Properties`.
pub(crate) async fn properties(
    service: &Service,
    caller: &Caller,
    call: &Message,
    object: &Object,
) -> Answer {
    let wrong = || Failure::arguments(&call.member);
    match call.member.as_str() {
        "Get" => {
            let (interface, name): (String, String) = call.arguments().ok_or_else(wrong)?;
            let all = all_of(service, caller, object).await?;
            let mut own = all
                .into_iter()
                .filter(|(it, _)| interface.is_empty() || *it == interface);
            let found = own.find_map(|(_, all)| all.into_iter().find(|(it, _)| *it == name));
            let Some((_, value)) = found else {
                let words = format!("Unknown interface {interface} or property {name}.");
                return Err(Failure::of_bus("UnknownProperty", words));
            };
            Ok(Body::of(&(value,))?)
        }
        "GetAll" => {
            let (interface,): (String,) = call.arguments().ok_or_else(wrong)?;
            let all = all_of(service, caller, object).await?;
            let own = all
                .into_iter()
                .filter(|(it, _)| interface.is_empty() || *it == interface);
            let own = own.flat_map(|(_, all)| all);
            Ok(Body::of(&(dictionary(own.collect()),))?)
        }
        "Set" => {
            let (_, name, value): (String, String, OwnedVariant) =
                call.arguments().ok_or_else(wrong)?;
            set(service, caller, object, &name, &value).await
        }
        _ => Err(unknown(call)),
    }
}

/// Of the manager: whether services that don't say that they live are ended.
const WATCHDOGS: &str = "ServiceWatchdogs";

/// Whether clients can set a property of that name.
fn is_settable(name: &str) -> bool {
    log::is_settable(name) || name == WATCHDOGS
}

async fn set(
    service: &Service,
    caller: &Caller,
    object: &Object,
    name: &str,
    value: &Variant<'_>,
) -> Answer {
    let is_managers = *object == Object::Manager;
    if is_managers && name == WATCHDOGS {
        let Variant::Bool(counts) = value else {
            return Err(Failure::of_bus(
                "InvalidArgs",
                format!("{name} is yes or no"),
            ));
        };
        manager::watchdogs(service, caller, *counts).await?;
        return Ok(Body::default());
    }
    let has_it = is_managers || *object == Object::Log;
    if !has_it || !log::is_settable(name) {
        let words = "properties are changed by files";
        return Err(Failure::of_bus("PropertyReadOnly", words));
    }
    service
        .permit(caller, "schedule.ReloadUnitFiles", name)
        .await?;
    service.log().set(name, value)?;
    Ok(Body::default())
}

/// As a dictionary of texts and variants.
pub(crate) fn dictionary(
    properties: Properties,
) -> std::collections::BTreeMap<String, Variant<'static>> {
    let own = |(name, value): (&str, Variant<'static>)| (name.to_owned(), value);
    properties.into_iter().map(own).collect()
}

/// Methods of units and jobs: what the manager does by a name.
pub(crate) async fn call(
    service: &Service,
    caller: &Caller,
    message: &Message,
    object: &Object,
) -> Answer {
    let call = Call {
        service,
        caller,
        message,
    };
    match object {
        Object::Unit(name) => unit_call(call, name.as_str()).await,
        Object::Job(id) if message.member == "Cancel" => call.cancel_job(*id).await,
        _ => Err(unknown(message)),
    }
}

/// The methods of a unit, and those of a scope.
pub(crate) const METHODS: &[(&str, &str, &str)] = &[
    ("Start", "s", "o"),
    ("Stop", "s", "o"),
    ("Reload", "s", "o"),
    ("Restart", "s", "o"),
    ("TryRestart", "s", "o"),
    ("ReloadOrRestart", "s", "o"),
    ("Kill", "si", ""),
    ("ResetFailed", "", ""),
    ("Ref", "", ""),
    ("Unref", "", ""),
    ("Freeze", "", ""),
    ("Thaw", "", ""),
    ("Clean", "as", ""),
    ("SetProperties", "ba(sv)", ""),
];

async fn unit_call(call: Call<'_>, name: &str) -> Answer {
    let message = call.message;
    let wrong = || Failure::arguments(&message.member);
    let verb = match message.member.as_str() {
        "Start" => Verb::Start,
        "Stop" => Verb::Stop,
        "Reload" => Verb::Reload,
        "Restart" => Verb::Restart,
        "TryRestart" => Verb::TryRestart,
        "ReloadOrRestart" => Verb::ReloadOrRestart,
        "Kill" => {
            let (whom, signal): (String, i32) = message.arguments().ok_or_else(wrong)?;
            return call.kill_unit(name, &whom, signal).await;
        }
        "Freeze" => return call.hold(name, true).await,
        "Thaw" => return call.hold(name, false).await,
        "Clean" => {
            let (what,): (Vec<String>,) = message.arguments().ok_or_else(wrong)?;
            return call.clean(name, what).await;
        }
        "SetProperties" => {
            let (runtime, properties) = message.arguments().ok_or_else(wrong)?;
            return call.set_properties(name, runtime, properties).await;
        }
        "Ref" | "Unref" => return call.refer_to(name).await,
        "ResetFailed" => return call.reset(vec![name.to_owned()]).await,
        "Abandon" if name.ends_with(".scope") => return call.abandon_scope(name).await,
        "GetProcesses" => return call.processes_of(name).await,
        _ => return Err(unknown(message)),
    };
    let (mode,): (String,) = message.arguments().ok_or_else(wrong)?;
    call.job(name, verb, &mode).await
}

/// The object of no job.
pub(crate) fn no_job() -> zbus::OwnedObjectPath {
    object_path("/".to_owned())
}
