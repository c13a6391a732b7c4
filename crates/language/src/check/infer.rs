// SPDX-License-Identifier: Apache-2.0
//! The type of an expression, without saying anything about it. Lazy and remembered; what the
//! model doesn't follow is any.

use std::sync::Arc;

use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::span::GetSpan;
use oxc::syntax::operator::{AssignmentOperator, BinaryOperator, LogicalOperator, UnaryOperator};

use super::convert::{name_in, span};
use super::facts::Facts;
use super::narrow::{narrowed, path};
use super::types::{Field, Shape, Type};
use super::world::Lookup;

impl<'a> Facts<'a, '_> {
    /// The type of an expression where nothing particular is asked for.
    pub(crate) fn infer(&self, expression: &Expression<'a>) -> Type {
        let key = expression.span();
        if let Some(known) = self.memo.expression(key) {
            return known;
        }
        let ty = self.infer_expecting(expression, None);
        // A chain and what it consists of lie at the same place.
        if !matches!(expression, Expression::ChainExpression(_)) {
            self.memo.keep(key, &ty);
        }
        ty
    }

    /// The type where `wanted` is asked for: literals that it names stay literals.
    pub(crate) fn infer_expecting(
        &self,
        expression: &Expression<'a>,
        wanted: Option<&Type>,
    ) -> Type {
        // What a call gives doesn't depend on where it stands, and costs a look at each overload.
        let is_call = matches!(
            expression,
            Expression::CallExpression(_) | Expression::NewExpression(_)
        );
        if is_call && wanted.is_some() {
            return self.infer(expression);
        }
        self.memo.nested(|| self.infer_now(expression, wanted))
    }

    fn infer_now(&self, expression: &Expression<'a>, wanted: Option<&Type>) -> Type {
        if self.is_narrowed_place(expression) {
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
            Expression::Identifier(name) => self.identifier(expression, name),
            Expression::ArrayExpression(array) => self.array(array, wanted),
            Expression::ObjectExpression(object) => self.object(object, wanted),
            Expression::ArrowFunctionExpression(arrow) => self.arrow_type(arrow),
            Expression::FunctionExpression(function) => self.function_type(function),
            Expression::ParenthesizedExpression(it) => self.infer_expecting(&it.expression, wanted),
            Expression::AwaitExpression(it) => match wanted {
                Some(_) => self
                    .world
                    .awaited(&self.infer_expecting(&it.argument, wanted)),
                None => self.world.awaited(&self.infer(&it.argument)),
            },
            Expression::ConditionalExpression(it) => Type::union([
                self.infer_expecting(&it.consequent, wanted),
                self.infer_expecting(&it.alternate, wanted),
            ]),
            Expression::SequenceExpression(it) => {
                let last = it.expressions.last();
                last.map_or(Type::Any, |last| self.infer_expecting(last, wanted))
            }
            Expression::CallExpression(call) => self.call_type(call),
            Expression::NewExpression(new) => self.new_type(new),
            Expression::ChainExpression(chain) => self.chain(&chain.expression),
            Expression::StaticMemberExpression(member) => self.static_member(member),
            Expression::ComputedMemberExpression(member) => self.computed_member(member),
            Expression::AssignmentExpression(it) => match it.operator {
                AssignmentOperator::Assign => self.infer_expecting(&it.right, wanted),
                _ => Type::Any,
            },
            Expression::LogicalExpression(it) => self.logical(it, wanted),
            Expression::BinaryExpression(it) => self.binary(it),
            Expression::UnaryExpression(it) => self.unary(it),
            Expression::TSNonNullExpression(it) => self.infer(&it.expression).asserted(),
            Expression::TSAsExpression(it) => self.cast(&it.type_annotation, &it.expression),
            Expression::TSTypeAssertion(it) => self.cast(&it.type_annotation, &it.expression),
            Expression::TSSatisfiesExpression(it) => {
                let wanted = self.converter().ty(&it.type_annotation);
                self.infer_expecting(&it.expression, Some(&wanted))
            }
            Expression::ThisExpression(this) => self.this(this),
            _ => Type::Any,
        }
    }

    fn identifier(&self, expression: &Expression<'a>, name: &IdentifierReference<'a>) -> Type {
        let Some(symbol) = self.symbols.of(name) else {
            let declared = &self.world.environment.table.values;
            return match declared.get(name.name.as_str()) {
                Some(value) => value.ty.clone(),
                None => Type::Any,
            };
        };
        match path(self, expression) {
            Some(path) if self.is_narrowed(&path) => Type::Any,
            _ => self.symbol_type(symbol),
        }
    }

    fn cast(&self, annotation: &TSType<'a>, expression: &Expression<'a>) -> Type {
        if let TSType::TSTypeReference(reference) = annotation
            && let TSTypeName::IdentifierReference(name) = &reference.type_name
            && name.name == "const"
        {
            return match expression {
                Expression::ObjectExpression(_) | Expression::ArrayExpression(_) => Type::Any,
                other => self.infer(other),
            };
        }
        self.converter().ty(annotation)
    }

    fn array(&self, array: &ArrayExpression<'a>, wanted: Option<&Type>) -> Type {
        let wanted = wanted.and_then(|ty| self.world.element(&self.world.resolve(ty).present()));
        let mut elements = Vec::new();
        for element in &array.elements {
            match element {
                ArrayExpressionElement::SpreadElement(spread) => {
                    let spread = self.infer(&spread.argument);
                    elements.push(self.world.element(&spread).unwrap_or_default());
                }
                ArrayExpressionElement::Elision(_) => return Type::Any,
                element => {
                    let Some(expression) = element.as_expression() else {
                        return Type::Any;
                    };
                    elements.push(self.part(expression, wanted.as_ref()));
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
    fn part(&self, expression: &Expression<'a>, wanted: Option<&Type>) -> Type {
        let ty = match wanted {
            Some(_) => self.infer_expecting(expression, wanted),
            None => self.infer(expression),
        };
        if matches!(expression, Expression::TSAsExpression(_)) {
            return ty;
        }
        let keeps = |ty: &Type| {
            matches!(
                self.world.resolve(ty),
                Type::StringLiteral(_)
                    | Type::NumberLiteral(_)
                    | Type::BooleanLiteral(_)
                    | Type::Template
                    | Type::Any
                    | Type::Param(_)
            )
        };
        match wanted {
            Some(wanted) if self.world.resolve(wanted).members().iter().any(keeps) => ty,
            _ => ty.widened(),
        }
    }

    fn object(&self, object: &ObjectExpression<'a>, wanted: Option<&Type>) -> Type {
        let mut shape = Shape::default();
        for property in &object.properties {
            match property {
                ObjectPropertyKind::SpreadProperty(spread) => {
                    let spread = self.infer(&spread.argument);
                    let (fields, open) = self.world.fields(&spread.present());
                    let indexed = self.world.shape(&spread.present());
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
                    let wanted = wanted.and_then(|ty| self.wanted_field(ty, &name));
                    let ty = match property.kind {
                        PropertyKind::Init => self.part(&property.value, wanted.as_ref()),
                        PropertyKind::Get | PropertyKind::Set => Type::Any,
                    };
                    let field = Field {
                        name: name.as_ref().into(),
                        ty,
                        optional: false,
                        doc: self.tree.docs.before(property.span.start),
                        at: span(property.key.span()),
                        file: self.file,
                    };
                    put(&mut shape, field);
                }
            }
        }
        shape.into_type()
    }

    fn wanted_field(&self, wanted: &Type, name: &str) -> Option<Type> {
        match self
            .world
            .field(&self.world.resolve(wanted).present(), name)
        {
            Lookup::Found(field) => Some(field.ty),
            Lookup::Unknown => Some(Type::Any),
            Lookup::Missing => None,
        }
    }

    fn chain(&self, element: &ChainElement<'a>) -> Type {
        let ty = match element {
            ChainElement::CallExpression(call) => self.call_type(call),
            ChainElement::TSNonNullExpression(it) => return self.infer(&it.expression).asserted(),
            ChainElement::StaticMemberExpression(member) => self.static_member(member),
            ChainElement::ComputedMemberExpression(member) => self.computed_member(member),
            ChainElement::PrivateFieldExpression(_) => Type::Any,
        };
        Type::union([ty, Type::Undefined])
    }

    fn static_member(&self, member: &StaticMemberExpression<'a>) -> Type {
        let narrowed = narrowed(self);
        if !(narrowed.paths.is_empty() && narrowed.handed.is_empty())
            && let Some((symbol, mut names)) = path(self, &member.object)
        {
            if !names.is_empty() {
                names.push('.');
            }
            names.push_str(&member.property.name);
            if self.is_narrowed(&(symbol, names)) {
                return Type::Any;
            }
        }
        let object = self.infer(&member.object).present();
        self.world.member_type(&object, &member.property.name)
    }

    fn computed_member(&self, member: &ComputedMemberExpression<'a>) -> Type {
        let object = self.infer(&member.object).present();
        match &member.expression {
            Expression::StringLiteral(name) => self.world.member_type(&object, &name.value),
            index => match (self.world.resolve(&object), self.infer(index)) {
                (Type::Array(element), Type::Number | Type::NumberLiteral(_)) => {
                    element.as_ref().clone()
                }
                (Type::Object(shape), Type::String | Type::Template)
                    if shape.extends.is_empty() =>
                {
                    shape.index.clone().unwrap_or_default()
                }
                _ => Type::Any,
            },
        }
    }

    fn logical(&self, logical: &LogicalExpression<'a>, wanted: Option<&Type>) -> Type {
        let left = self.infer_expecting(&logical.left, wanted);
        let right = || self.infer_expecting(&logical.right, wanted);
        match logical.operator {
            LogicalOperator::Coalesce | LogicalOperator::Or => {
                Type::union([left.present(), right()])
            }
            LogicalOperator::And => Type::Any,
        }
    }

    fn binary(&self, binary: &BinaryExpression<'a>) -> Type {
        if binary.operator.is_equality()
            || binary.operator.is_compare()
            || binary.operator.is_relational()
        {
            return Type::Boolean;
        }
        let left = self.infer(&binary.left).widened();
        let right = self.infer(&binary.right).widened();
        let addition = binary.operator == BinaryOperator::Addition;
        match (self.world.resolve(&left), self.world.resolve(&right)) {
            (Type::String | Type::Template, _) | (_, Type::String | Type::Template) if addition => {
                Type::String
            }
            (Type::Number, Type::Number) => Type::Number,
            (Type::BigInt, Type::BigInt) => Type::BigInt,
            _ => Type::Any,
        }
    }

    fn unary(&self, unary: &UnaryExpression<'a>) -> Type {
        match unary.operator {
            UnaryOperator::LogicalNot | UnaryOperator::Delete => Type::Boolean,
            // One of eight names; which ones it may be here isn't followed.
            UnaryOperator::Typeof => Type::Template,
            UnaryOperator::Void => Type::Undefined,
            UnaryOperator::UnaryPlus => match self.infer(&unary.argument) {
                Type::NumberLiteral(value) => Type::NumberLiteral(value),
                _ => Type::Number,
            },
            UnaryOperator::UnaryNegation => match self.infer(&unary.argument) {
                Type::NumberLiteral(value) => Type::NumberLiteral(-value),
                Type::Number => Type::Number,
                Type::BigInt => Type::BigInt,
                _ => Type::Any,
            },
            UnaryOperator::BitwiseNot => Type::Any,
        }
    }

    /// The instance, within a method of a class at the module's top.
    fn this(&self, this: &ThisExpression) -> Type {
        let nodes = self.tree.nodes;
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
                    return class.map_or(Type::Any, |class| self.instance_of(class));
                }
                AstKind::PropertyDefinition(_) | AstKind::StaticBlock(_) => return Type::Any,
                _ => {}
            }
        }
        Type::Any
    }

    fn instance_of(&self, class: &Class<'a>) -> Type {
        let Some(id) = &class.id else {
            return Type::Any;
        };
        match id.symbol_id.get() {
            Some(symbol) if self.symbols.is_top(symbol) && class.type_parameters.is_none() => {
                Type::Named(name_in(self.file, &id.name), [].into())
            }
            _ => Type::Any,
        }
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
