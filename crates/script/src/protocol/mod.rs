// SPDX-License-Identifier: Apache-2.0
//! What the evaluator and its parent say to each other over one socket pair: frames of a length and
//! a message ([`codec`]). The evaluator is not trusted: the parent bounds every frame and checks
//! every message; the evaluator trusts the parent.
//!
//! A stream moves one item per `Pull`, and one per `Sent` the other way: a program that doesn't
//! read holds back the node, not memory.

pub mod codec;

use serde::{Deserialize, Serialize};

use crate::value::Value;

/// Numbers a call of the program; never reused in a session.
pub type CallId = u64;

/// Calls and streams of a program that may be open at once; the evaluator refuses one more, and
/// the parent ends an evaluator that doesn't.
pub const MAX_CALLS: usize = 1024;

/// To the evaluator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToEvaluator {
    /// First, and once.
    Start(Start),
    /// A module that will be imported, so that the evaluator needn't ask for it.
    Preload(Module),
    /// Run this module, and everything it imports.
    Run {
        /// The module's name, as in errors; preloaded.
        entry: String,
    },
    /// A line of the REPL, already compiled to a script whose value is a promise of `{ value }`, or
    /// of `undefined` where there is none (`language::compile::compile_repl`).
    Evaluate {
        /// As in errors: `<repl:3>`.
        name: String,
        /// The JavaScript that is evaluated.
        code: String,
    },
    /// Asks for the names of the properties of a value, reached by own and inherited properties
    /// without running any of the program's code.
    Names {
        /// `["runtime"]` for what comes after `runtime.`; none for the globals.
        path: Vec<String>,
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
    /// The answer to `Nodes`.
    Nodes {
        /// The names of the contexts, sorted and at least one, or why there are none.
        result: Result<Vec<String>, Failure>,
    },
    /// The answer to a unary call, or an item of a stream, or a stream's end.
    Answer {
        /// Which call.
        call: CallId,
        /// What came of it.
        result: Result<Answer, Failure>,
    },
    /// The item of the last `Send` was taken; the next may come.
    Sent {
        /// Which call.
        call: CallId,
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Start {
    /// The bindings and the friendly layer, as JavaScript modules, run in this order before
    /// anything else; what they put on `globalThis` the program sees. Their names begin with
    /// `aurae:`, which no stack shows.
    pub prelude: Vec<Module>,
    /// The program's arguments.
    pub args: Vec<String>,
    /// Bytes of the engine's heap.
    pub max_memory: u64,
    /// Calls are recorded by the parent; unknown values may come.
    pub plan: bool,
    /// Print values with colours.
    pub color: bool,
    /// What the command line lays over the program's own values.
    pub values: Option<Values>,
}

/// A file of values, JSON or YAML. Only the evaluator reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Values {
    /// As in errors.
    pub name: String,
    /// As it was written.
    pub text: String,
    /// The type that the program declares its values to be, as `language::check::expected` tells
    /// it; without one the program's defaults alone say what may be laid over them.
    pub expected: Option<String>,
}

/// A module as the engine takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Canonical: the path below the root.
    pub name: String,
    /// ECMAScript without types.
    pub code: String,
}

/// From the evaluator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum FromEvaluator {
    /// Wants a module, and waits for it. For dynamic `import()` of what wasn't preloaded.
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
    /// Wants the names of the contexts whose labels match, and waits for them.
    Nodes {
        /// As written.
        selector: String,
    },
    /// Calls a method of the API; answered by `Answer`, once if it is unary.
    Call(Call),
    /// Wants the next item of a stream that the node sends; one at a time.
    Pull {
        /// Which call.
        call: CallId,
    },
    /// An item of a stream that the program sends; the next one only after `Sent`.
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
        /// With its line end; a long text comes in pieces.
        text: String,
    },
    /// A plan goes on as if a test of the program passed.
    Assumed(Assumed),
    /// What was declared under a path is declared under another.
    Moved(Moved),
    /// The answer to `Names`, sorted.
    Names(Vec<Name>),
    /// `Run` or `Evaluate` has ended.
    Done {
        /// The value, printed readably (`Evaluate` alone, and not for `undefined`), or the error
        /// that was not caught.
        result: Result<Option<String>, Thrown>,
    },
    /// The evaluator itself is at fault, and ends.
    Fatal {
        /// For a bug report.
        message: String,
    },
}

