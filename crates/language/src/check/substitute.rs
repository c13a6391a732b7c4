// SPDX-License-Identifier: Apache-2.0
//! Types with arguments in the place of their parameters. Looks nothing up.

use std::sync::Arc;

use super::types::{Field, Generic, Param, Shape, Signature, Type};

/// Parameters' names with what stands for them.
pub(super) type Bindings = Vec<(Arc<str>, Type)>;

/// Parameters with what stands for them: the argument, the default, or any.
pub(crate) fn bind(generics: &[Generic], arguments: &[Type]) -> Bindings {
    let mut bindings: Bindings = Vec::new();
    for (index, generic) in generics.iter().enumerate() {
        let argument = arguments.get(index).cloned();
        let default = || generic.default.as_ref().map(|ty| substitute(ty, &bindings));
        let ty = argument.or_else(default).unwrap_or_default();
        bindings.push((generic.name.clone(), ty));
    }
    bindings
}

/// The type with parameters replaced.
pub(crate) fn substitute(ty: &Type, bindings: &[(Arc<str>, Type)]) -> Type {
    if bindings.is_empty() {
        return ty.clone();
    }
    let list =
        |types: &[Type]| -> Vec<Type> { types.iter().map(|ty| substitute(ty, bindings)).collect() };
    match ty {
        Type::Param(name) => {
            let found = bindings.iter().find(|(param, _)| param == name);
            found.map_or_else(|| ty.clone(), |(_, ty)| ty.clone())
        }
        Type::Union(members) => Type::union(list(members)),
        Type::Array(element) => Type::Array(Arc::new(substitute(element, bindings))),
        Type::Tuple(elements) => Type::Tuple(list(elements).into()),
        Type::Named(name, arguments) if !arguments.is_empty() => {
            Type::Named(name.clone(), list(arguments).into())
        }
        Type::Object(shape) => substitute_shape(shape, bindings).into_type(),
        other => other.clone(),
    }
}

fn substitute_shape(shape: &Shape, bindings: &[(Arc<str>, Type)]) -> Shape {
    let signatures = |list: &[Arc<Signature>]| -> Vec<Arc<Signature>> {
        let replaced = list.iter().map(|it| substitute_signature(it, bindings));
        replaced.map(Arc::new).collect()
    };
    let fields = shape.fields.iter();
    Shape {
        fields: fields.map(|it| substitute_field(it, bindings)).collect(),
        index: shape.index.as_ref().map(|ty| substitute(ty, bindings)),
        calls: signatures(&shape.calls),
        constructs: signatures(&shape.constructs),
        extends: shape
            .extends
            .iter()
            .map(|ty| substitute(ty, bindings))
            .collect(),
        open: shape.open,
        nominal: shape.nominal,
    }
}

pub(super) fn substitute_field(field: &Field, bindings: &[(Arc<str>, Type)]) -> Field {
    Field {
        ty: substitute(&field.ty, bindings),
        ..field.clone()
    }
}

/// A signature with parameters replaced, but not its own.
pub(crate) fn substitute_signature(
    signature: &Signature,
    bindings: &[(Arc<str>, Type)],
) -> Signature {
    let own = |name: &str| signature.generics.iter().any(|it| it.name.as_ref() == name);
    let bindings: Bindings = bindings
        .iter()
        .filter(|(name, _)| !own(name))
        .cloned()
        .collect();
    let params = signature.params.iter().map(|param| {
        let ty = substitute(&param.ty, &bindings);
        // `void` for a type parameter: nothing need be given.
        let nothing = matches!(param.ty, Type::Param(_))
            && ty.members().iter().any(|it| matches!(it, Type::Undefined));
        Param {
            ty,
            optional: param.optional || nothing,
            ..param.clone()
        }
    });
    Signature {
        params: params.collect(),
        returns: substitute(&signature.returns, &bindings),
        ..signature.clone()
    }
}
