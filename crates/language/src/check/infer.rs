// SPDX-License-Identifier: Apache-2.0
//! The type of an expression, without saying anything about it. Lazy and remembered; what the
//! model doesn't follow is any.

use std::sync::Arc;

use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::span::GetSpan;
use oxc::syntax::operator::{AssignmentOperator, BinaryOperator, LogicalOperator, UnaryOperator};

use super::calls::{call_type, new_type};
use super::convert::{name_in, span};
use super::facts::Facts;
use super::meant::converter;
use super::narrow::{is_narrowed, is_narrowed_place, narrowed, path};
use super::symbols::{arrow_type, function_type, symbol_type};
use super::types::{Field, Shape, Type};
use super::world::Lookup;

/// The type of an expression where nothing particular is asked for.
pub(crate) fn infer<'a>(facts: &Facts<'a, '_>, expression: &Expression<'a>) -> Type {
    let key = expression.span();
    if let Some(known) = facts.memo.expression(key) {
        return known;
    }
    let ty = infer_expecting(facts, expression, None);
    // A chain and what it consists of lie at the same place.
    if !matches!(expression, Expression::ChainExpression(_)) {
        facts.memo.keep(key, &ty);
    }
    ty
}

/// The type where `wanted` is asked for: literals that it names stay literals.
pub(crate) fn infer_expecting<'a>(
    facts: &Facts<'a, '_>,
    expression: &Expression<'a>,
    wanted: Option<&Type>,
) -> Type {
    // What a call gives doesn't depend on where it stands, and costs a look at each overload.
    let is_call = matches!(
        expression,
        Expression::CallExpression(_) | Expression::NewExpression(_)
    );
    if is_call && wanted.is_some() {
        return infer(facts, expression);
    }
    facts.memo.nested(|| infer_now(facts, expression, wanted))
}

fn infer_now<'a>(
    facts: &Facts<'a, '_>,
    expression: &Expression<'a>,
    wanted: Option<&Type>,
) -> Type {
    if is_narrowed_place(facts, expression) {
        return Type::Any;
    }
    match expression {
        Expression::BooleanLiteral(it) => Type::BooleanLiteral(it.value),
        Expression::NullLiteral(_) => Type::Null,
        Expression::NumericLiteral(it) => Type::NumberLiteral(it.value),
        Expression::BigIntLiteral(_) => Type::BigInt,
        Expression::StringLiteral(it) => Type::StringLiteral(it.value.as_str().into()),
        Expression::TemplateLiteral(it) => match it.single_quasi() {
            Some(text) => Type::StringLiteral(text.as_str().into()),
            // Where literals are asked for, its texts are the literals that it may be.
            None if wanted.is_some() => Type::Template,
            None => Type::String,
        },
        Expression::Identifier(name) => identifier_type(facts, expression, name),
        Expression::ArrayExpression(array) => array_type(facts, array, wanted),
        Expression::ObjectExpression(object) => object_type(facts, object, wanted),
        Expression::ArrowFunctionExpression(arrow) => arrow_type(facts, arrow),
        Expression::FunctionExpression(function) => function_type(facts, function),
        Expression::ParenthesizedExpression(it) => infer_expecting(facts, &it.expression, wanted),
        Expression::AwaitExpression(it) => match wanted {
            Some(_) => facts
                .world
                .awaited(&infer_expecting(facts, &it.argument, wanted)),
            None => facts.world.awaited(&infer(facts, &it.argument)),
        },
        Expression::ConditionalExpression(it) => Type::union([
            infer_expecting(facts, &it.consequent, wanted),
            infer_expecting(facts, &it.alternate, wanted),
        ]),
        Expression::SequenceExpression(it) => {
            let last = it.expressions.last();
            last.map_or(Type::Any, |last| infer_expecting(facts, last, wanted))
        }
        Expression::CallExpression(call) => call_type(facts, call),
        Expression::NewExpression(new) => new_type(facts, new),
        Expression::ChainExpression(chain) => chain_type(facts, &chain.expression),
        Expression::StaticMemberExpression(member) => static_member_type(facts, member),
        Expression::ComputedMemberExpression(member) => computed_member_type(facts, member),
        Expression::AssignmentExpression(it) => match it.operator {
            AssignmentOperator::Assign => infer_expecting(facts, &it.right, wanted),
            _ => Type::Any,
        },
        Expression::LogicalExpression(it) => logical_type(facts, it, wanted),
        Expression::BinaryExpression(it) => binary_type(facts, it),
        Expression::UnaryExpression(it) => unary_type(facts, it),
        Expression::TSNonNullExpression(it) => infer(facts, &it.expression).asserted(),
        Expression::TSAsExpression(it) => cast_type(facts, &it.type_annotation, &it.expression),
        Expression::TSTypeAssertion(it) => cast_type(facts, &it.type_annotation, &it.expression),
        Expression::TSSatisfiesExpression(it) => {
            let wanted = converter(facts).ty(&it.type_annotation);
            infer_expecting(facts, &it.expression, Some(&wanted))
        }
        Expression::ThisExpression(this) => this_type(facts, this),
        _ => Type::Any,
    }
}

