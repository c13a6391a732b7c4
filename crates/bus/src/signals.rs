// SPDX-License-Identifier: Apache-2.0
//! Signals: what the unit manager tells becomes messages for listeners. By the private socket
//! every client is told; on the bus the end of jobs always is, and the rest where a client has
//! subscribed.

use std::sync::Arc;

use schedule::unit::{News, UnitName};
use tokio::sync::broadcast::error::RecvError;

use crate::manager::{INTERFACE, object_path, unit_path};
use crate::object;
use crate::path;
use crate::serve::Service;
use crate::wire::message::{Body, Draft};

/// Properties that are said to have changed, of a unit and of its type.
const CHANGING: [&str; 16] = [
    "ActiveState",
    "SubState",
    "Job",
    "InactiveExitTimestamp",
    "ActiveEnterTimestamp",
    "ActiveExitTimestamp",
    "InactiveEnterTimestamp",
    "StateChangeTimestamp",
    "ConditionResult",
    "InvocationID",
    "MainPID",
    "ControlPID",
    "StatusText",
    "Result",
    "ExecMainCode",
    "ExecMainStatus",
];

/// Who is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    /// Who waits for a job may not have subscribed.
    Everybody,
    Subscribers,
}

fn send(service: &Service, whom: Whom, draft: &Draft) {
    let told = service.told();
    for outbox in told.private.values() {
        outbox.send(draft);
    }
    let on_bus = whom == Whom::Everybody || !told.subscribed.is_empty();
    if let Some(bus) = told.bus.as_ref().filter(|_| on_bus) {
        bus.send(draft);
    }
}

fn is_heard(service: &Service) -> bool {
    let told = service.told();
    !told.private.is_empty() || (told.bus.is_some() && !told.subscribed.is_empty())
}

fn manager(member: &str, body: Result<Body, zbus::Error>) -> Option<Draft> {
    match body {
        Ok(body) => Some(Draft::signal(path::MANAGER, INTERFACE, member, body)),
        Err(error) => {
            tracing::error!(member, %error, "a signal can't be written");
            None
        }
    }
}

fn removed(id: u64, unit: &str, result: &str) -> Option<Draft> {
    let number = u32::try_from(id).unwrap_or(u32::MAX);
    let body = Body::of(&(number, object_path(path::of_job(id)), unit, result));
    manager("JobRemoved", body)
}

/// A job that there was nothing to do for has ended.
pub(crate) fn nothing_was_done(service: &Service, id: u64, unit: &str) {
    if let Some(draft) = removed(id, unit, "done") {
        send(service, Whom::Everybody, &draft);
    }
}

/// Subscribers have missed something: who hears of a reload looks at all units again.
pub(crate) fn look_again(service: &Service) {
    if let Some(draft) = manager("Reloading", Body::of(&(false,))) {
        send(service, Whom::Subscribers, &draft);
    }
}

/// Tells for as long as it is polled.
pub(crate) async fn tell(service: Arc<Service>) {
    let mut news = match service.units.listen() {
        Ok(news) => news,
        Err(error) => {
            tracing::error!(%error, "nothing is told on the bus");
            return;
        }
    };
    loop {
        match news.recv().await {
            Ok(news) => one(&service, news).await,
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "signals were left out");
                look_again(&service);
            }
            Err(RecvError::Closed) => return,
        }
    }
}

async fn one(service: &Service, news: News) {
    let (whom, draft) = match news {
        News::JobRemoved(id, unit, result) => (Whom::Everybody, removed(id, unit.as_str(), result)),
        News::JobNew(id, unit) => {
            let number = u32::try_from(id).unwrap_or(u32::MAX);
            let body = Body::of(&(number, object_path(path::of_job(id)), unit.as_str()));
            (Whom::Subscribers, manager("JobNew", body))
        }
        News::UnitNew(unit) => (Whom::Subscribers, of_unit("UnitNew", &unit)),
        News::UnitRemoved(unit) => (Whom::Subscribers, of_unit("UnitRemoved", &unit)),
        News::Reloading(active) => (
            Whom::Subscribers,
            manager("Reloading", Body::of(&(active,))),
        ),
        News::FilesChanged => {
            let body = Ok(Body::default());
            (Whom::Subscribers, manager("UnitFilesChanged", body))
        }
        News::Changed(unit) => return changed(service, unit).await,
    };
    if let Some(draft) = draft {
        send(service, whom, &draft);
    }
}

fn of_unit(member: &str, unit: &UnitName) -> Option<Draft> {
    manager(member, Body::of(&(unit.as_str(), unit_path(unit.as_str()))))
}

/// `PropertiesChanged` of a unit.
async fn changed(service: &Service, unit: UnitName) {
    if !is_heard(service) {
        return;
    }
    // One that is forgotten is told of as that.
    let Ok(view) = service.units.seen(unit).await else {
        return;
    };
    let at = path::of_unit(view.id.as_str());
    for (interface, mut all) in object::of_unit(&view) {
        all.retain(|(name, _)| CHANGING.contains(name));
        let none: Vec<String> = Vec::new();
        let body = Body::of(&(interface, object::dictionary(all), none));
        match body {
            Ok(body) => {
                let bus = "org.freedesktop.DBus.Properties";
                let draft = Draft::signal(&at, bus, "PropertiesChanged", body);
                send(service, Whom::Subscribers, &draft);
            }
            Err(error) => tracing::error!(%error, "a signal can't be written"),
        }
    }
}
