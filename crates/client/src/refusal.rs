// SPDX-License-Identifier: Apache-2.0
//! A node's refusal in parts: reason, field, object, hint. Read from a gRPC status and its
//! `google.rpc` details.

use std::error::Error as _;
use std::fmt;

use api::runtime::v0::ErrorReason;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::Error;

/// The domain of our `ErrorInfo`.
const DOMAIN: &str = "aurae";

/// One malformed field of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The field's path in the request, e.g. `executable.spec.argv`.
    pub field: String,
    /// The rule that the field breaks: `must not be empty`.
    pub problem: String,
}

/// A node's answer instead of a result.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The code of the gRPC status.
    pub code: Code,
    /// Aurae's own reason; `Unspecified` where something else answered (a proxy, tonic itself).
    pub reason: ErrorReason,
    /// One sentence for people.
    pub message: String,
    /// The node's hint.
    pub node_hint: Option<String>,
    /// The fields that were refused.
    pub violations: Vec<Violation>,
    /// The object that it is about, where the node names one.
    pub object: Option<String>,
    lost_connection: bool,
}

impl Refusal {
    /// Whether there was no answer but a broken connection: the call may be tried again.
    pub fn is_lost_connection(&self) -> bool {
        self.lost_connection
    }

    /// The hint: the node's own, or the client's where the node has none.
    pub fn hint(&self) -> Option<String> {
        if let Some(hint) = &self.node_hint {
            return Some(hint.clone());
        }
        let text = match (self.reason, self.code) {
            (ErrorReason::CertExpired, _) => "get a new certificate: `aurae identity renew`",
            (ErrorReason::CertRevoked, _) => "ask an administrator for a new certificate",
            (ErrorReason::UserDisabled, _) => "ask an administrator",
            (ErrorReason::PermissionDenied, _) => "`aurae identity explain ACTION` says why",
            (_, Code::Unimplemented) => {
                "the node is of another version than this client: compare with `aurae version`"
            }
            (_, Code::DeadlineExceeded) => "see whether the node is overloaded, or give --timeout",
            _ => return None,
        };
        Some(text.to_owned())
    }

    fn new(status: &Status) -> Self {
        let mut refusal = Self {
            code: status.code(),
            reason: ErrorReason::Unspecified,
            message: status.message().to_owned(),
            node_hint: None,
            violations: Vec::new(),
            object: None,
            lost_connection: !has_timed_out(status) && is_lost_connection(status),
        };
        refusal.read_details(status);
        if has_timed_out(status) {
            refusal.code = Code::DeadlineExceeded;
            refusal.message = "the node did not answer in time".to_owned();
        }
        if refusal.message.is_empty() {
            refusal.message = status.code().description().to_owned();
        }
        refusal
    }

    fn read_details(&mut self, status: &Status) {
        let details = status.get_error_details();
        if let Some(info) = details.error_info().filter(|info| info.domain == DOMAIN) {
            self.reason = ErrorReason::from_str_name(&info.reason).unwrap_or_default();
            let hint = info.metadata.get("hint").cloned();
            self.node_hint = hint.filter(|hint| !hint.is_empty());
        }
        if let Some(resource) = details.resource_info() {
            self.object = Some(resource.resource_name.clone()).filter(|name| !name.is_empty());
        }
        if let Some(request) = details.bad_request() {
            self.violations = request
                .field_violations
                .iter()
                .map(|violation| Violation {
                    field: violation.field.clone(),
                    problem: violation.description.clone(),
                })
                .collect();
        }
        if let Some(help) = details.help().and_then(|help| help.links.first()) {
            self.node_hint
                .get_or_insert_with(|| help.description.clone());
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for violation in &self.violations {
            let field = &violation.field;
            if self.message.contains(field) {
                continue;
            }
            match self.message.contains(&violation.problem) {
                true => write!(f, " ({field})")?,
                false => write!(f, " ({field}: {})", violation.problem)?,
            }
        }
        if let Some(object) = self
            .object
            .as_ref()
            .filter(|o| !self.message.contains(o.as_str()))
        {
            write!(f, " ({object})")?;
        }
        Ok(())
    }
}

/// A clock ran out: ours, which is the status's source, or the one that the node's transport runs
/// for us by the deadline that we sent. Of that only a code and words come over the wire.
fn has_timed_out(status: &Status) -> bool {
    let words = tonic::TimeoutExpired(()).to_string();
    let by_node = matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded);
    if by_node && status.message() == words {
        return true;
    }
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<tonic::TimeoutExpired>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// tonic gives a broken transport as a status with a source; a node's own answer has none.
fn is_lost_connection(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<tonic::transport::Error>() || error.is::<std::io::Error>() {
            return true;
        }
        source = error.source();
    }
    matches!(status.code(), Code::Unavailable | Code::Unknown)
        && (status.message().contains("transport error")
            || status.message().contains("h2 protocol"))
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(Refusal::new(&status)))
    }
}

