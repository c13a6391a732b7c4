// SPDX-License-Identifier: Apache-2.0
//! A declared object beside what the node has of it: the question that a plan and an apply begin
//! with. It changes nothing; whether the set takes note of the object is the driver's.

use api::convert::schedule as convert;
use api::schedule::v0::{DeclareRequest, PutConfigRequest};
use prost::Message;
use prost_reflect::{DynamicMessage, ReflectMessage};

use super::Keyed;
use crate::nodes::{Nodes, Question};
use crate::protocol::Failure;
use crate::reconcile::desired::{Verdict, malformed, typed};
use crate::reconcile::manifest::Manifests;

/// What a call declares, what is there, and what follows.
#[derive(Debug)]
pub(crate) struct Compared {
    pub(crate) keyed: Keyed,
    /// As the node has it.
    pub(crate) current: Option<DynamicMessage>,
    /// Whether the set held it before.
    pub(crate) ours: bool,
    /// Whether the program has declared it before.
    pub(crate) again: bool,
    pub(crate) verdict: Verdict,
}

impl Keyed {
    /// Compares what a call declares with what is there.
    ///
    /// # Errors
    /// The node can't be asked, what is there isn't of the set, or no node takes what is declared.
    pub(crate) async fn compared(
        nodes: &Nodes,
        set: &Manifests,
        asked: &Question<'_>,
        message: &DynamicMessage,
    ) -> Result<Compared, Failure> {
        let node = asked.call.node.as_deref();
        let own = set.own_tenant(nodes, node).await?;
        let message = normal(message, &own)?;
        let Some(keyed) = Self::of(asked.found, &message, &own) else {
            return Err(Failure::new("INTERNAL", "it declares nothing"));
        };
        let member = keyed.member();
        let (_, declared) = set.members(nodes, node).await?;
        let current = keyed.current(nodes, node).await?;
        let ours = set.holds(nodes, node, &member).await?;
        let verdict = keyed.verdict(current.as_ref(), ours, set.claim())?;
        Ok(Compared {
            again: declared.contains(&member),
            keyed,
            current,
            ours,
            verdict,
        })
    }
}

/// A request in the form that the node gives its parts back in, so that a default that is spelled
/// out doesn't differ from one that isn't. A kind of object that isn't known here is compared as it
/// was written.
fn normal(request: &DynamicMessage, own: &str) -> Result<DynamicMessage, Failure> {
    let of = request.descriptor();
    let wrong = |e| malformed("", &e);
    let same = match of.full_name() {
        "aurae.schedule.v0.DeclareRequest" => {
            let said: DeclareRequest = typed(request)?;
            convert::normal(own, said).map_err(wrong)?.encode_to_vec()
        }
        "aurae.schedule.v0.PutConfigRequest" => {
            let said: PutConfigRequest = typed(request)?;
            let same = convert::normal_config(own, said).map_err(wrong)?;
            same.encode_to_vec()
        }
        _ => return Ok(request.clone()),
    };
    DynamicMessage::decode(of, same.as_slice())
        .map_err(|problem| Failure::new("INTERNAL", problem.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::reconcile::difference::differences;

    fn declared(spec: serde_json::Value) -> DynamicMessage {
        let pool = api::descriptor_pool().unwrap();
        let of = pool.get_message_by_name("aurae.schedule.v0.DeclareRequest");
        let mut spec = spec;
        let argv = json!({ "argv": ["/bin/true"] });
        spec["work"] = json!({ "executable": { "executable": {
            "ref": { "path": "tick/main" }, "spec": argv,
        } } });
        let request = json!({ "name": "tick", "spec": spec });
        DynamicMessage::deserialize(of.unwrap(), request).unwrap()
    }

    #[test]
    fn a_default_that_is_spelled_out_is_none() {
        let said = declared(json!({
            "when": { "now": {} },
            "restart": "RESTART_POLICY_NO",
            "overlap": "OVERLAP_FORBID",
            "backoff": {},
            "needs": [{ "schedule": "base", "state": "STATE_RUNNING" }],
        }));
        let short = declared(json!({ "needs": [{ "schedule": "base" }] }));
        let (said, short) = (
            normal(&said, "blue").unwrap(),
            normal(&short, "blue").unwrap(),
        );
        assert_eq!(differences("", Some(&said), Some(&short)), []);
        let other = declared(json!({ "restart": "RESTART_POLICY_ALWAYS" }));
        let other = normal(&other, "blue").unwrap();
        let found = differences("", Some(&short), Some(&other));
        assert!(
            found.iter().any(|one| one.field == "spec.restart"),
            "{found:?}"
        );
    }

    #[test]
    fn what_no_node_takes_is_refused_by_its_field() {
        let wrong = declared(json!({ "when": { "cron": { "pattern": "0 4" } } }));
        let failure = normal(&wrong, "blue").unwrap_err();
        assert_eq!(failure.code, "INVALID_FIELD", "{failure:?}");
        assert_eq!(failure.field.as_deref(), Some("spec.when.cron.pattern"));
    }
}
