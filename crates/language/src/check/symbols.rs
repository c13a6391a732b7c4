// SPDX-License-Identifier: Apache-2.0
//! The types of variables, parameters and functions: from the annotation, or from what they are
//! made of. A symbol that needs itself is any.

use std::sync::Arc;

use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::ast_visit::Visit;
use oxc::semantic::{NodeId, ScopeFlags, SymbolId};
use oxc::span::GetSpan;

use super::assign::Verdict;
use super::calls::parameter_of_call;
use super::convert::{callable, name_in, span};
use super::exports::namespace;
use super::facts::Facts;
use super::infer::infer;
use super::meant::converter;
use super::narrow::is_narrowed_name;
use super::told::has_expandos;
use super::types::{Field, Shape, Signature, Type};

/// The type of a symbol as it is declared.
pub(crate) fn symbol_type(facts: &Facts<'_, '_>, symbol: SymbolId) -> Type {
    let declared = || declared_type(facts, symbol);
    facts.memo.symbol(symbol, declared)
}

fn declared_type(facts: &Facts<'_, '_>, symbol: SymbolId) -> Type {
    let scoping = facts.symbols.scoping();
    if !scoping.symbol_redeclarations(symbol).is_empty() {
        return Type::Any;
    }
    if has_expandos(facts, symbol) {
        return Type::Any;
    }
    let node = facts.symbols.node(symbol);
    match node.kind() {
        AstKind::VariableDeclarator(variable) => variable_type(facts, symbol, variable, node.id()),
        AstKind::FormalParameter(param) => parameter_type(facts, symbol, param, node.id()),
        AstKind::FormalParameterRest(rest) => match &rest.rest.argument {
            BindingPattern::BindingIdentifier(_) => {
                converter(facts).annotation(rest.type_annotation.as_deref())
            }
            _ => Type::Any,
        },
        AstKind::Function(function) => function_type(facts, function),
        AstKind::Class(class) => match &class.id {
            Some(id) if facts.symbols.is_top(symbol) => {
                Type::ClassOf(name_in(facts.file, &id.name))
            }
            _ => Type::Any,
        },
        AstKind::TSEnumDeclaration(it) => enum_type(facts, it),
        AstKind::ImportSpecifier(_)
        | AstKind::ImportDefaultSpecifier(_)
        | AstKind::ImportNamespaceSpecifier(_) => import_type(facts, symbol),
        _ => Type::Any,
    }
}

/// An enum by its members, for those who ask what it has; of their values nothing is said.
fn enum_type<'a>(facts: &Facts<'a, '_>, it: &TSEnumDeclaration<'a>) -> Type {
    let fields = it.body.members.iter().map(|member| Field {
        name: member.id.static_name().as_str().into(),
        ty: Type::Any,
        optional: false,
        doc: facts.tree.docs.before(member.span.start),
        at: span(member.id.span()),
        file: facts.file,
    });
    let shape = Shape {
        fields: fields.collect(),
        open: true,
        ..Shape::default()
    };
    shape.into_type()
}

fn import_type(facts: &Facts<'_, '_>, symbol: SymbolId) -> Type {
    let Some((file, name)) = facts.symbols.imported(symbol) else {
        return Type::Any;
    };
    let Some(exports) = facts.world.exports(file) else {
        return Type::Any;
    };
    match name {
        Some(name) => match exports.values.get(name.as_str()) {
            Some(value) => value.ty.clone(),
            None => Type::Any,
        },
        None => namespace(exports),
    }
}

