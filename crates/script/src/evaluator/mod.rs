// SPDX-License-Identifier: Apache-2.0
//! The evaluator: the role `aurae eval`, a process that runs programs and holds nothing else. Its
//! standard input is a socket to its parent (`session`), and all that it has; before it sees any
//! program it gives up the rest (`confine`).
//!
//! The engine stands behind [`Engine`], and what the engine asks for behind [`Port`]: the loop here
//! knows neither JavaScript nor sockets. One thread, no async: it runs, and where there is nothing
//! to run it waits for the parent or a timer.

mod parent;
mod quickjs;

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;

use crate::confine;
use crate::protocol::codec::CodecError;
use crate::protocol::{
    Answer, CallId, Failure, FromEvaluator, Module, Name, Start, Thrown, ToEvaluator,
};

use parent::Parent;
pub use quickjs::QuickJs;

/// What an engine asks of the outside. All of it returns soon but what waits for the parent.
pub trait Port {
    /// Waits for a module.
    ///
    /// # Errors
    /// Why there is none, for the program.
    fn import(&mut self, specifier: &str, from: &str) -> Result<Module, Failure>;

    /// Waits for a file.
    ///
    /// # Errors
    /// Why there is none, for the program.
    fn read_file(&mut self, path: &str, from: &str) -> Result<Vec<u8>, Failure>;

    /// Waits for the names of the contexts that match.
    ///
    /// # Errors
    /// It is no selector, or none matches; for the program.
    fn nodes(&mut self, selector: String) -> Result<Vec<String>, Failure>;

    /// Says something to the parent; waits while it doesn't listen.
    ///
    /// # Errors
    /// It is too long.
    fn say(&mut self, message: &FromEvaluator) -> Result<(), CodecError>;

    /// Whether the parent wants what runs stopped. A busy engine asks often.
    fn interrupted(&mut self) -> bool;

    /// The same, and forgets it.
    fn take_interrupt(&mut self) -> bool;
}

/// What an engine waits for.
#[derive(Debug)]
pub enum Turn {
    /// What was begun has ended; there may be more to do.
    Done(Result<Option<String>, Thrown>),
    /// An answer, a request, or this time, which may be over: then for what is there already.
    Wait(Option<Instant>),
}

/// Something that runs ECMAScript. None of it panics or ends the process for anything that a
/// program does, where an engine can help it; where it can't, the parent reports a lost evaluator.
pub trait Engine: Sized {
    /// Makes the host surface and runs the prelude. A prelude that fails is reported by the first
    /// `run` or `evaluate`.
    ///
    /// # Errors
    /// There isn't the memory for an engine.
    fn start(start: &Start, port: Rc<RefCell<dyn Port>>) -> Result<Self, Thrown>;

    /// Keeps a module for imports.
    fn preload(&mut self, module: Module);

    /// Begins a preloaded module.
    fn run(&mut self, entry: &str);

    /// Begins a line of the REPL.
    fn evaluate(&mut self, name: &str, code: &str);

    /// Takes what came of a call.
    fn answer(&mut self, call: CallId, result: Result<Answer, Failure>);

    /// Learns that a stream's item was taken.
    fn sent(&mut self, call: CallId);

    /// Names that may follow a path.
    fn names(&mut self, path: Vec<String>) -> Vec<Name>;

    /// Does what there is to do until something ends or there is nothing left.
    fn turn(&mut self) -> Turn;
}

/// The role's main: takes its standard input as the socket, confines itself, and serves until the
/// parent closes it.
pub fn main() -> ExitCode {
    let parent = match Parent::inherited() {
        Ok(parent) => Rc::new(RefCell::new(parent)),
        Err(e) => {
            eprintln!("aurae eval: started by `aurae` alone: {e}");
            return ExitCode::from(2);
        }
    };
    let first = parent.borrow_mut().next(None);
    let Some(ToEvaluator::Start(start)) = first else {
        return ExitCode::from(2);
    };
    report_panics();
    // So that no folder is kept busy by who can't see any.
    let _ = std::env::set_current_dir("/");
    if let Err(e) = confine::enter(start.max_memory) {
        let message = format!("the evaluator can't confine itself: {e}");
        let _ = parent.borrow_mut().say(&FromEvaluator::Fatal { message });
        return ExitCode::FAILURE;
    }
    match QuickJs::start(&start, parent.clone()) {
        Ok(engine) => serve(engine, &parent),
        Err(thrown) => {
            let message = thrown.message;
            let _ = parent.borrow_mut().say(&FromEvaluator::Fatal { message });
        }
    }
    ExitCode::FAILURE
}

/// A bug of ours ends the process, but not without a word.
fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = format!("a bug in the evaluator: {panic}");
        parent::last_words(&FromEvaluator::Fatal { message });
    }));
}

/// Until the parent is gone, which ends the process.
fn serve<E: Engine>(mut engine: E, parent: &RefCell<Parent>) {
    loop {
        match engine.turn() {
            Turn::Done(result) => {
                let done = FromEvaluator::Done { result };
                if let Err(e) = parent.borrow_mut().say(&done) {
                    let result = Ok(Some(format!("… ({e})")));
                    let _ = parent.borrow_mut().say(&FromEvaluator::Done { result });
                }
            }
            Turn::Wait(until) => {
                let message = parent.borrow_mut().next(until);
                if let Some(message) = message {
                    take(&mut engine, parent, message);
                }
            }
        }
    }
}

fn take<E: Engine>(engine: &mut E, parent: &RefCell<Parent>, message: ToEvaluator) {
    match message {
        ToEvaluator::Preload(module) => engine.preload(module),
        ToEvaluator::Run { entry } => engine.run(&entry),
        ToEvaluator::Evaluate { name, code } => engine.evaluate(&name, &code),
        ToEvaluator::Answer { call, result } => engine.answer(call, result),
        ToEvaluator::Sent { call } => engine.sent(call),
        ToEvaluator::Names { path } => {
            let names = FromEvaluator::Names(engine.names(path));
            if parent.borrow_mut().say(&names).is_err() {
                let _ = parent.borrow_mut().say(&FromEvaluator::Names(Vec::new()));
            }
        }
        // The socket takes note of an interrupt itself; the rest answers nothing that was asked.
        ToEvaluator::Interrupt
        | ToEvaluator::Start(_)
        | ToEvaluator::Module { .. }
        | ToEvaluator::File { .. }
        | ToEvaluator::Nodes { .. } => {}
    }
}
