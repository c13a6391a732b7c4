// SPDX-License-Identifier: Apache-2.0
//! The nodes that a program speaks to: one connection per context, made at the first call and made
//! again by itself after a daemon's death. It sends typed messages and returns typed messages; what
//! a program's values become is `wire`'s, and whether a call is sent at all is `host`'s.

mod codec;
pub mod failure;
mod method;

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::selector::Selector;
use client::{Config, Node};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use http::uri::PathAndQuery;
use language::schema::Method;
use prost_reflect::{DynamicMessage, MethodDescriptor, ReflectMessage, Value as Field};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{IntoStreamingRequest, Request, Status};

use crate::protocol::Failure;
use codec::Dynamic;
use failure::{BAD_ARGUMENT, LIMIT_EXCEEDED};
pub use method::{Api, Found};
pub(crate) use method::{Question, timeout};

/// Unary calls on their way at once; one more waits.
pub const MAX_UNARY: usize = 64;
/// Streams open at once; one more is refused.
pub const MAX_STREAMS: usize = 128;
/// The largest answer that is read: as for every other client.
const MAX_ANSWER: usize = 64 << 20;

/// Labels that the error of an empty selection shows.
const MAX_SHOWN: usize = 20;

/// A call with its request checked.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The context; none is the command line's.
    pub node: Option<String>,
    /// What is known of the method.
    pub method: &'static Method,
    /// Its types.
    pub descriptor: MethodDescriptor,
    /// Of a method that takes one.
    pub request: DynamicMessage,
    /// For the whole call, streams included; none: the node's own.
    pub timeout: Option<Duration>,
}

/// Answers of a stream, with its place among the open ones.
pub type Answers = BoxStream<'static, Result<DynamicMessage, Failure>>;

/// Connections by context.
#[derive(Debug)]
pub struct Nodes {
    config: Config,
    choice: Option<String>,
    tenant: Option<String>,
    spoken: Spoken,
    open: Mutex<HashMap<Option<String>, Arc<OnceCell<Connected>>>>,
    unary: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    /// What answers in the place of a node, in tests of what is decided by answers.
    #[cfg(test)]
    answering: Option<Answering>,
}

/// The API that calls are made by.
#[derive(Clone, Copy, Debug)]
enum Spoken {
    /// The one that is built in, read as a whole.
    Whole,
    /// Of that one the subsystems that are called.
    Parts,
    /// Another: descriptors as they could be one day.
    Other(Api),
}

/// What a test answers.
#[cfg(test)]
struct Answering(Box<dyn Fn(&Ask) -> Answered + Send + Sync>);

#[cfg(test)]
type Answered = Result<DynamicMessage, Failure>;

#[cfg(test)]
impl std::fmt::Debug for Answering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Answering")
    }
}

#[derive(Clone, Debug)]
struct Connected {
    node: Node,
    /// Whose objects a request means that doesn't say so; empty: the caller's own.
    tenant: String,
}

impl Nodes {
    /// `choice` and `tenant` are the command line's; calls without a context go there.
    pub fn new(config: Config, choice: Option<String>, tenant: Option<String>) -> Self {
        Self {
            config,
            choice,
            tenant,
            spoken: Spoken::Whole,
            open: Mutex::default(),
            unary: Arc::new(Semaphore::new(MAX_UNARY)),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            #[cfg(test)]
            answering: None,
        }
    }

    /// The same with answers of a test's.
    #[cfg(test)]
    pub(crate) fn answered_by(
        self,
        answer: impl Fn(&Ask) -> Answered + Send + Sync + 'static,
    ) -> Self {
        Self {
            answering: Some(Answering(Box::new(answer))),
            ..self
        }
    }

    /// The same over another API than the one that is built in.
    #[must_use]
    pub fn speaking(self, api: Api) -> Self {
        Self {
            spoken: Spoken::Other(api),
            ..self
        }
    }

    /// The same for a program whose calls are sent as they come: of the API it reads the subsystems
    /// that are called. Where calls are compared with others' answers, one pool has all messages.
    #[must_use]
    pub fn by_parts(self) -> Self {
        Self {
            spoken: Spoken::Parts,
            ..self
        }
    }

