// SPDX-License-Identifier: Apache-2.0
//! The system bus: one connection, on which the name `org.freedesktop.systemd1` is ours. Who calls
//! is the bus's word, which has it from the kernel. A bus that isn't there is tried again: its
//! socket says nothing before it is there.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use identity::{Effect, Reach, SocketCredentials};
use model::unit::{JobMode, Verb};
use schedule::unit::named;
use tokio::sync::{mpsc, oneshot};
use zbus::OwnedVariant;

use crate::error::Failure;
use crate::serve::{Caller, MOST, Service};
use crate::signals;
use crate::wire::message::{Body, Draft, Kind, Message};
use crate::wire::outbox::Outbox;
use crate::wire::{auth, next};

/// The bus itself.
const BUS: &str = "org.freedesktop.DBus";
const BUS_PATH: &str = "/org/freedesktop/DBus";
/// Our name.
const NAME: &str = "org.freedesktop.systemd1";
/// Between two tries, the first one and the longest.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);
/// How long the bus may take for an answer.
const ANSWER: Duration = Duration::from_secs(30);
/// Calls that wait for their turn. One more is refused.
const CALLS: usize = 64;
/// Callers whose processes are remembered.
const CALLERS: usize = 256;

/// Keeps a connection as long as it is polled.
pub(crate) async fn keep(path: &Path, service: Arc<Service>) {
    let mut pause = FIRST;
    loop {
        let error = match talk(path, &service, &mut pause).await {
            Ok(never) => match never {},
            Err(error) => error,
        };
        {
            let mut told = service.told();
            // The file stays: the same bus, reached again, has the same names.
            (told.bus, told.bus_id, told.subscribed) = Default::default();
        }
        tracing::debug!(path = %path.display(), %error, ?pause, "the system bus is not reached");
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2).min(LONGEST);
    }
}

type Waiting = Arc<std::sync::Mutex<BTreeMap<u32, oneshot::Sender<Message>>>>;

/// Calls methods of the bus.
#[derive(Clone)]
struct Client {
    outbox: Outbox,
    waiting: Waiting,
}

