// SPDX-License-Identifier: Apache-2.0
//! What the passes have found out of a module so far, and how much work that has been. Each thing
//! is found out once, when it is first asked for; who asks says how.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, HashSet};

use oxc::semantic::SymbolId;
use oxc::span::Span;

use super::super::types::Type;

/// How many expressions are held against types, whatever a module's length, and more for each of
/// its bytes; what comes after is let be. Nested literals have as many ways to be members of unions
/// as there are paths through those.
const WORK: usize = 1 << 15;
const WORK_PER_BYTE: usize = 16;

/// How many inferences may wait for each other.
const NESTED: u32 = 400;

/// A variable and the members behind it: `spec.kind`.
pub(crate) type Path = (SymbolId, String);

/// Places whose type the flow may have made another than the declared one.
#[derive(Default)]
pub(crate) struct Narrowed {
    pub(crate) paths: HashSet<Path>,
    /// Places without a path, as they are written: `this.x`, `xs[0]`.
    pub(crate) places: HashSet<String>,
    /// The last names of those, for destructuring.
    pub(crate) names: HashSet<String>,
    /// Places that were handed to imported functions: narrowed if one of those asserts something,
    /// which is looked up only where it matters.
    pub(crate) handed: HashMap<Path, Vec<SymbolId>>,
}

/// What is remembered of a module.
pub(crate) struct Memo {
    /// `None` while a symbol's type is being inferred.
    symbols: RefCell<HashMap<SymbolId, Option<Type>>>,
    expressions: RefCell<HashMap<Span, Type>>,
    /// What a comparison, a test of its type or a call in a condition may have narrowed.
    pub(crate) narrowed: OnceCell<Narrowed>,
    /// Interfaces of the library that the program adds members to.
    pub(crate) augmented: OnceCell<HashSet<String>>,
    /// What has members assigned to.
    pub(crate) expandos: OnceCell<HashSet<SymbolId>>,
    depth: Cell<u32>,
    /// How many more expressions are held against types.
    work: Cell<usize>,
}

impl Memo {
    pub(super) fn of(text: &str) -> Self {
        let work = text.len().saturating_mul(WORK_PER_BYTE);
        Self {
            symbols: RefCell::default(),
            expressions: RefCell::default(),
            narrowed: OnceCell::new(),
            augmented: OnceCell::new(),
            expandos: OnceCell::new(),
            depth: Cell::new(0),
            work: Cell::new(work.saturating_add(WORK)),
        }
    }

    /// The type of a symbol; any where it needs itself.
    pub(crate) fn symbol(&self, symbol: SymbolId, infer: impl FnOnce() -> Type) -> Type {
        if let Some(known) = self.symbols.borrow().get(&symbol) {
            return known.clone().unwrap_or_default();
        }
        self.symbols.borrow_mut().insert(symbol, None);
        let ty = infer();
        self.symbols.borrow_mut().insert(symbol, Some(ty.clone()));
        ty
    }

    /// The type of the expression at a place, if it was inferred before.
    pub(crate) fn expression(&self, at: Span) -> Option<Type> {
        self.expressions.borrow().get(&at).cloned()
    }

    pub(crate) fn keep(&self, at: Span, ty: &Type) {
        self.expressions.borrow_mut().insert(at, ty.clone());
    }

    /// What an inference within another one gives; any where too many wait for each other.
    pub(crate) fn nested(&self, infer: impl FnOnce() -> Type) -> Type {
        let depth = self.depth.get();
        if depth > NESTED {
            return Type::Any;
        }
        self.depth.set(depth + 1);
        let ty = infer();
        self.depth.set(depth);
        ty
    }

    /// Whether enough has been held against types; one more is.
    pub(crate) fn is_tired(&self) -> bool {
        let left = self.work.get().checked_sub(1);
        self.work.set(left.unwrap_or_default());
        left.is_none()
    }
}
