// SPDX-License-Identifier: Apache-2.0
//! What the names in a module's annotations mean: its own types, those it imports, the
//! environment's.

use oxc::ast::ast::*;

use super::convert::{Converter, Names, name_in};
use super::facts::Facts;
use super::symbols::symbol_type;
use super::types::{Name, Type};

pub(crate) fn converter<'f>(facts: &'f Facts<'_, '_>) -> Converter<'f> {
    Converter::new(facts.file, facts, &facts.tree.docs)
}

impl Names for Facts<'_, '_> {
    fn type_named(&self, name: &IdentifierReference<'_>, arguments: Vec<Type>) -> Option<Type> {
        let Some(symbol) = self.symbols.of(name) else {
            let known = &self.world.environment.table.types;
            return known
                .contains_key(name.name.as_str())
                .then(|| Type::global(&name.name, arguments));
        };
        if let Some((file, imported)) = self.symbols.imported(symbol) {
            let exports = self.world.exports(file)?;
            return match exports.exported_types.get(imported?.as_str())? {
                Type::Named(name, _) => Some(Type::Named(name.clone(), arguments.into())),
                _ => None,
            };
        }
        let flags = self.symbols.scoping().symbol_flags(symbol);
        let followed = self.symbols.is_top(symbol)
            && (flags.is_interface() || flags.is_type_alias() || flags.is_class());
        followed.then(|| {
            let name = Name {
                file: self.file,
                name: name.name.as_str().into(),
            };
            Type::Named(name, arguments.into())
        })
    }

    fn type_within(
        &self,
        space: &IdentifierReference<'_>,
        name: &str,
        arguments: Vec<Type>,
    ) -> Option<Type> {
        let Some(symbol) = self.symbols.of(space) else {
            let name = format!("{}.{name}", space.name);
            let known = &self.world.environment.table.types;
            return known
                .contains_key(name.as_str())
                .then(|| Type::global(&name, arguments));
        };
        let (file, None) = self.symbols.imported(symbol)? else {
            return None;
        };
        match self.world.exports(file)?.exported_types.get(name)? {
            Type::Named(name, _) => Some(Type::Named(name.clone(), arguments.into())),
            _ => None,
        }
    }

    fn value_named(&self, name: &IdentifierReference<'_>) -> Option<Type> {
        match self.symbols.of(name) {
            Some(symbol) => Some(symbol_type(self, symbol)),
            None => Some(Type::ValueOf(name_in(
                super::types::ENVIRONMENT,
                &name.name,
            ))),
        }
    }
}
