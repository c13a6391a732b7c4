// SPDX-License-Identifier: Apache-2.0
//! What the checker knows of a value: a small structural model of TypeScript's types. Whatever it
//! doesn't hold is [`Type::Any`], about which nothing is ever said. Not a type system of its own:
//! every judgement here is also `tsc`'s.

use std::fmt;
use std::sync::Arc;

use crate::source::Span;

/// Which file declares a name: the environment is 0, the modules of a program follow from 1.
pub(crate) type FileId = u32;

/// The environment's declarations: the language's library and `aurae.d.ts`.
pub(crate) const ENVIRONMENT: FileId = 0;

/// Where the library's declarations stand, whose names are the environment's.
pub(crate) const LIBRARY: FileId = FileId::MAX;

/// The name of a type in the file that declares it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) file: FileId,
    pub(crate) name: Arc<str>,
}

/// A type. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) enum Type {
    /// Not known, or known to be anything: silence.
    #[default]
    Any,
    Never,
    /// `undefined` and `void`.
    Undefined,
    Null,
    Boolean,
    Number,
    BigInt,
    String,
    Symbol,
    BooleanLiteral(bool),
    NumberLiteral(f64),
    StringLiteral(Arc<str>),
    /// A template literal type: some strings, which is all we say of it.
    Template,
    Union(Arc<[Type]>),
    Object(Arc<Shape>),
    Array(Arc<Type>),
    Tuple(Arc<[Type]>),
    /// An interface, an alias, an instance of a class; looked up where it's needed.
    Named(Name, Arc<[Type]>),
    /// The class itself: its constructors and static members.
    ClassOf(Name),
    /// `typeof x` of a value of a file.
    ValueOf(Name),
    /// A type parameter that nothing has been put for.
    Param(Arc<str>),
}

/// An object's members.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) fields: Vec<Field>,
    /// The value of an index signature.
    pub(crate) index: Option<Type>,
    pub(crate) calls: Vec<Arc<Signature>>,
    pub(crate) constructs: Vec<Arc<Signature>>,
    /// Interfaces and classes whose members it has too.
    pub(crate) extends: Vec<Type>,
    /// Something of it wasn't understood: what isn't among the fields may still be there.
    pub(crate) open: bool,
    /// The class of which it is an instance has private members, so a literal can't be one.
    pub(crate) nominal: bool,
}

/// A member.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: Arc<str>,
    pub(crate) ty: Type,
    pub(crate) optional: bool,
    pub(crate) doc: Option<Arc<str>>,
    /// Where it is declared, in `file`.
    pub(crate) at: Span,
    pub(crate) file: FileId,
}

/// What a call takes and gives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signature {
    pub(crate) generics: Arc<[Generic]>,
    pub(crate) params: Vec<Param>,
    /// The last parameter takes all that is left; its type is the array's.
    pub(crate) rest: bool,
    pub(crate) returns: Type,
    /// It narrows its argument: `x is T`, `asserts x`.
    pub(crate) predicate: bool,
    pub(crate) doc: Option<Arc<str>>,
}

/// A parameter of a signature.
#[derive(Clone, Debug)]
pub(crate) struct Param {
    pub(crate) name: Arc<str>,
    pub(crate) ty: Type,
    pub(crate) optional: bool,
}

/// A type parameter.
#[derive(Clone, Debug)]
pub(crate) struct Generic {
    pub(crate) name: Arc<str>,
    pub(crate) default: Option<Type>,
    /// With `extends`, literals stay literals when they are inferred.
    pub(crate) constrained: bool,
}

impl Type {
    /// A union without the members that say nothing new.
    pub(crate) fn union(types: impl IntoIterator<Item = Type>) -> Type {
        let mut members: Vec<Type> = Vec::new();
        for ty in types {
            match ty {
                Type::Any => return Type::Any,
                Type::Never => {}
                Type::Union(inner) => {
                    for ty in inner.iter() {
                        push_new(&mut members, ty.clone());
                    }
                }
                ty => push_new(&mut members, ty),
            }
        }
        match members.len() {
            0 => Type::Never,
            1 => members.pop().unwrap_or_default(),
            _ => Type::Union(members.into()),
        }
    }

    /// Its members if it's a union, itself otherwise.
    pub(crate) fn members(&self) -> &[Type] {
        match self {
            Type::Union(members) => members,
            one => std::slice::from_ref(one),
        }
    }

