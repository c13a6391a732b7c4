// SPDX-License-Identifier: Apache-2.0
//! Calls on what is in a pod that runs on another daemon (ADR 90): decided here by this node's
//! policies, as on anything of its tenant, and then passed on whole. The paths are the same on
//! both. Lists and watches are of this node alone.
//!
//! A handler asks first whether a call is to be set [`Aside`], and passes it on once it has its
//! permit. On a node without such classes that costs nothing.

use std::sync::Arc;

use api::runtime::v0::ObjectRef;
use api::status::{error_of, to_status};
use client::Node;
use futures_util::{Stream, StreamExt};
use identity::Permit;
use model::error::{Error, Reason};
use model::name::{ObjectPath, Tenant};
use pod::Pods;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Response, Status};

use super::caller::Caller;
use super::stream::{Answers, until_expelled};
use crate::elsewhere::Links;
use crate::elsewhere::link::{Link, as_member};

/// The header of a call's deadline.
const DEADLINE: &str = "grpc-timeout";

/// Knows which daemon has what.
#[derive(Clone)]
pub(super) struct Away {
    pub(super) pods: Pods,
    pub(super) links: Arc<Links>,
}

/// What a call on a pod itself is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Itself {
    /// Its place on this node.
    Place,
    /// The pod, where it runs.
    Pod,
}

/// A call that another daemon is to answer.
pub(super) struct Aside<T> {
    link: Arc<Link>,
    tenant: Tenant,
    message: T,
    deadline: Option<MetadataValue<Ascii>>,
}

/// Where what a reference names is.
struct Found {
    class: String,
    tenant: Tenant,
    is_the_pod: bool,
}

impl Away {
    /// The call as it goes to another daemon, if it does. `refs` are what it is about. What this
    /// answers, also where it is an error, is the caller's to know once it has its permit.
    ///
    /// # Errors
    /// `INVALID_FIELD`: it is about things on several daemons.
    pub(super) fn aside<T: Clone>(
        &self,
        caller: &Caller,
        request: &Request<T>,
        itself: Itself,
        refs: impl Fn(&mut T) -> &mut [ObjectRef],
    ) -> Result<Option<Aside<T>>, Status> {
        if self.links.is_empty() {
            return Ok(None);
        }
        let aside = self.set_aside(caller.tenant(), request.get_ref(), itself, refs);
        let aside = aside.map_err(to_status)?;
        let deadline = request.metadata().get(DEADLINE).cloned();
        Ok(aside.map(|aside| Aside { deadline, ..aside }))
    }

    /// The same of a message that was read already.
    pub(super) fn set_aside<T: Clone>(
        &self,
        own: &Tenant,
        message: &T,
        itself: Itself,
        refs: impl Fn(&mut T) -> &mut [ObjectRef],
    ) -> Result<Option<Aside<T>>, Error> {
        if self.links.is_empty() {
            return Ok(None);
        }
        let mut message = message.clone();
        let refs = refs(&mut message);
        let found = refs.iter().map(|one| self.find(own, one, itself));
        let found: Vec<Option<Found>> = found.collect();
        let Some(Some(first)) = found.first() else {
            return match found.iter().position(Option::is_some) {
                Some(i) => Err(of_another(i)),
                None => Ok(None),
            };
        };
        let other = |found: &Option<Found>| found.as_ref().is_none_or(|it| it.class != first.class);
        if let Some(i) = found.iter().position(other) {
            return Err(of_another(i));
        }
        for (one, found) in refs.iter_mut().zip(found.iter().flatten()) {
            one.tenant = found.tenant.to_string();
            if found.is_the_pod {
                // It has another one there.
                one.uid.clear();
            }
        }
        let link = self.links.get(&first.class).cloned();
        let (class, tenant) = (&first.class, first.tenant.clone());
        let link = link.ok_or_else(|| {
            let message = format!("this node has no sandboxes of the class {class} any more");
            Error::new(Reason::Degraded, message)
        })?;
        Ok(Some(Aside {
            link,
            tenant,
            message,
            deadline: None,
        }))
    }

