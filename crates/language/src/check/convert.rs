// SPDX-License-Identifier: Apache-2.0
//! From a type as it is written to a [`Type`]. What has no place in the model becomes
//! [`Type::Any`], a member that can't be named makes its shape open. Called for the environment's
//! text and for annotations in modules, which differ in what a name means ([`Names`]).

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use oxc::ast::ast::*;
use oxc::span::GetSpan;

use super::types::{Field, FileId, Generic, Name, Param, Shape, Signature, Type};
use crate::source::Span;

/// What a name of a type means where it is written.
pub(crate) trait Names {
    /// The type of that name; `None` where there is none.
    fn type_named(&self, name: &IdentifierReference<'_>, arguments: Vec<Type>) -> Option<Type>;
    /// What `space.name` means, a type in a namespace or in a module imported as one.
    fn type_within(
        &self,
        space: &IdentifierReference<'_>,
        name: &str,
        arguments: Vec<Type>,
    ) -> Option<Type>;
    /// The type of the value `x` in `typeof x`.
    fn value_named(&self, name: &IdentifierReference<'_>) -> Option<Type>;
}

/// Turns the types of one file.
pub(crate) struct Converter<'c> {
    pub(crate) file: FileId,
    /// Where places are: the file, or the library's text.
    pub(crate) origin: FileId,
    pub(crate) names: &'c dyn Names,
    pub(crate) docs: &'c Docs<'c>,
    generics: RefCell<Vec<Arc<str>>>,
}

/// The documentation comments of a file by what they stand before.
pub(crate) struct Docs<'c> {
    text: &'c str,
    at: HashMap<u32, oxc::span::Span>,
}

impl<'c> Docs<'c> {
    pub(crate) fn new(program: &Program<'c>) -> Self {
        let comments = program.comments.iter().filter(|comment| comment.is_jsdoc());
        Self {
            text: program.source_text,
            at: comments
                .map(|comment| (comment.attached_to, comment.content_span()))
                .collect(),
        }
    }

    /// The text before what starts at `offset`, without the stars.
    pub(crate) fn before(&self, offset: u32) -> Option<Arc<str>> {
        let span = self.at.get(&offset)?;
        let text = self.text.get(span.start as usize..span.end as usize)?;
        let lines = text.trim_start_matches('*').lines();
        let lines: Vec<&str> = lines
            .map(|line| line.trim().trim_start_matches('*').trim())
            .collect();
        let text = lines.join("\n");
        Some(text.trim().into())
    }
}

pub(crate) fn span(span: oxc::span::Span) -> Span {
    Span::new(span.start, span.end)
}

impl<'c> Converter<'c> {
    pub(crate) fn new(file: FileId, names: &'c dyn Names, docs: &'c Docs<'c>) -> Self {
        Self {
            file,
            origin: file,
            names,
            docs,
            generics: RefCell::default(),
        }
    }

    /// Runs `within` with the parameters' names in scope.
    pub(crate) fn with_generics<T>(
        &self,
        declared: Option<&TSTypeParameterDeclaration<'_>>,
        within: impl FnOnce(Arc<[Generic]>) -> T,
    ) -> T {
        let before = self.generics.borrow().len();
        let params = declared.map(|declared| declared.params.as_slice());
        let params = params.unwrap_or_default();
        for param in params {
            let name = param.name.name.as_str().into();
            self.generics.borrow_mut().push(name);
        }
        let generics = params.iter().map(|param| Generic {
            name: param.name.name.as_str().into(),
            default: param.default.as_ref().map(|ty| self.ty(ty)),
            constrained: param.constraint.is_some(),
        });
        let generics: Arc<[Generic]> = generics.collect();
        let result = within(generics);
        self.generics.borrow_mut().truncate(before);
        result
    }

    pub(crate) fn annotation(&self, annotation: Option<&TSTypeAnnotation<'_>>) -> Type {
        annotation.map_or(Type::Any, |it| self.ty(&it.type_annotation))
    }

