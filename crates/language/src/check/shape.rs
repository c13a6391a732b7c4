// SPDX-License-Identifier: Apache-2.0
//! Object types as one list of members: what a type declares itself and what its bases give it, as
//! far as that is certain. Single members are looked up in `world`.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::types::{ENVIRONMENT, Field, LIBRARY, Shape, Type, same};
use super::world::{FOLLOWED, World, is_promise};

/// Merged shapes of the environment's own types, which are the same for every module. Clones share
/// them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shapes(Arc<RwLock<HashMap<Key, Option<Arc<Shape>>>>>);

/// A type's name, and whether the class as a value is meant.
type Key = (Arc<str>, bool);

impl Shapes {
    /// What is known of it, or is found out now.
    fn get(&self, key: Key, find: impl FnOnce() -> Option<Arc<Shape>>) -> Option<Arc<Shape>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&key) {
            return known.clone();
        }
        drop(known);
        // Not under the lock: its bases are asked for in the same way.
        let found = find();
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(key, found.clone());
        found
    }
}

impl World {
    /// The shape of an object type, bases merged; `None` for what is no object or isn't known.
    pub(crate) fn shape(&self, ty: &Type) -> Option<Arc<Shape>> {
        match self.shared(ty) {
            Some(key) => self.environment.shapes.get(key, || self.merged(ty)),
            None => self.merged(ty),
        }
    }

    /// What the type is known by, if it is the same for every module: one that the environment's
    /// text declares, without arguments.
    fn shared(&self, ty: &Type) -> Option<Key> {
        let (name, class) = match ty {
            Type::Named(name, arguments) if arguments.is_empty() => (name, false),
            Type::ClassOf(name) => (name, true),
            _ => return None,
        };
        if name.file != ENVIRONMENT {
            return None;
        }
        let of = self.type_declaration(name)?.file;
        let is_shared = of == ENVIRONMENT || of == LIBRARY;
        is_shared.then(|| (name.name.clone(), class))
    }

    fn merged(&self, ty: &Type) -> Option<Arc<Shape>> {
        let Type::Object(shape) = self.expand(ty) else {
            return None;
        };
        if shape.extends.is_empty() {
            return Some(shape);
        }
        let mut merged = shape.as_ref().clone();
        for base in std::mem::take(&mut merged.extends) {
            let Some(base) = self.shape_below(&base, FOLLOWED) else {
                merged.open = true;
                continue;
            };
            for field in &base.fields {
                match merged.fields.iter_mut().find(|it| it.name == field.name) {
                    // What it declares itself stands for the bases'.
                    Some(_) if shape.field(&field.name).is_some() => {}
                    Some(known) => *known = both(known.clone(), field.clone()),
                    None => merged.fields.push(field.clone()),
                }
            }
            merged.open |= base.open;
            merged.nominal |= base.nominal;
            merged.index = merged.index.or_else(|| base.index.clone());
            if merged.calls.is_empty() {
                merged.calls.extend(base.calls.iter().cloned());
            }
            if merged.constructs.is_empty() {
                merged.constructs.extend(base.constructs.iter().cloned());
            }
        }
        Some(Arc::new(merged))
    }

    fn shape_below(&self, ty: &Type, left: u32) -> Option<Arc<Shape>> {
        if left == 0 {
            return None;
        }
        let Type::Object(shape) = self.expand(ty) else {
            return None;
        };
        match shape.extends.is_empty() {
            true => Some(shape),
            false => {
                let fields = self.fields(ty);
                let mut flat = shape.as_ref().clone();
                flat.fields = fields.0;
                flat.open = fields.1;
                // A class has one base at most, so this is a line.
                let bases = std::mem::take(&mut flat.extends);
                if let [base @ Type::ClassOf(_)] = bases.as_slice()
                    && flat.constructs.is_empty()
                    && let Some(base) = self.shape_below(base, left - 1)
                {
                    flat.constructs.extend(base.constructs.iter().cloned());
                }
                Some(Arc::new(flat))
            }
        }
    }
}

/// A member that two types of an intersection have: it is both. What is certain of that is said of
/// plain objects only.
pub(super) fn both(known: Field, other: Field) -> Field {
    if same(&known.ty, &other.ty) {
        return Field {
            optional: known.optional && other.optional,
            ..known
        };
    }
    let plain = |ty: &Type| match ty {
        Type::Object(shape) => shape.calls.is_empty() && shape.constructs.is_empty(),
        Type::Named(..) => !is_promise(ty),
        _ => false,
    };
    let ty = match plain(&known.ty) && plain(&other.ty) {
        true => Shape {
            extends: vec![known.ty.clone(), other.ty],
            ..Shape::default()
        }
        .into_type(),
        false => Type::Any,
    };
    Field {
        ty,
        optional: known.optional && other.optional,
        ..known
    }
}
