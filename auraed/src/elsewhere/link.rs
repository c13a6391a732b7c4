// SPDX-License-Identifier: Apache-2.0
//! Connections to the daemon of a class: one for the node itself, and one for each tenant, so that
//! no tenant's open calls take the room of another's. Each is made when it is needed first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use api::image::v0::images_client::ImagesClient;
use api::pod::v0::pods_client::PodsClient;
use api::standing;
use client::{Node, Target};
use model::error::{Error, Reason};
use model::name::Tenant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// How long a call may take that the other daemon answers at once.
const CALL: Duration = Duration::from_secs(30);
/// How long it counts that no connection could be made: callers that have waited for it meanwhile
/// don't try again one after the other.
const REFUSED: Duration = Duration::from_secs(1);
/// The largest answer that is read, as of any client: a page of pods or images is smaller.
const MAX_ANSWER: usize = 4 << 20;
/// How many calls of callers a tenant may have open. A connection takes 64: the rest is for what
/// the node does with the tenant's pods.
const OPEN: usize = 48;

/// See the module.
pub(crate) struct Link {
    class: String,
    target: Target,
    own: Line,
    /// Why the other daemon doesn't answer, as long as it doesn't.
    silent: Mutex<Option<String>>,
    lines: Mutex<BTreeMap<Tenant, Arc<Line>>>,
}

/// One connection.
struct Line {
    state: tokio::sync::Mutex<State>,
    open: Arc<Semaphore>,
}

#[derive(Default)]
struct State {
    node: Option<Node>,
    refused: Option<(Instant, Error)>,
}

impl Line {
    fn new() -> Self {
        Self {
            state: tokio::sync::Mutex::default(),
            open: Arc::new(Semaphore::new(OPEN)),
        }
    }
}

impl Link {
    pub(super) fn new(class: &str, target: Target) -> Self {
        Self {
            class: class.to_owned(),
            target,
            own: Line::new(),
            silent: Mutex::default(),
            lines: Mutex::default(),
        }
    }

    pub(crate) fn class(&self) -> &str {
        &self.class
    }

    /// What callers know the other daemon by.
    pub(crate) fn name(&self) -> String {
        let (class, address) = (&self.class, &self.target.address);
        format!("the daemon of the class {class} at {address}")
    }

    fn line(&self, tenant: &Tenant) -> Arc<Line> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry(tenant.clone());
        line.or_insert_with(|| Arc::new(Line::new())).clone()
    }

    /// A tenant is no more.
    pub(super) fn forget(&self, tenant: &Tenant) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.remove(tenant);
    }

    /// The node's own connection.
    pub(super) async fn own(&self) -> Result<Node, Error> {
        self.connected(&self.own).await
    }

    /// The other daemon doesn't answer the node itself: so no call is kept waiting for it.
    pub(super) fn is_silent(&self, why: Option<&str>) {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        *silent = why.map(str::to_owned);
    }

    /// Whether it answers, and why not where it doesn't.
    pub(crate) fn state(&self) -> Result<(), String> {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.clone().map_or(Ok(()), Err)
    }

    /// The connection of a tenant.
    pub(crate) async fn of(&self, tenant: &Tenant) -> Result<Node, Error> {
        if let Err(why) = self.state() {
            let message = format!("{} doesn't answer: {why}", self.name());
            return Err(Error::new(Reason::Degraded, message).hint("see whether it runs"));
        }
        let line = self.line(tenant);
        self.connected(&line).await
    }

    /// Room for one more open call of a tenant's callers.
    pub(crate) fn room(&self, tenant: &Tenant) -> Result<OwnedSemaphorePermit, Error> {
        let open = self.line(tenant).open.clone();
        open.try_acquire_owned().map_err(|_| {
            let class = &self.class;
            let message =
                format!("{tenant} has {OPEN} calls open to pods of the class {class}, the most");
            Error::new(Reason::LimitExceeded, message).hint("end some of them")
        })
    }

    async fn connected(&self, line: &Line) -> Result<Node, Error> {
        let mut state = line.state.lock().await;
        if let Some(node) = &state.node {
            return Ok(node.clone());
        }
        if let Some((at, error)) = &state.refused
            && at.elapsed() < REFUSED
        {
            return Err(error.clone());
        }
        match Node::connect(&self.target).await {
            Ok(node) => {
                state.node = Some(node.clone());
                Ok(node)
            }
            Err(problem) => {
                let error = self.unreachable(&problem);
                state.refused = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    fn unreachable(&self, problem: &client::Error) -> Error {
        let message = format!("{} can't be reached: {problem}", self.name());
        let error = Error::new(Reason::Degraded, message);
        let hint = problem.hint();
        error.hint(hint.unwrap_or_else(|| "see whether it runs".to_owned()))
    }

    /// What the other daemon has answered instead of a result.
    pub(super) fn refusal(&self, status: &Status) -> Error {
        api::status::error_of(status, &self.name())
    }
}

/// A client of the service `Pods` there.
pub(crate) fn pods(node: &Node) -> PodsClient<Channel> {
    PodsClient::new(node.channel()).max_decoding_message_size(MAX_ANSWER)
}

/// A client of the service `Images` there.
pub(super) fn images(node: &Node) -> ImagesClient<Channel> {
    ImagesClient::new(node.channel()).max_decoding_message_size(MAX_ANSWER)
}

/// A call that is answered at once.
pub(super) fn soon<T>(message: T) -> Request<T> {
    within(message, CALL)
}

/// A call that is answered within that time.
pub(super) fn within<T>(message: T, time: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(time);
    request
}

/// A call for who is no administrator of this node: none there, either.
pub(crate) fn as_member<T>(mut request: Request<T>) -> Request<T> {
    let member = MetadataValue::from_static(standing::MEMBER);
    request.metadata_mut().insert(standing::KEY, member);
    request
}