fn identifier_type<'a>(
    facts: &Facts<'a, '_>,
    expression: &Expression<'a>,
    name: &IdentifierReference<'a>,
) -> Type {
    let Some(symbol) = facts.symbols.of(name) else {
        let declared = &facts.world.environment.table.values;
        return match declared.get(name.name.as_str()) {
            Some(value) => value.ty.clone(),
            None => Type::Any,
        };
    };
    match path(facts, expression) {
        Some(path) if is_narrowed(facts, &path) => Type::Any,
        _ => symbol_type(facts, symbol),
    }
}

fn cast_type<'a>(
    facts: &Facts<'a, '_>,
    annotation: &TSType<'a>,
    expression: &Expression<'a>,
) -> Type {
    if let TSType::TSTypeReference(reference) = annotation
        && let TSTypeName::IdentifierReference(name) = &reference.type_name
        && name.name == "const"
    {
        return match expression {
            Expression::ObjectExpression(_) | Expression::ArrayExpression(_) => Type::Any,
            other => infer(facts, other),
        };
    }
    converter(facts).ty(annotation)
}

fn array_type<'a>(
    facts: &Facts<'a, '_>,
    array: &ArrayExpression<'a>,
    wanted: Option<&Type>,
) -> Type {
    let wanted = wanted.and_then(|ty| facts.world.element(&facts.world.resolve(ty).present()));
    let mut elements = Vec::new();
    for element in &array.elements {
        match element {
            ArrayExpressionElement::SpreadElement(spread) => {
                let spread = infer(facts, &spread.argument);
                elements.push(facts.world.element(&spread).unwrap_or_default());
            }
            ArrayExpressionElement::Elision(_) => return Type::Any,
            element => {
                let Some(expression) = element.as_expression() else {
                    return Type::Any;
                };
                elements.push(part_type(facts, expression, wanted.as_ref()));
            }
        }
    }
    match elements.is_empty() {
        // What is pushed into it later gives it its type.
        true => Type::Array(Arc::new(Type::Any)),
        false => Type::Array(Arc::new(Type::union(elements))),
    }
}

/// A part of an object or an array: a literal is kept only where one is asked for.
fn part_type<'a>(
    facts: &Facts<'a, '_>,
    expression: &Expression<'a>,
    wanted: Option<&Type>,
) -> Type {
    let ty = match wanted {
        Some(_) => infer_expecting(facts, expression, wanted),
        None => infer(facts, expression),
    };
    if matches!(expression, Expression::TSAsExpression(_)) {
        return ty;
    }
    let keeps = |ty: &Type| {
        matches!(
            facts.world.resolve(ty),
            Type::StringLiteral(_)
                | Type::NumberLiteral(_)
                | Type::BooleanLiteral(_)
                | Type::Template
                | Type::Any
                | Type::Param(_)
        )
    };
    match wanted {
        Some(wanted) if facts.world.resolve(wanted).members().iter().any(keeps) => ty,
        _ => ty.widened(),
    }
}

