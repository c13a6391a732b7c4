// SPDX-License-Identifier: Apache-2.0
//! Errors on the wire: a gRPC status with the `google.rpc` details, and back. The daemon's `rpc/`
//! calls [`to_status`], clients call [`from_status`]; both agree on what goes where:
//!
//! | of the error | where it travels |
//! |---|---|
//! | reason | `ErrorInfo.reason`, domain `aurae`; it also decides the code |
//! | field | `BadRequest.field_violations[0]` |
//! | object | `ResourceInfo` |
//! | errno | `PreconditionFailure.violations[0]`, type `ERRNO`, subject `ENOENT` |
//! | hint | `ErrorInfo.metadata["hint"]` |
//! | retry_after | `RetryInfo` |

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use model::error::Error;
pub use model::error::{Reason, Subject};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// `ErrorInfo.domain` of every error that the node itself answers.
pub const DOMAIN: &str = "aurae";

/// The longest text of a status, in bytes; details travel in a header, whose size clients bound.
const MAX_TEXT: usize = 1024;

/// The code that goes with a reason.
pub fn code(reason: Reason) -> Code {
    match reason {
        Reason::InvalidField | Reason::RequestIdReused => Code::InvalidArgument,
        Reason::NotFound | Reason::ProgramNotFound => Code::NotFound,
        Reason::AlreadyExists => Code::AlreadyExists,
        Reason::WrongState
        | Reason::NotEmpty
        | Reason::ProgramNotExecutable
        | Reason::Unsupported
        | Reason::ControllerUnavailable
        | Reason::RegistryFailed
        | Reason::StdinTaken => Code::FailedPrecondition,
        Reason::Conflict => Code::Aborted,
        Reason::LimitExceeded => Code::ResourceExhausted,
        Reason::PermissionDenied => Code::PermissionDenied,
        Reason::CertExpired | Reason::CertRevoked | Reason::CertInvalid | Reason::UserDisabled => {
            Code::Unauthenticated
        }
        Reason::Degraded | Reason::ShuttingDown => Code::Unavailable,
        Reason::Deadline => Code::DeadlineExceeded,
        Reason::Internal => Code::Internal,
    }
}

/// The status of an error, with everything that it says as details.
pub fn to_status(error: Error) -> Status {
    let error = error.into_details();
    let message = match &error.field {
        Some(field) if error.reason == Reason::InvalidField && !field.is_empty() => {
            format!("{field} {}", error.message)
        }
        _ => error.message.clone(),
    };
    let mut metadata = HashMap::new();
    if let Some(hint) = &error.hint {
        metadata.insert("hint".to_owned(), shorten(hint));
    }
    let mut details = ErrorDetails::with_error_info(error.reason.as_str(), DOMAIN, metadata);
    if let Some(field) = &error.field {
        details.add_bad_request_violation(shorten(field), shorten(&error.message));
    }
    if let Some(object) = &error.object {
        details.set_resource_info(shorten(&object.kind), shorten(&object.name), "", "");
    }
    if let Some(errno) = error.errno {
        let name = model::errno::name(errno).map_or_else(|| errno.to_string(), str::to_owned);
        details.add_precondition_failure_violation("ERRNO", name, shorten(&error.message));
    }
    if let Some(after) = error.retry_after {
        details.set_retry_info(Some(after));
    }
    Status::with_error_details(code(error.reason), shorten(&message), details)
}

fn shorten(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_TEXT);
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// The parts of a status, for a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The code of the gRPC status.
    pub code: Code,
    /// `None`: the status is not the node's own (the transport's, another server's, a newer
    /// node's).
    pub reason: Option<Reason>,
    /// One sentence for people: the status's message.
    pub message: String,
    /// The hint: what the user can do.
    pub hint: Option<String>,
    /// The path of the offending field.
    pub field: Option<String>,
    /// The object that the error is about.
    pub object: Option<Subject>,
    /// The kernel's error, by name (`ENOENT`) where it has one.
    pub errno: Option<String>,
    /// When trying again may help.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Reads a status with its details.
