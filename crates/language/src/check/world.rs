// SPDX-License-Identifier: Apache-2.0
//! All that is declared around a module: the environment and the modules it imports. Looks up
//! names and members; `shape` makes one list of them. Knows nothing of syntax.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::convert::THIS;
use super::shape::both;
use super::substitute::{bind, substitute, substitute_field};
use super::table::{Environment, Table, TypeDeclaration, ValueDeclaration};
use super::types::{ENVIRONMENT, Field, FileId, Name, Shape, Type};
use crate::source::Source;

/// The environment and the modules that have been looked at so far. A clone shares what comes to be
/// known later.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) environment: Arc<Environment>,
    /// By [`FileId`] less one.
    pub(crate) modules: Vec<Slot>,
}

/// What is known of a module, in the order in which it comes to be known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    /// The types it declares, before anything is inferred.
    pub(crate) types: Arc<OnceLock<Arc<Table>>>,
    /// The values and types it exports.
    pub(crate) exports: Arc<OnceLock<Arc<Table>>>,
    /// What it is read from once it is asked for; without that others fill the slot (`schedule`).
    pub(crate) origin: Option<Arc<Origin>>,
}

/// A module's text and what its imports lead to.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) source: Source,
    /// The modules behind the specifiers as they are written.
    pub(crate) imports: HashMap<String, FileId>,
}

impl Slot {
    /// A module of which nothing is known yet.
    pub(crate) fn of(origin: Arc<Origin>) -> Self {
        Self {
            origin: Some(origin),
            ..Self::default()
        }
    }
}

/// How many modules may wait for each other to be looked at: each keeps its tree on the stack.
const WAITING: usize = 300;

thread_local! {
    /// The modules that this thread is looking at because another needs them.
    static LOOKING: RefCell<Vec<FileId>> = const { RefCell::new(Vec::new()) };
}

/// What is known of a member.
#[derive(Clone, Debug)]
pub(crate) enum Lookup {
    Found(Field),
    /// It is certain that there is none.
    Missing,
    /// There may be one.
    Unknown,
}

/// How far aliases and bases are followed.
pub(super) const FOLLOWED: u32 = 12;

/// How many types are looked at for one member.
const STEPS: u32 = 300;

thread_local! {
    static LEFT: Cell<u32> = const { Cell::new(STEPS) };
}

/// Takes one of the steps that are left; true if there is none.
fn spent() -> bool {
    let left = LEFT.get();
    LEFT.set(left.saturating_sub(1));
    left == 0
}

const OF_OBJECTS: [&str; 7] = [
    "constructor",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "toLocaleString",
    "toString",
    "valueOf",
];

/// Takes the last module off [`LOOKING`], even if looking at it panicked.
struct Looked;

impl Drop for Looked {
    fn drop(&mut self) {
        LOOKING.with_borrow_mut(Vec::pop);
    }
}

impl World {
    pub(crate) fn slot(&self, file: FileId) -> Option<&Slot> {
        let index = usize::try_from(file).ok()?.checked_sub(1)?;
        self.modules.get(index)
    }

    /// What a module exports; `None` in a circle, and where it can't be looked at now.
    pub(crate) fn exports(&self, file: FileId) -> Option<&Table> {
        let slot = self.slot(file)?;
        if slot.exports.get().is_none()
            && let Some(origin) = &slot.origin
        {
            self.look_at(file, origin);
        }
        slot.exports.get().map(Arc::as_ref)
    }

    /// Looks at a module because of another, unless that is what waits for this one.
    fn look_at(&self, file: FileId, origin: &Origin) {
        let begins = LOOKING.with_borrow_mut(|looking| {
            let begins = !looking.contains(&file) && looking.len() < WAITING;
            if begins {
                looking.push(file);
            }
            begins
        });
        if begins {
            let _looked = Looked;
            super::analyse(
                self,
                file,
                &origin.source,
                &origin.imports,
                |module, whole| {
                    super::settle(self, file, module, whole);
                },
            );
        }
    }

    pub(crate) fn type_declaration(&self, name: &Name) -> Option<&TypeDeclaration> {
        let table = match name.file {
            ENVIRONMENT => &self.environment.table,
            module => {
                let slot = self.slot(module)?;
                if slot.types.get().is_none() {
                    self.exports(module)?;
                }
                slot.types.get()?.as_ref()
            }
        };
        table.types.get(&name.name)
    }

    pub(crate) fn value(&self, name: &Name) -> Option<&ValueDeclaration> {
        let table = match name.file {
            ENVIRONMENT => &self.environment.table,
            module => self.exports(module)?,
        };
        table.values.get(&name.name)
    }

