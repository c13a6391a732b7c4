// SPDX-License-Identifier: Apache-2.0
//! What a program gets when it asks: calls of nodes, files below its root, modules that it imports
//! while it runs, a place to print to. Everything that a program can reach is here, and nothing
//! else.
//!
//! A call is checked against the API's schema before a node hears of it. Whether it is then sent,
//! recorded or compared first is its [`Mode`]'s: a plan sends only what the contract says has no
//! side effects, by this one `match`, whatever the program or the prelude may do.
//!
//! Flow: `session` gives a [`Call`] → the method and its types → the request by `wire` → the mode →
//! `nodes` → the answer by `wire`.

mod codec;
pub mod failure;
pub mod nodes;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, Stream, StreamExt};
use language::schema::{Method, Schema, nearest};
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};
use tokio::sync::mpsc;

use crate::apply::Apply;
use crate::plan::Plan;
use crate::program::Running;
use crate::protocol::{Assumed, Call, Failure, Module, Moved};
use crate::session::{Host, Items};
use crate::value::Value;
use crate::wire;
use failure::BAD_ARGUMENT;
use nodes::{Ask, Nodes, too_late};

/// What becomes of a program's calls.
#[derive(Clone, Debug)]
pub enum Mode {
    /// All are sent.
    Run,
    /// What changes something is recorded, the rest is sent.
    Plan(Arc<Plan>),
    /// What makes an object is compared with what is there first; all else is sent.
    Apply(Arc<Apply>),
}

/// Where a program's text goes.
pub trait Output: Send + Sync + 'static {
    /// Shows text, on standard error where `error`. May wait for the reader.
    fn print(&self, error: bool, text: String) -> BoxFuture<'_, ()>;
}

/// A host for one program.
pub struct NodeHost {
    nodes: Arc<Nodes>,
    program: Arc<Running>,
    output: Arc<dyn Output>,
    mode: Mode,
}

impl NodeHost {
    /// A host whose calls go to `nodes` as `mode` says.
    pub fn new(
        nodes: Arc<Nodes>,
        program: Arc<Running>,
        output: Arc<dyn Output>,
        mode: Mode,
    ) -> Self {
        Self {
            nodes,
            program,
            output,
            mode,
        }
    }

    async fn unary(self: Arc<Self>, call: Call) -> Result<Value, Failure> {
        let found = self.nodes.find(&call.method)?;
        if found.method.client_streams || found.method.server_streams {
            let message = format!("{} is a stream", call.method);
            return Err(Failure::new(BAD_ARGUMENT, message));
        }
        let asked = self.question(&found, &call);
        match &self.mode {
            Mode::Plan(plan) => plan.unary(&self.nodes, asked).await,
            Mode::Apply(apply) => apply.unary(&self.nodes, asked).await,
            Mode::Run => {
                let request = wire::to_message(&found.descriptor.input(), &call.request)?;
                let answer = self.nodes.unary(asked.ask(request)).await?;
                Ok(wire::from_message(&answer)?)
            }
        }
    }

    async fn open(self: Arc<Self>, call: Call, items: Items) -> BoxStream<'static, Item> {
        match self.opened(&call, items).await {
            Ok(stream) => stream,
            Err(failure) => stream::iter([Err(failure)]).boxed(),
        }
    }

    async fn opened(
        self: Arc<Self>,
        call: &Call,
        items: Items,
    ) -> Result<BoxStream<'static, Item>, Failure> {
        let found = self.nodes.find(&call.method)?;
        let asked = self.question(&found, call);
        if let Mode::Plan(plan) = &self.mode {
            plan.may_stream(&asked)?;
        }
        if !found.method.client_streams {
            let request = wire::to_message(&found.descriptor.input(), &call.request)?;
            let answers = self.nodes.server_stream(asked.ask(request)).await?;
            return Ok(answers.map(to_value).boxed());
        }
        let (outgoing, wrong) = typed(&found, items);
        let nothing = DynamicMessage::new(found.descriptor.input());
        let answers = self
            .nodes
            .both_streams(asked.ask(nothing), outgoing)
            .await?;
        Ok(ending(answers.map(to_value), wrong))
    }

    fn question<'a>(&self, found: &'a Found, call: &'a Call) -> Question<'a> {
        let at = match &self.mode {
            Mode::Run => None,
            Mode::Plan(_) | Mode::Apply(_) => self.program.place(&call.stack),
        };
        Question { found, call, at }
    }
}

/// What reads, parses and compiles has a thread of its own, so that a limit of time and Ctrl-C
/// needn't wait for it.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|problem| Err(Failure::new("INTERNAL", problem.to_string())))
}

fn to_value(item: Result<DynamicMessage, Failure>) -> Item {
    Ok(wire::from_message(&item?)?)
}

type Item = Result<Value, Failure>;