    pub(crate) fn ty(&self, ty: &TSType<'_>) -> Type {
        match ty {
            TSType::TSBigIntKeyword(_) => Type::BigInt,
            TSType::TSBooleanKeyword(_) => Type::Boolean,
            TSType::TSNeverKeyword(_) => Type::Never,
            TSType::TSNullKeyword(_) => Type::Null,
            TSType::TSNumberKeyword(_) => Type::Number,
            TSType::TSStringKeyword(_) => Type::String,
            TSType::TSSymbolKeyword(_) => Type::Symbol,
            TSType::TSUndefinedKeyword(_) | TSType::TSVoidKeyword(_) => Type::Undefined,
            TSType::TSTemplateLiteralType(_) => Type::Template,
            TSType::TSThisType(_) => Type::Param(THIS.into()),
            TSType::TSArrayType(array) => Type::Array(Arc::new(self.ty(&array.element_type))),
            TSType::TSParenthesizedType(inner) => self.ty(&inner.type_annotation),
            TSType::TSUnionType(union) => Type::union(union.types.iter().map(|ty| self.ty(ty))),
            TSType::TSLiteralType(literal) => self.literal(&literal.literal),
            TSType::TSTypeLiteral(literal) => self.members(&literal.members, Vec::new()),
            TSType::TSTupleType(tuple) => self.tuple(tuple),
            TSType::TSFunctionType(function) => self.function(function),
            TSType::TSConstructorType(constructor) => self.constructor(constructor),
            TSType::TSTypeReference(reference) => self.reference(reference),
            TSType::TSIntersectionType(types) => self.intersection(&types.types),
            TSType::TSTypeQuery(query) => match &query.expr_name {
                TSTypeQueryExprName::IdentifierReference(name) => {
                    self.names.value_named(name).unwrap_or_default()
                }
                _ => Type::Any,
            },
            TSType::TSTypeOperatorType(operator)
                if operator.operator == TSTypeOperatorOperator::Readonly =>
            {
                self.ty(&operator.type_annotation)
            }
            _ => Type::Any,
        }
    }

    fn literal(&self, literal: &TSLiteral<'_>) -> Type {
        match literal {
            TSLiteral::BooleanLiteral(it) => Type::BooleanLiteral(it.value),
            TSLiteral::NumericLiteral(it) => Type::NumberLiteral(it.value),
            TSLiteral::StringLiteral(it) => Type::StringLiteral(it.value.as_str().into()),
            TSLiteral::BigIntLiteral(_) => Type::BigInt,
            TSLiteral::UnaryExpression(_) | TSLiteral::TemplateLiteral(_) => Type::Any,
        }
    }

    /// A tuple of plain elements; with optional or rest elements it isn't followed.
    fn tuple(&self, tuple: &TSTupleType<'_>) -> Type {
        let elements = tuple.element_types.iter().map(|element| {
            let ty = element.as_ts_type()?;
            match ty {
                TSType::TSNamedTupleMember(member) if member.optional => None,
                TSType::TSNamedTupleMember(member) => {
                    member.element_type.as_ts_type().map(|ty| self.ty(ty))
                }
                ty => Some(self.ty(ty)),
            }
        });
        match elements.collect::<Option<Vec<Type>>>() {
            Some(elements) => Type::Tuple(elements.into()),
            None => Type::Any,
        }
    }

