// SPDX-License-Identifier: Apache-2.0
//! The kinds of which several lines add up: each adds its words or its one member to what there is.

use super::lists::{MOST, bind, collect, folder, marked, path, temporary, unit, variable};
use super::sets::networks;
use super::shape::{self, Shape};
use super::special::{Task, commands, condition, credential, device, per_device};
use super::{Bind, Clock, Kind, Listen, Outcome, Parsed, Value};
use crate::calendar::Calendar;
use crate::finding::shown;
use crate::syntax::escape::unescaped;
use crate::syntax::words::{Escapes, plain, split};
use crate::time::Span;

/// What earlier lines gave, of one variant.
macro_rules! old {
    ($task:expr, $variant:ident) => {
        match $task.old {
            Some(Value::$variant(old)) => old.clone(),
            _ => Vec::new(),
        }
    };
}

/// Lists of words, with quotes.
pub(super) fn words(task: Task<'_>, text: &str) -> Parsed {
    let context = task.context;
    let decode = Escapes::Decode;
    let binds = |escapes, each: fn(&str) -> Result<Bind, String>| {
        let old = old!(task, Binds);
        collect(text, escapes, context, old, Value::Binds, each)
    };
    match task.kind {
        Kind::InstallUnits => install(task, text),
        Kind::ShapedList(form) => shaped(task, text, form),
        Kind::Texts => {
            let known = |word: &str| Ok(word.to_owned());
            collect(
                text,
                decode,
                context,
                old!(task, Texts),
                Value::Texts,
                known,
            )
        }
        Kind::Units => {
            let each = |word: &str| unit(word, context);
            collect(
                text,
                Escapes::Keep,
                context,
                old!(task, Units),
                Value::Units,
                each,
            )
        }
        Kind::Paths => {
            let each = |word: &str| marked(word, true);
            collect(
                text,
                Escapes::Drop,
                context,
                old!(task, Paths),
                Value::Paths,
                each,
            )
        }
        Kind::Binds => binds(Escapes::Keep, bind),
        Kind::Temporary => binds(decode, temporary),
        Kind::Folders => binds(Escapes::Keep, folder),
        Kind::Variables => {
            let old = old!(task, Variables);
            collect(text, decode, context, old, Value::Variables, variable)
        }
        Kind::Commands => commands(text, context, old!(task, Commands)),
        _ => members(task, text),
    }
}

/// What is in [Install] has its specifiers put in when it is enabled.
fn install(task: Task<'_>, text: &str) -> Parsed {
    let mut all = old!(task, Texts);
    match split(text, Escapes::Keep) {
        Ok(words) => {
            all.extend(words.into_iter().map(|it| it.text));
            Parsed::set(Value::Texts(all))
        }
        Err(open) => Outcome::Ignore(open.offset, "a quote has no end".to_owned()).into(),
    }
}

/// A wrong account fails the unit.
fn shaped(task: Task<'_>, text: &str, form: Shape) -> Parsed {
    let old = old!(task, Texts);
    let all = collect(
        text,
        Escapes::Decode,
        task.context,
        old,
        Value::Texts,
        |word| shape::check(form, word).map(|()| word.to_owned()),
    );
    let wrong = all.notes.first().filter(|_| form == Shape::Account);
    match wrong.cloned() {
        Some((at, problem)) => Outcome::Fail(at, problem).into(),
        None => all,
    }
}

/// Lists to which a line adds one member.
fn members(task: Task<'_>, text: &str) -> Parsed {
    match task.kind {
        Kind::Files => push(marked(text, false), old!(task, Paths), Value::Paths),
        Kind::PathCondition | Kind::Condition => {
            let one = condition(task.name, text, task.kind == Kind::PathCondition);
            push(one, old!(task, Conditions), Value::Conditions)
        }
        Kind::Calendar => {
            let clock = Calendar::parse(text, task.zones).map(Clock::Calendar);
            push(clock, old!(task, Clocks), Value::Clocks)
        }
        Kind::Clock => {
            let clock = Span::parse(text).map(|span| Clock::After(task.name, span));
            push(clock, old!(task, Clocks), Value::Clocks)
        }
        Kind::Listen => {
            let directive = task.name;
            let address = crate::socket::address(directive, text);
            let listen = address.map(|address| Listen { directive, address });
            push(listen, old!(task, Listens), Value::Listens)
        }
        Kind::Watch => {
            let watch = path(text).map(|path| (task.name, path));
            push(watch, old!(task, Watches), Value::Watches)
        }
        Kind::Networks => all_networks(task, text),
        Kind::Devices => push(device(text), old!(task, Devices), Value::Devices),
        Kind::InputText | Kind::InputData => input_bytes(task, text),
        Kind::LoadCredential | Kind::SetCredential => {
            let one = credential(text, task.kind == Kind::LoadCredential);
            push(one, old!(task, Credentials), Value::Credentials)
        }
        _ => push(
            per_device(task.kind, text),
            old!(task, PerDevice),
            Value::PerDevice,
        ),
    }
}

fn all_networks(task: Task<'_>, text: &str) -> Parsed {
    let mut all = old!(task, Networks);
    let mut notes = Vec::new();
    for word in plain(text) {
        match networks(&word.text) {
            Ok(found) => all.extend(found),
            Err(problem) => notes.push((word.offset, format!("{problem}; it is left out"))),
        }
    }
    let outcome = Outcome::Set(Value::Networks(all));
    Parsed { outcome, notes }
}

/// Adds one member to a list.
fn push<T>(one: Result<T, String>, mut old: Vec<T>, wrap: fn(Vec<T>) -> Value) -> Parsed {
    match one {
        Ok(_) if old.len() >= MOST => {
            Parsed::ignore(format!("the list has {MOST} members already"))
        }
        Ok(one) => {
            old.push(one);
            Parsed::set(wrap(old))
        }
        Err(problem) => Parsed::ignore(problem),
    }
}

/// The longest standard input that a unit brings along, in bytes, as in systemd.
const LONGEST_INPUT: usize = 64 << 20;

/// `StandardInputText=` and `StandardInputData=`: one text, in the order of the lines.
fn input_bytes(task: Task<'_>, text: &str) -> Parsed {
    let mut all = old!(task, Bytes);
    let more = match task.kind {
        Kind::InputText => unescaped(text).map(|mut line| {
            line.push(b'\n');
            line
        }),
        _ => crate::syntax::base64::decode(text),
    };
    let Some(more) = more else {
        return Parsed::ignore(format!("{} can't be read", shown(text)));
    };
    if all.len() + more.len() > LONGEST_INPUT {
        return Parsed::ignore(format!("there are more than {LONGEST_INPUT} bytes"));
    }
    all.extend(more);
    Parsed::set(Value::Bytes(all))
}
