// SPDX-License-Identifier: Apache-2.0
//! Messages as canonical proto JSON and as YAML, by reflection: every field that the contract has
//! is printed without a line of code per field. The descriptors are decoded only when this is asked
//! for.

use prost::Message;
use prost_reflect::{DynamicMessage, SerializeOptions};

use script::yaml;

use crate::failure::Failure;

/// A message with its full protobuf name.
pub(crate) trait Named: Message {
    /// The message's full name, e.g. `aurae.runtime.v0.Object`.
    const NAME: &'static str;
}

macro_rules! named {
    ($($package:ident: $($message:ident),+;)+) => {
        $($(impl Named for api::$package::v0::$message {
            const NAME: &'static str =
                concat!("aurae.", stringify!($package), ".v0.", stringify!($message));
        })+)+
    };
}

named! {
    runtime: CellStatus, ExecutableStatus, Object, ListResponse, WatchEvent, RemoveResponse, Exit;
    observe: UsageResponse;
    identity: User, ListUsersResponse, Grant, ExplainResponse, WhoAmIResponse;
    identity: AuditEntry, AuditVerdict, ListCertificatesResponse;
    node: NodeStatus, GetConfigResponse, ListUnownedResponse, ReloadResponse, ShutdownResponse;
    tenant: ListResponse, TenantStatus;
    sets: Set, ListResponse;
    pod: PodStatus, ListResponse, WatchEvent;
    schedule: ScheduleStatus, ListResponse, HistoryResponse, Reason, ListConfigsResponse;
    schedule: ListUnitsResponse, UnitStatus, UnitDetail;
    image: Image, ListResponse, PruneResponse, ImportResponse, VerifyResponse;
}

fn reflect<M: Named>(message: &M) -> Result<DynamicMessage, Failure> {
    let broken = |problem: &dyn std::fmt::Display| {
        Failure::new(format!("can't describe {}: {problem}", M::NAME))
    };
    let pool = api::descriptor_pool().map_err(|problem| broken(problem))?;
    let descriptor = pool
        .get_message_by_name(M::NAME)
        .ok_or_else(|| broken(&"unknown message"))?;
    DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice())
        .map_err(|problem| broken(&problem))
}

fn serialize<M: Named, S: serde::Serializer>(message: &M, serializer: S) -> Result<S::Ok, Failure>
where
    S::Error: std::fmt::Display,
{
    let options = SerializeOptions::new();
    reflect(message)?
        .serialize_with_options(serializer, &options)
        .map_err(|problem| Failure::new(format!("can't print {}: {problem}", M::NAME)))
}

/// Indented canonical proto JSON.
pub(crate) fn to_json<M: Named>(message: &M) -> Result<String, Failure> {
    let mut text = Vec::new();
    serialize(message, &mut serde_json::Serializer::pretty(&mut text))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The message as a JSON value.
pub(crate) fn to_value<M: Named>(message: &M) -> Result<serde_json::Value, Failure> {
    serialize(message, serde_json::value::Serializer)
}

/// The message as YAML.
pub(crate) fn to_yaml<M: Named>(message: &M) -> Result<String, Failure> {
    yaml::emit(&to_value(message)?).map_err(Failure::new)
}

#[cfg(test)]
mod tests {
    use api::runtime::v0 as runtime;

    use super::*;

    fn status() -> runtime::ExecutableStatus {
        runtime::ExecutableStatus {
            state: runtime::State::Exited.into(),
            stdout_bytes: 5,
            exit: Some(runtime::Exit {
                how: Some(runtime::exit::How::Code(0)),
                ..Default::default()
            }),
            started: Some(prost_types::Timestamp {
                seconds: 1,
                nanos: 0,
            }),
            ..Default::default()
        }
    }

    #[test]
    fn json_is_canonical_and_in_the_contracts_order() {
        let text = to_json(&status()).unwrap();
        assert_eq!(
            text,
            r#"{
  "state": "STATE_EXITED",
  "started": "1970-01-01T00:00:01Z",
  "exit": {
    "code": 0
  },
  "stdoutBytes": "5"
}"#
        );
    }

    #[test]
    fn yaml_says_the_same() {
        let text = to_yaml(&status()).unwrap();
        assert_eq!(
            text,
            "state: STATE_EXITED\nstarted: \"1970-01-01T00:00:01Z\"\nexit:\n  code: 0\n\
             stdoutBytes: \"5\"\n"
        );
    }

    #[test]
    fn every_named_message_is_in_the_contract() {
        let pool = api::descriptor_pool().unwrap();
        for name in [
            runtime::ListResponse::NAME,
            api::observe::v0::UsageResponse::NAME,
            api::identity::v0::AuditVerdict::NAME,
            api::node::v0::ShutdownResponse::NAME,
        ] {
            assert!(pool.get_message_by_name(name).is_some(), "{name}");
        }
    }
}
