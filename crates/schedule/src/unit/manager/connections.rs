// SPDX-License-Identifier: Apache-2.0
//! Connections of socket units with `Accept=yes`: an instance of a service for each, which gets it
//! as its only socket. A connection is kept from the moment at which it was accepted until its
//! service has it.

use std::os::fd::OwnedFd;

use units::job::{Activity, JobType};
use units::name::UnitName;

use super::jobs::Wanted;
use super::triggers::Happened;
use super::{Happened as Event, Manager};
use crate::unit::kept::Use;
use crate::unit::live::Machine;
use crate::unit::runs::Run;
use crate::unit::socket::open;
use crate::unit::socket::pass::Passed;
use crate::unit::socket::peer::{Connection, Peer};
use crate::unit::socket::rules::Rules;
use crate::unit::steps::{Phase, Role};

impl Manager {
    /// A client has connected.
    pub(super) fn accepted(&mut self, unit: &UnitName, connection: OwnedFd) {
        let Some(files) = self.socket_files(unit) else {
            return;
        };
        let rules = Rules::of(&files);
        if !self.may_trigger(unit, &rules) {
            return;
        }
        self.watch_socket(unit);
        let peer = Peer::of(&connection);
        let all = self.triggers.connections.values();
        let of_unit: Vec<&Connection> = all.filter(|it| it.socket == *unit).collect();
        let source = peer.source();
        let is_from_it = |it: &&&Connection| source.is_some() && it.peer.source() == source;
        let from_it = of_unit.iter().filter(is_from_it).count();
        let per_source = rules.most_per_source;
        if of_unit.len() >= rules.most || (per_source > 0 && from_it >= per_source) {
            // systemd.socket(5), MaxConnections=: what is too many is closed.
            tracing::warn!(%unit, ?peer, "too many connections: one is refused");
            return;
        }
        if let Some(wanted) = rules.listens.first() {
            open::apply(&connection, &files.settings, &wanted.address);
        }
        let Some(state) = self.socket_state(unit) else {
            return;
        };
        let number = state.accepted;
        state.accepted = number.saturating_add(1);
        self.dirty.insert(unit.clone());
        let Some(service) = peer.service(unit, number) else {
            tracing::warn!(%unit, ?peer, "no service can be called by a connection");
            return;
        };
        let copy = connection.try_clone();
        let connection = Connection {
            socket: unit.clone(),
            peer,
            waits: Some((connection, None)),
        };
        self.triggers
            .connections
            .insert(service.clone(), connection);
        let (descriptors, socket) = (self.triggers.descriptors.clone(), unit.to_string());
        self.jobs.spawn(async move {
            let kept = match copy {
                Ok(copy) => {
                    descriptors
                        .keep(Use::Connection, &service, &socket, copy)
                        .await
                }
                Err(error) => Err(model::error::Error::internal(error.to_string())),
            };
            if let Err(error) = &kept {
                // It is served all the same, and lost where the daemon dies before its service has
                // it.
                tracing::warn!(unit = %service, %error, "a connection is not kept");
            }
            Event::Trigger(Happened::Kept(service, kept.ok()))
        });
    }

    pub(super) fn connection_kept(&mut self, service: &UnitName, number: Option<u64>) {
        let waits = self.triggers.connections.get_mut(service);
        let Some(Connection {
            socket,
            waits: Some((_, kept)),
            ..
        }) = waits
        else {
            return self.drop_kept(number.into_iter().collect());
        };
        *kept = number;
        let why = format!("a connection to {socket}");
        self.wanted.push(Wanted {
            unit: service.clone(),
            kind: JobType::Start,
            mode: Default::default(),
            why,
        });
    }

