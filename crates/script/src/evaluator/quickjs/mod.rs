// SPDX-License-Identifier: Apache-2.0
//! QuickJS-ng as the [`Engine`]. Its Rust half: jobs, timers, what was begun and how it ended. The
//! host surface is `js/runtime.js` and `js/inspect.js` on `native`.
//!
//! An interrupt ends everything that the program has going: what runs by an error that can't be
//! caught, waiting calls by cancelling them, timers by forgetting them.

mod built_in;
mod convert;
mod ended;
mod hooks;
mod memory;
mod modules;
mod native;
mod thrown;
mod yaml;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rquickjs::context::EvalOptions;
use rquickjs::convert::List;
use rquickjs::promise::PromiseState;
use rquickjs::runtime::RejectionTracker;
use rquickjs::{
    CatchResultExt, CaughtError, Context, Ctx, Function, Object, Persistent, Promise, Runtime,
    Value,
};

use super::{Engine, Port, Turn};
use crate::protocol::{Answer, CallId, Failure, Limit, Module, Name, Start, Thrown};
use ended::{Rejected, track};
use hooks::Hooks;
use modules::Modules;
use native::Native;

/// Bytes of stack that the engine uses; the process has more (`confine::STACK`).
const STACK: usize = 8 << 20;

/// Jobs between two looks at interrupts and timers.
const JOBS: usize = 256;

/// Timers between two looks at what the parent says: they may set others for at once, for ever.
const TIMERS: usize = 64;

type Kept<T> = Persistent<T>;

/// What was begun.
struct Running {
    promise: Kept<Promise<'static>>,
    /// A line of the REPL: it ends with its value, a program with all that it began.
    line: bool,
}

/// The engine. Its fields are dropped in this order: the runtime last.
pub struct QuickJs {
    running: Option<Running>,
    /// Ended before its first turn.
    ended: Option<Thrown>,
    /// Why the prelude failed.
    broken: Option<Thrown>,
    rejected: Rc<RefCell<Vec<Rejected>>>,
    hooks: Hooks,
    modules: Modules,
    port: Rc<RefCell<dyn Port>>,
    /// Whatever runs is to end.
    stopping: Rc<Cell<bool>>,
    /// The limit of memory, in bytes.
    memory: usize,
    /// Something has ended for want of memory.
    full: bool,
    /// Timers since the parent was last listened to.
    fired: usize,
    begun: Instant,
    context: Context,
    runtime: Runtime,
}

impl Drop for QuickJs {
    fn drop(&mut self) {
        self.hooks.clear();
        self.rejected.borrow_mut().clear();
    }
}

impl Engine for QuickJs {
    fn start(start: &Start, port: Rc<RefCell<dyn Port>>) -> Result<Self, Thrown> {
        let no_memory = |_| Thrown::limit(Limit::Memory, memory::TOO_LITTLE);
        let runtime = Runtime::new().map_err(no_memory)?;
        let limit = usize::try_from(start.max_memory).unwrap_or(usize::MAX);
        runtime.set_memory_limit(limit);
        runtime.set_max_stack_size(STACK);
        let context = Context::full(&runtime).map_err(no_memory)?;
        let hooks = Hooks::default();
        let modules = Modules::new(Rc::clone(&port), hooks.clone());
        runtime.set_loader(modules.clone(), modules.clone());
        let mut engine = QuickJs {
            running: None,
            ended: None,
            broken: None,
            rejected: Rc::default(),
            hooks,
            modules,
            port,
            stopping: Rc::default(),
            memory: limit,
            full: false,
            fired: 0,
            begun: Instant::now(),
            context,
            runtime,
        };
        engine.watch();
        let surface = engine.surface(start);
        surface.map_err(|thrown| engine.too_little(thrown))?;
        engine.prelude(&start.prelude);
        Ok(engine)
    }

    fn preload(&mut self, module: Module) {
        self.modules.add(module);
    }