#[cfg(test)]
mod tests {
    use tonic_types::{ErrorDetails, StatusExt};

    use super::*;

    fn refusal(status: Status) -> Refusal {
        Refusal::new(&status)
    }

    #[test]
    fn a_refusal_names_reason_field_object_and_what_to_do() {
        let mut details = ErrorDetails::new();
        details
            .set_error_info(
                "INVALID_FIELD",
                "aurae",
                [("hint".into(), "give a number".into())],
            )
            .set_resource_info("executable", "web/nginx", "", "")
            .add_bad_request_violation("executable.spec.nice", "20 is more than 19");
        let status =
            Status::with_error_details(Code::InvalidArgument, "the request is malformed", details);
        let refusal = refusal(status);
        assert_eq!(refusal.reason, ErrorReason::InvalidField);
        assert_eq!(refusal.hint().unwrap(), "give a number");
        assert_eq!(
            refusal.to_string(),
            "the request is malformed (executable.spec.nice: 20 is more than 19) (web/nginx)"
        );
    }

    #[test]
    fn a_time_that_ran_out_at_the_node_is_told_as_one_that_ran_out_here() {
        let ours = Status::from_error(Box::new(tonic::TimeoutExpired(())));
        let theirs = Status::cancelled(tonic::TimeoutExpired(()).to_string());
        for status in [ours, theirs] {
            let refusal = refusal(status);
            assert_eq!(refusal.code, Code::DeadlineExceeded);
            assert!(refusal.hint().unwrap().contains("--timeout"));
            assert!(!refusal.is_lost_connection());
        }
        let other = refusal(Status::cancelled("the caller went away"));
        assert_eq!(other.code, Code::Cancelled);
    }

    #[test]
    fn what_the_message_says_already_is_not_said_twice() {
        let mut details = ErrorDetails::new();
        details.set_resource_info("cell", "web", "", "");
        let status = Status::with_error_details(Code::NotFound, "there is no cell web", details);
        assert_eq!(refusal(status).to_string(), "there is no cell web");
        let mut details = ErrorDetails::new();
        details.add_bad_request_violation("spec.argv[0]", "there is no program x");
        let status = Status::with_error_details(Code::NotFound, "there is no program x", details);
        assert_eq!(
            refusal(status).to_string(),
            "there is no program x (spec.argv[0])"
        );
    }

    #[test]
    fn another_domain_is_not_ours() {
        let mut details = ErrorDetails::new();
        details.set_error_info("NOT_FOUND", "example.com", []);
        let status = Status::with_error_details(Code::NotFound, "no", details);
        assert_eq!(refusal(status).reason, ErrorReason::Unspecified);
    }

    #[test]
    fn a_method_that_the_node_lacks_hints_at_its_version() {
        let hint = refusal(Status::unimplemented("")).hint().unwrap();
        assert!(hint.contains("version"), "{hint}");
    }

    #[test]
    fn a_nodes_answer_is_not_a_lost_connection() {
        assert!(!refusal(Status::unavailable("shutting down")).is_lost_connection());
        let gone: Status = Status::from_error(Box::new(std::io::Error::other("broken pipe")));
        assert!(refusal(gone).is_lost_connection());
    }
}