    /// The type that a name stands for, aliases followed; any where there is none.
    pub(crate) fn expand(&self, ty: &Type) -> Type {
        let mut ty = ty.clone();
        for _ in 0..FOLLOWED {
            ty = match &ty {
                Type::Named(name, arguments) => match self.type_declaration(name) {
                    Some(declared) => {
                        let bindings = bind(&declared.generics, arguments);
                        substitute(&declared.body, &bindings)
                    }
                    None => return Type::Any,
                },
                Type::ClassOf(name) => match self.type_declaration(name) {
                    Some(declared) => declared.class.clone().unwrap_or_default(),
                    None => return Type::Any,
                },
                Type::ValueOf(name) => match self.value(name) {
                    Some(declared) => declared.ty.clone(),
                    None => return Type::Any,
                },
                _ => return ty,
            };
        }
        Type::Any
    }

    /// The type with aliases replaced by what they stand for; interfaces and classes keep their
    /// names.
    pub(crate) fn resolve(&self, ty: &Type) -> Type {
        match ty {
            Type::Named(..) => self.without_alias(ty.clone()),
            Type::ValueOf(_) => self.expand(ty),
            Type::Union(members) if members.iter().any(|member| self.is_alias(member)) => {
                Type::union(members.iter().map(|member| self.resolve(member)))
            }
            other => other.clone(),
        }
    }

    fn without_alias(&self, mut ty: Type) -> Type {
        for _ in 0..FOLLOWED {
            let Type::Named(name, arguments) = &ty else {
                return ty;
            };
            ty = match self.type_declaration(name) {
                Some(declared) if matches!(declared.body, Type::Object(_)) => return ty,
                Some(declared) => {
                    let bindings = bind(&declared.generics, arguments);
                    substitute(&declared.body, &bindings)
                }
                None => return Type::Any,
            };
        }
        Type::Any
    }

    fn is_alias(&self, ty: &Type) -> bool {
        match ty {
            Type::Named(name, _) => self
                .type_declaration(name)
                .is_none_or(|declared| !matches!(declared.body, Type::Object(_))),
            Type::ValueOf(_) => true,
            _ => false,
        }
    }

    /// The member `name` of a value of type `ty`.
    pub(crate) fn field(&self, ty: &Type, name: &str) -> Lookup {
        LEFT.set(STEPS);
        with_this(self.field_within(ty, name, 0), ty)
    }

    fn field_within(&self, ty: &Type, name: &str, depth: u32) -> Lookup {
        if depth > FOLLOWED || spent() {
            return Lookup::Unknown;
        }
        let of_library = |interface: &str, arguments: Vec<Type>| {
            self.field_within(&Type::global(interface, arguments), name, depth + 1)
        };
        match ty {
            Type::Any | Type::Never | Type::Param(_) | Type::Undefined | Type::Null => {
                Lookup::Unknown
            }
            Type::Boolean | Type::BooleanLiteral(_) => of_library("Boolean", Vec::new()),
            Type::Number | Type::NumberLiteral(_) => of_library("Number", Vec::new()),
            Type::BigInt => of_library("BigInt", Vec::new()),
            Type::Symbol => of_library("Symbol", Vec::new()),
            Type::String | Type::StringLiteral(_) | Type::Template => {
                of_library("String", Vec::new())
            }
            Type::Array(element) => of_library("Array", vec![element.as_ref().clone()]),
            Type::Tuple(elements) => {
                of_library("Array", vec![Type::union(elements.iter().cloned())])
            }
            Type::Union(members) => self.field_of_union(members, name, depth),
            Type::Object(shape) => self.field_of_shape(shape, name, depth),
            Type::Named(declared, arguments) => {
                let Some(declaration) = self.type_declaration(declared) else {
                    return Lookup::Unknown;
                };
                let found = self.field_within(&declaration.body, name, depth + 1);
                match found {
                    Lookup::Found(field) if !arguments.is_empty() => {
                        let bindings = bind(&declaration.generics, arguments);
                        Lookup::Found(substitute_field(&field, &bindings))
                    }
                    other => other,
                }
            }
            Type::ValueOf(_) => self.field_within(&self.expand(ty), name, depth + 1),
            Type::ClassOf(_) => match self.field_within(&self.expand(ty), name, depth + 1) {
                Lookup::Missing => of_function(name),
                found => found,
            },
        }
    }

