// SPDX-License-Identifier: Apache-2.0
//! What services say of themselves, as far as they may: whose word counts (`NotifyAccess=`), and
//! what a command is told so that it can. What follows is decided in [`crate::unit::steps`].

use model::error::Error;
use units::name::UnitName;
use units::service::{Service, Type};

use super::{Manager, triggers};
use crate::unit::kept::Use;
use crate::unit::live::Machine;
use crate::unit::notify::{self, Heard, Message};
use crate::unit::program::Told;
use crate::unit::runs;
use crate::unit::steps::service::{Event, State, Sub};
use crate::unit::steps::{End, Role};

/// So many messages of a unit wait for the number of a process that is being executed.
const EARLY: usize = 32;

impl Manager {
    /// A service, or a process that pretends to be one, has said something.
    pub(super) fn hear(&mut self, heard: Heard) {
        let waits = self.processes(&heard.unit).iter().any(|(_, begun)| !begun);
        if waits && heard.inside {
            let early = self.early.entry(heard.unit.clone()).or_default();
            if early.len() < EARLY {
                early.push(heard);
            }
            return;
        }
        if !self.may_say(&heard) {
            let Heard { unit, pid, .. } = &heard;
            tracing::warn!(%unit, pid, "a message of a process that may not speak for the unit");
            return;
        }
        let Heard { unit, message, .. } = heard;
        self.take_word(&unit, message);
    }

    /// What was said while a process was being executed.
    pub(super) fn hear_early(&mut self, unit: &UnitName) {
        for heard in self.early.remove(unit).unwrap_or_default() {
            self.hear(heard);
        }
    }

    /// systemd.service(5), NotifyAccess=.
    fn may_say(&self, heard: &Heard) -> bool {
        let (_, service) = self.known.table.rules(&heard.unit);
        let pid = u32::try_from(heard.pid).ok();
        let of = |run: &runs::Run| {
            let pid_of = self.runs.seen(run).as_deref().and_then(runs::pid);
            pid_of.is_some() && pid_of == pid
        };
        let is_main = pid.is_some() && self.main_pid(&heard.unit) == pid;
        let is_either = || is_main || self.processes(&heard.unit).iter().any(|(run, _)| of(run));
        match service.notify_access {
            "main" => is_main || heard.by_init,
            "exec" => heard.by_init || is_either(),
            "all" => heard.inside || is_either(),
            _ => false,
        }
    }

    fn take_word(&mut self, unit: &UnitName, message: Message) {
        tracing::debug!(%unit, ?message, "a service says something");
        if let Some(pid) = message.main_pid {
            self.new_main(unit, pid);
        }
        let live = self.known.live_mut(unit);
        let status = message.status.filter(|it| live.said.as_ref() != Some(it));
        if let Some(status) = status {
            live.said = Some(status);
            self.dirty.insert(unit.clone());
        }
        if let Some(errno) = message.errno.filter(|it| *it > 0) {
            let error = std::io::Error::from_raw_os_error(errno);
            self.known.live_mut(unit).words = format!("the service reports: {error}");
        }
        if let Some(store) = message.store {
            self.store_message(unit, &store.message, store.descriptors);
        }
        for said in message.said {
            if self.counts(said) {
                self.event(unit, Event::Said(said));
            }
        }
    }

    /// `MAINPID=`: a process of the unit, and no other, whichever process says so.
    fn new_main(&mut self, unit: &UnitName, pid: i32) {
        let counts = matches!(
            self.known.live.get(unit).map(|it| &it.machine),
            Some(Machine::Service(State {
                sub: Sub::Start
                    | Sub::StartPost
                    | Sub::Running
                    | Sub::Reload
                    | Sub::ReloadSignal
                    | Sub::ReloadNotify,
                ..
            }))
        );
        let Some(run) = self.main_run(unit).filter(|_| counts) else {
            return;
        };
        let number = u32::try_from(pid).ok();
        if self.known.live_mut(unit).main_pid == number {
            return;
        }
        if !self.runs.is_of(unit, pid) {
            tracing::warn!(%unit, pid, "MAINPID= names a process that is none of the unit");
            return;
        }
        self.known.live_mut(unit).main_pid = number;
        self.dirty.insert(unit.clone());
        let runs = self.runs.clone();
        self.jobs.spawn(async move {
            if let Err(error) = runs.set_main(&run, pid).await {
                tracing::warn!(unit = %run.unit, pid, %error, "MAINPID= was not taken");
            }
            super::Happened::Nothing
        });
    }

