// SPDX-License-Identifier: Apache-2.0
//! Modules for the engine: those that were preloaded, by their canonical names, and the parent for
//! the rest. It joins relative specifiers; what may be imported is the parent's to say.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::{Ctx, Error, Exception, Module as JsModule, Result, module::Declared};

use super::hooks::Hooks;
use super::{built_in, native};
use crate::evaluator::Port;
use crate::protocol::Module;

/// Sources that no module was made of yet, and what specifiers were found to mean.
#[derive(Default)]
struct Known {
    sources: HashMap<String, String>,
    names: HashMap<(String, String), String>,
}

/// Shared by the engine, its resolver and its loader.
#[derive(Clone)]
pub(super) struct Modules {
    known: Rc<RefCell<Known>>,
    port: Rc<RefCell<dyn Port>>,
    hooks: Hooks,
}

impl Modules {
    pub(super) fn new(port: Rc<RefCell<dyn Port>>, hooks: Hooks) -> Self {
        let known = Rc::default();
        Self { known, port, hooks }
    }

    /// Keeps a module's source until it is imported.
    pub(super) fn add(&self, module: Module) {
        let mut known = self.known.borrow_mut();
        known
            .names
            .insert((String::new(), module.name.clone()), module.name.clone());
        known.sources.insert(module.name, module.code);
    }

    /// The source of a module that is declared now, and only now.
    pub(super) fn take(&self, name: &str) -> Option<String> {
        self.known.borrow_mut().sources.remove(name)
    }

    /// Whether a module was added and not yet taken.
    pub(super) fn is_unused(&self, name: &str) -> bool {
        self.known.borrow().sources.contains_key(name)
    }

    fn find<'js>(&self, ctx: &Ctx<'js>, base: &str, name: &str) -> Result<String> {
        let key = (base.to_owned(), name.to_owned());
        let joined = join(base, name);
        {
            let mut known = self.known.borrow_mut();
            if let Some(found) = known.names.get(&key) {
                return Ok(found.clone());
            }
            if known.names.contains_key(&(String::new(), joined.clone())) {
                known.names.insert(key, joined.clone());
                return Ok(joined);
            }
        }
        let asked = self.port.borrow_mut().import(name, base);
        match asked {
            Ok(module) => {
                let found = module.name.clone();
                let is_new = !self.is_known(&found);
                if is_new {
                    self.add(module);
                }
                self.known.borrow_mut().names.insert(key, found.clone());
                Ok(found)
            }
            Err(failure) => {
                let failure = native::failure(ctx, &failure)?;
                let error = self.hooks.function(ctx, "failed")?.call((failure,))?;
                Err(ctx.throw(error))
            }
        }
    }

    fn is_known(&self, name: &str) -> bool {
        let known = self.known.borrow();
        known.names.contains_key(&(String::new(), name.to_owned()))
    }
}

/// `./b.ts` said in `apps/a.ts` is `apps/b.ts`; what isn't relative is itself.
fn join(base: &str, name: &str) -> String {
    if !name.starts_with("./") && !name.starts_with("../") {
        return name.to_owned();
    }
    let mut parts: Vec<&str> = base.split('/').collect();
    parts.pop();
    for part in name.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

impl Resolver for Modules {
    fn resolve<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> Result<String> {
        self.find(ctx, base, name)
    }
}

impl Loader for Modules {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> Result<JsModule<'js, Declared>> {
        let Some(source) = self.take(name) else {
            let why = format!("the module {name} failed before and can't be loaded again");
            return Err(Exception::throw_message(ctx, &why));
        };
        declare(ctx, name, source)
    }
}

/// Compiles a module without running it; what is built in was compiled with this program.
pub(super) fn declare<'js>(
    ctx: &Ctx<'js>,
    name: &str,
    source: String,
) -> Result<JsModule<'js, Declared>> {
    if built_in::holds(name, &source) {
        return built_in::load(ctx, name);
    }
    JsModule::declare(ctx.clone(), name, source).map_err(|e| match e {
        Error::InvalidString(_) => {
            Exception::throw_syntax(ctx, &format!("{name}: a zero byte in the source"))
        }
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::join;

    #[test]
    fn relative_specifiers_are_joined() {
        assert_eq!(join("apps/web/a.ts", "./b.ts"), "apps/web/b.ts");
        assert_eq!(join("apps/web/a.ts", "../c.ts"), "apps/c.ts");
        assert_eq!(join("a.ts", "./lib/./d.ts"), "lib/d.ts");
        assert_eq!(join("a.ts", "aurae:x"), "aurae:x");
    }
}
