// SPDX-License-Identifier: Apache-2.0
//! Pods: requests and specs from the wire, specs and statuses back. A manifest of Kubernetes
//! becomes a message here, for clients.

mod back;
mod container;
mod spec;
mod status;
mod volume;
mod whole;

use model::error::{Error, Result, Within};
use model::name::Tenant;
use model::object::{Kind, ObjectRef};
use model::pod::debug::Debug;
use model::pod::request::{
    DebugPod, Dial, ListPods, RemovePod, RunPod, StopPod, UpdatePod, WaitFor, WatchPods,
};

use super::object::{labels, new_object, object_ref, scope};
use super::request::{of_kind, page_size, token};
use super::scalar::{enumeration, maybe_duration, parse, required};
use crate::pod::v0 as wire;

pub use back::{meta, status};
pub(in crate::convert) use container::{probe, to_probe};
pub use model::pod::manifest::{Manifest, Problem, PullSecret, read as read_manifest, read_partly};
pub use spec::{spec, to_spec};
pub use status::{to_gone, to_status};
pub use whole::{to_whole_container, to_whole_spec};

/// Checks the request of `Run`.
///
/// # Errors
/// `INVALID_FIELD`: a part is missing or malformed.
pub fn run(own: &Tenant, message: wire::RunRequest) -> Result<RunPod> {
    let pod = required("pod", message.pod)?;
    let target = new_object(own, Kind::Cell, pod.r#ref).within("pod")?;
    let spec = required("spec", pod.spec).and_then(|it| spec::spec(it).within("spec"));
    Ok(RunPod {
        tenant: target.tenant,
        path: target.path,
        labels: labels(pod.labels).within("pod")?,
        spec: spec.within("pod")?,
        wait_for: match enumeration("wait_for", message.wait_for)? {
            wire::WaitFor::Unspecified | wire::WaitFor::Created => WaitFor::Created,
            wire::WaitFor::Ready => WaitFor::Ready,
            wire::WaitFor::Ended => WaitFor::Ended,
        },
    })
}

/// Checks the reference to a pod.
///
/// # Errors
/// `INVALID_FIELD`: it is missing, malformed, or to an executable.
pub fn target(own: &Tenant, message: Option<crate::runtime::v0::ObjectRef>) -> Result<ObjectRef> {
    of_kind(Kind::Cell, object_ref(own, message)?)
}

/// Checks the request of `Update`.
///
/// # Errors
/// `INVALID_FIELD`: a part is missing or malformed.
pub fn update(own: &Tenant, message: wire::UpdateRequest) -> Result<UpdatePod> {
    let pod = required("pod", message.pod)?;
    let spec = required("spec", pod.spec).and_then(|it| spec::spec(it).within("spec"));
    Ok(UpdatePod {
        target: target(own, pod.r#ref).within("pod")?,
        labels: labels(pod.labels).within("pod")?,
        spec: spec.within("pod")?,
    })
}

/// Checks the request of `Debug`. Whether the pod can have such a container isn't known here.
///
/// # Errors
/// `INVALID_FIELD`: a part is missing or malformed.
pub fn debug(own: &Tenant, message: wire::DebugRequest) -> Result<DebugPod> {
    let container = required("container", message.container)?;
    if container.name.is_empty() {
        return Err(Error::invalid("container.name", "is required"));
    }
    Ok(DebugPod {
        target: target(own, message.r#ref)?,
        debug: Debug {
            container: container::container(container).within("container")?,
            target: message.target,
        },
    })
}

/// The most pods of one page, and how many where the request doesn't say.
const MAX_PAGE: usize = 1000;

/// Checks the request of `List`.
///
/// # Errors
/// `INVALID_FIELD`: the tenant, the page's size or its token is malformed.
pub fn list(own: &Tenant, message: wire::ListRequest) -> Result<ListPods> {
    Ok(ListPods {
        scope: scope(own, &message.tenant)?,
        page_size: page_size(message.page_size, MAX_PAGE, MAX_PAGE)?,
        page_token: token("page_token", message.page_token)?,
    })
}

/// Checks the request of `Watch`.
///
/// # Errors
/// `INVALID_FIELD`: the tenant, the selector or the token is malformed.
pub fn watch(own: &Tenant, message: wire::WatchRequest) -> Result<WatchPods> {
    Ok(WatchPods {
        scope: scope(own, &message.tenant)?,
        selector: parse("selector", &message.selector)?,
        resume_token: token("resume_token", message.resume_token)?,
    })
}

/// Checks the request of `Stop`.
///
/// # Errors
/// `INVALID_FIELD`: the reference or the grace is malformed.
pub fn stop(own: &Tenant, message: wire::StopRequest) -> Result<StopPod> {
    let grace = maybe_duration("grace", message.grace.as_ref())?;
    if grace.is_some_and(|grace| grace > model::executable::MAX_STOP_GRACE) {
        return Err(Error::invalid("grace", "must be at most 1 h"));
    }
    Ok(StopPod {
        target: target(own, message.r#ref)?,
        grace,
    })
}

/// Checks the request of `Remove`.
///
/// # Errors
/// `INVALID_FIELD`: the reference is malformed.
pub fn remove(own: &Tenant, message: wire::RemoveRequest) -> Result<RemovePod> {
    Ok(RemovePod {
        target: target(own, message.r#ref)?,
        force: message.force,
    })
}

/// Checks the first message of `Dial`.
///
/// # Errors
/// `INVALID_FIELD`: the reference or the port is malformed.
pub fn dial(own: &Tenant, message: wire::DialStart) -> Result<Dial> {
    Ok(Dial {
        target: target(own, message.r#ref).within("start")?,
        port: port("start.port", message.port)?,
    })
}

fn port(field: &str, number: u32) -> Result<u16> {
    let port = u16::try_from(number).ok().filter(|port| *port > 0);
    port.ok_or_else(|| Error::invalid(field, "must be from 1 to 65535"))
}
