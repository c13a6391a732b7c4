// SPDX-License-Identifier: Apache-2.0
//! What is known of one module while it is looked at: what is written (`tree`), what its names mean
//! (`symbols`), what lies around it ([`World`]), and what has been found out so far (`memo`). Facts
//! decide nothing and infer nothing: the passes do, free functions that take them. Nothing is
//! inferred before a pass asks for it, so an editor pays for the expression under the cursor only.
//! Belong to one thread; what others see of a module is a [`Table`](super::table::Table).

mod memo;
mod symbols;
mod tree;

use std::collections::HashMap;

use oxc::ast::ast::Program;
use oxc::semantic::Semantic;

pub(crate) use memo::{Memo, Narrowed, Path};
pub(crate) use symbols::Symbols;
pub(crate) use tree::Tree;

use super::types::FileId;
use super::world::World;

/// What is known of a module.
pub(crate) struct Facts<'a, 'w> {
    pub(crate) file: FileId,
    pub(crate) tree: Tree<'a, 'w>,
    pub(crate) symbols: Symbols<'a, 'w>,
    pub(crate) world: &'w World,
    pub(crate) memo: Memo,
}

impl<'a, 'w> Facts<'a, 'w> {
    /// `imports` are the modules behind the specifiers as they are written.
    pub(crate) fn new(
        file: FileId,
        world: &'w World,
        program: &'a Program<'a>,
        semantic: &'w Semantic<'a>,
        imports: &'w HashMap<String, FileId>,
    ) -> Self {
        Self {
            file,
            tree: Tree::new(program, semantic.nodes()),
            symbols: Symbols::new(semantic, imports),
            world,
            memo: Memo::of(program.source_text),
        }
    }
}