fn object_type<'a>(
    facts: &Facts<'a, '_>,
    object: &ObjectExpression<'a>,
    wanted: Option<&Type>,
) -> Type {
    let mut shape = Shape::default();
    for property in &object.properties {
        match property {
            ObjectPropertyKind::SpreadProperty(spread) => {
                let spread = infer(facts, &spread.argument);
                let (fields, open) = facts.world.fields(&spread.present());
                let indexed = facts.world.shape(&spread.present());
                let indexed = indexed.is_some_and(|shape| shape.index.is_some());
                shape.open |= open || indexed || matches!(spread, Type::Union(_));
                for field in fields {
                    put(&mut shape, field);
                }
            }
            ObjectPropertyKind::ObjectProperty(property) => {
                let Some(name) = property.key.static_name() else {
                    shape.open = true;
                    continue;
                };
                let wanted = wanted.and_then(|ty| wanted_field(facts, ty, &name));
                let ty = match property.kind {
                    PropertyKind::Init => part_type(facts, &property.value, wanted.as_ref()),
                    PropertyKind::Get | PropertyKind::Set => Type::Any,
                };
                let field = Field {
                    name: name.as_ref().into(),
                    ty,
                    optional: false,
                    doc: facts.tree.docs.before(property.span.start),
                    at: span(property.key.span()),
                    file: facts.file,
                };
                put(&mut shape, field);
            }
        }
    }
    shape.into_type()
}

fn wanted_field(facts: &Facts<'_, '_>, wanted: &Type, name: &str) -> Option<Type> {
    match facts
        .world
        .field(&facts.world.resolve(wanted).present(), name)
    {
        Lookup::Found(field) => Some(field.ty),
        Lookup::Unknown => Some(Type::Any),
        Lookup::Missing => None,
    }
}

fn chain_type<'a>(facts: &Facts<'a, '_>, element: &ChainElement<'a>) -> Type {
    let ty = match element {
        ChainElement::CallExpression(call) => call_type(facts, call),
        ChainElement::TSNonNullExpression(it) => return infer(facts, &it.expression).asserted(),
        ChainElement::StaticMemberExpression(member) => static_member_type(facts, member),
        ChainElement::ComputedMemberExpression(member) => computed_member_type(facts, member),
        ChainElement::PrivateFieldExpression(_) => Type::Any,
    };
    Type::union([ty, Type::Undefined])
}

fn static_member_type<'a>(facts: &Facts<'a, '_>, member: &StaticMemberExpression<'a>) -> Type {
    let narrowed = narrowed(facts);
    if !(narrowed.paths.is_empty() && narrowed.handed.is_empty())
        && let Some((symbol, mut names)) = path(facts, &member.object)
    {
        if !names.is_empty() {
            names.push('.');
        }
        names.push_str(&member.property.name);
        if is_narrowed(facts, &(symbol, names)) {
            return Type::Any;
        }
    }
    let object = infer(facts, &member.object).present();
    facts.world.member_type(&object, &member.property.name)
}

fn computed_member_type<'a>(facts: &Facts<'a, '_>, member: &ComputedMemberExpression<'a>) -> Type {
    let object = infer(facts, &member.object).present();
    match &member.expression {
        Expression::StringLiteral(name) => facts.world.member_type(&object, &name.value),
        index => match (facts.world.resolve(&object), infer(facts, index)) {
            (Type::Array(element), Type::Number | Type::NumberLiteral(_)) => {
                element.as_ref().clone()
            }
            (Type::Object(shape), Type::String | Type::Template) if shape.extends.is_empty() => {
                shape.index.clone().unwrap_or_default()
            }
            _ => Type::Any,
        },
    }
}

