// SPDX-License-Identifier: Apache-2.0
//! What `runtime.js` can't do itself: say things to the parent, read files, look into values
//! without running code, and convert text. Each is one small function of the object `native`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use language::schema::nearest;
use rquickjs::convert::Coerced;
use rquickjs::function::Opt;
use rquickjs::promise::PromiseState;
use rquickjs::{Ctx, Exception, Function, Object, Result, TypedArray, Value as Js};

use super::hooks::Hooks;
use super::{convert, thrown, yaml};
use crate::evaluator::Port;
use crate::protocol::codec::CodecError;
use crate::protocol::{Assumed, Call, CallId, Failure, FromEvaluator, Moved, Place};
use crate::value::Value;

/// Bytes of text in one message.
const PIECE: usize = 64 << 10;

/// What the functions share.
#[derive(Clone)]
pub(super) struct Native {
    pub(super) port: Rc<RefCell<dyn Port>>,
    pub(super) hooks: Hooks,
    pub(super) begun: Instant,
    pub(super) next: Rc<Cell<CallId>>,
}

impl Native {
    /// The object `native`.
    pub(super) fn object<'js>(&self, ctx: &Ctx<'js>) -> Result<Object<'js>> {
        let object = Object::new(ctx.clone())?;
        self.add_looks(ctx, &object)?;
        self.add_text(ctx, &object)?;
        self.add_calls(ctx, &object)?;
        self.add_files(ctx, &object)?;
        Ok(object)
    }

    fn add_looks<'js>(&self, ctx: &Ctx<'js>, object: &Object<'js>) -> Result<()> {
        let begun = self.begun;
        let now = move || begun.elapsed().as_secs_f64() * 1000.0;
        object.set("now", Function::new(ctx.clone(), now)?)?;
        let is_proxy = |value: Js<'js>| value.is_proxy();
        object.set("isProxy", Function::new(ctx.clone(), is_proxy)?)?;
        let is_error = |value: Js<'js>| value.is_error();
        object.set("isError", Function::new(ctx.clone(), is_error)?)?;
        let state = |value: Js<'js>| {
            value.as_promise().map(|promise| match promise.state() {
                PromiseState::Pending => "pending",
                PromiseState::Resolved => "fulfilled",
                PromiseState::Rejected => "rejected",
            })
        };
        object.set("promiseState", Function::new(ctx.clone(), state)?)
    }

    fn add_text<'js>(&self, ctx: &Ctx<'js>, object: &Object<'js>) -> Result<()> {
        let native = self.clone();
        let print = move |ctx: Ctx<'js>, error: bool, text: String| {
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
                let text = piece.to_owned();
                native.say(&ctx, &FromEvaluator::Print { error, text })?;
                rest = after;
            }
            Ok::<_, rquickjs::Error>(())
        };
        object.set("print", Function::new(ctx.clone(), print)?)?;
        let encode = |ctx: Ctx<'js>, text: String| TypedArray::<u8>::new(ctx, text.into_bytes());
        object.set("encode", Function::new(ctx.clone(), encode)?)?;
        let native = self.clone();
        let assume =
            move |ctx: Ctx<'js>, file: String, line: u32, column: u32, what: String, stream| {
                let place = Place { line, column };
                let assumed = Assumed {
                    file,
                    place,
                    what,
                    stream,
                };
                native.say(&ctx, &FromEvaluator::Assumed(assumed))
            };
        let native = self.clone();
        let moved = move |ctx: Ctx<'js>, from: String, to: String| {
            native.say(&ctx, &FromEvaluator::Moved(Moved { from, to }))
        };
        object.set("moved", Function::new(ctx.clone(), moved)?)?;
        object.set("assume", Function::new(ctx.clone(), assume)?)?;
        let native = self.clone();
        let decode = move |ctx: Ctx<'js>, bytes: Js<'js>, fatal: bool| {
            let Value::Bytes(bytes) = convert::out(&ctx, &native.hooks, "the bytes", bytes)? else {
                return Err(Exception::throw_type(&ctx, "bytes are a Uint8Array"));
            };
            let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
            match std::str::from_utf8(bytes) {
                Ok(text) => Ok(text.to_owned()),
                Err(e) if fatal => Err(Exception::throw_type(&ctx, &format!("not UTF-8: {e}"))),
                Err(_) => Ok(String::from_utf8_lossy(bytes).into_owned()),
            }
        };
        object.set("decode", Function::new(ctx.clone(), decode)?)?;
        let native = self.clone();
        let parse = move |ctx: Ctx<'js>, text: String| {
            let value = yaml::parse(&text).map_err(|e| Exception::throw_syntax(&ctx, &e))?;
            convert::into(&ctx, &native.hooks, value)
        };
        object.set("yamlParse", Function::new(ctx.clone(), parse)?)?;
        let place = |text: String, path: Vec<String>| {
            yaml::place(&text, &path).map(|(line, column)| vec![line, column])
        };
        object.set("valuesPlace", Function::new(ctx.clone(), place)?)?;
        let nearest = |word: String, names: Vec<String>| {
            nearest(&word, names.iter().map(String::as_str)).map(str::to_owned)
        };
        object.set("nearest", Function::new(ctx.clone(), nearest)?)?;
        let native = self.clone();
        let stringify = move |ctx: Ctx<'js>, value: Js<'js>| {
            let value = convert::out(&ctx, &native.hooks, "the value", value)?;
            yaml::stringify(value).map_err(|e| Exception::throw_type(&ctx, &e))
        };
        object.set("yamlStringify", Function::new(ctx.clone(), stringify)?)
    }

    fn add_calls<'js>(&self, ctx: &Ctx<'js>, object: &Object<'js>) -> Result<()> {
        let native = self.clone();
        let call = move |ctx: Ctx<'js>, said: Object<'js>| {
            // Reading the request may run the program's code, and that may call: the number is
            // taken afterwards.
            let request = convert::out(&ctx, &native.hooks, "the request", said.get("request")?)?;
            let call = native.next.get();
            native.next.set(call + 1);
            let stack: Coerced<String> = said.get("stack")?;
            let message = FromEvaluator::Call(Call {
                call,
                node: said.get("node")?,
                method: said.get("method")?,
                request,
                timeout: said.get("timeout")?,
                stream: said.get("stream")?,
                stack: thrown::stack(&stack.0),
            });
            native.say(&ctx, &message)?;
            #[expect(clippy::cast_precision_loss, reason = "no program makes 2^53 calls")]
            Ok::<_, rquickjs::Error>(call as f64)
        };
        object.set("call", Function::new(ctx.clone(), call)?)?;
        let native = self.clone();
        let pull = move |ctx: Ctx<'js>, call: f64| {
            native.say(&ctx, &FromEvaluator::Pull { call: number(call) })
        };
        object.set("pull", Function::new(ctx.clone(), pull)?)?;
        let native = self.clone();
        let send = move |ctx: Ctx<'js>, call: f64, item: Js<'js>, is_open: Function<'js>| {
            let item = convert::out(&ctx, &native.hooks, "the item", item)?;
            // Reading the item may have run the program's code, and that may have closed it.
            if !is_open.call(())? {
                return Ok(false);
            }
            let call = number(call);
            let item = Some(item);
            native.say(&ctx, &FromEvaluator::Send { call, item })?;
            Ok::<_, rquickjs::Error>(true)
        };
        object.set("send", Function::new(ctx.clone(), send)?)?;
        let native = self.clone();
        let close = move |ctx: Ctx<'js>, call: f64| {
            let call = number(call);
            native.say(&ctx, &FromEvaluator::Send { call, item: None })
        };
        object.set("close", Function::new(ctx.clone(), close)?)?;
        let native = self.clone();
        let cancel = move |ctx: Ctx<'js>, call: f64| {
            native.say(&ctx, &FromEvaluator::Cancel { call: number(call) })
        };
        object.set("cancel", Function::new(ctx.clone(), cancel)?)
    }

    fn add_files<'js>(&self, ctx: &Ctx<'js>, object: &Object<'js>) -> Result<()> {
        let native = self.clone();
        let read = move |ctx: Ctx<'js>, path: String, stack: Opt<Coerced<String>>| {
            let stack = stack.0.map(|stack| thrown::stack(&stack.0));
            let module = stack.and_then(|stack| stack.into_iter().next());
            let from = module.map(|frame| frame.module).unwrap_or_default();
            let read = native.port.borrow_mut().read_file(&path, &from);
            let result = Object::new(ctx.clone())?;
            match read {
                Ok(bytes) => result.set("bytes", TypedArray::<u8>::new(ctx, bytes)?)?,
                Err(why) => result.set("failure", failure(&ctx, &why)?)?,
            }
            Ok::<_, rquickjs::Error>(result)
        };
        object.set("readFile", Function::new(ctx.clone(), read)?)?;
        let native = self.clone();
        let nodes = move |ctx: Ctx<'js>, selector: String| {
            let found = native.port.borrow_mut().nodes(selector);
            let result = Object::new(ctx.clone())?;
            match found {
                Ok(names) => result.set("names", names)?,
                Err(why) => result.set("failure", failure(&ctx, &why)?)?,
            }
            Ok::<_, rquickjs::Error>(result)
        };
        object.set("nodes", Function::new(ctx.clone(), nodes)?)
    }

    fn say(&self, ctx: &Ctx<'_>, message: &FromEvaluator) -> Result<()> {
        self.port
            .borrow_mut()
            .say(message)
            .map_err(|e: CodecError| Exception::throw_range(ctx, &e.to_string()))
    }
}

/// A call's number from the engine's.
fn number(call: f64) -> CallId {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it was made from an integer above"
    )]
    {
        call as CallId
    }
}

/// A failure as a plain object, for `failed`.
pub(super) fn failure<'js>(ctx: &Ctx<'js>, failure: &Failure) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    object.set("code", failure.code.as_str())?;
    object.set("message", failure.message.as_str())?;
    for (name, value) in [
        ("hint", &failure.hint),
        ("field", &failure.field),
        ("object", &failure.object),
        ("method", &failure.method),
    ] {
        if let Some(value) = value {
            object.set(name, value.as_str())?;
        }
    }
    Ok(object)
}
