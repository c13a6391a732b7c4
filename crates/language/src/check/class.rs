// SPDX-License-Identifier: Apache-2.0
//! A class as a declared type: the members of its instances, and of itself. Other declarations are
//! `table`'s.

use std::sync::Arc;

use oxc::ast::ast::*;
use oxc::span::GetSpan;

use super::convert::{Converter, pattern_name, span};
use super::table::TypeDeclaration;
use super::types::{Field, Shape, Type, same};
use crate::source::Span;

/// A class as it is declared: its instance and itself.
pub(crate) fn class_declaration(
    converter: &Converter<'_>,
    class: &Class<'_>,
    doc: Option<Arc<str>>,
) -> TypeDeclaration {
    let generics = class.type_parameters.as_deref();
    converter.with_generics(generics, |generics| {
        let mut instance = Shape::default();
        let mut itself = Shape::default();
        if let Some(heritage) = &class.heritage {
            extend(converter, heritage, &mut instance, &mut itself);
        }
        for element in &class.body.body {
            class_element(converter, element, &mut instance, &mut itself);
        }
        TypeDeclaration {
            generics,
            body: instance.into_type(),
            class: Some(itself.into_type()),
            doc,
            at: class
                .id
                .as_ref()
                .map_or_else(Span::default, |id| span(id.span)),
            file: converter.origin,
        }
    })
}

fn extend(
    converter: &Converter<'_>,
    heritage: &ClassHeritage<'_>,
    instance: &mut Shape,
    itself: &mut Shape,
) {
    let Expression::Identifier(base) = &heritage.expression else {
        instance.open = true;
        itself.open = true;
        return;
    };
    let arguments = heritage.type_arguments.as_ref();
    let arguments = arguments.map(|list| list.params.iter().map(|ty| converter.ty(ty)).collect());
    let named = converter
        .names
        .type_named(base, arguments.unwrap_or_default());
    match named {
        Some(Type::Named(name, arguments)) => {
            itself.extends.push(Type::ClassOf(name.clone()));
            instance.extends.push(Type::Named(name, arguments));
        }
        _ => {
            instance.open = true;
            itself.open = true;
        }
    }
}

fn class_element(
    converter: &Converter<'_>,
    element: &ClassElement<'_>,
    instance: &mut Shape,
    itself: &mut Shape,
) {
    let doc = converter.docs.before(element.span().start);
    match element {
        ClassElement::MethodDefinition(method) => {
            let function = &method.value;
            let signature = converter.signature(
                function.type_parameters.as_deref(),
                &function.params,
                function.return_type.as_deref(),
                doc.clone(),
            );
            if method.kind == MethodDefinitionKind::Constructor {
                parameter_fields(converter, function, instance);
                itself.constructs.push(Arc::new(signature));
                return;
            }
            let target = if method.r#static { itself } else { instance };
            match method.kind {
                // Its setter, before it, may take another type.
                MethodDefinitionKind::Get
                    if method
                        .key
                        .static_name()
                        .is_some_and(|name| target.field(&name).is_some()) => {}
                MethodDefinitionKind::Get => {
                    converter.add(target, &method.key, signature.returns, false, doc);
                }
                MethodDefinitionKind::Set => {
                    let name = method.key.static_name();
                    let mut fields = target.fields.iter_mut();
                    let known =
                        fields.find(|it| name.as_ref().is_some_and(|name| *name == *it.name));
                    let taken = signature.params.first().map(|param| &param.ty);
                    match known {
                        // What is written may be of another type than what is read.
                        Some(known) if !taken.is_some_and(|ty| same(ty, &known.ty)) => {
                            known.ty = Type::Any;
                        }
                        Some(_) => {}
                        None => converter.add(target, &method.key, Type::Any, false, doc),
                    }
                }
                MethodDefinitionKind::Constructor | MethodDefinitionKind::Method => {
                    target.nominal |= method.accessibility.is_some_and(hidden);
                    converter.add_method(target, &method.key, signature, method.optional, doc);
                }
            }
        }
        ClassElement::PropertyDefinition(property) => {
            let target = if property.r#static { itself } else { instance };
            let ty = converter.annotation(property.type_annotation.as_deref());
            target.nominal |=
                property.accessibility.is_some_and(hidden) || property.key.is_private_identifier();
            converter.add(target, &property.key, ty, property.optional, doc);
        }
        ClassElement::TSIndexSignature(index) if !index.r#static => {
            converter.index(instance, index);
        }
        ClassElement::AccessorProperty(_) => instance.open = true,
        ClassElement::TSIndexSignature(_) => itself.open = true,
        ClassElement::StaticBlock(_) => {}
    }
}

/// Parameters of a constructor that are fields at once.
fn parameter_fields(converter: &Converter<'_>, function: &Function<'_>, instance: &mut Shape) {
    for param in function
        .params
        .items
        .iter()
        .filter(|param| param.has_modifier())
    {
        instance.nominal |= param.accessibility.is_some_and(hidden);
        instance.fields.push(Field {
            name: pattern_name(&param.pattern),
            ty: converter.annotation(param.type_annotation.as_deref()),
            optional: param.optional,
            doc: None,
            at: span(param.pattern.span()),
            file: converter.origin,
        });
    }
}

fn hidden(accessibility: TSAccessibility) -> bool {
    accessibility != TSAccessibility::Public
}