/// A name that could be typed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Name {
    /// A property's or a global's.
    pub name: String,
    /// It holds a function.
    pub function: bool,
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
    /// Answers come one per `Pull`, requests may be sent.
    pub stream: bool,
    /// The stack at the call, innermost first, in compiled positions.
    pub stack: Vec<Frame>,
}

/// Why a call or an import failed: thrown in the program as an `AuraeError`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// The method that was called; the evaluator fills it in for calls.
    pub method: Option<String>,
}

impl Failure {
    /// A failure with a code and a sentence.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            ..Self::default()
        }
    }

    /// The failure with what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// What ended a program that didn't end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// `--timeout`.
    Timeout,
    /// `--max-memory`.
    Memory,
    /// The user's Ctrl-C.
    Interrupt,
    /// Calls nested too deep.
    Stack,
    /// A plan met a value that only a real call would give.
    Unknown,
    /// The evaluator's process ended, by itself or by the parent for breaking the protocol.
    Evaluator,
}

impl Limit {
    /// The stable name, for programs and tests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Memory => "memory",
            Self::Interrupt => "interrupt",
            Self::Stack => "stack",
            Self::Unknown => "unknown",
            Self::Evaluator => "evaluator",
        }
    }
}

/// An error that was not caught.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Thrown {
    /// `TypeError`, `AuraeError`; empty where it wasn't an error that was thrown.
    pub name: String,
    /// What it says, or the thrown value printed.
    pub message: String,
    /// Where, innermost first, in compiled positions; empty where it is not known.
    pub stack: Vec<Frame>,
    /// Of a failed call.
    pub failure: Option<Box<Failure>>,
    /// What led to it: its `cause`, that one's, and so on; of an `AggregateError` its errors.
    pub causes: Vec<Cause>,
    /// What limit ended it.
    pub limit: Option<Limit>,
    /// It may be for want of memory: the engine throws `null` where it has none for an error, and
    /// leaves a promise pending where it has none to settle it. The evaluator can't always tell
    /// that from what programs do; its parent can (`session::unsure`), and shows none of these.
    pub unsure: bool,
    /// Where in the source as written, in the module of the innermost frame, where the error says
    /// so itself: a plan's.
    pub place: Option<Place>,
}

/// An error that led to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// `TypeError: it is none`, or the thrown value printed.
    pub text: String,
    /// Where it was made, innermost first.
    pub stack: Vec<Frame>,
}

/// What a plan takes for granted: nothing but a throw or a print depends on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Assumed {
    /// The module.
    pub file: String,
    /// In the source as written.
    pub place: Place,
    /// The unknown value; of a stream, the refusal's message.
    pub what: String,
    /// A loop over a stream that can't be opened was passed over.
    pub stream: bool,
}

/// A path that a program has given up for another, and what is below it with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// As it was.
    pub from: String,
    /// As it is.
    pub to: String,
}

/// A line and a column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

impl Thrown {
    /// What a limit ended, without a place.
    pub fn limit(limit: Limit, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            limit: Some(limit),
            ..Self::default()
        }
    }
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
    /// From 1, in bytes.
    pub column: u32,
    /// Tells the call among its arguments, see `language::compile::Doing`.
    pub doing: Doing,
}

/// What the code of a frame was doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Doing {
    /// Calling a function of this name, which may be empty.
    Calls(String),
    /// Calling what isn't a function.
    CallsNone,
    /// Failing with an error of this name.
    Fails(String),
}
