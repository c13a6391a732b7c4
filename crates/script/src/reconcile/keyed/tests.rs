// SPDX-License-Identifier: Apache-2.0
//! A method that this client has never heard of is planned, applied, compared and pruned by its
//! option alone. The node is a map here: what is tested is what the client decides by its answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use api::identity::v0::WhoAmIResponse;
use api::sets::v0::{PutRequest, Set};
use client::Config;
use language::schema::Schema;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, Value as Field};
use serde_json::Value as Json;

use crate::apply::Apply;
use crate::nodes::{Api, Ask, Nodes, Question};
use crate::plan::Plan;
use crate::protocol::{Call, Failure};
use crate::reconcile::change::{Action, Report};
use crate::reconcile::set::Claim;
use crate::value::Value;

/// The API with a subsystem more.
fn api_with_routes() -> Api {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut compiler =
        protox::Compiler::new([here.join("src/reconcile/keyed"), here.join("../../proto")])
            .unwrap();
    compiler.include_imports(true);
    compiler.open_file("route.proto").unwrap();
    let files = compiler.encode_file_descriptor_set();
    let pool = DescriptorPool::decode(files.as_slice()).unwrap();
    let pool: &'static DescriptorPool = Box::leak(Box::new(pool));
    let schema: &'static Schema = Box::leak(Box::new(Schema::new(pool)));
    Api { schema, pool }
}

/// What the node keeps.
#[derive(Default)]
struct Kept {
    /// Port and secret by the host.
    rules: BTreeMap<String, (u32, String)>,
    set: Option<Set>,
    /// Methods that change something, in order.
    asked: Vec<String>,
}

fn text(message: &DynamicMessage, name: &str) -> String {
    let value = message.get_field_by_name(name).unwrap();
    value.as_str().unwrap().to_owned()
}

fn answer_of(ask: &Ask, message: &impl Message) -> DynamicMessage {
    let mut answer = DynamicMessage::new(ask.descriptor.output());
    answer.merge(message.encode_to_vec().as_slice()).unwrap();
    answer
}

fn rule(ask: &Ask, host: &str, kept: &(u32, String)) -> DynamicMessage {
    let of = ask.descriptor.parent_pool();
    let of = of.get_message_by_name("aurae.route.v0.Rule").unwrap();
    let mut rule = DynamicMessage::new(of);
    rule.set_field_by_name("tenant", Field::String("blue".into()));
    rule.set_field_by_name("host", Field::String(host.into()));
    rule.set_field_by_name("port", Field::U32(kept.0));
    rule.set_field_by_name("secret", Field::String(kept.1.clone()));
    rule
}

fn answer(kept: &mut Kept, ask: &Ask) -> Result<DynamicMessage, Failure> {
    if ask.method.mutating {
        kept.asked.push(ask.method.action.clone());
    }
    let mut answer = DynamicMessage::new(ask.descriptor.output());
    match ask.method.action.as_str() {
        "identity.WhoAmI" => {
            let tenant = "blue".to_owned();
            return Ok(answer_of(
                ask,
                &WhoAmIResponse {
                    tenant,
                    ..Default::default()
                },
            ));
        }
        "sets.Get" => {
            let set = kept.set.as_ref();
            let set = set.ok_or_else(|| Failure::new("NOT_FOUND", "there is no set"))?;
            return Ok(answer_of(ask, set));
        }
        "sets.Put" => {
            let bytes = ask.request.encode_to_vec();
            let put = PutRequest::decode(bytes.as_slice()).unwrap();
            let found = kept.set.as_ref().map_or(0, |set| set.revision);
            assert_eq!(put.expected_revision, found);
            let revision = found + 1;
            let set = Set {
                revision,
                ..put.set.unwrap()
            };
            kept.set = Some(set.clone());
            return Ok(answer_of(ask, &set));
        }
        "sets.Remove" => kept.set = None,
        "runtime.List" => {}
        "route.List" => {
            let rules = kept
                .rules
                .iter()
                .map(|(host, it)| Field::Message(rule(ask, host, it)));
            answer.set_field_by_name("rules", Field::List(rules.collect()));
        }
        "route.Put" => {
            let port = ask
                .request
                .get_field_by_name("port")
                .unwrap()
                .as_u32()
                .unwrap();
            let host = text(&ask.request, "host");
            let it = (port, text(&ask.request, "secret"));
            kept.rules.insert(host.clone(), it.clone());
            return Ok(rule(ask, &host, &it));
        }
        "route.Drop" => _ = kept.rules.remove(&text(&ask.request, "host")),
        other => panic!("{other}"),
    }
    Ok(answer)
}

struct Bed {
    kept: Arc<Mutex<Kept>>,
    nodes: Nodes,
}