    /// Without `undefined` and `null`.
    pub(crate) fn present(&self) -> Type {
        match self {
            Type::Union(members) => Type::union(
                members
                    .iter()
                    .filter(|ty| !matches!(ty, Type::Undefined | Type::Null))
                    .cloned(),
            ),
            other => other.clone(),
        }
    }

    /// What `x!` gives: of `null!` nothing is left, which fits everywhere.
    pub(crate) fn asserted(&self) -> Type {
        match self.present() {
            Type::Undefined | Type::Null | Type::Never => Type::Any,
            present => present,
        }
    }

    /// The type of a place that may change: `"a"` becomes `string`.
    pub(crate) fn widened(&self) -> Type {
        match self {
            Type::BooleanLiteral(_) => Type::Boolean,
            Type::NumberLiteral(_) => Type::Number,
            Type::StringLiteral(_) => Type::String,
            Type::Union(members) => Type::union(members.iter().map(Type::widened)),
            other => other.clone(),
        }
    }

    pub(crate) fn is_literal(&self) -> bool {
        use Type::{BooleanLiteral, NumberLiteral, StringLiteral};
        matches!(
            self,
            BooleanLiteral(_) | NumberLiteral(_) | StringLiteral(_)
        )
    }

    pub(crate) fn is_any(&self) -> bool {
        matches!(self, Type::Any)
    }

    /// A name of the environment, e.g. `Promise`.
    pub(crate) fn global(name: &str, arguments: impl Into<Arc<[Type]>>) -> Type {
        let name = Name {
            file: ENVIRONMENT,
            name: name.into(),
        };
        Type::Named(name, arguments.into())
    }

    /// The first argument of the environment's generic type `name`.
    pub(crate) fn argument_of(&self, wanted: &[&str]) -> Option<Type> {
        match self {
            Type::Named(name, arguments)
                if name.file == ENVIRONMENT && wanted.contains(&name.name.as_ref()) =>
            {
                Some(arguments.first().cloned().unwrap_or_default())
            }
            _ => None,
        }
    }

    /// What awaiting it gives.
    pub(crate) fn awaited(&self) -> Type {
        if let Some(inner) = self.argument_of(&["Promise", "PromiseLike"]) {
            return inner.awaited();
        }
        match self {
            Type::Union(members) => Type::union(members.iter().map(Type::awaited)),
            other => other.clone(),
        }
    }
}

fn push_new(members: &mut Vec<Type>, ty: Type) {
    if !members.iter().any(|member| same(member, &ty)) {
        members.push(ty);
    }
}

/// Whether two types are plainly the same; false where that would take a comparison of members.
pub(crate) fn same(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::BooleanLiteral(left), Type::BooleanLiteral(right)) => left == right,
        (Type::NumberLiteral(left), Type::NumberLiteral(right)) => left == right,
        (Type::StringLiteral(left), Type::StringLiteral(right)) => left == right,
        (Type::Param(left), Type::Param(right)) => left == right,
        (Type::Array(left), Type::Array(right)) => same(left, right),
        (Type::Object(left), Type::Object(right)) => Arc::ptr_eq(left, right),
        (Type::Named(left, a), Type::Named(right, b)) => {
            left == right && a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(a, b))
        }
        (Type::ClassOf(left), Type::ClassOf(right)) => left == right,
        (Type::ValueOf(left), Type::ValueOf(right)) => left == right,
        (Type::Union(_) | Type::Tuple(_), _) => false,
        (left, right) => std::mem::discriminant(left) == std::mem::discriminant(right),
    }
}

impl Shape {
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name.as_ref() == name)
    }

    pub(crate) fn into_type(self) -> Type {
        Type::Object(Arc::new(self))
    }
}

impl Signature {
    /// The parameter that the argument at `index` is for.
    pub(crate) fn param(&self, index: usize) -> Option<Type> {
        if self.rest && index + 1 >= self.params.len() {
            return match &self.params.last()?.ty {
                Type::Array(element) => Some(element.as_ref().clone()),
                _ => Some(Type::Any),
            };
        }
        let param = self.params.get(index)?;
        Some(if param.optional {
            Type::union([param.ty.clone(), Type::Undefined])
        } else {
            param.ty.clone()
        })
    }

    /// How many arguments it must have.
    pub(crate) fn required(&self) -> usize {
        let fixed = self.params.len() - usize::from(self.rest && !self.params.is_empty());
        let params = self.params.iter().take(fixed);
        params
            .enumerate()
            .filter(|(_, param)| !param.optional)
            .map(|(index, _)| index + 1)
            .next_back()
            .unwrap_or(0)
    }
}