    fn run(&mut self, entry: &str) {
        self.begin(false, |engine, ctx| {
            let Some(source) = engine.modules.take(entry) else {
                let why = format!("the module {entry} isn't there");
                return Err(rquickjs::Exception::throw_message(ctx, &why));
            };
            let (_, promise) = modules::declare(ctx, entry, source)?.eval()?;
            Ok(promise)
        });
    }

    fn evaluate(&mut self, name: &str, code: &str) {
        self.make_room();
        self.begin(true, |_, ctx| {
            let mut options = EvalOptions::default();
            options.filename = Some(name.to_owned());
            let value: Value<'_> = ctx.eval_with_options(code, options)?;
            if let Some(promise) = value.into_promise() {
                return Ok(promise);
            }
            let (promise, resolve, _) = ctx.promise()?;
            resolve.call::<_, ()>(())?;
            Ok(promise)
        });
    }

    fn answer(&mut self, call: CallId, result: Result<Answer, Failure>) {
        self.tell(call, |hooks, ctx, object| match result {
            Ok(Answer::Value(value)) => object.set("value", convert::into(ctx, hooks, value)?),
            Ok(Answer::End) => object.set("done", true),
            Err(failure) => object.set("failure", native::failure(ctx, &failure)?),
        });
    }

    fn sent(&mut self, call: CallId) {
        self.tell(call, |_, _, object| object.set("sent", true));
    }

    fn names(&mut self, path: Vec<String>) -> Vec<Name> {
        let names = self.context.with(|ctx| {
            let find = self.hooks.function(&ctx, "names")?;
            let found: rquickjs::Result<Vec<List<(String, bool)>>> = find.call((path,));
            if found.is_err() {
                ctx.catch();
            }
            found
        });
        let mut names: Vec<Name> = names
            .unwrap_or_default()
            .into_iter()
            .map(|List((name, function))| Name { name, function })
            .collect();
        names.sort();
        names
    }

    fn turn(&mut self) -> Turn {
        loop {
            if let Some(thrown) = self.ended.take() {
                return self.fail(thrown);
            }
            if self.port.borrow_mut().interrupted() {
                let stopped = self.stop(None);
                match stopped {
                    Some(thrown) => return Turn::Done(Err(thrown)),
                    None => continue,
                }
            }
            match self.jobs() {
                Ok(true) => continue,
                Ok(false) => {}
                Err(thrown) => match self.failed(thrown) {
                    Some(turn) => return turn,
                    None => continue,
                },
            }
            if let Some(result) = self.settled() {
                return match result {
                    Ok(value) => {
                        self.running = None;
                        Turn::Done(Ok(value))
                    }
                    Err(thrown) => self.fail(thrown),
                };
            }
            let timer = self.timer();
            match timer {
                Some(at) if at <= Instant::now() && self.fired < TIMERS => {
                    self.fired += 1;
                    if let Err(thrown) = self.hook("fire")
                        && let Some(turn) = self.failed(thrown)
                    {
                        return turn;
                    }
                }
                timer => {
                    self.fired = 0;
                    return Turn::Wait(timer);
                }
            }
        }
    }
}

/// The command line's values, for `values.js`.
fn given<'js>(ctx: &Ctx<'js>, start: &Start) -> rquickjs::Result<Option<Object<'js>>> {
    let Some(values) = &start.values else {
        return Ok(None);
    };
    let given = Object::new(ctx.clone())?;
    given.set("name", values.name.as_str())?;
    given.set("text", values.text.as_str())?;
    if let Some(expected) = &values.expected {
        given.set("expected", expected.as_str())?;
        given.set("typed", built_in::function(ctx, "aurae:typed")?)?;
    }
    Ok(Some(given))
}

impl QuickJs {
    /// Interrupts and rejected promises.
    fn watch(&self) {
        let (port, stopping) = (Rc::clone(&self.port), Rc::clone(&self.stopping));
        self.runtime.set_interrupt_handler(Some(Box::new(move || {
            stopping.get()
                || port
                    .try_borrow_mut()
                    .is_ok_and(|mut port| port.interrupted())
        })));
        let rejected = Rc::clone(&self.rejected);
        let tracker: RejectionTracker = Box::new(move |ctx, promise, reason, handled| {
            track(&mut rejected.borrow_mut(), &ctx, promise, reason, handled);
        });
        self.runtime
            .set_host_promise_rejection_tracker(Some(tracker));
    }

