// SPDX-License-Identifier: Apache-2.0
//! What every evaluator starts with, as bytecode that the build has made (`build.rs`): the host
//! surface's functions and the friendly layer. Bytecode is trusted, so none of it ever comes from
//! elsewhere: a layer that the parent sends is compared with the text that the bytecode is of, and
//! compiled where it is another one (those of tests are).

use language::prelude;
use rquickjs::loader::Loader;
use rquickjs::loader::bundle::Bundle;
use rquickjs::{Ctx, Function, Module, Result, module::Declared};

type Bytecode = &'static [u8];

const MODULES: &[(&str, Bytecode)] = &[
    (
        "aurae:inspect",
        include_bytes!(concat!(env!("OUT_DIR"), "/inspect")),
    ),
    (
        "aurae:plan",
        include_bytes!(concat!(env!("OUT_DIR"), "/plan")),
    ),
    (
        "aurae:runtime",
        include_bytes!(concat!(env!("OUT_DIR"), "/runtime")),
    ),
    (
        "aurae:typed",
        include_bytes!(concat!(env!("OUT_DIR"), "/typed")),
    ),
    (
        "aurae:values",
        include_bytes!(concat!(env!("OUT_DIR"), "/values")),
    ),
    (
        prelude::NAME,
        include_bytes!(concat!(env!("OUT_DIR"), "/prelude")),
    ),
];

/// Whether a module of this name and text is among them.
pub(super) fn holds(name: &str, text: &str) -> bool {
    name == prelude::NAME && text == prelude::JAVASCRIPT
}

/// One of them, not yet run. The engine refuses bytecode of another version than its own.
pub(super) fn load<'js>(ctx: &Ctx<'js>, name: &str) -> Result<Module<'js, Declared>> {
    Bundle(MODULES).load(ctx, name, None)
}

/// The function that a file of `js/` is.
pub(super) fn function<'js>(ctx: &Ctx<'js>, name: &str) -> Result<Function<'js>> {
    let (module, run) = load(ctx, name)?.eval()?;
    run.finish::<()>()?;
    module.get("default")
}

#[cfg(test)]
mod tests {
    use rquickjs::{CatchResultExt, Context, Runtime, Value, WriteOptions};

    use super::*;

    /// What is shipped isn't compiled at each start of a program.
    #[test]
    fn bytecode_is_what_the_engine_makes_of_the_files() {
        let function = |text: &str| format!("export default {text}");
        let texts = [
            function(include_str!("../js/inspect.js")),
            function(include_str!("../js/plan.js")),
            function(include_str!("../js/runtime.js")),
            function(include_str!("../js/typed.js")),
            function(include_str!("../js/values.js")),
            prelude::JAVASCRIPT.to_owned(),
        ];
        assert_eq!(texts.len(), MODULES.len());
        for ((name, bytecode), text) in MODULES.iter().zip(texts) {
            let runtime = Runtime::new().unwrap();
            let context = Context::full(&runtime).unwrap();
            context.with(|ctx| {
                let module = Module::declare(ctx.clone(), *name, text).unwrap();
                let options = WriteOptions {
                    strip_source: true,
                    ..WriteOptions::default()
                };
                assert!(module.write(options).unwrap() == *bytecode, "{name}");
            });
        }
        assert!(holds(prelude::NAME, prelude::JAVASCRIPT));
        assert!(!holds(prelude::NAME, "print(1)"));
    }

    #[test]
    fn bytecode_is_of_the_engine_that_reads_it() {
        let runtime = Runtime::new().unwrap();
        let context = Context::full(&runtime).unwrap();
        context.with(|ctx| {
            for (name, _) in MODULES {
                load(&ctx, name).catch(&ctx).unwrap();
            }
            // The first byte is the version.
            let mut other = MODULES[0].1.to_vec();
            other[0] ^= 1;
            let other: &'static [u8] = other.leak();
            let modules: &'static [(&str, Bytecode)] = vec![("other", other)].leak();
            let refused = Bundle(modules).load(&ctx, "other", None).catch(&ctx);
            let why = refused.err().unwrap().to_string();
            assert!(why.contains("version"), "{why}");
        });
    }

    #[test]
    fn lines_are_those_of_the_files() {
        let runtime = Runtime::new().unwrap();
        let context = Context::full(&runtime).unwrap();
        context.with(|ctx| {
            let function = function(&ctx, "aurae:runtime").catch(&ctx).unwrap();
            let failed = function.call::<_, Value<'_>>(((), (), (), (), ()));
            let stack = failed.catch(&ctx).unwrap_err().to_string();
            let text = include_str!("../js/runtime.js");
            let place = stack.split("aurae:runtime:").nth(1).unwrap();
            let line: usize = place.split(':').next().unwrap().parse().unwrap();
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines[line - 1].contains("start.plan"), "{stack}");
        });
    }
}
