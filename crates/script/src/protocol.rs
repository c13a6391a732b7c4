// SPDX-License-Identifier: Apache-2.0
//! What the evaluator and its parent say to each other over one socket pair: frames of a length and
//! a message. The evaluator is not trusted: the parent bounds every frame and checks every message;
//! the evaluator trusts the parent.
//!
//! A stream moves one item per `Pull`: a program that doesn't read holds back the node, not memory.

use serde::{Deserialize, Serialize};

use crate::value::Value;

/// Numbers a call of the program; never reused in a session.
pub type CallId = u64;

/// To the evaluator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToEvaluator {
    /// First, and once.
    Start(Start),
    /// Run this module, already compiled, and everything it imports.
    Run {
        /// The module's name, as in errors.
        entry: String,
    },
    /// A line of the REPL, already compiled, top-level `await` allowed.
    Evaluate {
        /// As in errors: `<repl:3>`.
        name: String,
        /// JavaScript.
        code: String,
    },
    /// The answer to `Import`.
    Module {
        /// Its canonical name and JavaScript, or why there is none.
        result: Result<Module, Failure>,
    },
    /// The answer to `ReadFile`.
    File {
        /// The bytes, or why there are none.
        result: Result<Vec<u8>, Failure>,
    },
    /// The answer to a unary call, or an item of a stream, or (`Undefined`) a stream's end.
    Answer {
        /// Which call.
        call: CallId,
        /// What came of it.
        result: Result<Answer, Failure>,
    },
    /// Stop what is being evaluated (Ctrl-C); the session goes on.
    Interrupt,
}

/// What a call gave.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// A unary answer, or the next item.
    Value(Value),
    /// The stream has ended.
    End,
}

/// The beginning of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Start {
    /// The bindings and the friendly layer, as JavaScript, each with its name.
    pub prelude: Vec<Module>,
    /// The program's arguments.
    pub args: Vec<String>,
    /// Bytes of the engine's heap.
    pub max_memory: u64,
    /// Calls are recorded by the parent; unknown values may come.
    pub plan: bool,
    /// Print values with colours.
    pub color: bool,
}

/// A module as the engine takes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Module {
    /// Canonical: the path below the root.
    pub name: String,
    /// ECMAScript without types.
    pub code: String,
}

/// From the evaluator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FromEvaluator {
    /// Wants a module, and waits for it. Only for dynamic `import()`, and for static ones not yet
    /// sent.
    Import {
        /// As written.
        specifier: String,
        /// The module that says so.
        from: String,
    },
    /// Wants a file's bytes, and waits for them.
    ReadFile {
        /// As written.
        path: String,
        /// The module that says so.
        from: String,
    },
    /// Calls a method of the API; answered by `Answer`, once if it is unary.
    Call(Call),
    /// Wants the next item of a stream that the node sends.
    Pull {
        /// Which call.
        call: CallId,
    },
    /// An item of a stream that the program sends.
    Send {
        /// Which call.
        call: CallId,
        /// The item; none ends the stream.
        item: Option<Value>,
    },
    /// The program has lost interest.
    Cancel {
        /// Which call.
        call: CallId,
    },
    /// Text for people.
    Print {
        /// To standard error.
        error: bool,
        /// With its line end.
        text: String,
    },
    /// `Run` or `Evaluate` has ended.
    Done {
        /// The value, printed readably (`Evaluate` alone), or the error that nobody caught.
        result: Result<Option<String>, Thrown>,
    },
}

/// One call of the API.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call {
    /// Its number.
    pub call: CallId,
    /// The context by name; none is the command line's.
    pub node: Option<String>,
    /// `runtime.RunCell`.
    pub method: String,
    /// The request; for a method whose requests are a stream, `Undefined`.
    pub request: Value,
    /// Milliseconds; none is the client's default.
    pub timeout: Option<f64>,
    /// The stack at the call, innermost first, in compiled positions.
    pub stack: Vec<Frame>,
}

/// Why a call or an import failed: thrown in the program as an `AuraeError`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Stable, for programs: `NOT_FOUND`, `CERT_REVOKED`, `UNAVAILABLE`, `BAD_ARGUMENT`.
    pub code: String,
    /// One sentence.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// The field of the request that is at fault, as written in a program: `executable.spec.argv`.
    pub field: Option<String>,
    /// The object that it is about.
    pub object: Option<String>,
}

/// An error that nobody caught.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Thrown {
    /// `TypeError`, `AuraeError`; empty where it wasn't an error that was thrown.
    pub name: String,
    /// What it says, or the thrown value printed.
    pub message: String,
    /// Where, innermost first, in compiled positions.
    pub stack: Vec<Frame>,
    /// Of a failed call.
    pub failure: Option<Failure>,
    /// What the engine's limits ended: `timeout`, `memory`, `interrupt`, `stack`.
    pub limit: Option<String>,
}

/// A place in compiled code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// The function, where it has a name.
    pub function: String,
    /// The module's name.
    pub module: String,
    /// From 1.
    pub line: u32,
    /// From 1, in UTF-16 units or characters as the engine counts.
    pub column: u32,
}
