// SPDX-License-Identifier: Apache-2.0
//! Evaluates a program without a node, for `aurae check`. A program over whose values a file is
//! laid goes as far as its first call of a node: by then it has its values, which it must ask for
//! before (`values.js`). The program of a file of data goes to its end, and each of its calls is
//! held against the API. No configuration is read and nothing is sent or printed: what is found is
//! the same on every machine.

use std::path::Path;
use std::sync::Arc;

use client::Config;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, BoxStream, StreamExt};
use language::finding::Finding;
use script::host::{Mode, NodeHost};
use script::nodes::Nodes;
use script::program::Loaded;
use script::protocol::{Assumed, Call, Failure as Refusal, Module, Moved, Values};
use script::session::{Host, Items, Options, Starting};
use script::value::Value;
use script::wire;
use tokio::sync::{Notify, oneshot};

use super::entry::Source;
use super::execute::{Job, Printer, load, not_started, options};
use super::told::Subject;
use super::values;
use crate::failure::Failure;
use crate::global::{Global, ProgramArgs};

/// What `nodes(…)` has: contexts are the machine's.
const STAND_IN: &str = "node";

/// What is wrong with the values for the program in `file`.
pub(crate) async fn of_values(
    global: &Global,
    program: &ProgramArgs,
    file: &Path,
    values: &Values,
) -> Result<Vec<Finding>, Failure> {
    evaluate(global, program, file, &Subject::Values(values)).await
}

/// What is wrong with the declarations in `file`; nothing where it is no file of data.
pub(crate) async fn of_data(
    global: &Global,
    program: &ProgramArgs,
    file: &Path,
) -> Result<Vec<Finding>, Failure> {
    match Subject::of_data(file, program.root.as_deref())? {
        Some(data) => evaluate(global, program, file, &data).await,
        None => Ok(Vec::new()),
    }
}

async fn evaluate(
    global: &Global,
    program: &ProgramArgs,
    file: &Path,
    subject: &Subject<'_>,
) -> Result<Vec<Finding>, Failure> {
    let mut evaluator = Starting::of_this_program().map_err(not_started)?;
    let source = Source::File(file.to_owned());
    let job = Job::new(program, source, Vec::new(), Mode::Run);
    let Options {
        mut start, timeout, ..
    } = options(global, &job);
    let (tell, _told) = oneshot::channel();
    let read = match load(&job, tell).await? {
        Ok(read) => read,
        Err(findings) => return Ok(findings),
    };
    if let Subject::Values(values) = subject {
        let none = format!("{} doesn't", file.display());
        values::taken_by(&read.program).map_err(|problem| problem.with_hint(none))?;
        start.values = Some(Values {
            expected: read.expected,
            ..Values::clone(values)
        });
    }
    evaluator.tell(start).map_err(not_started)?;
    let program = Arc::new(read.program);
    let goes_on = matches!(subject, Subject::Data { .. });
    let host = Arc::new(NoNode::new(Arc::clone(&program), goes_on));
    let session = evaluator.serve(timeout, Arc::clone(&host) as Arc<dyn Host>);
    let mut session = session.map_err(not_started)?;
    let came = tokio::select! {
        // What comes after the first call doesn't count, be it there already.
        biased;
        () = host.called.notified() => Ok(()),
        came = session.run(read.modules, program.entry()) => came,
    };
    match came {
        Ok(()) => Ok(Vec::new()),
        Err(thrown) if thrown.limit.is_some() => {
            let why = format!("{}: {}", file.display(), thrown.message);
            Err(Failure::new(why))
        }
        Err(thrown) => Ok(vec![subject.finding(&thrown, &program)]),
    }
}

/// What a program gets where there is no node: its modules and files.
struct NoNode {
    files: NodeHost,
    /// Never reached: they know the API.
    nodes: Arc<Nodes>,
    /// Calls are held against the API and answered; otherwise the first is the end.
    goes_on: bool,
    /// A node was called.
    called: Notify,
}

impl NoNode {
    fn new(program: Arc<Loaded>, goes_on: bool) -> Self {
        let nodes = Nodes::new(Config::default(), None, None).by_parts();
        let nodes = Arc::new(nodes);
        let printer = Arc::new(Printer::silent());
        Self {
            files: NodeHost::new(Arc::clone(&nodes), program, printer, Mode::Run),
            nodes,
            goes_on,
            called: Notify::new(),
        }
    }

    /// Why the call would be refused before it is sent.
    fn wrong(&self, call: &Call) -> Option<Refusal> {
        let found = match self.nodes.find(&call.method) {
            Ok(found) => found,
            Err(refusal) => return Some(refusal),
        };
        let problem = wire::to_message(&found.descriptor.input(), &call.request).err()?;
        Some(Refusal {
            object: declared(&call.request),
            ..Refusal::from(problem)
        })
    }
}

impl Host for NoNode {
    fn import(&self, specifier: String, from: String) -> BoxFuture<'_, Result<Module, Refusal>> {
        self.files.import(specifier, from)
    }

    fn read_file(&self, path: String, from: String) -> BoxFuture<'_, Result<Vec<u8>, Refusal>> {
        self.files.read_file(path, from)
    }

    fn nodes(&self, _selector: String) -> BoxFuture<'_, Result<Vec<String>, Refusal>> {
        std::future::ready(Ok(vec![STAND_IN.to_owned()])).boxed()
    }

    fn print(&self, error: bool, text: String) -> BoxFuture<'_, ()> {
        self.files.print(error, text)
    }

    fn assume(&self, _assumed: Assumed) {}

    fn moved(&self, _moved: Moved) -> Result<(), String> {
        Ok(())
    }

    fn call(self: Arc<Self>, call: Call) -> BoxFuture<'static, Result<Value, Refusal>> {
        if !self.goes_on {
            self.called.notify_one();
            return std::future::pending().boxed();
        }
        let answer = match self.wrong(&call) {
            Some(refusal) => Err(refusal),
            None => Ok(Value::Object(Vec::new())),
        };
        std::future::ready(answer).boxed()
    }

    fn stream(
        self: Arc<Self>,
        _call: Call,
        _items: Items,
    ) -> BoxStream<'static, Result<Value, Refusal>> {
        self.called.notify_one();
        stream::pending().boxed()
    }
}

/// The path of the workload that a request declares, as in `{ cell: { ref: { path: "web" } } }`.
fn declared(request: &Value) -> Option<String> {
    let Value::Object(members) = request else {
        return None;
    };
    members.iter().find_map(|(_, workload)| {
        let path = member(member(workload, "ref")?, "path")?;
        match path {
            Value::String(path) => Some(path.clone()),
            _ => None,
        }
    })
}

fn member<'a>(of: &'a Value, name: &str) -> Option<&'a Value> {
    let Value::Object(members) = of else {
        return None;
    };
    let found = members.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value)
}