fn logical_type<'a>(
    facts: &Facts<'a, '_>,
    logical: &LogicalExpression<'a>,
    wanted: Option<&Type>,
) -> Type {
    let left = infer_expecting(facts, &logical.left, wanted);
    let right = || infer_expecting(facts, &logical.right, wanted);
    // An empty list in the place of one that may be absent adds nothing to its type.
    let is_empty =
        matches!(&logical.right, Expression::ArrayExpression(it) if it.elements.is_empty());
    match logical.operator {
        LogicalOperator::Coalesce | LogicalOperator::Or
            if is_empty && matches!(facts.world.resolve(&left.present()), Type::Array(_)) =>
        {
            left.present()
        }
        LogicalOperator::Coalesce | LogicalOperator::Or => Type::union([left.present(), right()]),
        LogicalOperator::And => Type::Any,
    }
}

fn binary_type<'a>(facts: &Facts<'a, '_>, binary: &BinaryExpression<'a>) -> Type {
    if binary.operator.is_equality()
        || binary.operator.is_compare()
        || binary.operator.is_relational()
    {
        return Type::Boolean;
    }
    let left = infer(facts, &binary.left).widened();
    let right = infer(facts, &binary.right).widened();
    let addition = binary.operator == BinaryOperator::Addition;
    match (facts.world.resolve(&left), facts.world.resolve(&right)) {
        (Type::String | Type::Template, _) | (_, Type::String | Type::Template) if addition => {
            Type::String
        }
        (Type::Number, Type::Number) => Type::Number,
        (Type::BigInt, Type::BigInt) => Type::BigInt,
        _ => Type::Any,
    }
}

fn unary_type<'a>(facts: &Facts<'a, '_>, unary: &UnaryExpression<'a>) -> Type {
    match unary.operator {
        UnaryOperator::LogicalNot | UnaryOperator::Delete => Type::Boolean,
        // One of eight names; which ones it may be here isn't followed.
        UnaryOperator::Typeof => Type::Template,
        UnaryOperator::Void => Type::Undefined,
        UnaryOperator::UnaryPlus => match infer(facts, &unary.argument) {
            Type::NumberLiteral(value) => Type::NumberLiteral(value),
            _ => Type::Number,
        },
        UnaryOperator::UnaryNegation => match infer(facts, &unary.argument) {
            Type::NumberLiteral(value) => Type::NumberLiteral(-value),
            Type::Number => Type::Number,
            Type::BigInt => Type::BigInt,
            _ => Type::Any,
        },
        UnaryOperator::BitwiseNot => Type::Any,
    }
}

/// The instance, within a method of a class at the module's top.
fn this_type(facts: &Facts<'_, '_>, this: &ThisExpression) -> Type {
    let nodes = facts.tree.nodes;
    let mut ancestors = nodes.ancestors(this.node_id.get());
    while let Some(node) = ancestors.next() {
        match node.kind() {
            AstKind::Function(function) => {
                // What it is declared to be, the flow may have narrowed.
                if function.this_param.is_some() {
                    return Type::Any;
                }
                let method = nodes.parent_kind(node.id());
                let AstKind::MethodDefinition(method) = method else {
                    return Type::Any;
                };
                if method.r#static {
                    return Type::Any;
                }
                let class = ancestors.find_map(|node| match node.kind() {
                    AstKind::Class(class) => Some(class),
                    _ => None,
                });
                return class.map_or(Type::Any, |class| instance_of(facts, class));
            }
            AstKind::PropertyDefinition(_) | AstKind::StaticBlock(_) => return Type::Any,
            _ => {}
        }
    }
    Type::Any
}

fn instance_of<'a>(facts: &Facts<'a, '_>, class: &Class<'a>) -> Type {
    let Some(id) = &class.id else {
        return Type::Any;
    };
    match id.symbol_id.get() {
        Some(symbol) if facts.symbols.is_top(symbol) && class.type_parameters.is_none() => {
            Type::Named(name_in(facts.file, &id.name), [].into())
        }
        _ => Type::Any,
    }
}

fn put(shape: &mut Shape, field: Field) {
    match shape.fields.iter_mut().find(|it| it.name == field.name) {
        Some(known) if field.optional => {
            known.ty = Type::union([known.ty.clone(), field.ty]);
        }
        Some(known) => *known = field,
        None => shape.fields.push(field),
    }
}
