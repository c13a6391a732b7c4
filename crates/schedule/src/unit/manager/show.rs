// SPDX-License-Identifier: Apache-2.0
//! What is said of units.

use kernel::cgroup::find;
use model::error::Error;
use model::status::Object;
use model::time::Timestamp;
use model::unit::why::UnitWhy;
use model::unit::{UnitDetail, UnitStatus, UnitTimes};
use units::depend::{Dependency, SHOWN, triggered};
use units::files::Files;
use units::job::Load;
use units::name::{UnitName, UnitType};

use super::Manager;
use crate::unit::disk::{Disk, OWN};
use crate::unit::live::{Live, Machine, word};
use crate::unit::rows;
use crate::unit::runs::{self, Run};
use crate::unit::steps::service::Process;
use crate::unit::steps::{Phase, Step};
use crate::unit::table::Loaded;

/// What the bus alone shows of dependencies.
const LEFT_OUT: [Dependency; 3] = [
    Dependency::PropagatesReloadTo,
    Dependency::PropagatesStopTo,
    Dependency::JoinsNamespaceOf,
];

/// So many processes of a unit that is down are named.
const LEFT: usize = 16;

/// The first main process of a service's last activation.
fn first_main(unit: &UnitName, live: &Live) -> Option<Run> {
    let is_begun = unit.kind() == UnitType::Service && live.activation > 0;
    is_begun.then(|| Run {
        unit: unit.clone(),
        activation: live.activation,
        step: Step {
            phase: Phase::Start,
            index: 0,
            round: 0,
        },
    })
}

impl Manager {
    /// The units that are loaded, by name; with `files` all that a folder has, too.
    pub(super) async fn list(&mut self, files: bool) -> Vec<UnitStatus> {
        let mut names: Vec<UnitName> = self
            .known
            .table
            .all()
            .map(|(name, _)| name.clone())
            .collect();
        if files {
            names = self.known.table.files();
            let usual = names
                .iter()
                .filter(|it| !it.is_template())
                .cloned()
                .collect();
            self.load(usual).await;
        }
        let mut all: Vec<UnitStatus> = names.iter().map(|name| self.status(name)).collect();
        if files {
            let shown = all.iter().map(|it| UnitName::parse(&it.name));
            let shown: Vec<UnitName> = shown.flatten().collect();
            let states = self.known.table.file_states(&shown);
            for (status, state) in all.iter_mut().zip(states) {
                status.file_state = state.map_or("", |it| it.as_str());
            }
        }
        all
    }

    /// How a unit is; also one that there is none of.
    pub(super) fn status(&self, name: &UnitName) -> UnitStatus {
        let id = self.id(name);
        let Some(loaded) = self.known.table.find(&id) else {
            return UnitStatus {
                name: name.to_string(),
                load: "not-found",
                active: "inactive",
                sub: "dead",
                ..UnitStatus::default()
            };
        };
        let new = Live::new(id.kind());
        let live = self.known.live.get(&id).unwrap_or(&new);
        let mut status = self.of_files(name, loaded);
        self.put_state(&mut status, &id, live);
        let job = self.engine.job(&id);
        status.job = job.map(|job| (job.id, job.kind.to_string()));
        status
    }

    fn of_files(&self, name: &UnitName, loaded: &Loaded) -> UnitStatus {
        let unit = &loaded.unit;
        let shown = match unit.names.contains(name) {
            true => name.to_string(),
            false => unit.id.to_string(),
        };
        let load = match loaded.load() {
            Load::NotFound => "not-found",
            Load::Masked => "masked",
            Load::Bad => "bad-setting",
            Load::Loaded => "loaded",
        };
        UnitStatus {
            aliases: unit
                .names
                .iter()
                .map(ToString::to_string)
                .filter(|it| *it != shown)
                .collect(),
            name: shown,
            description: unit.description().into_owned(),
            load,
            load_error: match unit.masked.as_deref().and_then(rows::why) {
                Some(why) => why.to_owned(),
                None => loaded.bad.clone().unwrap_or_default(),
            },
            file_state: loaded.file_state,
            fragment: unit.fragment.clone().unwrap_or_default(),
            dropins: unit.dropins.clone(),
            findings: loaded.findings.iter().map(ToString::to_string).collect(),
            triggers: triggered(unit).map_or_else(String::new, |it| self.id(&it).to_string()),
            ..UnitStatus::default()
        }
    }

    fn put_state(&self, status: &mut UnitStatus, id: &UnitName, live: &Live) {
        status.active = word(live.activity());
        status.sub = live.sub(id.kind());
        status.result = live.result().as_str();
        status.main_pid = self.main_pid(id);
        status.activation = live.activation;
        status.active_since = live.active.map(|(real, _)| Timestamp(real));
        status.inactive_since = live.inactive.map(|(real, _)| Timestamp(real));
        status.condition = live.condition.clone().unwrap_or_default();
        status.words = match (live.words.is_empty(), &live.said) {
            (true, Some(said)) if live.activity().is_up() => said.clone(),
            _ => live.words.clone(),
        };
        let path = first_main(id, live).and_then(|run| run.path().ok());
        status.path = path.map_or_else(String::new, |it| it.to_string());
        status.markers = live.markers.iter().map(|it| it.as_str()).collect();
        match &live.machine {
            Machine::Service(state) => {
                status.restarts = state.restarts;
                let ended = state.ended.map(crate::unit::steps::End::words);
                status.ended = ended.map(|(code, status)| (code.to_owned(), status));
            }
            Machine::Timer(state) => {
                let real = model::time::Timestamp;
                let boot = state.next_boot.map(|at| {
                    let now = self.now();
                    now.real.saturating_add(at.saturating_sub(now.boot))
                });
                let next = [state.next_real.filter(|_| state.active), boot];
                status.next = next.into_iter().flatten().min().map(real);
                status.last = state.last.map(real);
            }
            Machine::Socket(_) | Machine::Path(_) | Machine::Scope(_) | Machine::Plain(_) => {}
        }
    }