    /// The method of that action.
    ///
    /// # Errors
    /// The API has none of that name; the nearest one is the hint.
    pub fn find(&self, action: &str) -> Result<Found, Failure> {
        match self.spoken {
            Spoken::Whole => Api::built_in()?.find(action),
            Spoken::Parts => Api::of_action(action)?.find(action),
            Spoken::Other(api) => api.find(action),
        }
    }

    /// The methods of a subsystem; none of one that the API doesn't have.
    pub(crate) fn methods_of(&self, subsystem: &str) -> &'static [Method] {
        let api = match self.spoken {
            Spoken::Whole | Spoken::Parts => Api::built_in().ok(),
            Spoken::Other(api) => Some(api),
        };
        let found = api.and_then(|api| api.schema.subsystem(subsystem));
        found.map_or(&[], |found| &found.methods)
    }

    /// A context's name; where none is named, the command line's, or the configuration's own.
    pub fn name(&self, node: Option<&str>) -> String {
        let name = node.or(self.choice.as_deref());
        let name = name.or(self.config.current_context.as_deref());
        name.unwrap_or_default().to_owned()
    }

    /// The names of the contexts whose labels match, in alphabetical order.
    ///
    /// # Errors
    /// It is no selector; or none matches: a program that goes on with no node declares nothing,
    /// and an apply of that stops what its set has on every node.
    pub(crate) fn select(&self, text: &str) -> Result<Vec<String>, Failure> {
        let wrong = |problem: <Selector as FromStr>::Err| {
            let message = format!("nodes: the selector {text:?} {}", problem.message);
            Failure {
                hint: problem.hint.clone(),
                ..Failure::new(BAD_ARGUMENT, message)
            }
        };
        let selector: Selector = text.parse().map_err(wrong)?;
        let names = self.config.select(&selector);
        if names.is_empty() {
            let message = format!("nodes({text:?}) matches no context");
            return Err(Failure::new("NOT_FOUND", message).hint(self.selectable()));
        }
        Ok(names)
    }

    /// What could have been selected, where nothing was.
    fn selectable(&self) -> String {
        let file = self.config.file().display();
        let labels: Vec<_> = self.config.labels().into_iter().take(MAX_SHOWN).collect();
        match (self.config.contexts.is_empty(), labels.as_slice()) {
            (true, _) => format!("there is none in {file}"),
            (false, []) => {
                "none has a label: `aurae config set-context NAME --label KEY=VALUE`".into()
            }
            (false, labels) => format!("there are {}", labels.join(", ")),
        }
    }

    /// Connects to the command line's node already, while the program isn't there yet. What keeps
    /// from it is the first call's to tell.
    pub fn reach(self: &Arc<Self>) {
        let nodes = Arc::clone(self);
        tokio::spawn(async move { nodes.connected(None).await.map(drop) });
    }

    /// One question, one answer.
    ///
    /// # Errors
    /// The node can't be reached, or refuses.
    pub async fn unary(&self, ask: Ask) -> Result<DynamicMessage, Failure> {
        let _place = self.unary.acquire().await.map_err(|_| closed())?;
        let timeout = ask.timeout;
        within(timeout, self.send_unary(ask)).await
    }

    async fn send_unary(&self, ask: Ask) -> Result<DynamicMessage, Failure> {
        #[cfg(test)]
        if let Some(Answering(answer)) = &self.answering {
            return answer(&ask);
        }
        let answer = match self.send_once(&ask).await? {
            // The connection makes itself again. The node knows a request with an id again.
            Err(status) if failure::is_lost(&status) && may_come_twice(&ask) => {
                self.send_once(&ask).await?
            }
            answer => answer,
        };
        answer.map_err(failure::of_status)
    }

    async fn send_once(&self, ask: &Ask) -> Result<Result<DynamicMessage, Status>, Failure> {
        let (mut grpc, request, path) = self.prepare(ask).await?;
        let codec = Dynamic::new(ask.descriptor.output());
        let answer = grpc.unary(request, path, codec).await;
        Ok(answer.map(tonic::Response::into_inner))
    }

    /// A stream of answers to one question.
    ///
    /// # Errors
    /// As [`Self::unary`], or there are too many streams.
    pub async fn server_stream(&self, ask: Ask) -> Result<Answers, Failure> {
        let place = self.place()?;
        let timeout = ask.timeout;
        let opened = async {
            let (mut grpc, request, path) = self.prepare(&ask).await?;
            let codec = Dynamic::new(ask.descriptor.output());
            let answers = grpc.server_streaming(request, path, codec).await;
            Ok(answers.map_err(failure::of_status)?.into_inner())
        };
        let answers = within(timeout, opened).await?;
        Ok(held(
            answers.map(|item| item.map_err(failure::of_status)),
            place,
        ))
    }

    /// A stream of answers to a stream of questions. A method with one answer has a stream of one.
    ///
    /// # Errors
    /// As [`Self::server_stream`].
    pub async fn both_streams(
        &self,
        ask: Ask,
        items: impl Stream<Item = DynamicMessage> + Send + 'static,
    ) -> Result<Answers, Failure> {
        let place = self.place()?;
        let connected = self.connected(ask.node.as_deref()).await?;
        let tenant = connected.tenant.clone();
        let items = items.map(move |mut item| {
            in_tenant(&mut item, &tenant);
            item
        });
        let (mut grpc, path) = ready(&connected, &ask).await?;
        let codec = Dynamic::new(ask.descriptor.output());
        let request = items.into_streaming_request();
        if !ask.method.server_streams {
            let answer = grpc.client_streaming(request, path, codec).await;
            let answer = answer.map_err(failure::of_status)?.into_inner();
            return Ok(held(futures_util::stream::iter([Ok(answer)]), place));
        }
        let answers = grpc.streaming(request, path, codec).await;
        let answers = answers.map_err(failure::of_status)?.into_inner();
        Ok(held(
            answers.map(|item| item.map_err(failure::of_status)),
            place,
        ))
    }

    /// The contexts that were spoken to; the command line's, where there was none.
    pub(crate) fn contacted_or_default(&self) -> Vec<Option<String>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<_> = open
            .iter()
            .filter(|(_, connection)| connection.initialized())
            .map(|(name, _)| name.clone())
            .collect();
        if names.is_empty() {
            names.push(self.choice.clone());
        }
        names.sort();
        names
    }

    /// The tenant that requests mean which don't say; empty: the caller's own.
    pub(crate) async fn tenant(&self, name: Option<&str>) -> Result<String, Failure> {
        #[cfg(test)]
        if self.answering.is_some() {
            return Ok(self.tenant.clone().unwrap_or_default());
        }
        Ok(self.connected(name).await?.tenant)
    }

    async fn prepare(
        &self,
        ask: &Ask,
    ) -> Result<(Grpc<Channel>, Request<DynamicMessage>, PathAndQuery), Failure> {
        let connected = self.connected(ask.node.as_deref()).await?;
        let mut message = ask.request.clone();
        in_tenant(&mut message, &connected.tenant);
        let mut request = Request::new(message);
        if let Some(timeout) = ask.timeout {
            request.set_timeout(timeout);
        }
        let (grpc, path) = ready(&connected, ask).await?;
        Ok((grpc, request, path))
    }

    async fn connected(&self, name: Option<&str>) -> Result<Connected, Failure> {
        // A context that is named and the command line's are one connection where they are one.
        let name = name.or(self.choice.as_deref());
        let connection = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(open.entry(name.map(str::to_owned)).or_default())
        };
        let connected = connection.get_or_try_init(|| self.connect(name)).await?;
        Ok(connected.clone())
    }

    async fn connect(&self, name: Option<&str>) -> Result<Connected, Failure> {
        let target = self.config.target(name);
        let target = target.map_err(|problem| failure::of_error(&problem))?;
        let node = Node::connect(&target).await;
        let tenant = self.tenant.clone().unwrap_or(target.tenant);
        Ok(Connected {
            node: node.map_err(|problem| failure::of_error(&problem))?,
            tenant,
        })
    }

    fn place(&self) -> Result<OwnedSemaphorePermit, Failure> {
        Arc::clone(&self.streams).try_acquire_owned().map_err(|_| {
            let message = format!("there are {MAX_STREAMS} open streams, as many as there may be");
            Failure::new(LIMIT_EXCEEDED, message).hint("close those that aren't read any more")
        })
    }
}