pub fn from_status(status: &Status) -> Failure {
    let details = status.get_error_details();
    let info = details.error_info().filter(|info| info.domain == DOMAIN);
    let violation = details
        .bad_request()
        .and_then(|b| b.field_violations.first());
    let precondition = details.precondition_failure().map(|p| &p.violations);
    let errno = precondition.and_then(|v| v.iter().find(|v| v.r#type == "ERRNO"));
    Failure {
        code: status.code(),
        reason: info.and_then(|info| Reason::from_name(&info.reason)),
        message: status.message().to_owned(),
        hint: info.and_then(|info| info.metadata.get("hint").cloned()),
        field: violation.map(|v| v.field.clone()),
        object: details.resource_info().map(|resource| Subject {
            kind: resource.resource_type.clone(),
            name: resource.resource_name.clone(),
        }),
        errno: errno.map(|v| v.subject.clone()),
        retry_after: details.retry_info().and_then(|r| r.retry_delay),
    }
}

/// The error that another node has answered with, for a node that asked it on behalf of a caller:
/// `from` is what that caller knows it by. An answer that isn't Aurae's is of the way there.
pub fn error_of(status: &Status, from: &str) -> Error {
    let failure = from_status(status);
    let Some(reason) = failure.reason else {
        let message = format!("{from}: {}", failure.message);
        return Error::new(reason_of(failure.code), message);
    };
    let message = match &failure.field {
        // The field says it, and `to_status` puts it before the message again.
        Some(field) if reason == Reason::InvalidField => {
            let whole = failure.message.as_str();
            let rest = whole.strip_prefix(field.as_str()).map(str::trim_start);
            rest.unwrap_or(whole).to_owned()
        }
        _ => failure.message,
    };
    let mut error = Error::new(reason, message);
    if let Some(field) = failure.field {
        error = error.field(field);
    }
    if let Some(hint) = failure.hint {
        error = error.hint(hint);
    }
    if let Some(object) = failure.object {
        error = error.about(object.kind, object.name);
    }
    match failure.retry_after {
        Some(after) => error.retry_after(after),
        None => error,
    }
}

/// Of what isn't a node's own word.
fn reason_of(code: Code) -> Reason {
    match code {
        Code::DeadlineExceeded | Code::Cancelled => Reason::Deadline,
        Code::Unimplemented => Reason::Unsupported,
        Code::ResourceExhausted => Reason::LimitExceeded,
        _ => Reason::Degraded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::v0::ErrorReason;

    #[test]
    fn reasons_are_those_of_the_contract() {
        for (i, reason) in Reason::ALL.into_iter().enumerate() {
            let wire = ErrorReason::from_str_name(reason.as_str()).expect("is in errors.proto");
            assert_eq!(wire as usize, i + 1);
        }
        assert!(
            ErrorReason::try_from(24).is_err(),
            "a reason is missing in the model"
        );
    }

    #[test]
    fn an_error_comes_through_with_everything_it_says() {
        let error = Error::new(Reason::ProgramNotFound, "there is no program \"/bin/nope\"")
            .about("executable", "web/nginx")
            .field("executable.spec.argv[0]")
            .errno(2)
            .hint("look into the cell with `aurae exec`")
            .retry_after(Duration::from_millis(1500));
        let failure = from_status(&to_status(error));
        assert_eq!(failure.code, Code::NotFound);
        assert_eq!(failure.reason, Some(Reason::ProgramNotFound));
        assert_eq!(failure.field.as_deref(), Some("executable.spec.argv[0]"));
        assert_eq!(failure.errno.as_deref(), Some("ENOENT"));
        assert_eq!(failure.object.unwrap().name, "web/nginx");
        assert!(failure.hint.unwrap().contains("aurae exec"));
        assert_eq!(failure.retry_after, Some(Duration::from_millis(1500)));
    }

    #[test]
    fn an_error_of_another_node_is_told_on_as_it_was() {
        let error = Error::invalid("pod.spec.volumes[0]", "must have a name")
            .hint("give it one")
            .about("pod", "web");
        assert_eq!(error_of(&to_status(error.clone()), "vm"), error);
        let lost = error_of(&Status::unavailable("transport error"), "vm");
        assert_eq!(lost.reason, Reason::Degraded);
        assert_eq!(lost.message, "vm: transport error");
    }

    #[test]
    fn a_status_of_another_server_is_read_without_inventing() {
        let failure = from_status(&Status::unavailable("transport error"));
        assert_eq!(failure.reason, None);
        assert_eq!(failure.hint, None);
        assert_eq!(failure.message, "transport error");
    }

    #[test]
    fn no_status_is_longer_than_a_header_may_be() {
        let long = "ü".repeat(100_000);
        let error = Error::invalid(&long, &long)
            .hint(&long)
            .about(&long, &long)
            .errno(1);
        let status = to_status(error);
        assert!(status.details().len() + status.message().len() < 9 * MAX_TEXT);
    }
}
