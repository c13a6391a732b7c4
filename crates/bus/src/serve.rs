// SPDX-License-Identifier: Apache-2.0
//! Answers calls, whichever connection they come by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use identity::{Identity, Permit, SocketCredentials};
use schedule::unit::Units;

use crate::error::Failure;
use crate::object::log::Log;
use crate::path::{self, Object};
use crate::subscribers::Kept;
use crate::wire::message::{Body, Draft, Message};
use crate::wire::outbox::Outbox;
use crate::{manager, object};

/// Connections that are told of what happens, and names on the bus that are.
pub(crate) const MOST: usize = 256;

pub(crate) type Answer = Result<Body, Failure>;

/// How a machine ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It is switched off.
    PowerOff,
    /// It starts anew.
    Reboot,
    /// It stops and stays on.
    Halt,
}

/// What is asked of the machine, and not of its units.
pub trait Machine: Send + Sync + 'static {
    /// Begins to go down, with the permission of uid 0.
    fn end(&self, how: End);
    /// Whether it goes down.
    fn is_ending(&self) -> bool;
}

/// Who calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Caller {
    pub(crate) process: SocketCredentials,
    /// By which socket: for the audit.
    pub(crate) how: &'static str,
    /// Its name on the bus; of the private socket, the number of the connection.
    pub(crate) name: String,
}

/// See the module.
pub(crate) struct Service {
    pub(crate) units: Units,
    pub(crate) identity: Arc<Identity>,
    pub(crate) machine: Arc<dyn Machine>,
    pub(crate) kept: Kept,
    told: Mutex<Told>,
    log: Mutex<Log>,
}

/// Who is told of what happens.
#[derive(Default)]
pub(crate) struct Told {
    /// Connections of the private socket, by number.
    pub(crate) private: BTreeMap<u64, Outbox>,
    /// The connection to the system bus.
    pub(crate) bus: Option<Outbox>,
    /// The id of that bus, to which the names below belong.
    pub(crate) bus_id: String,
    /// Names on the bus that have subscribed.
    pub(crate) subscribed: BTreeSet<String>,
}

impl Service {
    pub(crate) fn new(
        units: Units,
        identity: Arc<Identity>,
        machine: Arc<dyn Machine>,
        kept: Kept,
    ) -> Service {
        Service {
            units,
            identity,
            machine,
            kept,
            told: Mutex::default(),
            log: Mutex::default(),
        }
    }

    /// What clients have set of the log.
    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A permit for a call.
    pub(crate) async fn permit(
        &self,
        caller: &Caller,
        action: &'static str,
        about: &str,
    ) -> Result<Permit, Failure> {
        let permit = self
            .identity
            .local_permit(caller.process, action, about, caller.how);
        Ok(permit.await?)
    }

    /// Answers a call.
    pub(crate) async fn answer(&self, caller: &Caller, call: &Message) -> Draft {
        let answer = match call.is_too_long {
            true => Err(Failure::of_bus("LimitsExceeded", "the call is too long")),
            false => self.dispatch(caller, call).await,
        };
        match answer {
            Ok(body) => Draft::answer(call, body),
            Err(Failure { name, words }) => Draft::failure(call, &name, &words),
        }
    }

    async fn dispatch(&self, caller: &Caller, call: &Message) -> Answer {
        if call.interface == "org.freedesktop.DBus.Peer" || call.member == "Ping" {
            return peer(call).await;
        }
        let Some(object) = path::object(&call.path) else {
            let words = format!("there is no object {}", call.path);
            return Err(Failure::of_bus("UnknownObject", words));
        };
        match call.interface.as_str() {
            "org.freedesktop.DBus.Introspectable" => {
                object::introspect::answer(self, caller, call, &object).await
            }
            "org.freedesktop.DBus.Properties" => {
                object::properties(self, caller, call, &object).await
            }
            manager::INTERFACE | "" if object == Object::Manager => {
                manager::call(self, caller, call).await
            }
            _ => object::call(self, caller, call, &object).await,
        }
    }

    /// From now on that caller is told of what happens; whether that is new.
    pub(crate) fn subscribe(&self, caller: &Caller) -> Result<bool, Failure> {
        let mut told = self.told();
        if !caller.name.starts_with(':') {
            // By the private socket everybody is told.
            return Ok(true);
        }
        if told.subscribed.len() >= MOST && !told.subscribed.contains(&caller.name) {
            let words = format!("{MOST} have subscribed");
            return Err(Failure::of_bus("LimitsExceeded", words));
        }
        let is_new = told.subscribed.insert(caller.name.clone());
        if is_new {
            self.kept.write(&told.bus_id, &told.subscribed);
        }
        Ok(is_new)
    }

    pub(crate) fn unsubscribe(&self, name: &str) -> bool {
        let mut told = self.told();
        let was = told.subscribed.remove(name);
        if was {
            self.kept.write(&told.bus_id, &told.subscribed);
        }
        was
    }
}

/// `org.freedesktop.DBus.Peer`.
async fn peer(call: &Message) -> Answer {
    match call.member.as_str() {
        "Ping" => Ok(Body::default()),
        "GetMachineId" => {
            let id = tokio::fs::read_to_string("/etc/machine-id").await;
            let id = id.map_err(|e| Failure::of_bus("Failed", format!("/etc/machine-id: {e}")))?;
            Ok(Body::of(&(id.trim(),))?)
        }
        _ => Err(unknown(call)),
    }
}

/// The failure of a method that there isn't.
pub(crate) fn unknown(call: &Message) -> Failure {
    let words = format!(
        "there is no method {}.{} at {}",
        call.interface, call.member, call.path
    );
    Failure::of_bus("UnknownMethod", words)
}
