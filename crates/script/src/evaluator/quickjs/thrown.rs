// SPDX-License-Identifier: Apache-2.0
//! What a program threw, as a message: the name, the sentence, the stack in compiled positions, and
//! which limit it was. It reads properties, so a program's getters may run; the engine's limits
//! hold for them as for the rest.

use rquickjs::{Array, Ctx, Object, Value};

use super::hooks::Hooks;
use super::memory;
use crate::protocol::{Cause, Doing, Failure, Frame, Limit, Place, Thrown};

/// Bytes of a message that are kept.
const MAX_MESSAGE: usize = 64 << 10;
/// Causes that are kept, and how deep they are looked for: a cause may be its own.
const MAX_CAUSES: usize = 16;

/// What is said of a `null` unless the engine has thrown it.
const OWN_NULL: &str = "null, by the program itself";

/// What `value`, which was not caught, says.
pub(super) fn describe<'js>(ctx: &Ctx<'js>, hooks: &Hooks, value: &Value<'js>) -> Thrown {
    if value.is_uncatchable_error() {
        let mut thrown = Thrown::limit(Limit::Interrupt, "interrupted");
        if let Some(error) = value.as_object() {
            thrown.stack = stack(&text(ctx, error, "stack").unwrap_or_default());
        }
        return thrown;
    }
    let Some(error) = value.as_object().filter(|_| is_error(ctx, hooks, value)) else {
        let message = match value.is_null() {
            true => OWN_NULL.to_owned(),
            false => printed(ctx, hooks, value),
        };
        return Thrown {
            message,
            unsure: value.is_null(),
            ..Thrown::default()
        };
    };
    let mut thrown = Thrown {
        name: text(ctx, error, "name").unwrap_or_default(),
        message: text(ctx, error, "message").unwrap_or_default(),
        stack: frames(ctx, error),
        ..Thrown::default()
    };
    cut(&mut thrown.message);
    thrown.limit = match (thrown.name.as_str(), thrown.message.as_str()) {
        // Without a sentence where there was no memory for that either.
        ("InternalError", "out of memory" | "") => Some(Limit::Memory),
        ("RangeError", "Maximum call stack size exceeded") => Some(Limit::Stack),
        ("PlanUnknown", _) => Some(Limit::Unknown),
        _ => None,
    };
    if thrown.limit == Some(Limit::Memory) {
        thrown.message = memory::FULL.to_owned();
    }
    if thrown.name == "AuraeError" {
        thrown.failure = Some(Box::new(failure(ctx, error, &thrown.message)));
    }
    thrown.place = place(ctx, error);
    causes(ctx, hooks, error, 0, &mut thrown.causes);
    thrown
}

/// Whether it is an `Error`, or the engine's `DOMException`.
fn is_error<'js>(ctx: &Ctx<'js>, hooks: &Hooks, value: &Value<'js>) -> bool {
    let known = || hooks.function(ctx, "isError")?.call((value.clone(),));
    value.is_error() || known().ok().or_else(|| forget(ctx)).unwrap_or(false)
}

/// The errors behind an error, nearest first.
fn causes<'js>(
    ctx: &Ctx<'js>,
    hooks: &Hooks,
    error: &Object<'js>,
    depth: usize,
    found: &mut Vec<Cause>,
) {
    if depth >= MAX_CAUSES {
        return;
    }
    for value in behind(ctx, error) {
        if found.len() >= MAX_CAUSES {
            return;
        }
        let Some(inner) = value.as_object().filter(|_| is_error(ctx, hooks, &value)) else {
            found.push(Cause {
                text: printed(ctx, hooks, &value),
                stack: Vec::new(),
            });
            continue;
        };
        let said = |name: &str| text(ctx, inner, name).filter(|text| !text.is_empty());
        let parts: Vec<_> = [said("name"), said("message")]
            .into_iter()
            .flatten()
            .collect();
        found.push(Cause {
            text: parts.join(": "),
            stack: frames(ctx, inner),
        });
        causes(ctx, hooks, inner, depth + 1, found);
    }
}

/// An `AggregateError`'s errors, then the `cause`.
fn behind<'js>(ctx: &Ctx<'js>, error: &Object<'js>) -> Vec<Value<'js>> {
    let mut found: Vec<Value<'js>> = Vec::new();
    if text(ctx, error, "name").as_deref() == Some("AggregateError") {
        let errors: Option<Array<'js>> = error.get("errors").ok().or_else(|| forget(ctx));
        for at in 0..errors
            .as_ref()
            .map_or(0, |errors| errors.len().min(MAX_CAUSES))
        {
            let item = errors.as_ref().map(|errors| errors.get(at));
            found.extend(item.and_then(|item| item.ok().or_else(|| forget(ctx))));
        }
    }
    let cause: Option<Value<'js>> = error.get("cause").ok().or_else(|| forget(ctx));
    found.extend(cause.filter(|cause| !cause.is_undefined()));
    found
}