/// Whether a call whose answer was lost may be made once more: it changes nothing, or the node does
/// it once, by its request id. It knows that as long as it has the run's record, so what removes
/// itself may be over and forgotten.
fn may_come_twice(ask: &Ask) -> bool {
    let id = ask.request.get_field_by_name("request_id");
    let has_id = id.is_some_and(|id| id.as_str().is_some_and(|id| !id.is_empty()));
    !ask.method.mutating || (has_id && !removes_itself(&ask.request))
}

fn removes_itself(request: &DynamicMessage) -> bool {
    let inner = |message: &DynamicMessage, field: &str| {
        let value = message.get_field_by_name(field)?;
        value.as_message().cloned()
    };
    let spec = inner(request, "executable").and_then(|executable| inner(&executable, "spec"));
    let flag = spec.and_then(|spec| spec.get_field_by_name("auto_remove")?.as_bool());
    flag == Some(true)
}

async fn ready(connected: &Connected, ask: &Ask) -> Result<(Grpc<Channel>, PathAndQuery), Failure> {
    let mut grpc = Grpc::new(connected.node.channel()).max_decoding_message_size(MAX_ANSWER);
    let away = |problem: tonic::transport::Error| {
        failure::of_status(tonic::Status::from_error(Box::new(problem)))
    };
    grpc.ready().await.map_err(away)?;
    let path = PathAndQuery::try_from(ask.method.path.as_str())
        .map_err(|problem| Failure::new("INTERNAL", problem.to_string()))?;
    Ok((grpc, path))
}

