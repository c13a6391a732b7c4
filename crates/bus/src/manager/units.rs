// SPDX-License-Identifier: Apache-2.0
//! Methods about units as they are: which there are, whose a process is.

use api_words::{GET, KILL, LIST, RESET, STOP, TRANSIENT};
use kernel::cgroup::Cgroup;
use kernel::procfs::command_line;
use model::error::Reason;
use model::signal::Signal;
use model::unit::{UnitStatus, Whom};
use schedule::unit::{Bind, View};
use units::glob::matches;
use zbus::OwnedObjectPath;

use super::{Call, object_path, unit, unit_path};
use crate::error::Failure;
use crate::object::group_name;
use crate::path;
use crate::serve::Answer;
use crate::wire::message::Body;

/// Names of the API's methods, which the permissions are about.
pub(super) mod api_words {
    pub(crate) const GET: &str = "schedule.GetUnit";
    pub(crate) const LIST: &str = "schedule.ListUnits";
    pub(crate) const KILL: &str = "schedule.KillUnit";
    pub(crate) const STOP: &str = "schedule.StopUnit";
    pub(crate) const RESET: &str = "schedule.ResetFailedUnits";
    pub(crate) const TRANSIENT: &str = "schedule.StartTransientUnit";
    pub(crate) const SET: &str = "schedule.SetUnitProperties";
    pub(crate) const SET_MANAGER: &str = "schedule.SetUnitManager";
}

/// Processes of a unit that are listed.
const MOST: usize = 4_096;

/// A unit of a list: name, description, load, active, sub, whom it follows, object, job and its
/// kind and object.
type Row = (
    String,
    String,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    OwnedObjectPath,
    u32,
    String,
    OwnedObjectPath,
);

fn row(status: UnitStatus) -> Row {
    let path = unit_path(&status.name);
    let description = match status.description.is_empty() {
        true => status.name.clone(),
        false => status.description,
    };
    let (id, kind) = status.job.unwrap_or_default();
    let job = match id {
        0 => object_path("/".to_owned()),
        id => object_path(path::of_job(id)),
    };
    (
        status.name,
        description,
        status.load,
        status.active,
        status.sub,
        "",
        path,
        u32::try_from(id).unwrap_or(u32::MAX),
        kind,
        job,
    )
}