    /// The main executable of a service, and the one beside it, where they were begun.
    pub(super) fn live_runs(&self, unit: &UnitName) -> (Option<Run>, Option<Run>) {
        let live = self.known.live.get(unit);
        let Some((live, Machine::Service(state))) = live.map(|it| (it, &it.machine)) else {
            return (None, None);
        };
        let run = |process: Process| Run {
            unit: unit.clone(),
            activation: live.activation,
            step: process.step,
        };
        let begun = |process: Option<_>| process.filter(|it: &Process| it.begun).map(run);
        (begun(state.main), begun(state.control))
    }

    /// What lives in the cell of a unit that is down, in words: `4711 (sleep), 4712 (sh)`.
    fn left(&self, unit: &UnitName) -> String {
        let name = |pid: &i32| {
            let file = format!("/proc/{pid}/comm");
            let name = std::fs::read_to_string(file).unwrap_or_default();
            let plain = name.trim_end().replace(|c: char| c.is_control(), "?");
            format!("{pid} ({plain})")
        };
        let all = self.runs.processes(unit);
        let shown: Vec<String> = all.iter().take(LEFT).map(name).collect();
        match all.len().saturating_sub(LEFT) {
            0 => shown.join(", "),
            more => format!("{} and {more} more", shown.join(", ")),
        }
    }

    /// All of a unit.
    pub(super) async fn detail(&self, name: &UnitName) -> Result<UnitDetail, Error> {
        let id = self.id(name);
        let Some(loaded) = self.known.table.find(&id) else {
            return Err(Error::not_found("unit", name.to_string()));
        };
        let unit = loaded.unit.clone();
        let paths: Vec<String> = unit.fragment.iter().chain(&unit.dropins).cloned().collect();
        let read = tokio::task::spawn_blocking(move || {
            let text = |path: String| {
                let bytes = Disk.read(&path).ok().flatten().unwrap_or_default();
                let shown = match path.strip_prefix(OWN) {
                    Some(name) => format!("(of the daemon){name}"),
                    None => path,
                };
                (shown, String::from_utf8_lossy(&bytes).into_owned())
            };
            paths.into_iter().map(text).collect()
        });
        let settings = unit
            .settings
            .iter()
            .map(|(field, setting)| (field.to_owned(), format!("{:?}", setting.value)));
        let mut status = self.status(&id);
        let live = self.known.live.get(&id);
        let up = live.is_some_and(|it| it.activity().is_up());
        let control = self.live_runs(&id).1;
        let control = control.and_then(|run| self.runs.seen(&run));
        if !up && id.kind() == UnitType::Service {
            let left = self.left(&id);
            if !left.is_empty() {
                let sep = if status.words.is_empty() { "" } else { "; " };
                status.words = format!("{}{sep}left behind: {left}", status.words);
            }
        }
        let waits_for = self.engine.waits_for(&id, &self.known);
        let waits_for: Vec<String> = waits_for.iter().map(ToString::to_string).collect();
        Ok(UnitDetail {
            why: UnitWhy::new(&status, &waits_for),
            status,
            files: read.await.unwrap_or_default(),
            dependencies: self.dependencies(&id),
            settings: settings.collect(),
            control_group: self
                .group_of(&id)
                .and_then(|folder| find::group_of_path(&folder).ok()),
            times: self.times(&id),
            invocation: live.map_or_else(String::new, |it| it.invocation.clone()),
            control_pid: control.as_deref().and_then(runs::pid),
        })
    }

    /// On which units it depends, and which on it.
    fn dependencies(&self, id: &UnitName) -> Vec<(&'static str, Vec<String>)> {
        let names = |units: Vec<UnitName>| units.iter().map(ToString::to_string).collect();
        let shown = || SHOWN.iter().filter(|(kind, ..)| !LEFT_OUT.contains(kind));
        let own = shown().map(|(kind, name, _)| (*name, names(self.known.on(id, *kind))));
        let others = shown().filter(|(.., name)| !name.is_empty());
        let others = others.map(|(kind, _, name)| (*name, names(self.known.of_others(id, *kind))));
        let all = own.chain(others);
        all.filter(|(_, units): &(_, Vec<String>)| !units.is_empty())
            .collect()
    }

    fn times(&self, id: &UnitName) -> UnitTimes {
        let Some(live) = self.known.live.get(id) else {
            return UnitTimes::default();
        };
        let now = self.now();
        let real = |boot: u64| now.real.saturating_sub(now.boot.saturating_sub(boot));
        let main = first_main(id, live).and_then(|run| self.runs.seen(&run));
        let main = match main.as_deref() {
            Some(Object::Executable(executable)) => Some(executable),
            _ => None,
        };
        UnitTimes {
            changed: Some(live.changed).filter(|at| *at > 0).map(Timestamp),
            begun: live.begun.map(real).map(Timestamp),
            left: live.left.map(|(real, _)| Timestamp(real)),
            main_begun: main.and_then(|it| it.started),
            main_ended: main.and_then(|it| it.exit?.finished),
        }
    }
}