/// The answers, until their stream ends and gives its place back.
fn held(
    answers: impl Stream<Item = Result<DynamicMessage, Failure>> + Send + 'static,
    place: OwnedSemaphorePermit,
) -> Answers {
    answers
        .map(move |item| {
            let _ = &place;
            item
        })
        .boxed()
}

async fn within<T>(
    timeout: Option<Duration>,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match timeout {
        None => work.await,
        Some(timeout) => match tokio::time::timeout(timeout, work).await {
            Ok(done) => done,
            Err(_) => Err(too_late(timeout)),
        },
    }
}

/// The failure of a call that took longer than its context allows.
pub(crate) fn too_late(timeout: Duration) -> Failure {
    let message = format!("no answer within {timeout:?}, the call's timeout");
    Failure::new(failure::DEADLINE, message)
}

fn closed() -> Failure {
    Failure::new("CANCELLED", "the program has ended")
}

/// Puts a context's tenant where a request leaves it open: on references, and on the request.
fn in_tenant(message: &mut DynamicMessage, tenant: &str) {
    if tenant.is_empty() {
        return;
    }
    put_tenant(message, tenant);
    fill_references(message, tenant);
}

fn put_tenant(message: &mut DynamicMessage, tenant: &str) {
    let open = message
        .get_field_by_name("tenant")
        .is_some_and(|value| value.as_str() == Some(""));
    if open {
        message.set_field_by_name("tenant", Field::String(tenant.to_owned()));
    }
}

fn fill_references(message: &mut DynamicMessage, tenant: &str) {
    for (_, value) in message.fields_mut() {
        match value {
            Field::Message(inner) => fill_reference(inner, tenant),
            Field::List(list) => {
                let inner = list.iter_mut().filter_map(Field::as_message_mut);
                inner.for_each(|inner| fill_reference(inner, tenant));
            }
            _ => {}
        }
    }
}

fn fill_reference(message: &mut DynamicMessage, tenant: &str) {
    if message.descriptor().full_name() == "aurae.runtime.v0.ObjectRef" {
        put_tenant(message, tenant);
    }
    fill_references(message, tenant);
}