    /// Runs `runtime.js`.
    fn surface(&self, start: &Start) -> Result<(), Thrown> {
        let native = Native {
            port: Rc::clone(&self.port),
            hooks: self.hooks.clone(),
            begun: self.begun,
            next: Rc::default(),
        };
        self.with(|ctx| {
            let object = native.object(ctx)?;
            let said = Object::new(ctx.clone())?;
            said.set("args", start.args.clone())?;
            said.set("color", start.color)?;
            said.set("plan", start.plan)?;
            let function = |name| built_in::function(ctx, name);
            let inspect: Function<'_> = function("aurae:inspect")?.call((object.clone(),))?;
            let plan = start.plan.then(|| function("aurae:plan")).transpose()?;
            let values = function("aurae:values")?;
            let values: Object<'_> = values.call((object.clone(), given(ctx, start)?))?;
            let runtime = function("aurae:runtime")?;
            let hooks: Object<'_> = runtime.call((object, said, inspect, plan, values))?;
            self.hooks.set(ctx, hooks);
            Ok(())
        })
    }

    /// Runs the prelude's modules, each to its end.
    fn prelude(&mut self, prelude: &[Module]) {
        for module in prelude {
            self.modules.add(module.clone());
        }
        for module in prelude {
            // One that another has imported has run already.
            if !self.modules.is_unused(&module.name) {
                continue;
            }
            self.run(&module.name);
            let why = match self.turn() {
                Turn::Done(Ok(_)) => continue,
                Turn::Done(Err(thrown)) => self.named_ours(thrown),
                Turn::Wait(_) => Thrown {
                    message: "it waits for something".to_owned(),
                    ..Thrown::default()
                },
            };
            self.running = None;
            self.broken = Some(Thrown {
                message: format!("the prelude {} failed: {}", module.name, why.message),
                ..why
            });
            return;
        }
        if !prelude.is_empty() {
            // Programs have the API, not what it stands on.
            let removed = self.with(|ctx| ctx.globals().remove("__aurae"));
            self.broken = removed.err().map(|thrown| self.named_ours(thrown));
        }
    }

