// SPDX-License-Identifier: Apache-2.0
//! The requests of `Runtime`, checked, with the caller's own tenant filled in.

use model::error::{Error, Result, Within};
use model::name::Tenant;
use model::object::{Kind, ObjectRef};
use model::request::{
    AttachFrom, AttachStart, ListQuery, Remove, RunCell, RunExecutable, SendSignal, Stop,
    UpdateCell, UpdateExecutable, WaitFor, WatchQuery,
};
use model::update::Mask;

use super::object::{filter, labels, new_object, object_ref};
use super::scalar::{enumeration, maybe_duration, maybe_parse, required};
use super::{cell, executable};
use crate::runtime::v0 as wire;

/// The number of objects of a page where the request has none.
const DEFAULT_PAGE: usize = 500;
/// The most objects of a page.
pub(crate) const MAX_PAGE: usize = 1000;
/// The longest page or resume token, in bytes; the node makes shorter ones.
const MAX_TOKEN: usize = 256;

/// Checks the request of `RunExecutable`, its spec and, with `own_cell`, the spec of its cell.
///
/// # Errors
/// `INVALID_FIELD`: a part is missing or malformed, the path has no cell in it, or a field of a
/// spec is refused.
pub fn run_executable(own: &Tenant, message: wire::RunExecutableRequest) -> Result<RunExecutable> {
    let inner = required("executable", message.executable)?;
    let target = new_object(own, Kind::Executable, inner.r#ref).within("executable")?;
    if target.path.parent().is_none() {
        let path = &target.path;
        let problem = format!("is {path}, but an executable's path names its cell as well");
        return Err(Error::invalid("executable.ref.path", problem).hint(format!(
            "write CELL/{path}; with own_cell, the cell is created with it"
        )));
    }
    let spec = required("spec", inner.spec).and_then(|spec| executable::spec(spec).within("spec"));
    let spec = spec.within("executable")?;
    if spec.streams.lead_to_attacher() && !message.attach_follows {
        let problem = "must be set where a stream is ATTACHED: nothing else reads it";
        return Err(Error::invalid("attach_follows", problem)
            .hint("set it, and attach; or let the stream lead to the log, or to a file"));
    }
    Ok(RunExecutable {
        tenant: target.tenant,
        path: target.path,
        labels: labels(inner.labels).within("executable")?,
        spec,
        request_id: maybe_parse("request_id", &message.request_id)?,
        wait_for: wait_for(message.wait_for)?,
        own_cell: message
            .own_cell
            .map(cell::spec)
            .transpose()
            .within("own_cell")?,
        attach_follows: message.attach_follows,
    })
}

/// Checks the request of `RunCell` and the spec in it.
///
/// # Errors
/// `INVALID_FIELD`: the cell is missing, a part of it is malformed, or a field of the spec is
/// refused.
pub fn run_cell(own: &Tenant, message: wire::RunCellRequest) -> Result<RunCell> {
    let inner = required("cell", message.cell)?;
    let target = new_object(own, Kind::Cell, inner.r#ref).within("cell")?;
    Ok(RunCell {
        tenant: target.tenant,
        path: target.path,
        labels: labels(inner.labels).within("cell")?,
        spec: cell::spec(inner.spec.unwrap_or_default()).within("cell.spec")?,
        request_id: maybe_parse("request_id", &message.request_id)?,
        wait_for: wait_for(message.wait_for)?,
        annex: None,
        for_a_member: false,
    })
}

fn wait_for(number: i32) -> Result<WaitFor> {
    Ok(match enumeration("wait_for", number)? {
        wire::WaitFor::Unspecified | wire::WaitFor::Started => WaitFor::Started,
        wire::WaitFor::Exited => WaitFor::Exited,
    })
}

/// Checks the request of `UpdateCell`. The spec is checked as a whole; only the fields of the mask
/// count later.
///
/// # Errors
/// `INVALID_FIELD`: the reference is missing, malformed or to an executable; the mask is empty or
/// names a field that can't be changed; or a field of the spec is refused.
pub fn update_cell(own: &Tenant, message: wire::UpdateCellRequest) -> Result<UpdateCell> {
    let mask = message.update_mask.unwrap_or_default();
    Ok(UpdateCell {
        target: of_kind(Kind::Cell, object_ref(own, message.r#ref)?)?,
        spec: cell::spec(message.spec.unwrap_or_default()).within("spec")?,
        labels: labels(message.labels)?,
        mask: Mask::new(mask.paths.iter().map(String::as_str))?,
        expected_generation: Some(message.expected_generation).filter(|g| *g != 0),
    })
}

/// Checks the request of `UpdateExecutable`.
///
/// # Errors
/// `INVALID_FIELD`: the reference is missing, malformed or to a cell, or a label is malformed.
pub fn update_executable(
    own: &Tenant,
    message: wire::UpdateExecutableRequest,
) -> Result<UpdateExecutable> {
    Ok(UpdateExecutable {
        target: of_kind(Kind::Executable, object_ref(own, message.r#ref)?)?,
        labels: labels(message.labels)?,
        expected_generation: Some(message.expected_generation).filter(|g| *g != 0),
    })
}

/// A reference to an object of this kind, for calls that are about one kind: `FreezeCell`,
/// `Signal`, …
///
/// # Errors
/// `INVALID_FIELD`, naming `ref.kind`: the reference says the other kind.
pub fn of_kind(kind: Kind, mut target: ObjectRef) -> Result<ObjectRef> {
    match target.kind {
        Some(other) if other != kind => Err(Error::invalid(
            "ref.kind",
            format!("is {other}, but this call is about a {kind}"),
        )),
        _ => {
            target.kind = Some(kind);
            Ok(target)
        }
    }
}

/// Checks the request of `List`; without a page size it is 500.
///
/// # Errors
/// `INVALID_FIELD`: a page of more than 1,000, a malformed selector, tenant, path or token, or a
/// kind that is unspecified.
pub fn list(own: &Tenant, message: wire::ListRequest) -> Result<ListQuery> {
    let page_size = page_size(message.page_size, DEFAULT_PAGE, MAX_PAGE)?;
    Ok(ListQuery {
        filter: filter(
            own,
            &message.tenant,
            &message.selector,
            &message.kinds,
            &message.below,
        )?,
        running_only: message.running_only,
        failed_within: maybe_duration("failed_within", message.failed_within.as_ref())?,
        page_size,
        page_token: token("page_token", message.page_token)?,
    })
}

/// Checks the request of `Watch`.
///
/// # Errors
/// `INVALID_FIELD`: a malformed selector, tenant, path or token, or a kind that is unspecified.
pub fn watch(own: &Tenant, message: wire::WatchRequest) -> Result<WatchQuery> {
    Ok(WatchQuery {
        filter: filter(
            own,
            &message.tenant,
            &message.selector,
            &message.kinds,
            &message.below,
        )?,
        resume_token: token("resume_token", message.resume_token)?,
    })
}

/// How many a page has: what is asked for, or what it is where the request doesn't say.
pub(super) fn page_size(asked: u32, default: usize, most: usize) -> Result<usize> {
    match usize::try_from(asked) {
        Ok(0) => Ok(default),
        Ok(n) if n <= most => Ok(n),
        _ => {
            let problem = format!("must be at most {most}");
            Err(Error::invalid("page_size", problem))
        }
    }
}

pub(super) fn token(field: &str, token: String) -> Result<Option<String>> {
    model::text::check_length(field, &token, MAX_TOKEN)?;
    model::text::check_printable(field, &token)?;
    Ok(Some(token).filter(|t| !t.is_empty()))
}

/// Checks the request of `Wait`. It needs a uid, because the name may be run again during the wait.
///
/// # Errors
/// `INVALID_FIELD`: the reference is missing, malformed or without a uid.
pub fn wait(own: &Tenant, message: wire::WaitRequest) -> Result<ObjectRef> {
    let target = object_ref(own, message.r#ref)?;
    if target.uid.is_none() {
        let problem = "is required: the name may be run again while you wait";
        return Err(Error::invalid("ref.uid", problem)
            .hint("take the uid from the status that the Run call or Get answered"));
    }
    Ok(target)
}

/// Checks the request of `Signal`.
///
/// # Errors
/// `INVALID_FIELD`: there is no such signal, or the reference is missing, malformed or to a cell.
pub fn signal(own: &Tenant, message: wire::SignalRequest) -> Result<SendSignal> {
    let parsed = message.signal.parse();
    Ok(SendSignal {
        target: of_kind(Kind::Executable, object_ref(own, message.r#ref)?)?,
        signal: parsed.map_err(|e: Error| e.within("signal"))?,
        all_processes: message.all_processes,
    })
}

/// Checks the request of `Stop`; without a grace the executable's own holds.
///
/// # Errors
/// `INVALID_FIELD`: the grace is negative or longer than 1 h, or the reference is missing or
/// malformed.
pub fn stop(own: &Tenant, message: wire::StopRequest) -> Result<Stop> {
    let grace = maybe_duration("grace", message.grace.as_ref())?;
    if grace.is_some_and(|grace| grace > model::executable::MAX_STOP_GRACE) {
        return Err(Error::invalid("grace", "must be at most 1 h"));
    }
    Ok(Stop {
        target: object_ref(own, message.r#ref)?,
        grace,
    })
}

/// Checks the request of `Remove`.
///
/// # Errors
/// `INVALID_FIELD`: the reference is missing or malformed.
pub fn remove(own: &Tenant, message: wire::RemoveRequest) -> Result<Remove> {
    Ok(Remove {
        target: object_ref(own, message.r#ref)?,
        recursive: message.recursive,
        force: message.force,
    })
}

/// Checks the first message of `Attach`.
///
/// # Errors
/// `INVALID_FIELD`, below `start`: `only_new` beside `from_offset`, or a reference that is missing,
/// malformed or to a cell.
pub fn attach_start(own: &Tenant, message: wire::AttachStart) -> Result<AttachStart> {
    let target = of_kind(
        Kind::Executable,
        object_ref(own, message.r#ref).within("start")?,
    );
    let from = match (message.from_offset, message.only_new) {
        (Some(_), true) => {
            let problem = "has no meaning together with from_offset";
            return Err(Error::invalid("start.only_new", problem));
        }
        (offset, false) => AttachFrom::Offset(offset.unwrap_or(0)),
        (None, true) => AttachFrom::Now,
    };
    Ok(AttachStart {
        target: target.within("start")?,
        stdin: message.stdin,
        from,
    })
}
