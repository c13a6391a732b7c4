// SPDX-License-Identifier: Apache-2.0
//! What is written in a module: its tree, its comments, its text. What its names mean is
//! `symbols`'.

use oxc::ast::ast::Program;
use oxc::semantic::AstNodes;

use super::super::convert::Docs;
use crate::source::Span;

/// A module as it is written.
pub(crate) struct Tree<'a, 'w> {
    pub(crate) program: &'a Program<'a>,
    pub(crate) nodes: &'w AstNodes<'a>,
    pub(crate) docs: Docs<'a>,
}

impl<'a, 'w> Tree<'a, 'w> {
    pub(super) fn new(program: &'a Program<'a>, nodes: &'w AstNodes<'a>) -> Self {
        Self {
            program,
            nodes,
            docs: Docs::new(program),
        }
    }

    /// What is written from one byte to another.
    pub(crate) fn written(&self, at: oxc::span::Span) -> Option<&'a str> {
        let text = self.program.source_text;
        text.get(at.start as usize..at.end as usize)
    }

    /// The first thing after `offset` that isn't blank.
    pub(crate) fn after(&self, offset: u32) -> Span {
        let rest = self.program.source_text.get(offset as usize..);
        let blank = rest.map_or(0, |rest| rest.len() - rest.trim_start().len());
        let start = offset.saturating_add(u32::try_from(blank).unwrap_or_default());
        Span::new(start, start)
    }

    /// The line of a byte, from one.
    pub(crate) fn line_of(&self, offset: u32) -> usize {
        let before = self.program.source_text.get(..offset as usize);
        before
            .map_or(0, |it| it.matches('\n').count())
            .saturating_add(1)
    }
}