impl Client {
    fn waiting(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, oneshot::Sender<Message>>> {
        let locked = self.waiting.lock();
        locked.unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    async fn call(&self, method: &str, body: Body) -> io::Result<Message> {
        let (sender, answer) = oneshot::channel();
        let draft = Draft::call(BUS_PATH, BUS, method, body).to(BUS);
        let number = {
            // Held until it is known whose answer it is.
            let mut waiting = self.waiting();
            let number = self.outbox.send(&draft);
            waiting.insert(number, sender);
            number
        };
        let answer = tokio::time::timeout(ANSWER, answer).await;
        self.waiting().remove(&number);
        let answer = answer.map_err(|_| io::ErrorKind::TimedOut)?;
        let answer = answer.map_err(|_| io::ErrorKind::UnexpectedEof)?;
        match answer.kind {
            Kind::Return => Ok(answer),
            _ => Err(io::Error::other(format!("{method}: {}", answer.error))),
        }
    }

    fn heard(&self, answer: Message) {
        if let Some(waiting) = self.waiting().remove(&answer.reply_to) {
            // Who has given up waiting needs none.
            let _ = waiting.send(answer);
        }
    }
}

fn body<T: serde::Serialize + zbus::DynamicType>(arguments: &T) -> io::Result<Body> {
    Body::of(arguments).map_err(io::Error::other)
}

async fn talk(
    path: &Path,
    service: &Arc<Service>,
    pause: &mut Duration,
) -> io::Result<std::convert::Infallible> {
    let (mut from, to) = auth::connect(path).await?;
    let (outbox, mut over) = Outbox::new(to);
    let client = Client {
        outbox: outbox.clone(),
        waiting: Waiting::default(),
    };
    let (calls, queue) = mpsc::channel(CALLS);
    let mut worker = tokio::spawn(work(client.clone(), service.clone(), queue));
    let ended = loop {
        let message = tokio::select! {
            message = next(&mut from) => message,
            done = &mut worker => break Err(match done {
                Ok(error) => error,
                Err(error) => io::Error::other(error),
            }),
            _ = over.wait_for(|over| *over) => Err(io::ErrorKind::BrokenPipe.into()),
        };
        let message = match message {
            Ok(message) => message,
            Err(error) => break Err(error),
        };
        *pause = FIRST;
        match message.kind {
            Kind::Return | Kind::Failure => client.heard(message),
            Kind::Call | Kind::Signal => {
                if let Err(refused) = calls.try_send(message) {
                    let call = refused.into_inner();
                    if call.wants_reply() {
                        let name = "org.freedesktop.DBus.Error.LimitsExceeded";
                        outbox.send(&Draft::failure(&call, name, "too many calls wait"));
                    }
                }
            }
        }
    };
    worker.abort();
    ended
}

/// Takes the name, then calls one after the other.
async fn work(
    client: Client,
    service: Arc<Service>,
    mut queue: mpsc::Receiver<Message>,
) -> io::Error {
    if let Err(error) = begin(&client, &service).await {
        return error;
    }
    let mut callers = BTreeMap::new();
    while let Some(message) = queue.recv().await {
        if message.kind == Kind::Signal {
            signal(&client, &service, &message, &mut callers).await;
            continue;
        }
        let answer = match caller(&client, &message.sender, &mut callers).await {
            Ok(caller) => service.answer(&caller, &message).await,
            Err(error) => {
                let name = "org.freedesktop.DBus.Error.AccessDenied";
                let words = format!("the bus doesn't say who calls: {error}");
                Draft::failure(&message, name, &words)
            }
        };
        if message.wants_reply() {
            client.outbox.send(&answer);
        }
    }
    io::ErrorKind::UnexpectedEof.into()
}

async fn begin(client: &Client, service: &Service) -> io::Result<()> {
    client.call("Hello", Body::default()).await?;
    for rule in [
        format!("type='signal',sender='{BUS}',member='NameOwnerChanged',interface='{BUS}'"),
        format!(
            "type='signal',sender='{BUS}',member='ActivationRequest',\
                 interface='{NAME}.Activator'"
        ),
    ] {
        client.call("AddMatch", body(&(rule,))?).await?;
    }
    // DBUS_NAME_FLAG_DO_NOT_QUEUE: who has it already is this machine's init.
    let taken = client.call("RequestName", body(&(NAME, 4_u32))?).await?;
    match taken.arguments::<(u32,)>() {
        Some((1 | 4,)) => {}
        _ => return Err(io::Error::other(format!("{NAME} is another process's"))),
    }
    let bus_id = client.call("GetId", Body::default()).await?;
    let (bus_id,): (String,) = bus_id.arguments().ok_or(io::ErrorKind::InvalidData)?;
    let subscribed = still_there(client, service.kept.read(&bus_id)).await?;
    let missed = !subscribed.is_empty();
    {
        let mut told = service.told();
        (told.bus, told.bus_id) = (Some(client.outbox.clone()), bus_id);
        told.subscribed.extend(subscribed);
    }
    if missed {
        signals::look_again(service);
    }
    tracing::info!("{NAME} is on the system bus");
    Ok(())
}

/// Those of an earlier daemon's subscribers that are still on the bus.
async fn still_there(client: &Client, names: BTreeSet<String>) -> io::Result<BTreeSet<String>> {
    let mut there = BTreeSet::new();
    for name in names.into_iter().take(MOST) {
        let answer = client
            .call("NameHasOwner", body(&(name.as_str(),))?)
            .await?;
        if answer.arguments::<(bool,)>() == Some((true,)) {
            there.insert(name);
        }
    }
    Ok(there)
}

/// Who has that name on the bus.
async fn caller(
    client: &Client,
    name: &str,
    callers: &mut BTreeMap<String, Caller>,
) -> io::Result<Caller> {
    if let Some(caller) = callers.get(name) {
        return Ok(caller.clone());
    }
    let answer = client
        .call("GetConnectionCredentials", body(&(name,))?)
        .await?;
    let (all,): (BTreeMap<String, OwnedVariant>,) =
        answer.arguments().ok_or(io::ErrorKind::InvalidData)?;
    let number = |key: &str| all.get(key).and_then(|it| u32::try_from(it).ok());
    let uid = number("UnixUserID").ok_or(io::ErrorKind::InvalidData)?;
    let pid = number("ProcessID").and_then(|it| i32::try_from(it).ok());
    let caller = Caller {
        process: SocketCredentials {
            uid,
            pid: pid.unwrap_or(0),
        },
        how: "the system bus",
        name: name.to_owned(),
    };
    if callers.len() >= CALLERS {
        callers.clear();
    }
    callers.insert(name.to_owned(), caller.clone());
    Ok(caller)
}

async fn signal(
    client: &Client,
    service: &Service,
    signal: &Message,
    callers: &mut BTreeMap<String, Caller>,
) {
    if signal.sender != BUS {
        return;
    }
    match signal.member.as_str() {
        "NameOwnerChanged" => {
            let changed = signal.arguments::<(String, String, String)>();
            if let Some((name, _, new)) = changed
                && new.is_empty()
            {
                callers.remove(&name);
                service.unsubscribe(&name);
            }
        }
        "ActivationRequest" => {
            let Some((unit,)) = signal.arguments::<(String,)>() else {
                return;
            };
            if let Err(Failure { name, words }) = activate(service, &unit).await {
                tracing::warn!(unit, words, "a service of the bus is not started");
                let body = Body::of(&(unit, name, words)).unwrap_or_default();
                let path = crate::path::MANAGER;
                let interface = "org.freedesktop.systemd1.Activator";
                let failure = Draft::signal(path, interface, "ActivationFailure", body);
                client.outbox.send(&failure.to(BUS));
            }
        }
        _ => {}
    }
}

/// A client has called a service that isn't there; the bus has decided that it may be started
/// (D-Bus Specification, "Message Bus Starting Services").
async fn activate(service: &Service, unit: &str) -> Result<(), Failure> {
    let unit = named("SystemdService", unit)?;
    let effect = Effect {
        action: "schedule.StartUnit",
        path: None,
        reach: Reach::Object,
    };
    let permit = service.identity.node_permit(vec![effect])?;
    let (verb, mode) = (Verb::Start, JobMode::Replace);
    let job = service.units.job(&permit, unit, verb, mode, false);
    job.await?;
    Ok(())
}