    fn intersection(&self, types: &[TSType<'_>]) -> Type {
        let types: Vec<Type> = types.iter().map(|ty| self.ty(ty)).collect();
        let objects = |ty: &Type| matches!(ty, Type::Object(_) | Type::Named(..));
        if !types.iter().all(objects) {
            return Type::Any;
        }
        Shape {
            extends: types,
            ..Shape::default()
        }
        .into_type()
    }

    fn reference(&self, reference: &TSTypeReference<'_>) -> Type {
        let arguments = reference.type_arguments.as_ref();
        let arguments = arguments.map(|list| list.params.iter().map(|ty| self.ty(ty)).collect());
        self.named(&reference.type_name, arguments.unwrap_or_default())
    }

    /// What a name with arguments means: a parameter in scope, the library's own, a declaration.
    pub(crate) fn named(&self, name: &TSTypeName<'_>, arguments: Vec<Type>) -> Type {
        let identifier = match name {
            TSTypeName::IdentifierReference(identifier) => identifier,
            TSTypeName::QualifiedName(qualified) => {
                let TSTypeName::IdentifierReference(space) = &qualified.left else {
                    return Type::Any;
                };
                let within = self
                    .names
                    .type_within(space, &qualified.right.name, arguments);
                return within.unwrap_or_default();
            }
            TSTypeName::ThisExpression(_) => return Type::Any,
        };
        let text = identifier.name.as_str();
        if self.generics.borrow().iter().any(|it| it.as_ref() == text) {
            return Type::Param(text.into());
        }
        let first = || arguments.first().cloned().unwrap_or_default();
        match text {
            "Array" | "ReadonlyArray" => Type::Array(Arc::new(first())),
            "Readonly" => first(),
            "NonNullable" => first().present(),
            "Awaited" => first().awaited(),
            "Record" => self.record(&arguments),
            _ => self
                .names
                .type_named(identifier, arguments)
                .unwrap_or_default(),
        }
    }

    fn record(&self, arguments: &[Type]) -> Type {
        match arguments {
            [Type::String, value] => Shape {
                index: Some(value.clone()),
                ..Shape::default()
            }
            .into_type(),
            _ => Type::Any,
        }
    }

    fn function(&self, function: &TSFunctionType<'_>) -> Type {
        let signature = self.signature(
            function.type_parameters.as_deref(),
            &function.params,
            Some(&function.return_type),
            None,
        );
        callable(signature)
    }

    fn constructor(&self, constructor: &TSConstructorType<'_>) -> Type {
        let signature = self.signature(
            constructor.type_parameters.as_deref(),
            &constructor.params,
            Some(&constructor.return_type),
            None,
        );
        Shape {
            constructs: vec![Arc::new(signature)],
            ..Shape::default()
        }
        .into_type()
    }

    /// A signature; what isn't annotated is any.
    pub(crate) fn signature(
        &self,
        generics: Option<&TSTypeParameterDeclaration<'_>>,
        params: &FormalParameters<'_>,
        returns: Option<&TSTypeAnnotation<'_>>,
        doc: Option<Arc<str>>,
    ) -> Signature {
        self.with_generics(generics, |generics| {
            let fixed = params.items.iter().map(|param| Param {
                name: pattern_name(&param.pattern),
                ty: self.annotation(param.type_annotation.as_deref()),
                optional: param.optional
                    || param.initializer.is_some()
                    || takes_nothing(param.type_annotation.as_deref()),
            });
            let mut all: Vec<Param> = fixed.collect();
            if let Some(rest) = &params.rest {
                all.push(Param {
                    name: pattern_name(&rest.rest.argument),
                    ty: self.annotation(rest.type_annotation.as_deref()),
                    optional: false,
                });
            }
            let predicate = returns.is_some_and(|returns| {
                matches!(returns.type_annotation, TSType::TSTypePredicate(_))
            });
            Signature {
                generics,
                params: all,
                rest: params.rest.is_some(),
                returns: match predicate {
                    true => Type::Boolean,
                    false => self.annotation(returns),
                },
                predicate,
                doc,
            }
        })
    }

    /// The shape of an interface or of a type literal.
    pub(crate) fn members(&self, members: &[TSSignature<'_>], extends: Vec<Type>) -> Type {
        let mut shape = Shape {
            extends,
            ..Shape::default()
        };
        for member in members {
            self.member(&mut shape, member);
        }
        shape.into_type()
    }

    fn member(&self, shape: &mut Shape, member: &TSSignature<'_>) {
        let doc = self.docs.before(member.span().start);
        match member {
            TSSignature::TSIndexSignature(index) => self.index(shape, index),
            TSSignature::TSPropertySignature(property) => {
                let ty = self.annotation(property.type_annotation.as_deref());
                self.add(shape, &property.key, ty, property.optional, doc);
            }
            TSSignature::TSMethodSignature(method) => {
                let signature = self.signature(
                    method.type_parameters.as_deref(),
                    &method.params,
                    method.return_type.as_deref(),
                    doc.clone(),
                );
                match method.kind {
                    TSMethodSignatureKind::Get => {
                        self.add(shape, &method.key, signature.returns, false, doc);
                    }
                    // What is written may be of another type than what is read.
                    TSMethodSignatureKind::Set => {
                        shape.open = true;
                        let name = method.key.static_name();
                        shape
                            .fields
                            .retain(|it| name.as_ref().is_none_or(|name| *name != *it.name));
                    }
                    TSMethodSignatureKind::Method => {
                        self.add_method(shape, &method.key, signature, method.optional, doc);
                    }
                }
            }
            TSSignature::TSCallSignatureDeclaration(call) => {
                let generics = call.type_parameters.as_deref();
                let returns = call.return_type.as_deref();
                let signature = self.signature(generics, &call.params, returns, doc);
                shape.calls.push(Arc::new(signature));
            }
            TSSignature::TSConstructSignatureDeclaration(construct) => {
                let generics = construct.type_parameters.as_deref();
                let returns = construct.return_type.as_deref();
                let signature = self.signature(generics, &construct.params, returns, doc);
                shape.constructs.push(Arc::new(signature));
            }
        }
    }

    /// What every name has; of those that only numbers or symbols have it isn't followed which.
    pub(crate) fn index(&self, shape: &mut Shape, index: &TSIndexSignature<'_>) {
        match &index.parameter.type_annotation.type_annotation {
            TSType::TSStringKeyword(_) => {
                shape.index = Some(self.ty(&index.type_annotation.type_annotation));
            }
            _ => shape.open = true,
        }
    }

    /// A field under a key; a key that isn't plain opens the shape.
    pub(crate) fn add(
        &self,
        shape: &mut Shape,
        key: &PropertyKey<'_>,
        ty: Type,
        optional: bool,
        doc: Option<Arc<str>>,
    ) {
        let Some(name) = key.static_name() else {
            // `[Symbol.asyncIterator]` and the like are never asked for by name.
            return;
        };
        shape.fields.push(Field {
            name: name.as_ref().into(),
            ty,
            optional,
            doc,
            at: span(key.span()),
            file: self.origin,
        });
    }

    /// A method: one more overload if there is one of that name.
    pub(crate) fn add_method(
        &self,
        shape: &mut Shape,
        key: &PropertyKey<'_>,
        signature: Signature,
        optional: bool,
        doc: Option<Arc<str>>,
    ) {
        let name = key.static_name();
        let known = name.and_then(|name| {
            let mut fields = shape.fields.iter_mut();
            fields.find(|field| field.name.as_ref() == name)
        });
        match known {
            Some(field) => {
                if let Type::Object(function) = &field.ty {
                    let mut overloaded = function.as_ref().clone();
                    overloaded.calls.push(Arc::new(signature));
                    field.ty = overloaded.into_type();
                }
            }
            None => self.add(shape, key, callable(signature), optional, doc),
        }
    }
}

/// The name under which `this` stands in the type of a member until it is read of something.
pub(crate) const THIS: &str = "this";

/// Whether `void` may be given, so that nothing need be.
fn takes_nothing(annotation: Option<&TSTypeAnnotation<'_>>) -> bool {
    let is_void = |ty: &TSType<'_>| matches!(ty, TSType::TSVoidKeyword(_));
    annotation.is_some_and(|it| match &it.type_annotation {
        TSType::TSUnionType(union) => union.types.iter().any(is_void),
        ty => is_void(ty),
    })
}

/// A value that can be called so.
pub(crate) fn callable(signature: Signature) -> Type {
    Shape {
        calls: vec![Arc::new(signature)],
        ..Shape::default()
    }
    .into_type()
}

/// The name of a parameter as a signature shows it.
pub(crate) fn pattern_name(pattern: &BindingPattern<'_>) -> Arc<str> {
    let name = pattern.get_identifier_name();
    name.map_or_else(|| "options".into(), |name| name.as_str().into())
}

/// The name of a declaration in the file `file`.
pub(crate) fn name_in(file: FileId, name: &str) -> Name {
    Name {
        file,
        name: name.into(),
    }
}