    fn find(&self, own: &Tenant, one: &ObjectRef, itself: Itself) -> Option<Found> {
        // What is malformed is refused where the message is read.
        let tenant = match one.tenant.as_str() {
            "" => own.clone(),
            name => name.parse().ok()?,
        };
        let path: ObjectPath = one.path.parse().ok()?;
        let placed = self.pods.away(&tenant, &path)?;
        let passed = !placed.is_the_pod || itself == Itself::Pod;
        passed.then_some(Found {
            class: placed.class,
            tenant,
            is_the_pod: placed.is_the_pod,
        })
    }
}

/// Why no cell is made in such a pod: its image would be the other daemon's to pull.
pub(super) fn no_cells(path: &ObjectPath) -> Status {
    let message = format!("{path} is in a pod on another daemon, where no cells are made");
    let error = Error::new(Reason::Unsupported, message);
    to_status(error.hint("add a container with `aurae pod debug`"))
}

/// The reference of most messages.
pub(super) fn one(reference: &mut Option<ObjectRef>) -> &mut [ObjectRef] {
    reference.as_mut_slice()
}

fn of_another(i: usize) -> Error {
    let problem = "is on another daemon than the others";
    Error::invalid(format!("refs[{i}]"), problem).hint("ask for it by itself")
}

impl<T> Aside<T> {
    /// The same with another message: a call that goes on after its first one.
    pub(super) fn map<U>(self, whole: impl FnOnce(T) -> U) -> Aside<U> {
        Aside {
            link: self.link,
            tenant: self.tenant,
            message: whole(self.message),
            deadline: self.deadline,
        }
    }

    /// Passes it on, for as long as its caller is served.
    pub(super) async fn pass<R, F>(
        self,
        caller: &Caller,
        permit: &Permit,
        call: impl FnOnce(Node, Request<T>) -> F,
    ) -> Result<Response<R>, Status>
    where
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let _room = self.link.room(&self.tenant).map_err(to_status)?;
        let answer = self.call(caller, permit, call).await?;
        Ok(Response::new(answer))
    }

    /// The same, of a call with a stream of answers.
    pub(super) async fn pass_stream<R, S, F>(
        self,
        caller: &Caller,
        permit: &Permit,
        call: impl FnOnce(Node, Request<T>) -> F,
    ) -> Result<Response<Answers<R>>, Status>
    where
        R: Send + 'static,
        S: Stream<Item = Result<R, Status>> + Send + 'static,
        F: Future<Output = Result<Response<S>, Status>>,
    {
        let room = self.link.room(&self.tenant).map_err(to_status)?;
        let name = self.link.name();
        let answers = self.call(caller, permit, call).await?;
        let answers = answers.map(move |item| {
            let _room = &room;
            item.map_err(|status| to_status(error_of(&status, &name)))
        });
        Ok(Response::new(until_expelled(answers, caller.expelled())))
    }

    async fn call<R, F>(
        self,
        caller: &Caller,
        permit: &Permit,
        call: impl FnOnce(Node, Request<T>) -> F,
    ) -> Result<R, Status>
    where
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let link = self.link.clone();
        let called = async {
            let node = link.of(&self.tenant).await?;
            let answer = call(node, self.request(permit)).await;
            answer.map_err(|status| error_of(&status, &link.name()))
        };
        let answer = caller.unless_expelled(called).await?;
        Ok(answer.into_inner())
    }

    fn request(self, permit: &Permit) -> Request<T> {
        let mut request = Request::new(self.message);
        if let Some(deadline) = self.deadline {
            request.metadata_mut().insert(DEADLINE, deadline);
        }
        match permit.is_administrator() {
            true => request,
            false => as_member(request),
        }
    }
}