/// As TypeScript writes it, shortened where it is long.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self, f, 0)
    }
}

/// How deep an object's members are shown, and how many of them.
const SHOWN_DEPTH: u32 = 2;
const SHOWN_MEMBERS: usize = 6;
const SHOWN_UNION: usize = 12;

fn show(ty: &Type, f: &mut fmt::Formatter<'_>, depth: u32) -> fmt::Result {
    match ty {
        Type::Any => f.write_str("any"),
        Type::Never => f.write_str("never"),
        Type::Undefined => f.write_str("undefined"),
        Type::Null => f.write_str("null"),
        Type::Boolean => f.write_str("boolean"),
        Type::Number => f.write_str("number"),
        Type::BigInt => f.write_str("bigint"),
        Type::String | Type::Template => f.write_str("string"),
        Type::Symbol => f.write_str("symbol"),
        Type::BooleanLiteral(value) => write!(f, "{value}"),
        Type::NumberLiteral(value) => write!(f, "{value}"),
        Type::StringLiteral(value) => write!(f, "{value:?}"),
        Type::Union(members) => show_union(members, f, depth),
        Type::Array(element) => show_array(element, f, depth),
        Type::Tuple(elements) => {
            f.write_str("[")?;
            show_list(elements, f, depth)?;
            f.write_str("]")
        }
        Type::Named(name, arguments) => {
            f.write_str(&name.name)?;
            if arguments.is_empty() {
                return Ok(());
            }
            f.write_str("<")?;
            show_list(arguments, f, depth)?;
            f.write_str(">")
        }
        Type::ClassOf(name) | Type::ValueOf(name) => write!(f, "typeof {}", name.name),
        Type::Param(name) => f.write_str(name),
        Type::Object(shape) => show_shape(shape, f, depth),
    }
}

fn show_union(members: &[Type], f: &mut fmt::Formatter<'_>, depth: u32) -> fmt::Result {
    for (index, member) in members.iter().take(SHOWN_UNION).enumerate() {
        if index > 0 {
            f.write_str(" | ")?;
        }
        show(member, f, depth + 1)?;
    }
    if members.len() > SHOWN_UNION {
        write!(f, " | … {} more", members.len() - SHOWN_UNION)?;
    }
    Ok(())
}

fn show_array(element: &Type, f: &mut fmt::Formatter<'_>, depth: u32) -> fmt::Result {
    if matches!(element, Type::Union(_)) {
        f.write_str("(")?;
        show(element, f, depth + 1)?;
        return f.write_str(")[]");
    }
    show(element, f, depth + 1)?;
    f.write_str("[]")
}

fn show_list(types: &[Type], f: &mut fmt::Formatter<'_>, depth: u32) -> fmt::Result {
    for (index, ty) in types.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        show(ty, f, depth + 1)?;
    }
    Ok(())
}

fn show_shape(shape: &Shape, f: &mut fmt::Formatter<'_>, depth: u32) -> fmt::Result {
    if let ([signature], true) = (shape.calls.as_slice(), shape.fields.is_empty()) {
        return show_signature(signature, f, depth, " => ");
    }
    if let (Some(value), true) = (&shape.index, shape.fields.is_empty()) {
        f.write_str("Record<string, ")?;
        show(value, f, depth + 1)?;
        return f.write_str(">");
    }
    if depth >= SHOWN_DEPTH {
        return f.write_str("{ … }");
    }
    f.write_str("{")?;
    for (index, field) in shape.fields.iter().take(SHOWN_MEMBERS).enumerate() {
        let mark = if field.optional { "?" } else { "" };
        let separator = if index > 0 { ";" } else { "" };
        write!(f, "{separator} {}{mark}: ", field.name)?;
        show(&field.ty, f, depth + 1)?;
    }
    if shape.fields.len() > SHOWN_MEMBERS {
        f.write_str("; …")?;
    }
    f.write_str(" }")
}

fn show_signature(
    signature: &Signature,
    f: &mut fmt::Formatter<'_>,
    depth: u32,
    arrow: &str,
) -> fmt::Result {
    f.write_str("(")?;
    for (index, param) in signature.params.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        if signature.rest && index + 1 == signature.params.len() {
            f.write_str("...")?;
        }
        write!(
            f,
            "{}{}: ",
            param.name,
            if param.optional { "?" } else { "" }
        )?;
        show(&param.ty, f, depth + 1)?;
    }
    write!(f, "){arrow}")?;
    show(&signature.returns, f, depth + 1)
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show_signature(self, f, 1, ": ")
    }
}
