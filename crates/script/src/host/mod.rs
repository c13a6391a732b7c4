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

mod call;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use prost_reflect::DynamicMessage;

use crate::apply::Apply;
use crate::nodes::failure::BAD_ARGUMENT;
use crate::nodes::{Found, Nodes, Question, timeout};
use crate::plan::Plan;
use crate::program::Loaded;
use crate::protocol::{Assumed, Call, Failure, Module, Moved};
use crate::session::{Host, Items};
use crate::value::Value;
use crate::wire;
use call::{ending, typed, until};

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
    program: Arc<Loaded>,
    output: Arc<dyn Output>,
    mode: Mode,
}

impl NodeHost {
    /// A host whose calls go to `nodes` as `mode` says.
    pub fn new(
        nodes: Arc<Nodes>,
        program: Arc<Loaded>,
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

#[cfg(test)]
mod tests;
