// SPDX-License-Identifier: Apache-2.0
//! How a call fails, as a program catches it: a stable code, one sentence, the field under the
//! language's name, the object, what to do. Sorted here and nowhere else.

use std::error::Error as _;

use api::runtime::v0::ErrorReason;
use client::{Error, Refusal};
use tonic::{Code, Status};

use crate::protocol::Failure;

/// A connection that broke, or never came to be. The call may or may not have been done.
pub const UNAVAILABLE: &str = "UNAVAILABLE";
/// The context's `timeout`, or the node's own.
pub const DEADLINE: &str = "DEADLINE";
/// Not an answer: the request isn't one.
pub const BAD_ARGUMENT: &str = "BAD_ARGUMENT";
/// A context, a certificate or a key that can't be used.
pub const BAD_CONTEXT: &str = "BAD_CONTEXT";
/// The node isn't the one that was expected, or doesn't let us in.
pub const HANDSHAKE: &str = "HANDSHAKE";
/// More calls at once than a program may have.
pub const LIMIT_EXCEEDED: &str = "LIMIT_EXCEEDED";

/// A plan met something that only a real call would tell.
pub const UNKNOWN_IN_PLAN: &str = "UNKNOWN_IN_PLAN";

/// A status of a call. Where the connection had to be made again and couldn't, that is the reason.
pub(super) fn of_status(status: Status) -> Failure {
    let mut source = status.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<Error>() {
            return of_error(error);
        }
        source = error.source();
    }
    of_error(&Error::from(status))
}

/// Whether there was no answer but a connection that broke.
pub(super) fn is_lost(status: &Status) -> bool {
    let error = Error::from(status.clone());
    error.refusal().is_some_and(Refusal::is_lost_connection)
}

/// A failure to reach a node, or its refusal.
pub(super) fn of_error(error: &Error) -> Failure {
    let failure = Failure {
        code: code(error),
        message: error.to_string(),
        hint: error.hint(),
        ..Failure::default()
    };
    match error.refusal() {
        Some(refusal) => of_refusal(refusal, failure),
        None => failure,
    }
}

fn of_refusal(refusal: &Refusal, mut failure: Failure) -> Failure {
    if refusal.is_lost_connection() {
        failure.message = "the connection to the node broke during the call".to_owned();
        failure.hint = Some(
            "the call may have been done or not: look with `runtime.Get`, or give a `requestId` \
             and call again"
                .to_owned(),
        );
    }
    if let Some(violation) = refusal.violations.first() {
        failure.field = Some(in_the_language(&violation.field));
    }
    failure.object = refusal.object.clone();
    failure
}

fn code(error: &Error) -> String {
    let code = match error {
        Error::Refused(refusal) => return of_reason(refusal),
        Error::NoSocket { .. } | Error::ConnectionRefused { .. } | Error::Connect { .. } => {
            UNAVAILABLE
        }
        Error::Deadline { .. } => DEADLINE,
        Error::PermissionDenied { .. } => "PERMISSION_DENIED",
        Error::Handshake { alert, .. } => of_alert(*alert),
        Error::UntrustedNode { .. } => HANDSHAKE,
        Error::File { .. } | Error::Credentials { .. } | Error::Config { .. } => BAD_CONTEXT,
    };
    code.to_owned()
}

fn of_alert(alert: Option<&'static str>) -> &'static str {
    match alert {
        Some("certificate_revoked") => "CERT_REVOKED",
        Some("certificate_expired") => "CERT_EXPIRED",
        Some("certificate_required" | "bad_certificate" | "unknown_ca") => "CERT_INVALID",
        Some("access_denied") => "USER_DISABLED",
        Some(_) => HANDSHAKE,
        // Closed without a word: a daemon that died while we shook hands.
        None => UNAVAILABLE,
    }
}

/// Aurae's own reason where there is one, else gRPC's code in capitals.
fn of_reason(refusal: &Refusal) -> String {
    if refusal.is_lost_connection() {
        return UNAVAILABLE.to_owned();
    }
    match refusal.reason {
        ErrorReason::Unspecified => of_code(refusal.code).to_owned(),
        reason => reason.as_str_name().to_owned(),
    }
}

fn of_code(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_FIELD",
        Code::DeadlineExceeded => DEADLINE,
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => LIMIT_EXCEEDED,
        Code::FailedPrecondition => "WRONG_STATE",
        Code::Aborted => "CONFLICT",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "NOT_OFFERED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => UNAVAILABLE,
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "CERT_INVALID",
    }
}

/// `executable.spec.stop_grace` → `executable.spec.stopGrace`: each word between dots by itself, so
/// that maps' keys in brackets stay as they are.
pub(crate) fn in_the_language(field: &str) -> String {
    let mut name = String::with_capacity(field.len());
    let (mut upper, mut key) = (false, 0_u32);
    for c in field.chars() {
        match c {
            '[' => key += 1,
            ']' => key = key.saturating_sub(1),
            _ => {}
        }
        match c {
            '_' if key == 0 => upper = true,
            c if upper => {
                name.push(c.to_ascii_uppercase());
                upper = false;
            }
            c => name.push(c),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_the_languages_name() {
        assert_eq!(
            in_the_language("executable.spec.stop_grace"),
            "executable.spec.stopGrace"
        );
        assert_eq!(in_the_language("labels[a_b].c_d"), "labels[a_b].cD");
    }

    #[test]
    fn codes_are_the_nodes_reasons_else_grpcs() {
        assert_eq!(of_status(Status::not_found("no")).code, "NOT_FOUND");
        assert_eq!(of_status(Status::unimplemented("")).code, "NOT_OFFERED");
        let gone = Status::from_error(Box::new(std::io::Error::other("broken pipe")));
        let failure = of_status(gone);
        assert_eq!(failure.code, UNAVAILABLE);
        assert!(failure.hint.unwrap().contains("requestId"));
    }
}
