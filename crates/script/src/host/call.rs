// SPDX-License-Identifier: Apache-2.0
//! One call of a program: the method that it names as schema and descriptors know it, the question
//! that it becomes, and its streams with their limits. Whether it is sent is `super`'s; how, is
//! `nodes`'.

use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use language::schema::{Method, Schema, nearest};
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};
use tokio::sync::mpsc;

use super::Item;
use super::nodes::{Ask, too_late};
use crate::protocol::{Call, Failure};
use crate::session::Items;
use crate::wire;

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

    pub(super) fn find(self, action: &str) -> Result<Found, Failure> {
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

pub(super) fn timeout(call: &Call) -> Option<Duration> {
    let millis = call.timeout.filter(|millis| millis.is_finite())?;
    Duration::try_from_secs_f64(millis.max(0.0) / 1000.0).ok()
}

/// What a program sends as messages, and what is wrong with the first that isn't one; after it
/// nothing is sent any more.
pub(super) fn typed(
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

/// The stream, and a failure in its middle once its time is up.
pub(super) fn until(
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
pub(super) fn ending(
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