fn variable_type<'a>(
    facts: &Facts<'a, '_>,
    symbol: SymbolId,
    variable: &'a VariableDeclarator<'a>,
    node: NodeId,
) -> Type {
    let nodes = facts.tree.nodes;
    let declaration = nodes.parent_node(node);
    let AstKind::VariableDeclaration(list) = declaration.kind() else {
        return Type::Any;
    };
    if let Some(annotation) = &variable.type_annotation {
        let ty = converter(facts).ty(&annotation.type_annotation);
        return bound_type(facts, &variable.id, ty, symbol).unwrap_or_default();
    }
    let ty = match &variable.init {
        Some(init) => {
            let ty = infer(facts, init);
            match (list.kind.is_const(), init) {
                (true, _) => ty,
                // It becomes what is put into it later.
                (false, Expression::NullLiteral(_)) => Type::Any,
                (false, _) if matches!(ty, Type::Undefined | Type::Null) => Type::Any,
                (false, _) if is_fresh(facts, init) => ty.widened(),
                // A literal that was declared to be one stays one.
                (false, _) if ty.members().iter().any(Type::is_literal) => Type::Any,
                (false, _) => ty,
            }
        }
        None => match nodes.parent_kind(declaration.id()) {
            AstKind::ForOfStatement(of) if of.left.span() == list.span => each_of(facts, of),
            _ => Type::Any,
        },
    };
    bound_type(facts, &variable.id, ty, symbol).unwrap_or_default()
}

/// Whether the literals that an expression gives are written in it, and not those of a type.
fn is_fresh<'a>(facts: &Facts<'a, '_>, expression: &Expression<'a>) -> bool {
    match expression.without_parentheses() {
        Expression::ConditionalExpression(it) => {
            is_fresh(facts, &it.consequent) && is_fresh(facts, &it.alternate)
        }
        Expression::LogicalExpression(it) => {
            is_fresh(facts, &it.left) && is_fresh(facts, &it.right)
        }
        Expression::Identifier(name) => {
            match facts
                .symbols
                .of(name)
                .map(|it| facts.symbols.declaration(it))
            {
                Some(AstKind::VariableDeclarator(it)) if it.type_annotation.is_none() => {
                    it.init.as_ref().is_some_and(|init| init.is_literal())
                }
                _ => false,
            }
        }
        Expression::TemplateLiteral(_) | Expression::UnaryExpression(_) => true,
        it => it.is_literal(),
    }
}

/// What `for (… of …)` gives.
fn each_of<'a>(facts: &Facts<'a, '_>, of: &'a ForOfStatement<'a>) -> Type {
    let ty = infer(facts, &of.right);
    if of.r#await {
        let streamed = facts.world.streamed(&ty);
        return streamed
            .or_else(|| facts.world.element(&ty))
            .unwrap_or_default();
    }
    facts.world.element(&ty).unwrap_or_default()
}

/// The type that a symbol has in a pattern to which `ty` is bound.
fn bound_type<'a>(
    facts: &Facts<'a, '_>,
    pattern: &'a BindingPattern<'a>,
    ty: Type,
    symbol: SymbolId,
) -> Option<Type> {
    match pattern {
        BindingPattern::BindingIdentifier(name) => {
            (name.symbol_id.get() == Some(symbol)).then_some(ty)
        }
        BindingPattern::ObjectPattern(object) => object.properties.iter().find_map(|property| {
            let member = match property.key.static_name() {
                Some(name) if !is_narrowed_name(facts, &name) => {
                    facts.world.member_type(&ty.present(), &name)
                }
                _ => Type::Any,
            };
            bound_type(facts, &property.value, member, symbol)
        }),
        BindingPattern::ArrayPattern(array) => {
            array
                .elements
                .iter()
                .enumerate()
                .find_map(|(index, element)| {
                    let part = match facts.world.resolve(&ty) {
                        Type::Tuple(parts) => parts.get(index).cloned(),
                        _ => facts.world.element(&ty),
                    };
                    bound_type(facts, element.as_ref()?, part.unwrap_or_default(), symbol)
                })
        }
        BindingPattern::AssignmentPattern(with_default) => {
            let default = infer(facts, &with_default.right);
            let present = ty.present();
            let ty = match facts.world.assignable(&default, &present) {
                Verdict::Yes => present,
                _ => Type::Any,
            };
            bound_type(facts, &with_default.left, ty, symbol)
        }
    }
}

