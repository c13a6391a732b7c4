// SPDX-License-Identifier: Apache-2.0
//! `// aurae: protect`: the workloads below it are made with `protect: true`. Which those are is
//! `parse::pragma`'s to say. Works on the tree as it was written.

use std::collections::BTreeSet;

use oxc::allocator::{Allocator, TakeIn};
use oxc::ast::ast::{
    Argument, Expression, NewExpression, ObjectPropertyKind, Program, PropertyKey, PropertyKind,
};
use oxc::ast::builder::AstBuilder;
use oxc::ast_visit::{VisitMut, walk_mut};
use oxc::span::SPAN;

use crate::parse::pragma;
use crate::source::Source;

/// Adds `protect: true` to what the comments of `program` are about.
pub(super) fn protect<'a>(allocator: &'a Allocator, source: &Source, program: &mut Program<'a>) {
    let (begins, _) = pragma::protected(source, program);
    if begins.is_empty() {
        return;
    }
    let builder = AstBuilder::new(allocator);
    Protect { builder, begins }.visit_program(program);
}

struct Protect<'a> {
    builder: AstBuilder<'a>,
    begins: BTreeSet<u32>,
}

impl<'a> Protect<'a> {
    /// `{ ...data, protect: true }`.
    fn protected(&self, data: Expression<'a>) -> Expression<'a> {
        let spread = ObjectPropertyKind::new_spread_property(SPAN, data, &self.builder);
        let key = PropertyKey::new_static_identifier(SPAN, "protect", &self.builder);
        let yes = Expression::new_boolean_literal(SPAN, true, &self.builder);
        let kind = PropertyKind::Init;
        let property = ObjectPropertyKind::new_object_property(
            SPAN,
            kind,
            key,
            yes,
            false,
            false,
            false,
            &self.builder,
        );
        Expression::new_object_expression(SPAN, [spread, property], &self.builder)
    }
}

impl<'a> VisitMut<'a> for Protect<'a> {
    fn visit_new_expression(&mut self, it: &mut NewExpression<'a>) {
        walk_mut::walk_new_expression(self, it);
        let data = it.arguments.first_mut();
        let data = data.and_then(Argument::as_expression_mut);
        if let (true, Some(data)) = (self.begins.contains(&it.span.start), data) {
            let inner = data.take_in(&self.builder);
            *data = self.protected(inner);
        }
    }
}
