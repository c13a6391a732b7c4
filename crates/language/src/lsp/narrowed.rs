// SPDX-License-Identifier: Apache-2.0
//! What the flow leaves of a union at a place, for completion: the conditions around it that test
//! it by `typeof`, `instanceof`, `in`, a literal member, or its being there. Where they tell
//! nothing it is all of the union. The checker's own judgement doesn't use it: there such a place
//! is any value.

use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::semantic::NodeId;
use oxc::span::GetSpan;
use oxc::syntax::operator::{BinaryOperator, LogicalOperator, UnaryOperator};

use crate::check::{Facts, Lookup, Type, declared_place};

/// The type that a place has at the node `here`, which is in it or is it.
pub(super) fn narrowed<'a>(
    module: &Facts<'a, '_>,
    place: &Expression<'a>,
    here: NodeId,
) -> Option<Type> {
    let (declared, _) = declared_place(module, place)?;
    let declared = module.world.resolve(&declared);
    let members = declared.members().iter().map(|ty| module.world.resolve(ty));
    let mut left = Left {
        module,
        place: text(module, place)?,
        members: members.flat_map(|ty| ty.members().to_vec()).collect(),
    };
    let nodes = module.tree.nodes;
    let mut below = nodes.kind(here).span();
    for kind in nodes.ancestor_kinds(here) {
        match kind {
            AstKind::Function(_) | AstKind::ArrowFunctionExpression(_) => break,
            AstKind::IfStatement(it) if it.consequent.span() == below => left.test(&it.test, true),
            AstKind::IfStatement(it) if it.test.span() != below => left.test(&it.test, false),
            AstKind::ConditionalExpression(it) if it.consequent.span() == below => {
                left.test(&it.test, true);
            }
            AstKind::ConditionalExpression(it) if it.alternate.span() == below => {
                left.test(&it.test, false);
            }
            AstKind::LogicalExpression(it) if it.right.span() == below => match it.operator {
                LogicalOperator::And => left.test(&it.left, true),
                LogicalOperator::Or => left.test(&it.left, false),
                LogicalOperator::Coalesce => {}
            },
            AstKind::SwitchStatement(it) => {
                let case = it.cases.iter().find(|case| case.span == below);
                if let Some(test) = case.and_then(|case| case.test.as_ref()) {
                    left.equal(&it.discriminant, test, true);
                }
            }
            _ => {}
        }
        below = kind.span();
    }
    Some(Type::union(left.members))
}

fn text<'a>(module: &Facts<'a, '_>, expression: &Expression<'a>) -> Option<&'a str> {
    let span = expression.get_inner_expression().span();
    let text = module.tree.program.source_text;
    text.get(span.start as usize..span.end as usize)
}

/// What is left of a place's union.
struct Left<'m, 'a, 'w> {
    module: &'m Facts<'a, 'w>,
    place: &'a str,
    members: Vec<Type>,
}

impl<'a> Left<'_, 'a, '_> {
    fn is_place(&self, expression: &Expression<'a>) -> bool {
        text(self.module, expression) == Some(self.place)
    }

    /// A condition that holds, or doesn't.
    fn test(&mut self, test: &Expression<'a>, holds: bool) {
        match test.get_inner_expression() {
            Expression::UnaryExpression(it) if it.operator == UnaryOperator::LogicalNot => {
                self.test(&it.argument, !holds);
            }
            Expression::LogicalExpression(it) => match (it.operator, holds) {
                (LogicalOperator::And, true) | (LogicalOperator::Or, false) => {
                    self.test(&it.left, holds);
                    self.test(&it.right, holds);
                }
                _ => {}
            },
            Expression::BinaryExpression(it) => self.binary(it, holds),
            place if holds && self.is_place(place) => {
                let nothing = |ty: &Type| matches!(ty, Type::Undefined | Type::Null);
                self.members.retain(|ty| !nothing(ty));
            }
            _ => {}
        }
    }

    fn binary(&mut self, it: &BinaryExpression<'a>, holds: bool) {
        match it.operator {
            BinaryOperator::StrictEquality | BinaryOperator::Equality => {
                self.equal(&it.left, &it.right, holds);
            }
            BinaryOperator::StrictInequality | BinaryOperator::Inequality => {
                self.equal(&it.left, &it.right, !holds);
            }
            BinaryOperator::Instanceof if self.is_place(&it.left) => {
                let declared = declared_place(self.module, &it.right);
                let Some((Type::ClassOf(class), _)) = declared else {
                    return;
                };
                let is_class = |ty: &Type| matches!(ty, Type::Named(name, _) if *name == class);
                self.members.retain(|ty| is_class(ty) == holds);
                if holds && self.members.is_empty() {
                    // One of a base is meant, or of an interface.
                    self.members.push(Type::Named(class, [].into()));
                }
            }
            BinaryOperator::In if self.is_place(&it.right) => {
                if let Expression::StringLiteral(name) = &it.left {
                    let world = self.module.world;
                    let has = |ty: &Type| !matches!(world.field(ty, &name.value), Lookup::Missing);
                    self.members.retain(|ty| has(ty) == holds);
                }
            }
            _ => {}
        }
    }

    fn equal(&mut self, left: &Expression<'a>, right: &Expression<'a>, holds: bool) {
        let (tested, value) = match right.get_inner_expression() {
            Expression::StringLiteral(value) => {
                (left, Type::StringLiteral(value.value.as_str().into()))
            }
            Expression::BooleanLiteral(value) => (left, Type::BooleanLiteral(value.value)),
            Expression::NumericLiteral(value) => (left, Type::NumberLiteral(value.value)),
            _ => return,
        };
        match tested.get_inner_expression() {
            Expression::UnaryExpression(it)
                if it.operator == UnaryOperator::Typeof && self.is_place(&it.argument) =>
            {
                if let Type::StringLiteral(name) = &value {
                    self.members.retain(|ty| (kind(ty) == &**name) == holds);
                }
            }
            Expression::StaticMemberExpression(it) if self.is_place(&it.object) => {
                let (module, name) = (self.module, it.property.name.as_str());
                self.members
                    .retain(|ty| match module.world.field(ty, name) {
                        Lookup::Found(field) => may_be(module, &field.ty, &value, holds),
                        _ => true,
                    });
            }
            _ => {}
        }
    }
}

/// Whether a member of that type may be the value, or may be another.
fn may_be(module: &Facts<'_, '_>, ty: &Type, value: &Type, holds: bool) -> bool {
    let ty = module.world.resolve(ty);
    let mut members = ty.members().iter();
    members.any(|member| match (member, value) {
        (Type::StringLiteral(a), Type::StringLiteral(b)) => (a == b) == holds,
        (Type::BooleanLiteral(a), Type::BooleanLiteral(b)) => (a == b) == holds,
        (Type::NumberLiteral(a), Type::NumberLiteral(b)) => (a == b) == holds,
        _ => true,
    })
}

/// What `typeof` says of it.
fn kind(ty: &Type) -> &'static str {
    match ty {
        Type::String | Type::StringLiteral(_) | Type::Template => "string",
        Type::Number | Type::NumberLiteral(_) => "number",
        Type::Boolean | Type::BooleanLiteral(_) => "boolean",
        Type::BigInt => "bigint",
        Type::Symbol => "symbol",
        Type::Undefined => "undefined",
        Type::ClassOf(_) => "function",
        Type::Object(shape) if !shape.calls.is_empty() => "function",
        _ => "object",
    }
}