fn parameter_type<'a>(
    facts: &Facts<'a, '_>,
    symbol: SymbolId,
    param: &'a FormalParameter<'a>,
    node: NodeId,
) -> Type {
    let ty = match (&param.type_annotation, &param.initializer) {
        (Some(annotation), initializer) => {
            let ty = converter(facts).ty(&annotation.type_annotation);
            match initializer.is_none() && param.optional {
                true => Type::union([ty, Type::Undefined]),
                false => ty,
            }
        }
        // What is asked for where it stands may say more than `= {}`.
        (None, Some(_)) if is_contextual(facts, node) => Type::Any,
        (None, Some(initializer)) => match infer(facts, initializer) {
            Type::Undefined | Type::Null => Type::Any,
            Type::Array(element) if element.is_any() => Type::Any,
            ty => ty.widened(),
        },
        (None, None) => contextual_parameter(facts, param, node).unwrap_or_default(),
    };
    bound_type(facts, &param.pattern, ty, symbol).unwrap_or_default()
}

/// Whether a parameter's function stands where its type is asked for.
fn is_contextual(facts: &Facts<'_, '_>, node: NodeId) -> bool {
    let nodes = facts.tree.nodes;
    let mut ancestors = nodes.ancestors(node).filter(|node| {
        !matches!(
            node.kind(),
            AstKind::FormalParameters(_) | AstKind::ParenthesizedExpression(_)
        )
    });
    let is_expression = ancestors.next().is_some_and(|node| match node.kind() {
        AstKind::ArrowFunctionExpression(_) => true,
        AstKind::Function(function) => function.is_expression(),
        _ => false,
    });
    let around = ancestors.next().map(|node| node.kind());
    is_expression
        && match around {
            Some(AstKind::VariableDeclarator(variable)) => variable.type_annotation.is_some(),
            Some(AstKind::MethodDefinition(_)) => false,
            _ => true,
        }
}

/// What the function that is called passes to a callback's parameter.
fn contextual_parameter<'a>(
    facts: &Facts<'a, '_>,
    param: &FormalParameter<'a>,
    node: NodeId,
) -> Option<Type> {
    let nodes = facts.tree.nodes;
    let mut ancestors = nodes.ancestors(node).filter(|node| {
        !matches!(
            node.kind(),
            AstKind::FormalParameters(_) | AstKind::ParenthesizedExpression(_)
        )
    });
    let function = ancestors.next()?;
    let (params, at) = match function.kind() {
        AstKind::ArrowFunctionExpression(arrow) => (&arrow.params, arrow.span),
        AstKind::Function(function) if function.is_expression() => {
            (&function.params, function.span)
        }
        _ => return None,
    };
    let index = params.items.iter().position(|it| it.span == param.span)?;
    let AstKind::CallExpression(call) = ancestors.next()?.kind() else {
        return None;
    };
    let argument = call.arguments.iter().position(|it| it.span() == at)?;
    let wanted = parameter_of_call(facts, call, argument)?;
    match facts.world.expand(&wanted.present()) {
        Type::Object(shape) => match shape.calls.as_slice() {
            [signature] => Some(signature.param(index).unwrap_or(Type::Any)),
            _ => None,
        },
        _ => None,
    }
}

