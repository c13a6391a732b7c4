// SPDX-License-Identifier: Apache-2.0
//! A session with the real evaluator's process, and a host that keeps what is printed and answers
//! calls from a small table.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "of tests")]
#![allow(clippy::result_large_err, reason = "what a host answers")]

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, BoxStream};
use script::protocol::{Assumed, Call, Failure, Module, Moved, Start, Thrown};
use script::session::{Host, Items, Options, Session};
use script::value::Value;

/// What a program printed and called.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) printed: Mutex<String>,
    pub(crate) calls: Mutex<Vec<Call>>,
    pub(crate) modules: Vec<(&'static str, &'static str)>,
}

impl Table {
    pub(crate) fn text(&self) -> String {
        self.printed.lock().unwrap().clone()
    }
}

impl Host for Table {
    fn import(&self, specifier: String, from: String) -> BoxFuture<'_, Result<Module, Failure>> {
        let name = specifier.trim_start_matches("./").to_owned();
        let found = self.modules.iter().find(|(known, _)| *known == name);
        let result = match found {
            Some((_, code)) => Ok(Module {
                name,
                code: (*code).to_owned(),
            }),
            None => Err(
                Failure::new("UNRESOLVED_IMPORT", format!("no {specifier} for {from}"))
                    .hint("write it"),
            ),
        };
        async move { result }.boxed()
    }

    fn read_file(&self, path: String, from: String) -> BoxFuture<'_, Result<Vec<u8>, Failure>> {
        async move {
            match path.as_str() {
                "./here" => Ok(format!("for {from}").into_bytes()),
                _ => Err(Failure::new("NOT_FOUND", format!("no file {path}"))),
            }
        }
        .boxed()
    }

    fn nodes(&self, selector: String) -> BoxFuture<'_, Result<Vec<String>, Failure>> {
        async move { Ok(selector.split(',').map(str::to_owned).collect()) }.boxed()
    }

    fn print(&self, error: bool, text: String) -> BoxFuture<'_, ()> {
        let mut printed = self.printed.lock().unwrap();
        if error {
            printed.push_str("! ");
        }
        printed.push_str(&text);
        async {}.boxed()
    }

    fn assume(&self, assumed: Assumed) {
        let Assumed { place, what, .. } = assumed;
        let told = format!("assumed {}: {what}\n", place.line);
        self.printed.lock().unwrap().push_str(&told);
    }

    fn moved(&self, _: Moved) -> Result<(), String> {
        Ok(())
    }

    fn call(self: Arc<Self>, call: Call) -> BoxFuture<'static, Result<Value, Failure>> {
        self.calls.lock().unwrap().push(call.clone());
        async move {
            match call.method.as_str() {
                "test.Echo" => Ok(call.request),
                "test.Slow" => {
                    tokio::time::sleep(Duration::from_secs(600)).await;
                    Ok(Value::Null)
                }
                "test.Unknown" => Ok(Value::Unknown("test.Unknown(x)".into())),
                method => Err(Failure {
                    field: Some("spec.argv".into()),
                    object: Some("web".into()),
                    ..Failure::new("NOT_FOUND", format!("no method {method}")).hint("look it up")
                }),
            }
        }
        .boxed()
    }

    fn stream(
        self: Arc<Self>,
        call: Call,
        items: Items,
    ) -> BoxStream<'static, Result<Value, Failure>> {
        self.calls.lock().unwrap().push(call.clone());
        match call.method.as_str() {
            "test.Count" => stream::iter(0..)
                .map(|n| Ok(Value::Number(f64::from(n))))
                .boxed(),
            "test.Three" => stream::iter(0..3).map(|n| Ok(Value::BigInt(n))).boxed(),
            "test.Double" => items
                .map(|item| match item {
                    Value::Number(n) => Ok(Value::Number(n * 2.0)),
                    other => Ok(other),
                })
                .boxed(),
            "test.Breaks" => stream::iter([
                Ok(Value::Number(1.0)),
                Err(Failure::new("UNAVAILABLE", "the node is gone")),
            ])
            .boxed(),
            _ => stream::pending().boxed(),
        }
    }
}

/// The crate's evaluator with these limits.
pub(crate) fn options(start: Start) -> Options {
    let mut options = Options::new(start);
    options.program = PathBuf::from(env!("CARGO_BIN_EXE_script-evaluator"));
    options.arguments = Vec::<OsString>::new();
    options
}

/// A session with its host.
pub(crate) async fn session(options: Options) -> (Session, Arc<Table>) {
    let host = Arc::new(Table::default());
    let session = Session::start(options, host.clone()).unwrap();
    (session, host)
}

/// A module that is the program.
pub(crate) fn main(code: &str) -> Vec<Module> {
    vec![Module {
        name: "main.ts".into(),
        code: code.to_owned(),
    }]
}

/// What a program prints, or throws.
pub(crate) async fn run(code: &str) -> Result<String, Thrown> {
    let (mut session, host) = session(options(Start::default())).await;
    session.run(main(code), "main.ts").await?;
    Ok(host.text())
}

/// A line of the REPL, compiled and evaluated.
pub(crate) async fn line(
    session: &mut Session,
    name: &str,
    code: &str,
) -> Result<Option<String>, Thrown> {
    let source = language::source::Source::new(name, code);
    let compiled = language::compile::compile_repl(&source, Default::default()).unwrap();
    session.evaluate(name, &compiled.code).await
}

/// Waits until the program has printed that.
pub(crate) async fn until_printed(host: &Table, text: &str) {
    let printed = async {
        while !host.text().contains(text) {
            // The table doesn't say when it keeps more.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), printed).await;
    waited.unwrap_or_else(|_| panic!("never said {text:?}, but {:?}", host.text()));
}