fn failure<'js>(ctx: &Ctx<'js>, error: &Object<'js>, message: &str) -> Failure {
    Failure {
        code: text(ctx, error, "code").unwrap_or_default(),
        message: message.to_owned(),
        hint: text(ctx, error, "hint"),
        field: text(ctx, error, "field"),
        object: text(ctx, error, "object"),
        method: text(ctx, error, "method"),
    }
}

/// What `__known` says of itself.
fn place<'js>(ctx: &Ctx<'js>, error: &Object<'js>) -> Option<Place> {
    let place: Option<Object<'js>> = error.get("place").ok().or_else(|| forget(ctx));
    let place = place?;
    let number = |name: &str| place.get::<_, u32>(name).ok().or_else(|| forget(ctx));
    Some(Place {
        line: number("line")?,
        column: number("column")?,
    })
}

/// A string property, shortened, if it is there and a string.
fn text<'js>(ctx: &Ctx<'js>, object: &Object<'js>, name: &str) -> Option<String> {
    let value: Value<'js> = object.get(name).ok().or_else(|| forget(ctx))?;
    let mut text = value
        .as_string()?
        .to_string()
        .ok()
        .or_else(|| forget(ctx))?;
    cut(&mut text);
    Some(text)
}

fn printed<'js>(ctx: &Ctx<'js>, hooks: &Hooks, value: &Value<'js>) -> String {
    let inspect = hooks.function(ctx, "inspect");
    let printed = inspect.and_then(|inspect| inspect.call((value.clone(),)));
    let mut text: String = printed.ok().or_else(|| forget(ctx)).unwrap_or_default();
    cut(&mut text);
    text
}

/// Drops the exception of a step that failed on the way.
fn forget<T>(ctx: &Ctx<'_>) -> Option<T> {
    ctx.catch();
    None
}

fn cut(text: &mut String) {
    if text.len() > MAX_MESSAGE {
        let end = text.floor_char_boundary(MAX_MESSAGE);
        text.truncate(end);
        text.push('…');
    }
}

/// An error's frames.
fn frames<'js>(ctx: &Ctx<'js>, error: &Object<'js>) -> Vec<Frame> {
    let said = |name: &str| text(ctx, error, name).unwrap_or_default();
    let message = said("message");
    let top = match message.ends_with("not a function") || message == "not a constructor" {
        true => Doing::CallsNone,
        false => Doing::Fails(said("name")),
    };
    stack_below(&said("stack"), top)
}

/// The frames of a stack's text that have a place in a program's source; ours (`aurae:`) and the
/// engine's own have none, but their names tell what the frame below called.
pub(super) fn stack(text: &str) -> Vec<Frame> {
    stack_below(text, Doing::Fails(String::new()))
}

/// The same, where it is known what the uppermost frame was doing.
fn stack_below(text: &str, top: Doing) -> Vec<Frame> {
    let mut doing = top;
    let mut frames = Vec::new();
    for line in text.lines() {
        let Some((function, place)) = parts(line) else {
            continue;
        };
        let here = std::mem::replace(&mut doing, Doing::Calls(function.to_owned()));
        frames.extend(frame(function, place, here));
    }
    frames
}

/// `    at name (module:1:2)`, or `    at module:1:2` of an error of syntax.
fn parts(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start().strip_prefix("at ")?;
    let (function, place) = match line.strip_suffix(')') {
        Some(line) => line.rsplit_once(" (")?,
        None => ("", line),
    };
    let anonymous = function == "<anonymous>";
    Some((if anonymous { "" } else { function }, place))
}

fn frame(function: &str, place: &str, doing: Doing) -> Option<Frame> {
    let mut parts = place.rsplitn(3, ':');
    let column = parts.next()?.parse().ok()?;
    let line = parts.next()?.parse().ok()?;
    let module = parts.next()?;
    if module.starts_with("aurae:") {
        return None;
    }
    Some(Frame {
        function: function.to_owned(),
        module: module.to_owned(),
        line,
        column,
        doing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_and_ours_left_out() {
        let text = "    at f (a b/c.ts:3:14)\n    at map (native)\n    at <anonymous> (x.ts:1:1)\n    \
                    at call (aurae:runtime:5:6)\n    at y.ts:7:8\n";
        let frames = stack_below(text, Doing::CallsNone);
        let places: Vec<_> = frames
            .iter()
            .map(|f| (f.function.as_str(), f.module.as_str(), f.line, f.column))
            .collect();
        assert_eq!(
            places,
            [
                ("f", "a b/c.ts", 3, 14),
                ("", "x.ts", 1, 1),
                ("", "y.ts", 7, 8)
            ]
        );
        let doing: Vec<_> = frames.into_iter().map(|frame| frame.doing).collect();
        let calls = |name: &str| Doing::Calls(name.to_owned());
        assert_eq!(doing, [Doing::CallsNone, calls("map"), calls("call")]);
    }
}
