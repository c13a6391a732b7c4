// SPDX-License-Identifier: Apache-2.0
//! What the names in a module mean: which symbol, declared where, or imported from which module.
//! Of types it knows nothing.

use std::collections::HashMap;

use oxc::ast::AstKind;
use oxc::ast::ast::IdentifierReference;
use oxc::semantic::{AstNode, Scoping, Semantic, SymbolId};

use super::super::types::FileId;

/// The semantic model of a module, and what its imports lead to.
pub(crate) struct Symbols<'a, 'w> {
    semantic: &'w Semantic<'a>,
    /// The modules behind the specifiers as they are written.
    pub(crate) imports: &'w HashMap<String, FileId>,
}

impl<'a, 'w> Symbols<'a, 'w> {
    pub(super) fn new(semantic: &'w Semantic<'a>, imports: &'w HashMap<String, FileId>) -> Self {
        Self { semantic, imports }
    }

    pub(crate) fn scoping(&self) -> &'w Scoping {
        self.semantic.scoping()
    }

    /// The symbol that a name in an expression or a type means, if it isn't a global.
    pub(crate) fn of(&self, name: &IdentifierReference<'_>) -> Option<SymbolId> {
        let reference = name.reference_id.get()?;
        self.scoping().get_reference(reference).symbol_id()
    }

    /// Whether the symbol is declared at the top of the module.
    pub(crate) fn is_top(&self, symbol: SymbolId) -> bool {
        let scoping = self.scoping();
        scoping.symbol_scope_id(symbol) == scoping.root_scope_id()
    }

    /// The node that declares a symbol.
    pub(crate) fn node(&self, symbol: SymbolId) -> &'w AstNode<'a> {
        self.semantic.symbol_declaration(symbol)
    }

    /// The kind of node that declares a symbol.
    pub(crate) fn declaration(&self, symbol: SymbolId) -> AstKind<'a> {
        self.node(symbol).kind()
    }

    /// The module and the name in it that an imported symbol means; `None` for the namespace.
    pub(crate) fn imported(&self, symbol: SymbolId) -> Option<(FileId, Option<String>)> {
        let node = self.node(symbol);
        let name = match node.kind() {
            AstKind::ImportSpecifier(it) => Some(it.imported.name().to_string()),
            AstKind::ImportDefaultSpecifier(_) => Some("default".to_owned()),
            AstKind::ImportNamespaceSpecifier(_) => None,
            _ => return None,
        };
        match self.semantic.nodes().parent_kind(node.id()) {
            AstKind::ImportDeclaration(import) => {
                let file = self.imports.get(import.source.value.as_str())?;
                Some((*file, name))
            }
            _ => None,
        }
    }
}