    /// Runs something of ours in the engine, and says what it threw.
    fn with<T>(
        &self,
        f: impl for<'js> FnOnce(&Ctx<'js>) -> rquickjs::Result<T>,
    ) -> Result<T, Thrown> {
        self.context.with(|ctx| {
            let result = f(&ctx);
            result
                .catch(&ctx)
                .map_err(|caught| self.caught(&ctx, caught))
        })
    }

    fn caught<'js>(&self, ctx: &Ctx<'js>, caught: CaughtError<'js>) -> Thrown {
        match caught {
            CaughtError::Exception(exception) => {
                thrown::describe(ctx, &self.hooks, exception.as_object().as_value())
            }
            CaughtError::Value(value) => thrown::describe(ctx, &self.hooks, &value),
            CaughtError::Error(rquickjs::Error::Allocation) => {
                Thrown::limit(Limit::Memory, memory::FULL)
            }
            CaughtError::Error(error) => Thrown {
                name: "InternalError".to_owned(),
                message: error.to_string(),
                ..Thrown::default()
            },
        }
    }

    fn begin(
        &mut self,
        line: bool,
        f: impl for<'js> FnOnce(&Self, &Ctx<'js>) -> rquickjs::Result<Promise<'js>>,
    ) {
        if let Some(broken) = &self.broken {
            self.ended = Some(broken.clone());
            return;
        }
        let promise = self.with(|ctx| {
            let promise = f(self, ctx)?;
            // An error that can't be caught ends an async function without its promise.
            if ctx.has_exception() {
                return Err(rquickjs::Error::Exception);
            }
            Ok(Persistent::save(ctx, promise))
        });
        match promise {
            Ok(promise) => self.running = Some(Running { promise, line }),
            Err(thrown) => self.ended = Some(thrown),
        }
    }

    fn tell(
        &mut self,
        call: CallId,
        f: impl for<'js> FnOnce(&Hooks, &Ctx<'js>, &Object<'js>) -> rquickjs::Result<()>,
    ) {
        let told = self.with(|ctx| {
            let object = Object::new(ctx.clone())?;
            f(&self.hooks, ctx, &object)?;
            #[expect(clippy::cast_precision_loss, reason = "no program makes 2^53 calls")]
            let call = call as f64;
            self.hooks
                .function(ctx, "answer")?
                .call::<_, ()>((call, object))
        });
        if let Err(thrown) = told {
            // An answer that the heap has no room for: who awaits it would do so for ever.
            match self.running.is_some() {
                true => self.ended = Some(thrown),
                false => self.warn(&self.named(thrown)),
            }
        }
    }

    fn hook(&self, name: &str) -> Result<(), Thrown> {
        self.with(|ctx| self.hooks.function(ctx, name)?.call::<_, ()>(()))
    }

    /// Runs jobs; whether there are more.
    fn jobs(&self) -> Result<bool, Thrown> {
        for _ in 0..JOBS {
            match self.runtime.execute_pending_job() {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(_) => {
                    return Err(self.context.with(|ctx| {
                        let caught = ctx.catch();
                        thrown::describe(&ctx, &self.hooks, &caught)
                    }));
                }
            }
        }
        Ok(true)
    }

    /// What came of what runs, once it has ended, or what was not handled.
    fn settled(&mut self) -> Option<Result<Option<String>, Thrown>> {
        let Some(running) = &self.running else {
            if let Some(thrown) = self.unhandled(None) {
                self.warn(&self.named(thrown));
            }
            return None;
        };
        let (promise, line) = (running.promise.clone(), running.line);
        if let Some(thrown) = self.unhandled(Some(&promise)) {
            return Some(Err(thrown));
        }
        let busy = match self.is_busy() {
            Ok(busy) => busy,
            Err(thrown) => return Some(Err(thrown)),
        };
        let state = self.with(|ctx| Ok(promise.clone().restore(ctx)?.state()));
        let over = !busy || matches!(state, Ok(PromiseState::Rejected));
        if over && let Some(thrown) = self.met() {
            return Some(Err(thrown));
        }
        match state {
            Err(thrown) => Some(Err(thrown)),
            Ok(PromiseState::Resolved) if line => Some(self.value(promise)),
            Ok(PromiseState::Resolved) if busy => None,
            Ok(PromiseState::Resolved) => Some(Ok(None)),
            Ok(PromiseState::Rejected) => self.rejection().map(Err),
            Ok(PromiseState::Pending) if busy => None,
            Ok(PromiseState::Pending) => Some(Err(Thrown {
                name: "Error".to_owned(),
                message: "it awaits what can never happen: no call is open, no timer is set"
                    .to_owned(),
                unsure: true,
                ..Thrown::default()
            })),
        }
    }

    /// A line's value, printed.
    fn value(&self, promise: Kept<Promise<'static>>) -> Result<Option<String>, Thrown> {
        self.with(|ctx| {
            let result = promise.restore(ctx)?.result::<Option<Object<'_>>>();
            let Some(result) = result.transpose()?.flatten() else {
                return Ok(None);
            };
            let value: Value<'_> = result.get("value")?;
            if value.is_undefined() {
                return Ok(None);
            }
            ctx.globals().set("_", value.clone())?;
            let inspect = self.hooks.function(ctx, "inspect")?;
            inspect.call((value,)).map(Some)
        })
    }

    fn is_busy(&self) -> Result<bool, Thrown> {
        self.with(|ctx| self.hooks.function(ctx, "busy")?.call(()))
    }

    /// When the next timer is due.
    fn timer(&self) -> Option<Instant> {
        let next = self.with(|ctx| {
            self.hooks
                .function(ctx, "nextTimer")?
                .call::<_, Option<f64>>(())
        });
        let at = Duration::try_from_secs_f64(next.ok()?? / 1000.0).ok()?;
        self.begun.checked_add(at)
    }
}