    /// What the main process of a service is given when it starts.
    pub(super) fn passed_to(&mut self, run: &Run, role: Role) -> Passed {
        if role != Role::Main || run.step.phase != Phase::Start {
            return Passed::default();
        }
        let connection = self.triggers.connections.get(&run.unit);
        let mut passed = match connection {
            Some(connection) => {
                let files = self.socket_files(&connection.socket);
                let name = files.map_or_else(|| "connection".to_owned(), |it| Rules::of(&it).name);
                let waits = connection.waits.as_ref();
                let fd = waits.and_then(|(fd, _)| fd.try_clone().ok());
                Passed {
                    sockets: fd
                        .into_iter()
                        .map(|fd| runtime::Descriptor {
                            name: name.clone(),
                            fd,
                        })
                        .collect(),
                    variables: connection.peer.variables(),
                    ..Passed::default()
                }
            }
            None => Passed {
                sockets: self.sockets_for(&run.unit),
                ..Passed::default()
            },
        };
        let room = runtime::MAX_DESCRIPTORS.saturating_sub(passed.sockets.len());
        passed.stored = self.triggers.stores.give(&run.unit, room);
        passed
    }

    /// A service's main process was executed: it has its connection, which the node doesn't hold
    /// open any more.
    pub(super) fn began_with(&mut self, run: &Run, role: Role) {
        if role != Role::Main {
            return;
        }
        let connection = self.triggers.connections.get_mut(&run.unit);
        if let Some((_, number)) = connection.and_then(|it| it.waits.take()) {
            self.drop_kept(number.into_iter().collect());
        }
    }

    /// The service of a connection is down: there is room for another one.
    pub(super) fn end_connection(&mut self, service: &UnitName, activity: Activity) {
        let Some(connection) = self.triggers.connections.remove(service) else {
            return;
        };
        if let Some((_, number)) = connection.waits {
            self.drop_kept(number.into_iter().collect());
        }
        self.room_was_made();
        tracing::debug!(%service, ?activity, "a connection has ended");
        self.triggers.over.insert(service.clone());
    }

    /// Connections of an earlier daemon: those whose service hasn't begun are served now, and those
    /// that are served are counted.
    pub(super) fn adopt_connections(&mut self) {
        self.count_connections();
        let left = self.triggers.left.keys();
        let waiting = left.filter(|(what, _)| *what == Use::Connection);
        let services: Vec<UnitName> = waiting.map(|(_, unit)| unit.clone()).collect();
        for service in services {
            let begun = self.has_main(&service);
            let all = self
                .triggers
                .left
                .remove(&(Use::Connection, service.clone()));
            for kept in all.into_iter().flatten() {
                let socket = UnitName::parse(&kept.name).ok();
                let Some(socket) = socket.filter(|_| !begun) else {
                    self.drop_kept(vec![kept.number]);
                    continue;
                };
                let connection = Connection {
                    socket,
                    peer: Peer::of(&kept.fd),
                    waits: Some((kept.fd, Some(kept.number))),
                };
                self.triggers
                    .connections
                    .insert(service.clone(), connection);
                self.connection_kept(&service, Some(kept.number));
            }
        }
    }

    /// Services that an earlier daemon has begun for connections.
    fn count_connections(&mut self) {
        let instances = self.known.live.iter().filter(|(it, _)| it.is_instance());
        let all: Vec<(UnitName, bool)> = instances
            .map(|(it, live)| (it.clone(), live.activity().is_up()))
            .collect();
        for (service, up) in all {
            let socket = UnitName::parse(&format!("{}.socket", service.prefix()));
            let Ok(socket) = socket else {
                continue;
            };
            let files = self.socket_files(&socket);
            if !files.is_some_and(|it| Rules::of(&it).accept) {
                continue;
            }
            if !up {
                self.triggers.over.insert(service);
                continue;
            }
            let connection = Connection {
                socket,
                peer: Peer::named(service.instance().unwrap_or("")),
                waits: None,
            };
            self.triggers.connections.insert(service, connection);
        }
    }

    /// Whether a service has its main process already.
    fn has_main(&self, service: &UnitName) -> bool {
        let live = self.known.live.get(service).map(|it| &it.machine);
        match live {
            Some(Machine::Service(state)) => state.main.is_some_and(|it| it.begun),
            _ => false,
        }
    }
}