    /// Missing only if none of the members has it: what else the flow has ruled out isn't known.
    fn field_of_union(&self, members: &[Type], name: &str, depth: u32) -> Lookup {
        let present = members
            .iter()
            .filter(|ty| !matches!(ty, Type::Undefined | Type::Null));
        let mut found: Option<Field> = None;
        for member in present {
            match with_this(self.field_within(member, name, depth + 1), member) {
                Lookup::Unknown => return Lookup::Unknown,
                Lookup::Missing => {}
                Lookup::Found(field) => {
                    found = Some(match found {
                        None => field,
                        Some(known) => Field {
                            ty: Type::union([known.ty.clone(), field.ty]),
                            optional: known.optional || field.optional,
                            ..known
                        },
                    });
                }
            }
        }
        found.map_or(Lookup::Missing, Lookup::Found)
    }

    fn field_of_shape(&self, shape: &Shape, name: &str, depth: u32) -> Lookup {
        if let Some(field) = shape.field(name) {
            return Lookup::Found(field.clone());
        }
        let mut open = shape.open;
        let mut inherited: Option<Field> = None;
        for base in &shape.extends {
            match self.field_within(base, name, depth + 1) {
                Lookup::Found(field) => {
                    inherited = Some(match inherited {
                        None => field,
                        Some(known) => both(known, field),
                    });
                }
                Lookup::Unknown => open = true,
                Lookup::Missing => {}
            }
        }
        if let Some(field) = inherited {
            return Lookup::Found(field);
        }
        if let Some(index) = &shape.index
            && !OF_OBJECTS.contains(&name)
        {
            return Lookup::Found(Field {
                name: name.into(),
                ty: index.clone(),
                optional: false,
                doc: None,
                at: crate::source::Span::default(),
                file: ENVIRONMENT,
            });
        }
        let function = !shape.calls.is_empty() || !shape.constructs.is_empty();
        if open || function {
            return match function && !open {
                true => of_function(name),
                false => Lookup::Unknown,
            };
        }
        of_object(name)
    }

    /// All members that are known, bases' too, and whether there may be others.
    pub(crate) fn fields(&self, ty: &Type) -> (Vec<Field>, bool) {
        let mut fields = Vec::new();
        LEFT.set(STEPS);
        let open = self.collect(ty, &mut fields, 0);
        (fields, open)
    }

    fn collect(&self, ty: &Type, fields: &mut Vec<Field>, depth: u32) -> bool {
        if depth > FOLLOWED || spent() {
            return true;
        }
        match ty {
            Type::Union(members) => {
                let mut open = false;
                for member in members.iter() {
                    open |= self.collect(member, fields, depth + 1);
                }
                open
            }
            Type::Object(shape) => {
                for field in &shape.fields {
                    if !fields.iter().any(|known| known.name == field.name) {
                        fields.push(field.clone());
                    }
                }
                let mut open = shape.open;
                for base in &shape.extends {
                    open |= self.collect(base, fields, depth + 1);
                }
                open
            }
            Type::Named(..) | Type::ClassOf(_) | Type::ValueOf(_) => match self.expand(ty) {
                Type::Any => true,
                expanded => self.collect(&expanded, fields, depth + 1),
            },
            Type::Array(element) => {
                let array = Type::global("Array", vec![element.as_ref().clone()]);
                self.collect(&array, fields, depth + 1)
            }
            Type::String | Type::StringLiteral(_) | Type::Template => {
                self.collect(&Type::global("String", []), fields, depth + 1)
            }
            Type::Number | Type::NumberLiteral(_) => {
                self.collect(&Type::global("Number", []), fields, depth + 1)
            }
            Type::Undefined | Type::Null => false,
            _ => true,
        }
    }
}

/// A member as it is read of `receiver`.
fn with_this(found: Lookup, receiver: &Type) -> Lookup {
    match (found, receiver) {
        (Lookup::Found(field), Type::Named(..)) => {
            let this = [(Arc::from(THIS), receiver.clone())];
            Lookup::Found(substitute_field(&field, &this))
        }
        (found, _) => found,
    }
}

/// Whether it is a promise.
pub(crate) fn is_promise(ty: &Type) -> bool {
    ty.argument_of(&["Promise"]).is_some()
}

/// What every object inherits, nothing else.
pub(crate) fn of_object(name: &str) -> Lookup {
    match OF_OBJECTS.contains(&name) {
        true => Lookup::Unknown,
        false => Lookup::Missing,
    }
}

fn of_function(name: &str) -> Lookup {
    const OF_FUNCTIONS: [&str; 8] = [
        "apply",
        "arguments",
        "bind",
        "call",
        "caller",
        "length",
        "name",
        "prototype",
    ];
    match OF_FUNCTIONS.contains(&name) {
        true => Lookup::Unknown,
        false => of_object(name),
    }
}
