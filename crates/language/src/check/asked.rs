// SPDX-License-Identifier: Apache-2.0
//! What is asked of a type alone, whatever module asks: its elements, its calls, what awaiting it
//! gives, whose it is. Members are `world`'s.

use std::sync::Arc;

use super::types::{ENVIRONMENT, Signature, Type};
use super::world::{Lookup, World};

impl World {
    /// What reading a member gives; any where there may or can't be one.
    pub(crate) fn member_type(&self, object: &Type, name: &str) -> Type {
        match self.field(object, name) {
            Lookup::Found(field) if field.optional => Type::union([field.ty, Type::Undefined]),
            Lookup::Found(field) => field.ty,
            Lookup::Missing | Lookup::Unknown => Type::Any,
        }
    }

    /// What awaiting it gives, also of an alias of a promise.
    pub(crate) fn awaited(&self, ty: &Type) -> Type {
        self.resolve(ty).awaited()
    }

    /// The element of an array; `None` for what is no array.
    pub(crate) fn element(&self, ty: &Type) -> Option<Type> {
        match self.resolve(ty) {
            Type::Array(element) => Some(element.as_ref().clone()),
            Type::Tuple(elements) => Some(Type::union(elements.iter().cloned())),
            Type::Any => Some(Type::Any),
            Type::Named(name, pair) if name.file == ENVIRONMENT && *name.name == *"Map" => {
                Some(Type::Tuple(pair))
            }
            other => other.argument_of(&["Iterable", "Set"]),
        }
    }

    /// What a stream gives; `None` for what is none, as far as is known.
    pub(crate) fn streamed(&self, ty: &Type) -> Option<Type> {
        const STREAMS: [&str; 3] = ["AsyncIterable", "AsyncIterableIterator", "AsyncGenerator"];
        if let Some(element) = ty.argument_of(&STREAMS) {
            return Some(element);
        }
        if self.extends_nothing(ty) {
            return None;
        }
        let shape = match self.expand(ty) {
            Type::Object(shape) => shape,
            _ => return None,
        };
        shape.extends.iter().find_map(|base| self.streamed(base))
    }

    /// Whether it is an interface or a class that extends no other: to be told so it needn't be
    /// written out with its arguments.
    fn extends_nothing(&self, ty: &Type) -> bool {
        let Type::Named(name, _) = ty else {
            return false;
        };
        let declared = self.type_declaration(name);
        declared.is_some_and(|it| matches!(&it.body, Type::Object(it) if it.extends.is_empty()))
    }

    /// The signatures of what is called; `None` where they aren't known.
    pub(crate) fn signatures(&self, callee: &Type) -> Option<Vec<Arc<Signature>>> {
        let shape = self.shape(callee)?;
        (!shape.calls.is_empty() && !shape.open).then(|| shape.calls.clone())
    }

    /// Whether the type is one of the API's own: neither the program's nor the library's.
    pub(crate) fn is_of_api(&self, ty: &Type) -> bool {
        match ty {
            Type::Named(name, _) | Type::ClassOf(name) => {
                name.file == ENVIRONMENT && !self.environment.library.contains(&name.name)
            }
            Type::Union(members) => members.iter().any(|member| self.is_of_api(member)),
            Type::Array(element) => self.is_of_api(element),
            _ => false,
        }
    }
}