/// The type of a function declaration or expression.
pub(crate) fn function_type<'a>(facts: &Facts<'a, '_>, function: &Function<'a>) -> Type {
    let mut signature = converter(facts).signature(
        function.type_parameters.as_deref(),
        &function.params,
        function.return_type.as_deref(),
        facts.tree.docs.before(function.span.start),
    );
    if function.return_type.is_none() {
        signature.returns = match &function.body {
            Some(body) if !function.generator => {
                body_type(facts, &body.statements, function.r#async)
            }
            _ => Type::Any,
        };
    }
    fill_parameters(facts, &function.params, &mut signature);
    callable(signature)
}

pub(crate) fn arrow_type<'a>(facts: &Facts<'a, '_>, arrow: &ArrowFunctionExpression<'a>) -> Type {
    let mut signature = converter(facts).signature(
        arrow.type_parameters.as_deref(),
        &arrow.params,
        arrow.return_type.as_deref(),
        None,
    );
    if arrow.return_type.is_none() {
        signature.returns = match &arrow.body {
            ArrowFunctionBody::FunctionBody(body) => {
                body_type(facts, &body.statements, arrow.r#async)
            }
            body => match body.as_expression() {
                Some(expression) => {
                    asynchronous(returned_type(infer(facts, expression)), arrow.r#async)
                }
                None => Type::Any,
            },
        };
    }
    fill_parameters(facts, &arrow.params, &mut signature);
    callable(signature)
}

/// Parameters without annotation have the type of their default; what a pattern takes apart may
/// have more than that.
fn fill_parameters<'a>(
    facts: &Facts<'a, '_>,
    params: &FormalParameters<'a>,
    signature: &mut Signature,
) {
    for (param, known) in params.items.iter().zip(&mut signature.params) {
        if param.type_annotation.is_none()
            && let Some(initializer) = &param.initializer
        {
            known.ty = match infer(facts, initializer) {
                _ if !param.pattern.is_binding_identifier() => Type::Any,
                Type::Undefined | Type::Null => Type::Any,
                ty => ty.widened(),
            };
        }
    }
}

/// What a body returns: certain only where its end isn't reached beside a `return`.
fn body_type<'a>(facts: &Facts<'a, '_>, body: &[Statement<'a>], is_async: bool) -> Type {
    let mut found = Returns::default();
    for statement in body {
        found.visit_statement(statement);
    }
    if found.open {
        return asynchronous(Type::Any, is_async);
    }
    let ends = matches!(
        body.last(),
        Some(Statement::ReturnStatement(_) | Statement::ThrowStatement(_))
    );
    let ty = match (found.values.as_slice(), ends) {
        ([], false) => match body.last() {
            Some(Statement::WhileStatement(_) | Statement::ForStatement(_)) => Type::Any,
            _ => Type::Undefined,
        },
        ([], true) if !matches!(body.last(), Some(Statement::ThrowStatement(_))) => Type::Undefined,
        ([one], true) => returned_type(facts.world.awaited(&infer(facts, one))),
        (values, true) => {
            let values = values
                .iter()
                .map(|value| facts.world.awaited(&infer(facts, value)));
            let ty = Type::union(values);
            match ty {
                // Several object literals are brought to one form, which isn't followed.
                Type::Union(ref members)
                    if members.iter().any(|ty| matches!(ty, Type::Object(_))) =>
                {
                    Type::Any
                }
                ty => returned_type(ty),
            }
        }
        _ => Type::Any,
    };
    let promised = found.values.iter().any(|value| {
        let ty = infer(facts, value);
        !is_async && ty.argument_of(&["Promise"]).is_some()
    });
    match (promised, found.values.as_slice(), ends) {
        (true, [one], true) => infer(facts, one),
        (true, ..) => Type::Any,
        _ => asynchronous(ty, is_async),
    }
}

/// The type of a function by what it returns: one literal alone is widened.
fn returned_type(ty: Type) -> Type {
    match ty {
        Type::Union(_) => ty,
        one => one.widened(),
    }
}

fn asynchronous(ty: Type, is_async: bool) -> Type {
    match is_async {
        true => Type::global("Promise", Arc::from([ty.awaited()])),
        false => ty,
    }
}

/// The values that the `return`s of one body give.
#[derive(Default)]
struct Returns<'a> {
    values: Vec<&'a Expression<'a>>,
    /// A `return` without a value is among them.
    open: bool,
}

impl<'a> Visit<'a> for Returns<'a> {
    fn enter_node(&mut self, kind: AstKind<'a>) {
        if let AstKind::ReturnStatement(statement) = kind {
            match &statement.argument {
                Some(value) => self.values.push(value),
                None => self.open = true,
            }
        }
    }

    // Their returns are their own.
    fn visit_function(&mut self, _: &Function<'a>, _: ScopeFlags) {}
    fn visit_arrow_function_expression(&mut self, _: &ArrowFunctionExpression<'a>) {}
    fn visit_class(&mut self, _: &Class<'a>) {}
}