impl Call<'_> {
    /// `None`: it is another method.
    pub(super) async fn units(&self) -> Option<Answer> {
        Some(match self.message.member.as_str() {
            "GetUnit" => self.get(false).await,
            "LoadUnit" => self.get(true).await,
            "GetUnitByPID" => self.by_process().await,
            "GetUnitByInvocationID" => self.by_invocation().await,
            "GetUnitByControlGroup" => self.by_group().await,
            "ListUnits" => self.list(|_| true).await,
            "ListUnitsFiltered" => self.filtered().await,
            "ListUnitsByPatterns" => self.by_patterns().await,
            "ListUnitsByNames" => self.by_names().await,
            "GetUnitProcesses" => self.processes().await,
            "AttachProcessesToUnit" => self.attach().await,
            "AbandonScope" => self.abandon().await,
            "KillUnit" => self.kill().await,
            "ResetFailedUnit" => self.reset_one().await,
            "ResetFailed" => self.reset(Vec::new()).await,
            "RefUnit" | "UnrefUnit" => self.reference().await,
            "FreezeUnit" => self.hold_named(true).await,
            "ThawUnit" => self.hold_named(false).await,
            "CleanUnit" => self.clean_named().await,
            "BindMountUnit" => self.bind_named().await,
            "StartTransientUnit" => self.start_transient().await,
            _ => return None,
        })
    }

    pub(super) async fn view(&self, name: &str, load: bool) -> Result<View, Failure> {
        let permit = self.service.permit(self.caller, GET, name).await?;
        let name = unit(name)?;
        Ok(self.service.units.view(&permit, name, load).await?)
    }

    async fn get(&self, load: bool) -> Answer {
        let (name,): (String,) = self.arguments()?;
        let view = match self.view(&name, load).await {
            Ok(view) => view,
            // LoadUnit has an answer for what there isn't, too.
            Err(failure) if load && failure.name.ends_with("NoSuchUnit") => {
                return Ok(Body::of(&(unit_path(&name),))?);
            }
            Err(failure) => return Err(failure),
        };
        Ok(Body::of(&(unit_path(view.id.as_str()),))?)
    }

    /// The unit of a process; of 0: of the caller.
    async fn by_process(&self) -> Answer {
        let (pid,): (u32,) = self.arguments()?;
        let pid = match i32::try_from(pid) {
            Ok(0) => self.caller.process.pid,
            Ok(pid) => pid,
            Err(_) => return Err(Failure::arguments("GetUnitByPID")),
        };
        let permit = self
            .service
            .permit(self.caller, GET, &pid.to_string())
            .await?;
        match self.service.units.of_process(&permit, pid).await? {
            Some(unit) => Ok(Body::of(&(unit_path(unit.as_str()),))?),
            None => {
                let words = format!("PID {pid} does not belong to any loaded unit.");
                Err(Failure::of_systemd("NoUnitForPID", words))
            }
        }
    }

    async fn by_invocation(&self) -> Answer {
        let (bytes,): (Vec<u8>,) = self.arguments()?;
        let wanted: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let permit = self.service.permit(self.caller, LIST, "").await?;
        for status in self.service.units.list(&permit, false).await? {
            let name = unit(&status.name)?;
            let view = self.service.units.seen(name).await;
            if let Some(view) = view.ok().filter(|it| it.invocation == wanted) {
                return Ok(Body::of(&(unit_path(view.id.as_str()),))?);
            }
        }
        let words = format!("no unit has the invocation {wanted}");
        Err(Failure::of_systemd("NoUnitForInvocationID", words))
    }

    async fn by_group(&self) -> Answer {
        let (group,): (String,) = self.arguments()?;
        let permit = self.service.permit(self.caller, LIST, "").await?;
        for status in self.service.units.list(&permit, false).await? {
            let view = self.service.units.seen(unit(&status.name)?).await;
            let own = view
                .ok()
                .filter(|it| group_name(it).as_deref() == Some(&group));
            if let Some(view) = own {
                return Ok(Body::of(&(unit_path(view.id.as_str()),))?);
            }
        }
        let words = format!("no unit has the control group {group}");
        Err(Failure::of_systemd("NoSuchUnit", words))
    }

    async fn list(&self, wanted: impl Fn(&UnitStatus) -> bool) -> Answer {
        let permit = self.service.permit(self.caller, LIST, "").await?;
        let list = self.service.units.list(&permit, false).await?;
        let rows: Vec<Row> = list.into_iter().filter(wanted).map(row).collect();
        Ok(Body::of(&(rows,))?)
    }

    async fn filtered(&self) -> Answer {
        let (states,): (Vec<String>,) = self.arguments()?;
        self.list(|it| is_in(&states, it)).await
    }

    async fn by_patterns(&self) -> Answer {
        let (states, patterns): (Vec<String>, Vec<String>) = self.arguments()?;
        let named = |it: &UnitStatus| {
            let names = std::iter::once(&it.name).chain(&it.aliases);
            let mut pairs = names.flat_map(|name| patterns.iter().map(move |p| (p, name)));
            patterns.is_empty() || pairs.any(|(pattern, name)| matches(pattern, name))
        };
        self.list(|it| is_in(&states, it) && named(it)).await
    }

    async fn by_names(&self) -> Answer {
        let (names,): (Vec<String>,) = self.arguments()?;
        let permit = self.service.permit(self.caller, LIST, "").await?;
        let mut rows = Vec::new();
        for name in names.iter().take(MOST) {
            let Ok(name) = unit(name) else {
                continue;
            };
            let status = match self.service.units.view(&permit, name.clone(), true).await {
                Ok(view) => view.status,
                Err(_) => UnitStatus {
                    name: name.to_string(),
                    load: "not-found",
                    active: "inactive",
                    sub: "dead",
                    ..UnitStatus::default()
                },
            };
            rows.push(row(status));
        }
        Ok(Body::of(&(rows,))?)
    }

    pub(crate) async fn processes(&self) -> Answer {
        let (name,): (String,) = self.arguments()?;
        self.processes_of(&name).await
    }

    /// The groups of a unit, and who lives in them.
    pub(crate) async fn processes_of(&self, name: &str) -> Answer {
        let view = self.view(name, false).await?;
        let (top, name) = (view.group.clone(), group_name(&view).unwrap_or_default());
        let rows = tokio::task::spawn_blocking(move || {
            let mut rows: Vec<(String, u32, String)> = Vec::new();
            let mut todo: Vec<(String, Cgroup)> = Vec::new();
            todo.extend(
                top.and_then(|it| Cgroup::open(&it).ok())
                    .map(|it| (name, it)),
            );
            while let Some((name, group)) = todo.pop() {
                for pid in group.processes().unwrap_or_default() {
                    let pid = u32::try_from(pid).unwrap_or(0);
                    // One that has ended meanwhile has no words.
                    let line = command_line(pid).unwrap_or_else(|| "[]".to_owned());
                    rows.push((name.clone(), pid, line));
                }
                if rows.len() >= MOST {
                    break;
                }
                let below = group.groups().into_iter();
                todo.extend(below.map(|(word, group)| (format!("{name}/{word}"), group)));
            }
            rows.truncate(MOST);
            rows
        });
        let rows = rows.await.unwrap_or_default();
        Ok(Body::of(&(rows,))?)
    }

    async fn attach(&self) -> Answer {
        let (name, below, pids): (String, String, Vec<u32>) = self.arguments()?;
        let permit = self.service.permit(self.caller, TRANSIENT, &name).await?;
        if !below.trim_matches('/').is_empty() {
            return Err(Failure::unsupported("groups below a unit's are its own"));
        }
        let pids = pids.into_iter().filter_map(|pid| i32::try_from(pid).ok());
        let attached = self
            .service
            .units
            .attach(&permit, unit(&name)?, pids.collect());
        attached.await?;
        Ok(Body::default())
    }

    async fn abandon(&self) -> Answer {
        let (name,): (String,) = self.arguments()?;
        self.abandon_scope(&name).await
    }

    pub(crate) async fn abandon_scope(&self, name: &str) -> Answer {
        let permit = self.service.permit(self.caller, TRANSIENT, name).await?;
        let abandoned = self.service.units.abandon(&permit, unit(name)?).await;
        // logind takes that for done, and no other failure.
        abandoned.map_err(|error| match error.reason {
            Reason::WrongState => Failure::of_systemd("ScopeNotRunning", error.to_string()),
            _ => error.into(),
        })?;
        Ok(Body::default())
    }

    async fn kill(&self) -> Answer {
        let (name, whom, signal): (String, String, i32) = self.arguments()?;
        self.kill_unit(&name, &whom, signal).await
    }

    pub(crate) async fn kill_unit(&self, name: &str, whom: &str, signal: i32) -> Answer {
        let permit = self.service.permit(self.caller, KILL, name).await?;
        let signal = u8::try_from(signal).ok().and_then(Signal::from_number);
        let signal =
            signal.ok_or_else(|| Failure::of_bus("InvalidArgs", "there is no such signal"))?;
        let whom = match whom {
            "" | "all" | "all-fail" => Whom::All,
            "main" | "main-fail" => Whom::Main,
            "control" | "control-fail" => Whom::Control,
            other => {
                let words = format!("{other} names no processes that a signal could be for");
                return Err(Failure::of_bus("InvalidArgs", words));
            }
        };
        let killed = self.service.units.kill(&permit, unit(name)?, signal, whom);
        killed.await?;
        Ok(Body::default())
    }

    async fn reference(&self) -> Answer {
        let (name,): (String,) = self.arguments()?;
        self.refer_to(&name).await
    }

    /// A client wants to ask after a unit once that has ended. Units that were loaded are known
    /// until the daemon ends: there is nothing to keep.
    pub(crate) async fn refer_to(&self, name: &str) -> Answer {
        self.view(name, true).await?;
        Ok(Body::default())
    }

    async fn hold_named(&self, frozen: bool) -> Answer {
        let (name,): (String,) = self.arguments()?;
        self.hold(&name, frozen).await
    }

    /// Holds the processes of a unit, or lets them go on. Who may signal them may.
    pub(crate) async fn hold(&self, name: &str, frozen: bool) -> Answer {
        let permit = self.service.permit(self.caller, KILL, name).await?;
        let held = self.service.units.hold(&permit, unit(name)?, frozen);
        held.await?;
        Ok(Body::default())
    }

    async fn clean_named(&self) -> Answer {
        let (name, what): (String, Vec<String>) = self.arguments()?;
        self.clean(&name, what).await
    }

    /// Removes folders of a unit that is down.
    pub(crate) async fn clean(&self, name: &str, what: Vec<String>) -> Answer {
        let permit = self.service.permit(self.caller, STOP, name).await?;
        let cleaned = self.service.units.clean(&permit, unit(name)?, what);
        cleaned.await?;
        Ok(Body::default())
    }

    /// Shows a place of the machine to a unit that runs: who may run any unit may.
    async fn bind_named(&self) -> Answer {
        let (name, source, target, read_only, make): (String, String, String, bool, bool) =
            self.arguments()?;
        let permit = self.service.permit(self.caller, TRANSIENT, &name).await?;
        let target = match target.is_empty() {
            true => source.clone(),
            false => target,
        };
        let bind = Bind {
            source: source.into(),
            target: target.into(),
            read_only,
            make,
        };
        self.service.units.bind(&permit, unit(&name)?, bind).await?;
        Ok(Body::default())
    }

    async fn reset_one(&self) -> Answer {
        let (name,): (String,) = self.arguments()?;
        self.reset(vec![name]).await
    }

    pub(crate) async fn reset(&self, names: Vec<String>) -> Answer {
        let about = names.join(" ");
        let permit = self.service.permit(self.caller, RESET, &about).await?;
        let units: Result<Vec<_>, _> = names.iter().map(|it| unit(it)).collect();
        self.service.units.reset_failed(&permit, units?).await?;
        Ok(Body::default())
    }
}

/// Whether a unit is in one of these states: of its files, its activity, or exactly.
fn is_in(states: &[String], unit: &UnitStatus) -> bool {
    let own = [unit.load, unit.active, unit.sub];
    states.is_empty() || states.iter().any(|it| own.contains(&it.as_str()))
}