    /// What a command is told; `None`: there is no such service.
    ///
    /// # Errors
    /// The socket that it is to be given can't be made.
    pub(super) fn told(
        &mut self,
        unit: &UnitName,
        service: &Service,
        role: Role,
    ) -> Result<Option<Told>, Error> {
        let access = service.notify_access;
        let speaks = match role {
            Role::Main => access != "none",
            Role::Control => matches!(access, "exec" | "all"),
        };
        let socket = match speaks {
            true => Some(self.socket(unit)?),
            false => None,
        };
        let Some(live) = self.known.live.get(unit) else {
            return Ok(None);
        };
        let Machine::Service(state) = &live.machine else {
            return Ok(None);
        };
        let own = service.watchdog.and_then(units::time::Span::micros);
        let every = state.watchdog_every.map(|it| it / 1000).or(own);
        let every = every.filter(|it| *it > 0 && service.kind != Type::Oneshot);
        Ok(Some(Told {
            main_pid: self.main_pid(unit),
            result: state.result,
            ended: state.ended,
            invocation: live.invocation.clone(),
            notify: socket,
            watchdog: every.filter(|_| role == Role::Main),
            monitored: [self.monitored(unit), live.trigger.clone()].concat(),
            shared: std::path::PathBuf::new(),
            dynamic: Default::default(),
            stage: None,
            slices: Vec::new(),
            environment: self.given.variables().clone(),
        }))
    }

    /// The socket of a unit, made where it has none.
    pub(super) fn socket(&mut self, unit: &UnitName) -> Result<String, Error> {
        if let Some(socket) = self.sockets.get(unit) {
            return Ok(socket.address());
        }
        let turn = self.triggers.next();
        let left = self.triggers.left.remove(&(Use::Notify, unit.clone()));
        let mut left = left.into_iter().flatten();
        let earlier = left.next().map(|it| (it.number, it.fd));
        let others: Vec<u64> = left.map(|it| it.number).collect();
        self.drop_kept(others);
        let number = earlier.as_ref().map(|(number, _)| *number);
        let which = (unit, turn);
        let opened = notify::open(&self.folder, which, earlier, &self.runs, &self.hears);
        let (socket, copy) = opened?;
        if socket.kept != number {
            self.drop_kept(number.into_iter().collect());
        }
        let address = socket.address();
        self.sockets.insert(unit.clone(), socket);
        if let Some(copy) = copy {
            let (descriptors, unit) = (self.triggers.descriptors.clone(), unit.clone());
            self.jobs.spawn(async move {
                match descriptors.keep(Use::Notify, &unit, "notify", copy).await {
                    Ok(number) => {
                        let kept = triggers::Happened::Listens(unit, turn, number);
                        super::Happened::Trigger(kept)
                    }
                    Err(error) => {
                        tracing::warn!(%unit, %error, "what it says without a daemon is lost");
                        super::Happened::Nothing
                    }
                }
            });
        }
        Ok(address)
    }

    /// Node-init keeps a unit's socket now.
    pub(super) fn socket_kept(&mut self, unit: &UnitName, turn: u64, number: u64) {
        match self.sockets.get_mut(unit).filter(|it| it.turn == turn) {
            Some(socket) => socket.kept = Some(number),
            None => self.drop_kept(vec![number]),
        }
    }

    /// A unit is down: no process speaks for it any more.
    pub(super) fn close_notify(&mut self, unit: &UnitName) {
        if let Some(socket) = self.sockets.remove(unit) {
            let number = socket.close();
            self.drop_kept(number.into_iter().collect());
        }
    }

    /// systemd.exec(5), $MONITOR_SERVICE_RESULT and the others.
    fn monitored(&self, unit: &UnitName) -> Vec<(String, String)> {
        let live = self.known.live.get(unit);
        let Some(name) = live.and_then(|it| it.monitored.clone()) else {
            return Vec::new();
        };
        let other = UnitName::parse(&name).ok();
        let Some(other) = other.and_then(|it| self.known.live.get(&it)) else {
            return Vec::new();
        };
        let mut all = vec![
            (
                "MONITOR_SERVICE_RESULT".to_owned(),
                other.result().as_str().to_owned(),
            ),
            ("MONITOR_INVOCATION_ID".to_owned(), other.invocation.clone()),
            ("MONITOR_UNIT".to_owned(), name),
        ];
        if let Machine::Service(state) = &other.machine
            && let Some((code, status)) = state.ended.map(End::words)
        {
            all.push(("MONITOR_EXIT_CODE".to_owned(), code.to_owned()));
            all.push(("MONITOR_EXIT_STATUS".to_owned(), status));
        }
        all
    }
}