impl Host for NodeHost {
    fn import(&self, specifier: String, from: String) -> BoxFuture<'_, Result<Module, Failure>> {
        let program = Arc::clone(&self.program);
        beside(move || program.import(&from, &specifier)).boxed()
    }

    fn read_file(&self, path: String, from: String) -> BoxFuture<'_, Result<Vec<u8>, Failure>> {
        let program = Arc::clone(&self.program);
        beside(move || program.read(&from, &path)).boxed()
    }

    fn nodes(&self, selector: String) -> BoxFuture<'_, Result<Vec<String>, Failure>> {
        async move { self.nodes.select(&selector) }.boxed()
    }

    fn print(&self, error: bool, text: String) -> BoxFuture<'_, ()> {
        self.output.print(error, text)
    }

    fn assume(&self, assumed: Assumed) {
        if let Mode::Plan(plan) = &self.mode {
            plan.assume(assumed);
        }
    }

    fn moved(&self, moved: Moved) -> Result<(), String> {
        match &self.mode {
            Mode::Run => Ok(()),
            Mode::Plan(plan) => plan.moved(moved),
            Mode::Apply(apply) => apply.moved(moved),
        }
    }

    fn call(self: Arc<Self>, call: Call) -> BoxFuture<'static, Result<Value, Failure>> {
        self.unary(call).boxed()
    }

    fn stream(self: Arc<Self>, call: Call, items: Items) -> BoxStream<'static, Item> {
        let timeout = timeout(&call);
        let answers = stream::once(self.open(call, items)).flatten();
        match timeout {
            Some(timeout) => until(answers, timeout),
            None => answers.boxed(),
        }
    }
}

/// The stream, and a failure in its middle once its time is up.
fn until(
    answers: impl Stream<Item = Item> + Send + 'static,
    timeout: Duration,
) -> BoxStream<'static, Item> {
    let alarm = async move {
        tokio::time::sleep(timeout).await;
        Err(too_late(timeout))
    };
    ending(answers, stream::once(alarm))
}

/// The first stream until it ends, or until the second says what is wrong; nothing after that.
fn ending(
    answers: impl Stream<Item = Item> + Send + 'static,
    wrong: impl Stream<Item = Item> + Send + 'static,
) -> BoxStream<'static, Item> {
    let answers = answers.map(Some).chain(stream::iter([None]));
    stream::select(answers, wrong.map(Some))
        .scan(false, |over, item| {
            let next = item.filter(|_| !*over);
            *over |= matches!(next, Some(Err(_)));
            std::future::ready(next)
        })
        .boxed()
}

/// What the schema and the descriptors know of a method.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its names, and whether it changes anything.
    pub method: &'static Method,
    /// Its types.
    pub descriptor: MethodDescriptor,
}

/// The API that calls are checked against.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    /// What the language makes of it.
    pub schema: &'static Schema,
    /// Its descriptors.
    pub pool: &'static DescriptorPool,
}

impl Api {
    /// The one that this client was built with.
    ///
    /// # Errors
    /// Only where the built-in descriptors are broken.
    pub fn built_in() -> Result<Self, Failure> {
        let schema = Schema::bare().map_err(|problem| broken(problem))?;
        let pool = api::descriptor_pool().map_err(|problem| broken(problem))?;
        Ok(Self { schema, pool })
    }

    fn find(self, action: &str) -> Result<Found, Failure> {
        let method = self.schema.method(action);
        let method = method.ok_or_else(|| unknown(self.schema, action))?;
        let (service, name) = method.path.trim_start_matches('/').split_once('/').unzip();
        let found = service
            .and_then(|service| self.pool.get_service_by_name(service))
            .and_then(|service| service.methods().find(|one| Some(one.name()) == name));
        let descriptor = found.ok_or_else(|| broken(&format!("no descriptor of {action}")))?;
        Ok(Found { method, descriptor })
    }
}

fn broken(problem: &dyn std::fmt::Display) -> Failure {
    Failure::new("INTERNAL", problem.to_string())
}

fn unknown(schema: &Schema, action: &str) -> Failure {
    let methods = schema.subsystems.iter().flat_map(|one| one.methods.iter());
    let near = nearest(action, methods.map(|method| method.action.as_str()));
    let failure = Failure::new("NOT_OFFERED", format!("the API has no method {action}"));
    match near {
        Some(near) => failure.hint(format!("did you mean {near}?")),
        None => failure,
    }
}

/// A call that is to be decided about.
pub(crate) struct Question<'a> {
    pub(crate) found: &'a Found,
    pub(crate) call: &'a Call,
    /// Where in the program, where the caller wants to know.
    pub(crate) at: Option<String>,
}

impl Question<'_> {
    /// The call with a typed request.
    pub(crate) fn ask(&self, request: DynamicMessage) -> Ask {
        Ask {
            node: self.call.node.clone(),
            method: self.found.method,
            descriptor: self.found.descriptor.clone(),
            request,
            timeout: timeout(self.call),
        }
    }
}

fn timeout(call: &Call) -> Option<Duration> {
    let millis = call.timeout.filter(|millis| millis.is_finite())?;
    Duration::try_from_secs_f64(millis.max(0.0) / 1000.0).ok()
}

/// What a program sends as messages, and what is wrong with the first that isn't one; after it
/// nothing is sent any more.
fn typed(
    found: &Found,
    items: Items,
) -> (
    impl Stream<Item = DynamicMessage> + Send + 'static + use<>,
    impl Stream<Item = Item> + Send + 'static + use<>,
) {
    let input = found.descriptor.input();
    let (tell, told) = mpsc::channel::<Failure>(1);
    let outgoing = items.filter_map(move |item| {
        let message = wire::to_message(&input, &item);
        let tell = tell.clone();
        async move {
            match message {
                Ok(message) => Some(message),
                Err(problem) => {
                    // A stream that has ended already says why itself.
                    let _ = tell.send(problem.into()).await;
                    std::future::pending().await
                }
            }
        }
    });
    let wrong = stream::unfold(told, |mut told| async {
        told.recv().await.map(|failure| (Err(failure), told))
    });
    (outgoing, wrong)
}

#[cfg(test)]
mod tests;
