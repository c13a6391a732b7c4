// SPDX-License-Identifier: Apache-2.0
//! An environment that grows: what one module declares at its top is known to those that are looked
//! at later without an import. For the prompt, whose lines see each other; a program's modules
//! don't.

use std::sync::Arc;

use oxc::semantic::SymbolId;

use super::convert::{name_in, span};
use super::exports::doc_of;
use super::facts::Facts;
use super::shape::Shapes;
use super::symbols::symbol_type;
use super::table::{Environment, TypeDeclaration, ValueDeclaration};
use super::types::{ENVIRONMENT, Type};
use super::world::World;
use crate::source::Span;

/// A name and what it is from now on: a value, a type or both.
#[derive(Debug)]
pub(crate) struct Learnt {
    name: Arc<str>,
    value: Option<ValueDeclaration>,
    declared: Option<TypeDeclaration>,
}

impl Learnt {
    /// A value that no line declares.
    pub(crate) fn value(name: &str, ty: Type) -> Self {
        let value = ValueDeclaration {
            ty,
            doc: None,
            at: Span::default(),
            api: false,
            file: ENVIRONMENT,
        };
        Self {
            name: name.into(),
            value: Some(value),
            declared: None,
        }
    }
}

impl Environment {
    /// Knows a name from now on, in place of what had it before.
    pub(crate) fn learn(&mut self, learnt: Learnt) {
        // A name may stand for something else now, and what this is a clone of knows its own.
        self.shapes = Shapes::default();
        if let Some(value) = learnt.value {
            self.table.values.insert(learnt.name.clone(), value);
        }
        if let Some(declared) = learnt.declared {
            self.table.types.insert(learnt.name, declared);
        }
    }
}

/// All that the module declares at its top or imports.
pub(crate) fn learnt(facts: &Facts<'_, '_>) -> Vec<Learnt> {
    let scoping = facts.symbols.scoping();
    let bindings = scoping.get_bindings(scoping.root_scope_id());
    let names = bindings.iter();
    names
        .map(|(name, symbol)| Learnt {
            name: name.as_str().into(),
            value: learnt_value(facts, *symbol),
            declared: learnt_type(facts, name, *symbol),
        })
        .collect()
}

fn learnt_value(facts: &Facts<'_, '_>, symbol: SymbolId) -> Option<ValueDeclaration> {
    let scoping = facts.symbols.scoping();
    let flags = scoping.symbol_flags(symbol);
    (flags.is_value() || flags.is_import()).then(|| ValueDeclaration {
        ty: symbol_type(facts, symbol),
        doc: doc_of(facts, symbol),
        at: span(scoping.symbol_span(symbol)),
        api: false,
        file: facts.file,
    })
}

/// The name stands for the module's type of that name.
fn learnt_type(facts: &Facts<'_, '_>, name: &str, symbol: SymbolId) -> Option<TypeDeclaration> {
    let (body, generics) = match facts.symbols.imported(symbol) {
        Some((file, imported)) => {
            let exports = facts.world.exports(file)?;
            let ty = exports.exported_types.get(imported?.as_str())?;
            (ty.clone(), [].into())
        }
        None => {
            let own = name_in(facts.file, name);
            let generics = facts.world.type_declaration(&own)?.generics.clone();
            let arguments = generics.iter();
            let arguments = arguments.map(|it| Type::Param(it.name.clone()));
            (Type::Named(own, arguments.collect()), generics)
        }
    };
    Some(TypeDeclaration {
        generics,
        body,
        class: None,
        doc: doc_of(facts, symbol),
        at: span(facts.symbols.scoping().symbol_span(symbol)),
        file: facts.file,
    })
}

impl World {
    /// Whether showing a type's members tells more than its name: those of an object, of what a
    /// program declares and of the API's, not those of the ECMAScript library's.
    pub(crate) fn is_spelled_out(&self, ty: &Type) -> bool {
        match ty {
            Type::Object(shape) => shape.index.is_none(),
            Type::Named(name, _) if name.file == ENVIRONMENT => {
                !self.environment.library.contains(&name.name)
            }
            Type::Named(..) => true,
            _ => false,
        }
    }
}
