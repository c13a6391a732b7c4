// SPDX-License-Identifier: Apache-2.0
//! What doesn't fit is named exactly; what fits comes back exactly (`round_trip`).

use prost_reflect::{DescriptorPool, MessageDescriptor};

use super::*;
use crate::value::Value;

mod round_trip;

fn kind(name: &str) -> MessageDescriptor {
    let pool: &DescriptorPool = ::api::descriptor_pool().unwrap();
    pool.get_message_by_name(name).unwrap()
}

fn object(entries: &[(&str, Value)]) -> Value {
    let entries = entries
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.clone()));
    Value::Object(entries.collect())
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

/// The error of a `RunExecutableRequest` with that spec.
fn refused(spec: Value) -> WireError {
    let request = object(&[("executable", object(&[("spec", spec)]))]);
    to_message(&kind("aurae.runtime.v0.RunExecutableRequest"), &request).unwrap_err()
}

#[test]
fn errors_name_the_field_and_what_was_expected() {
    let argv = |items: &[Value]| object(&[("argv", Value::Array(items.to_vec()))]);
    let of = |key: &str, value: Value| object(&[(key, value)]);
    for (spec, said) in [
        (
            argv(&[Value::Number(1.0)]),
            "executable.spec.argv[0]: expected a string, got a number",
        ),
        (
            argv(&[text("a"), Value::Undefined]),
            "executable.spec.argv[1]: expected a string, got undefined",
        ),
        (
            of("argv", text("a")),
            "executable.spec.argv: expected an array, got a string",
        ),
        (
            of("env", object(&[("a b", Value::Null)])),
            "executable.spec.env[\"a b\"]: expected a string, got null",
        ),
        (
            of("cwd", Value::Null),
            "executable.spec.cwd: expected a string, got null",
        ),
        (
            of("nice", Value::Number(2_147_483_648.0)),
            "executable.spec.nice: 2147483648 is out of range for a signed number of 32 bits",
        ),
        (
            of("nice", Value::Number(0.5)),
            "executable.spec.nice: expected an integer, got 0.5",
        ),
        (
            of("umask", Value::BigInt(-1)),
            "executable.spec.umask: -1 is out of range for an unsigned number of 32 bits",
        ),
        (
            of("stopGrace", text("soon")),
            "executable.spec.stopGrace: \"soon\" is no duration",
        ),
        (
            of("stopGrace", Value::Number(5.0)),
            "executable.spec.stopGrace: expected a duration such as \"1m30s\", got a number",
        ),
    ] {
        assert_eq!(refused(spec).to_string(), said);
    }
    let request = kind("aurae.runtime.v0.RunExecutableRequest");
    let error = to_message(&request, &Value::Array(vec![])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the request: expected an object, got an array"
    );
}

#[test]
fn names_that_are_not_there_come_with_the_nearest() {
    let error = refused(object(&[("arvg", Value::Array(vec![]))]));
    assert_eq!(error.kind, WireErrorKind::UnknownField);
    assert_eq!(error.path, "executable.spec.arvg");
    assert_eq!(error.message, "ExecutableSpec has no such field");
    assert_eq!(error.hint.as_deref(), Some("did you mean \"argv\"?"));
    // The protos' own spelling is not the language's.
    let error = refused(object(&[("stop_signal", text("TERM"))]));
    assert_eq!(error.hint.as_deref(), Some("did you mean \"stopSignal\"?"));

    let seccomp = object(&[("profile", text("strickt"))]);
    let error = refused(object(&[("seccomp", seccomp)]));
    assert_eq!(error.kind, WireErrorKind::WrongEnum);
    assert_eq!(error.hint.as_deref(), Some("did you mean \"strict\"?"));
    let failure = Failure::from(error);
    assert_eq!(failure.code, "BAD_ARGUMENT");
    assert_eq!(
        failure.field.as_deref(),
        Some("executable.spec.seccomp.profile")
    );
}

#[test]
fn numbers_that_are_not_exact_are_refused() {
    let memory = |max| {
        let request = object(&[("max", max)]);
        to_message(&kind("aurae.runtime.v0.Memory"), &request)
    };
    assert!(memory(Value::Number(9_007_199_254_740_991.0)).is_ok());
    let error = memory(Value::Number(9_007_199_254_740_992.0)).unwrap_err();
    assert_eq!(
        error.hint.as_deref(),
        Some("write it as a bigint: 9007199254740992n")
    );
    assert!(memory(Value::BigInt(u64::MAX.into())).is_ok());
    assert!(memory(Value::BigInt(i128::from(u64::MAX) + 1)).is_err());
    assert!(memory(text("1")).is_err());
}

#[test]
fn two_of_a_oneof_are_one_too_many() {
    let both = object(&[("eof", object(&[])), ("stdin", Value::Bytes(vec![1]))]);
    let error = to_message(&kind("aurae.runtime.v0.AttachRequest"), &both).unwrap_err();
    assert_eq!(error.kind, WireErrorKind::TwoOfOneof);
    assert_eq!(
        error.to_string(),
        "stdin: eof is set as well, and only one of them may be"
    );
    let one = object(&[("eof", Value::Undefined), ("stdin", Value::Bytes(vec![1]))]);
    assert!(to_message(&kind("aurae.runtime.v0.AttachRequest"), &one).is_ok());
}

#[test]
fn what_a_plan_cannot_know_is_an_error_of_its_own() {
    let status = || Value::Unknown("runtime.RunCell(web).meta".to_owned());
    let error = refused(object(&[("cwd", status())]));
    assert_eq!(error.kind, WireErrorKind::Unknown);
    assert!(error.to_string().contains("runtime.RunCell(web).meta"));
    assert_eq!(
        refused(object(&[("argv", status())])).kind,
        WireErrorKind::Unknown
    );
    assert_eq!(refused(status()).kind, WireErrorKind::Unknown);
}

#[test]
fn answers_have_what_is_implicit_and_leave_out_what_is_absent() {
    let empty = to_message(&kind("aurae.runtime.v0.Exit"), &Value::Undefined).unwrap();
    let value = from_message(&empty).unwrap();
    let expected = object(&[
        ("oomKilled", Value::Bool(false)),
        ("coreDumped", Value::Bool(false)),
    ]);
    assert_eq!(value, expected);
    let set = object(&[
        ("oomKills", Value::Number(0.0)),
        ("code", Value::Number(0.0)),
    ]);
    let exit = to_message(&kind("aurae.runtime.v0.Exit"), &set).unwrap();
    let Value::Object(entries) = from_message(&exit).unwrap() else {
        unreachable!("a message is an object");
    };
    assert_eq!(entries[0], ("code".to_owned(), Value::Number(0.0)));
    assert!(entries.contains(&("oomKills".to_owned(), Value::BigInt(0))));
}

#[test]
fn enums_are_words_and_what_is_unknown_stays_a_number() {
    let state = |value| {
        let status = object(&[("state", value)]);
        let made = to_message(&kind("aurae.runtime.v0.CellStatus"), &status).unwrap();
        match from_message(&made).unwrap() {
            Value::Object(entries) => {
                entries
                    .into_iter()
                    .find(|(key, _)| key == "state")
                    .unwrap()
                    .1
            }
            _ => unreachable!("a message is an object"),
        }
    };
    assert_eq!(state(text("running")), text("running"));
    assert_eq!(state(Value::Number(2.0)), text("running"));
    assert_eq!(state(Value::Number(99.0)), Value::Number(99.0));
    assert_eq!(state(Value::Undefined), text("unspecified"));
}
