// SPDX-License-Identifier: Apache-2.0
//! The friendly layer in the real evaluator, over a host that takes every request for what the API
//! says it is: what programs hand over must be messages, what they get was one.

#![allow(clippy::unwrap_used, reason = "of tests")]
#![allow(clippy::result_large_err, reason = "what a host answers")]

mod support;

use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, BoxStream};
use prost_reflect::DynamicMessage;
use script::protocol::{Assumed, Call, Failure, Module, Moved, Start, Thrown, Values};
use script::session::{Host, Items, Session};
use script::value::Value;
use script::wire::{from_message, to_message};

/// A node that runs everything at once and forgets it.
#[derive(Default)]
struct Node {
    printed: Mutex<String>,
    asked: Mutex<Vec<String>>,
}

impl Node {
    /// The request as the API has it, or why it is none.
    fn take(&self, call: &Call) -> Result<DynamicMessage, Failure> {
        let schema = language::schema::Schema::of_api().unwrap();
        let method = schema.method(&call.method).unwrap();
        let pool = api::descriptor_pool().unwrap();
        let kind = pool.get_message_by_name(&method.request).unwrap();
        let on = call
            .node
            .as_deref()
            .map_or(String::new(), |node| format!("@{node}"));
        let request = to_message(&kind, &call.request)?;
        self.asked
            .lock()
            .unwrap()
            .push(format!("{}{on}", call.method));
        Ok(request)
    }

    /// An answer of that type, through its message.
    fn give(kind: &str, value: &Value) -> Result<Value, Failure> {
        let kind = api::descriptor_pool()
            .unwrap()
            .get_message_by_name(kind)
            .unwrap();
        Ok(from_message(&to_message(&kind, value)?)?)
    }
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

impl Host for Node {
    fn import(&self, specifier: String, _: String) -> BoxFuture<'_, Result<Module, Failure>> {
        async move { Err(Failure::new("UNRESOLVED_IMPORT", specifier)) }.boxed()
    }

    fn read_file(&self, path: String, _: String) -> BoxFuture<'_, Result<Vec<u8>, Failure>> {
        async move { Err(Failure::new("NOT_FOUND", path)) }.boxed()
    }

    fn nodes(&self, selector: String) -> BoxFuture<'_, Result<Vec<String>, Failure>> {
        async move { Ok(selector.split(',').map(str::to_owned).collect()) }.boxed()
    }

    fn print(&self, _: bool, text: String) -> BoxFuture<'_, ()> {
        self.printed.lock().unwrap().push_str(&text);
        async {}.boxed()
    }

    fn assume(&self, _: Assumed) {}

    fn moved(&self, _: Moved) -> Result<(), String> {
        Ok(())
    }

    fn call(self: Arc<Self>, call: Call) -> BoxFuture<'static, Result<Value, Failure>> {
        let answer = self
            .take(&call)
            .and_then(|request| match call.method.as_str() {
                "runtime.RunCell" | "runtime.RunExecutable" => {
                    let (field, kind) = match call.method.as_str() {
                        "runtime.RunCell" => ("cell", "aurae.runtime.v0.CellStatus"),
                        _ => ("executable", "aurae.runtime.v0.ExecutableStatus"),
                    };
                    let workload = request.get_field_by_name(field).unwrap();
                    let workload = workload.as_message().unwrap();
                    let part = |name: &str| {
                        let part = workload.get_field_by_name(name).unwrap();
                        from_message(part.as_message().unwrap()).unwrap()
                    };
                    let meta = object(&[("ref", part("ref")), ("generation", Value::BigInt(1))]);
                    let status = [
                        ("meta", meta),
                        ("spec", part("spec")),
                        ("state", text("running")),
                    ];
                    Self::give(kind, &object(&status))
                }
                "identity.Allow" => {
                    Self::give("aurae.identity.v0.Grant", &object(&[("id", text("g1"))]))
                }
                _ => Err(Failure {
                    object: Some("web".into()),
                    ..Failure::new("NOT_FOUND", "there is no web")
                        .hint("aurae ps shows what there is")
                }),
            });
        async move { answer }.boxed()
    }

    fn stream(self: Arc<Self>, call: Call, _: Items) -> BoxStream<'static, Result<Value, Failure>> {
        let pieces: [&[u8]; 3] = ["GET /\nGET /f".as_bytes(), "öö".as_bytes(), b"\n"];
        let taken = self.take(&call).map(|_| ());
        let pieces = pieces.map(|piece| {
            let data = object(&[
                ("data", Value::Bytes(piece.to_vec())),
                ("stream", text("stdout")),
            ]);
            let item = object(&[
                ("ref", object(&[("path", text("web/nginx"))])),
                ("data", data),
            ]);
            Self::give("aurae.observe.v0.LogsResponse", &item)
        });
        match taken {
            Ok(()) => stream::iter(pieces).boxed(),
            Err(why) => stream::iter([Err(why)]).boxed(),
        }
    }
}

