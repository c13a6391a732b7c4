// SPDX-License-Identifier: Apache-2.0
//! What the checker says of names that aren't there: whose they would be, which one was meant, what
//! this language has instead of what others have, and what it is going to have. Decides nothing.

use super::report::Report;
use super::types::{Field, Type};
use crate::source::Span;

/// A member that isn't there.
pub(super) fn missing_member(
    object: &Type,
    name: &str,
    at: Span,
    fields: &[Field],
    called: bool,
    subsystem: Option<&str>,
) -> Report {
    let owner = match (subsystem, object) {
        (Some(subsystem), _) => format!("`{subsystem}`"),
        (None, object) => owner_of(object),
    };
    if let (Some(subsystem), Some(what)) = (subsystem, not_offered(name)) {
        let message = format!("`{subsystem}.{name}` isn't offered yet: {what}");
        return Report::new("not-offered", at, message);
    }
    let (code, kind) = match called {
        true => ("unknown-method", "method"),
        false => ("unknown-field", "field"),
    };
    let message = format!("{owner} has no {kind} `{name}`");
    if let Some(instead) = subsystem.and_then(|it| in_place_of(it, name)) {
        return Report::new(code, at, message).help(instead);
    }
    let names = fields.iter().map(|field| field.name.as_ref());
    Report::new(code, at, message).suggesting(name, names, at, false)
}

/// What to write in the place of a method that the whitepaper names, or that one expects beside
/// those that are there.
fn in_place_of(subsystem: &str, name: &str) -> Option<&'static str> {
    Some(match (subsystem, name) {
        ("observe", "Metrics") => {
            "`observe.Usage` tells what is used now, `observe.WatchUsage` goes on telling"
        }
        ("observe", "Stdevent" | "Events") => {
            "`runtime.Watch` tells each change of an object, `observe.Logs` what it prints"
        }
        ("runtime", "RunPod") => "write `pod.Run`, or `runtime.Run` of a `Pod`",
        ("runtime", "StopPod") => "write `pod.Stop`",
        ("schedule", "At") => {
            "write `schedule.Declare({ name, spec: { work, when: { at } } })`, where `at` is a \
             time such as \"2027-01-31T04:00:00Z\""
        }
        ("schedule", "After") => {
            "write `schedule.Declare({ name, spec: { work, when: { after } } })`, where `after` \
             names the other schedule: `{ schedule: \"backup\" }`"
        }
        _ => return None,
    })
}

/// What to write in the place of a global that other hosts of JavaScript have.
pub(super) fn elsewhere(name: &str) -> Option<&'static str> {
    Some(match name {
        "require" => "write `import { name } from \"./file.ts\"`; there are no packages",
        "module" | "exports" => "write `export` before what others may import",
        "process" | "Deno" | "Bun" => {
            "a program has its arguments in `args`; it has no environment and no process"
        }
        "fetch" | "XMLHttpRequest" | "WebSocket" => {
            "a program reaches nodes alone: `runtime`, `observe`, `identity`, `node(\"name\")`"
        }
        "setInterval" | "clearInterval" => "loop instead: `for (;;) { …; await sleep(\"1s\"); }`",
        "setImmediate" => "write `await sleep(0)` or `setTimeout`",
        "Intl" => "the engine has no `Intl`; write numbers and dates with their own methods",
        "Buffer" => "bytes are a `Uint8Array`; `TextEncoder` and `TextDecoder` make text of them",
        "fs" | "readFile" | "readFileSync" => "files below the root are read by `file.readText`",
        "__dirname" | "__filename" => "paths are relative to the file that names them",
        "window" | "document" | "localStorage" | "alert" | "prompt" => {
            "this is no browser; `print` writes to the terminal"
        }
        _ => return None,
    })
}

/// What a member is read of, as a sentence begins.
fn owner_of(object: &Type) -> String {
    let named = match object {
        Type::Named(owner, _) => return format!("`{}`", owner.name),
        Type::String | Type::StringLiteral(_) | Type::Template => "a string",
        Type::Number | Type::NumberLiteral(_) => "a number",
        Type::BigInt => "a bigint",
        Type::Boolean | Type::BooleanLiteral(_) => "a boolean",
        Type::Array(_) | Type::Tuple(_) => "a list",
        Type::Object(shape) if !shape.calls.is_empty() => "a function",
        Type::Object(_) => "this object",
        Type::ClassOf(owner) => return format!("the class `{}`", owner.name),
        _ => "this",
    };
    named.to_owned()
}

/// What the language is going to have and hasn't: asked for by name, it is said by name.
pub(crate) fn not_offered(name: &str) -> Option<&'static str> {
    Some(match name {
        "secrets" => {
            "`schedule.PutConfig` keeps one, with `kind: \"secret\"`, and `spec.work.given` of \
             `schedule.Declare` gives it to a pod"
        }
        "route" => "no node routes traffic",
        "batch" => "no node runs batches",
        "mount" => {
            "no node attaches devices; `.Mounts({ … })` of a cell mounts the node's own folders"
        }
        "VirtualMachine" | "RunVirtualMachine" | "StopVirtualMachine" => {
            "no node runs virtual machines"
        }
        "Instance" | "Spawn" | "RunInstance" => "no node spawns instances",
        _ => return None,
    })
}
