// SPDX-License-Identifier: Apache-2.0
//! What `runtime.js` returns: the functions by which the engine's Rust half calls its JavaScript
//! half. Kept apart from the program's globals, which it may change as it likes.

use std::cell::RefCell;
use std::rc::Rc;

use rquickjs::{Ctx, Error, Function, Object, Persistent, Result};

/// The functions, once there are any; forgotten before the engine goes.
#[derive(Clone, Default)]
pub(super) struct Hooks(Rc<RefCell<Option<Persistent<Object<'static>>>>>);

impl Hooks {
    /// Keeps them.
    pub(super) fn set<'js>(&self, ctx: &Ctx<'js>, hooks: Object<'js>) {
        *self.0.borrow_mut() = Some(Persistent::save(ctx, hooks));
    }

    /// Forgets them: a reference that outlives its engine is a leak.
    pub(super) fn clear(&self) {
        self.0.borrow_mut().take();
    }

    /// One of them.
    pub(super) fn function<'js>(&self, ctx: &Ctx<'js>, name: &str) -> Result<Function<'js>> {
        let hooks = self.0.borrow().clone();
        hooks.ok_or(Error::Unknown)?.restore(ctx)?.get(name)
    }
}