/// What the program prints, what it asked for, or what it threw.
async fn run(code: &str) -> (Result<String, Thrown>, Vec<String>) {
    run_with(code, None).await
}

async fn run_with(code: &str, values: Option<Values>) -> (Result<String, Thrown>, Vec<String>) {
    let start = Start {
        prelude: vec![Module {
            name: language::prelude::NAME.to_owned(),
            code: language::prelude::JAVASCRIPT.to_owned(),
        }],
        values,
        ..Start::default()
    };
    let node = Arc::new(Node::default());
    let mut session = Session::start(support::options(start), node.clone()).unwrap();
    let done = session.run(support::main(code), "main.ts").await;
    let printed = node.printed.lock().unwrap().clone();
    let asked = node.asked.lock().unwrap().clone();
    (done.map(|_| printed), asked)
}

#[tokio::test]
async fn a_pair_is_run_watched_and_granted() {
    let (printed, asked) = run(r#"
        const web = new Cell({ name: "web", resources: { memory: { max: 268435456 } } });
        const nginx = new Executable({ name: "web/nginx", argv: ["nginx"] }).Env("user", "nova");
        const [cell, executable] = await runtime.Run([web, nginx]);
        print(cell.state, cell.meta.ref.path, cell.spec.resources.memory.max, cell.meta.generation);
        print(executable.spec.env, executable.exit);
        for await (const line of observe.Stdout(nginx).withContext({ timeout: "5s" })) print(line);
        const grant = await identity.User("nova").Allow(runtime.Stop, { path: "web" });
        print(grant.id);
        await node("alice").runtime.Run(web);
        print(web);
        print(Cell.From(yaml.parse(yaml.stringify(web))).Equals(web));
        print("Instance" in globalThis, typeof __aurae);
    "#)
    .await;
    let expected = "\
running web 268435456n 1n
{ user: \"nova\" } undefined
GET /
GET /föö
g1
Cell { name: \"web\", resources: { memory: { max: 268435456 } } }
true
true undefined
";
    assert_eq!(printed.unwrap(), expected);
    let expected = [
        "runtime.RunCell",
        "runtime.RunExecutable",
        "observe.Logs",
        "identity.Allow",
        "runtime.RunCell@alice",
    ];
    assert_eq!(asked, expected);
}

#[tokio::test]
async fn declarations_are_built_step_by_step_and_stand_for_requests() {
    let (printed, asked) = run(r#"
        const app = new Executable({ name: "web/app", argv: ["serve"] }).Argv("--port", "80")
          .Groups("www").Env("A", "1").Label("app", "web");
        print(app);
        const status = await runtime.RunExecutable(app, { ownCell: {} });
        print(status.spec.argv);
        await node("alice").runtime.RunCell(new Cell({ name: "web" }), {}, { timeout: "5s" });
        try { await runtime.RunCell(app); } catch (e) { print(e.message); }
        print(JSON.stringify({ on: node("alice") }));
    "#)
    .await;
    let expected = "\
Executable {
  name: \"web/app\",
  labels: { app: \"web\" },
  argv: [ \"serve\", \"--port\", \"80\" ],
  groups: [ \"www\" ],
  env: { A: \"1\" }
}
[ \"serve\", \"--port\", \"80\" ]
runtime.RunCell: expected cell data, got a Executable
{\"on\":\"alice\"}
";
    assert_eq!(printed.unwrap(), expected);
    assert_eq!(asked, ["runtime.RunExecutable", "runtime.RunCell@alice"]);
}

#[tokio::test]
async fn a_pod_has_the_builders_of_the_whitepaper() {
    let (printed, _) = run(r#"
        const containers = [{ name: "app", env: [{ name: "user", value: "emma" }] }];
        const web = new Pod({ name: "web", containers, initContainers: [{ name: "first" }] })
          .Env("user", "nova").Expose(80, { hostPort: 8443, port: 443 });
        print(JSON.stringify(web));
        print(JSON.stringify(new Cell({ name: "web" }).Expose(80).Expose(81)));
        print("Env" in Cell.prototype, "Expose" in Executable.prototype, containers[0].env[0].value);
    "#)
    .await;
    let nova = r#""env":[{"name":"user","value":"nova"}]"#;
    let expected = format!(
        "{{\"kind\":\"pod\",\"name\":\"web\",\"containers\":[{{\"name\":\"app\",{nova}}}],\
         \"initContainers\":[{{\"name\":\"first\",{nova}}}],\"network\":{{\"ports\":\
         [{{\"hostPort\":80,\"port\":80}},{{\"hostPort\":8443,\"port\":443}}]}}}}\n\
         {{\"kind\":\"cell\",\"name\":\"web\",\"network\":{{\"ports\":\
         [{{\"hostPort\":80,\"port\":80}},{{\"hostPort\":81,\"port\":81}}]}}}}\n\
         false false emma\n"
    );
    assert_eq!(printed.unwrap(), expected);
}

#[tokio::test]
async fn what_a_selector_matches_is_nodes_like_those_by_name() {
    let (printed, asked) = run(r#"
        const all = nodes("alice,bob");
        for (const one of all) await one.runtime.Run(new Cell({ name: "web" }));
        print(all.length, all[0] === node("alice"), `${all[1]}`, JSON.stringify({ on: all }));
        try { nodes({ role: "web" }); } catch (e) { print(e.message); }
    "#)
    .await;
    let expected = "\
2 true bob {\"on\":[\"alice\",\"bob\"]}
nodes: expected a selector of labels, such as nodes(\"role=web\")
";
    assert_eq!(printed.unwrap(), expected);
    assert_eq!(asked, ["runtime.RunCell@alice", "runtime.RunCell@bob"]);
}

#[tokio::test]
async fn errors_say_which_call_object_and_field() {
    let (printed, _) = run(r#"
        const failed = async (what) => {
          try { await what(); } catch (e) {
            print(e instanceof AuraeError, e.name, e.code, e.method, e.object, e.field, e.hint);
            print(e.message);
          }
        };
        await failed(() => runtime.Stop("web"));
        await failed(() => runtime.Run(new Executable({ name: "a", argv: [5] })));
        await failed(async () => { for await (const _ of observe.Stdout("a", { tial: 5 })); });
        try { runtime.RunPod; } catch (e) { print(e.message.split(";")[0]); }
    "#)
    .await;
    let printed = printed.unwrap();
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(
        lines,
        [
            "true AuraeError NOT_FOUND runtime.Stop web undefined aurae ps shows what there is",
            "there is no web",
            "true AuraeError BAD_ARGUMENT runtime.RunExecutable undefined executable.spec.argv[0] undefined",
            "executable.spec.argv[0]: expected a string, got a number",
            "true AuraeError BAD_ARGUMENT observe.Logs undefined tial did you mean \"tail\"?",
            "tial: LogsRequest has no such field",
            "runtime.RunPod isn't offered",
        ]
    );
}

/// What a program of values prints, with a file of them.
async fn laid(text: &str) -> Result<String, String> {
    let code = r#"
        const v = values({
          copies: 1, big: 5n, image: "web:1", debug: false, tag: undefined, hosts: ["a"], more: {},
          limits: { memory: 64, cpu: { weight: 100 } },
        });
        print(v);
    "#;
    let name = "prod.json".to_owned();
    let values = Values {
        name,
        text: text.to_owned(),
        expected: None,
    };
    let (printed, asked) = run_with(code, Some(values)).await;
    assert_eq!(asked, [""; 0]);
    printed.map_err(|thrown| thrown.message)
}

#[tokio::test]
async fn a_cluster_s_values_are_laid_over_the_programs_and_nothing_else_is_taken() {
    let json = r#"{ "copies": 3, "big": 7, "tag": "x", "hosts": ["b", "c"], "more": { "z": 1 },
        "limits": { "cpu": { "weight": 50 } } }"#;
    let expected = "\
{
  copies: 3,
  big: 7n,
  image: \"web:1\",
  debug: false,
  tag: \"x\",
  hosts: [ \"b\", \"c\" ],
  more: { z: 1 },
  limits: { memory: 64, cpu: { weight: 50 } }
}
";
    assert_eq!(laid(json).await.as_deref(), Ok(expected));
    let yaml = "copies: 2\nlimits:\n  memory: 32\n";
    let printed = laid(yaml).await.unwrap();
    assert!(
        printed.contains("copies: 2") && printed.contains("memory: 32"),
        "{printed}"
    );
    for (text, wrong) in [
        (
            "{ \"copies\": 1,\n  \"coipes\": 2 }",
            "prod.json:2:3: coipes is no value of this program; did you mean copies?",
        ),
        (
            "{ \"limits\": { \"disk\": 2 } }",
            "prod.json:1:15: limits.disk is no value of this program; there is memory, cpu",
        ),
        (
            "copies: many",
            "prod.json:1:1: copies is a number, got text",
        ),
        ("hosts: [1]", "hosts.0 is text, got a number"),
        (
            "limits: 3",
            "prod.json:1:1: limits is an object, got a number",
        ),
        (
            "{ \"limits\": { \"cpu\": null } }",
            "prod.json:1:15: limits.cpu is an object, got nothing",
        ),
        ("[1]", "the whole is an object, got a list"),
        ("copies: 1\ncopies: 2", "duplicate"),
        (
            "__proto__: { a: 1 }",
            "__proto__ is no value of this program",
        ),
    ] {
        let told = laid(text).await.unwrap_err();
        assert!(told.contains(wrong), "{text}: {told}");
    }
    let (own, _) =
        run("print(values({ a: 1 }).a); try { values({}); } catch (e) { print(e.message); }").await;
    assert_eq!(
        own.unwrap(),
        "1\nvalues: a program asks for its values once\n"
    );
}

/// What a program whose values have lists and numbers prints, with a file of them.
async fn typed(text: &str) -> Result<String, String> {
    let code = r#"
        const v = values({
          size: 1, big: 5n, anything: [],
          servers: [{ name: "a", ports: [80], weight: 1n }, { name: "b", ports: [], note: "spare" }],
        });
        print(JSON.stringify(v, (_, it) => typeof it === "bigint" ? `${it}n` : it));
    "#;
    let values = Values {
        name: "prod.yaml".to_owned(),
        text: text.to_owned(),
        expected: None,
    };
    let (printed, _) = run_with(code, Some(values)).await;
    printed.map_err(|thrown| thrown.message)
}

#[tokio::test]
async fn items_of_lists_and_numbers_are_what_the_program_has() {
    let whole =
        "size: 2\nbig: 7\nanything: [1, x]\nservers: [{ name: c, ports: [1, 2], weight: 3 }]\n";
    assert_eq!(
        typed(whole).await.unwrap(),
        "{\"size\":2,\"big\":\"7n\",\"anything\":[1,\"x\"],\
         \"servers\":[{\"name\":\"c\",\"ports\":[1,2],\"weight\":\"3n\"}]}\n"
    );
    for (text, wrong) in [
        (
            "servers:\n- name: c\n  ports: [http]",
            "prod.yaml:3:11: servers.0.ports.0 is a number, got text",
        ),
        (
            "servers:\n- naem: c\n  name: c\n  ports: []",
            "prod.yaml:2:3: servers.0.naem is no value of this program; did you mean name?",
        ),
        ("servers: [{ name: c }]", "servers.0 lacks ports"),
        ("servers: [c]", "servers.0 is an object, got text"),
        ("big: 1.5", "prod.yaml:1:1: big is a whole number, got 1.5"),
        (
            "size: 9007199254740993",
            "size is a number of at most 2^53, got 9007199254740993",
        ),
    ] {
        let told = typed(text).await.unwrap_err();
        assert!(told.contains(wrong), "{text}: {told}");
    }
}

#[tokio::test]
async fn a_file_of_values_is_judged_before_any_call() {
    let code = r#"
        try { await runtime.Run(new Cell({ name: "web" })); } catch (e) { print(e.message); }
        print(values({ copies: 1 }).copies);
        await runtime.Run(new Cell({ name: "late" }));
    "#;
    let values = Values {
        name: "prod.json".to_owned(),
        text: "{ \"copies\": 2 }".to_owned(),
        expected: None,
    };
    let (printed, asked) = run_with(code, Some(values)).await;
    assert_eq!(
        printed.unwrap(),
        "prod.json: the program asks a node before it has called values()\n2\n"
    );
    assert_eq!(asked, ["runtime.RunCell"]);
    // Without a file a program may ask for them when it likes.
    let (_, asked) = run(code).await;
    assert_eq!(asked, ["runtime.RunCell", "runtime.RunCell"]);
}