/// A program: each rule with its port.
type Rules<'a> = &'a [(&'a str, f64)];

impl Bed {
    fn new() -> Self {
        let kept = Arc::<Mutex<Kept>>::default();
        let answering = Arc::clone(&kept);
        let nodes = Nodes::new(Config::default(), None, None)
            .speaking(api_with_routes())
            .answered_by(move |ask| answer(&mut answering.lock().unwrap(), ask));
        Self { kept, nodes }
    }

    fn call(rule: &(&str, f64)) -> Call {
        let members = [
            ("host", Value::String(rule.0.to_owned())),
            ("port", Value::Number(rule.1)),
            ("secret", Value::String("hunter2".to_owned())),
        ];
        let members = members
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        Call {
            call: 1,
            node: None,
            method: "route.Put".to_owned(),
            request: Value::Object(members.collect()),
            timeout: None,
            stream: false,
            stack: Vec::new(),
        }
    }

    async fn plan(&self, rules: Rules<'_>) -> Result<Report, Failure> {
        let plan = Plan::new(Claim::new("shop".into(), "shop/main.ts".into()));
        let found = self.nodes.find("route.Put")?;
        for rule in rules {
            let call = Self::call(rule);
            let asked = Question {
                found: &found,
                call: &call,
                at: None,
            };
            plan.unary(&self.nodes, asked).await?;
        }
        plan.finish(&self.nodes).await
    }

    async fn apply(&self, rules: Rules<'_>, adopt: bool) -> Result<Report, Failure> {
        let claim = Claim::new("shop".into(), "shop/main.ts".into());
        let apply = Apply::new(Claim { adopt, ..claim });
        let found = self.nodes.find("route.Put")?;
        for rule in rules {
            let call = Self::call(rule);
            let asked = Question {
                found: &found,
                call: &call,
                at: None,
            };
            apply.unary(&self.nodes, asked).await?;
        }
        apply.finish(&self.nodes).await
    }

    fn hosts(&self) -> Vec<(String, u32)> {
        let kept = self.kept.lock().unwrap();
        kept.rules
            .iter()
            .map(|(host, it)| (host.clone(), it.0))
            .collect()
    }
}

fn said(report: &Report) -> Vec<(Action, &str, &str)> {
    let changes = report.changes.iter();
    changes
        .map(|it| (it.action, it.kind.as_str(), it.name.as_str()))
        .collect()
}

#[tokio::test]
async fn a_new_method_is_planned_applied_and_pruned_by_its_option_alone() {
    let bed = Bed::new();
    let two: Rules<'_> = &[("a", 1.0), ("b", 2.0)];
    let planned = bed.plan(two).await.unwrap();
    assert_eq!(
        said(&planned),
        [(Action::Create, "rule", "a"), (Action::Create, "rule", "b")]
    );
    assert!(
        bed.kept.lock().unwrap().asked.is_empty(),
        "a plan changes nothing"
    );
    let text = serde_json::to_string(&planned).unwrap();
    assert!(
        text.contains("\"port\"") && !text.contains("hunter2"),
        "{text}"
    );

    let applied = bed.apply(two, false).await.unwrap();
    assert_eq!(applied.count(Action::Create), 2);
    assert_eq!(bed.hosts(), [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    let again = bed.apply(two, false).await.unwrap();
    assert!(again.is_noop(), "{again:?}");

    let other: Rules<'_> = &[("a", 5.0)];
    let planned = bed.plan(other).await.unwrap();
    assert_eq!(
        said(&planned),
        [(Action::Update, "rule", "a"), (Action::Remove, "rule", "b")]
    );
    let differs = &planned.changes[0].differences;
    assert_eq!(
        (differs[0].field.as_str(), &differs[0].from, &differs[0].to),
        ("port", &Some(Json::from(1)), &Some(Json::from(5)))
    );
    bed.apply(other, false).await.unwrap();
    assert_eq!(bed.hosts(), [("a".to_owned(), 5)]);
    bed.apply(&[], false).await.unwrap();
    assert_eq!(bed.hosts(), []);
    assert!(
        bed.kept.lock().unwrap().set.is_none(),
        "an empty set is none"
    );
}

#[tokio::test]
async fn what_is_there_by_another_hand_is_left_alone_or_taken_over() {
    let bed = Bed::new();
    let by_hand = (7, "hunter2".to_owned());
    bed.kept
        .lock()
        .unwrap()
        .rules
        .insert("a".to_owned(), by_hand);
    // Be it as declared: a set takes away what it has declared.
    for weight in [8.0, 7.0] {
        let refused = bed.apply(&[("a", weight)], false).await.unwrap_err();
        assert_eq!(refused.code, "CONFLICT");
        let planned = bed.plan(&[("a", weight)]).await.unwrap_err();
        assert_eq!(planned, refused);
    }
    assert_eq!(bed.hosts(), [("a".to_owned(), 7)]);
    // Taken over, it is the set's.
    let taken = bed.apply(&[("a", 7.0)], true).await.unwrap();
    assert_eq!(taken.count(Action::Adopt), 1);
    bed.apply(&[], false).await.unwrap();
    assert_eq!(bed.hosts(), []);
}
