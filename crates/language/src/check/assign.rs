// SPDX-License-Identifier: Apache-2.0
//! Whether a value of one type may stand where another is asked for, as `tsc --strict` sees it. A
//! "no" is certain; what can't be decided is [`Verdict::Unsure`] and says nothing.

use std::cell::Cell;

use super::types::{Shape, Type, same};
use super::world::{Lookup, World, is_promise};

/// May it stand there?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Yes,
    No,
    Unsure,
}

use Verdict::{No, Unsure, Yes};

/// How deep members are compared.
const COMPARED: u32 = 10;

/// How many comparisons one question may take: types that hold each other in many ways would
/// otherwise take years.
const STEPS: u32 = 3_000;

thread_local! {
    static LEFT: Cell<u32> = const { Cell::new(STEPS) };
    /// Where a literal is asked for, its wider type may be that literal.
    static LITERALS_STAY: Cell<bool> = const { Cell::new(false) };
}

impl World {
    /// Whether `source` may stand for `target`.
    pub(crate) fn assignable(&self, source: &Type, target: &Type) -> Verdict {
        LEFT.set(STEPS);
        self.compare(source, target, 0)
    }

    /// Like [`World::assignable`] for what a generic call gives: what is asked for has a say in
    /// which literals stay literals in it.
    pub(crate) fn assignable_generic(&self, source: &Type, target: &Type) -> Verdict {
        LITERALS_STAY.set(true);
        let verdict = self.assignable(source, target);
        LITERALS_STAY.set(false);
        verdict
    }

    /// Like [`World::assignable`] for a place that the flow may have narrowed: a union is refused
    /// only if each of its members is.
    pub(crate) fn assignable_narrowed(&self, source: &Type, target: &Type) -> Verdict {
        // What the flow has left of it may be nothing: `const n: never = state`.
        if matches!(self.resolve(target), Type::Never) {
            return Unsure;
        }
        let source = match self.resolve(source) {
            Type::Boolean => Type::Union([true, false].map(Type::BooleanLiteral).into()),
            other => other,
        };
        let members = source.members();
        let verdicts = members.iter().map(|member| self.assignable(member, target));
        if members.len() > 1 {
            return all_refuse(verdicts);
        }
        self.assignable(&source, target)
    }

    fn compare(&self, source: &Type, target: &Type, depth: u32) -> Verdict {
        let left = LEFT.get();
        if depth > COMPARED || left == 0 {
            return Unsure;
        }
        LEFT.set(left - 1);
        if same(source, target) {
            return Yes;
        }
        let source = &self.resolve(source);
        let target = &self.resolve(target);
        match (source, target) {
            (Type::Any | Type::Never | Type::Param(_), _) | (_, Type::Any | Type::Param(_)) => {
                Unsure
            }
            _ if same(source, target) => Yes,
            (Type::Union(members), _) => {
                let members = members.iter();
                worst(members.map(|member| self.compare(member, target, depth + 1)))
            }
            (Type::Boolean, Type::Union(_)) if !target.members().iter().any(is_boolean) => worst(
                [true, false]
                    .map(|value| self.compare(&Type::BooleanLiteral(value), target, depth + 1)),
            ),
            (_, Type::Union(members)) => {
                let compared = members.iter();
                let verdict = best(compared.map(|it| self.compare(source, it, depth + 1)));
                match verdict {
                    No if self.may_divide(source, members) => Unsure,
                    verdict => verdict,
                }
            }
            (_, Type::Never) => No,
            (_, Type::Undefined | Type::Null) => No,
            (Type::Undefined | Type::Null, _) => No,
            _ => match (is_primitive(source), is_primitive(target)) {
                (true, true) => primitives(source, target),
                (false, true) => self.object_for_primitive(source),
                (true, false) => self.primitive_for_object(target),
                // `(A | B) & C` is `A & C | B & C`: which of them it is isn't followed.
                (false, false) if self.intersects_union(source) => Unsure,
                (false, false) => self.objects(source, target, depth),
            },
        }
    }

    /// Whether an object may be one of several for each value of its fields: `{ a: 1 | 2 }` is
    /// `{ a: 1 } | { a: 2 }`.
    fn may_divide(&self, source: &Type, members: &[Type]) -> bool {
        let objects = members.iter().filter(|it| !is_primitive(it)).count();
        if is_primitive(source) || objects < 2 {
            return false;
        }
        let (fields, _) = self.fields(source);
        fields.iter().any(|field| {
            let ty = self.resolve(&field.ty);
            field.optional || matches!(ty, Type::Union(_) | Type::Boolean)
        })
    }

    fn intersects_union(&self, source: &Type) -> bool {
        let Type::Object(shape) = source else {
            return false;
        };
        let mut bases = shape.extends.iter();
        bases.any(|base| matches!(self.resolve(base), Type::Union(_)))
    }

    fn object_for_primitive(&self, source: &Type) -> Verdict {
        match self.expand(source) {
            Type::Any => Unsure,
            _ => No,
        }
    }

    /// A string, a number, … where an object is asked for: its members are the library's.
    fn primitive_for_object(&self, target: &Type) -> Verdict {
        const OF_LIBRARY: [&str; 6] = ["BigInt", "Boolean", "Number", "Object", "String", "Symbol"];
        const OF_PRIMITIVES: [&str; 8] = [
            "length", "toString", "valueOf", "at", "includes", "indexOf", "concat", "slice",
        ];
        match target {
            Type::Array(_) | Type::Tuple(_) => return No,
            _ if is_promise(target) => return No,
            _ if target.argument_of(&["AsyncIterable"]).is_some() => return No,
            _ if target.argument_of(&OF_LIBRARY).is_some() => return Unsure,
            _ if target.argument_of(&["Iterable", "PromiseLike"]).is_some() => return Unsure,
            _ => {}
        }
        let Some(shape) = self.shape(target) else {
            return Unsure;
        };
        let foreign = |name: &str| !OF_PRIMITIVES.contains(&name);
        let fields = &shape.fields;
        let required = fields.iter().filter(|field| !field.optional);
        if required.clone().any(|field| foreign(&field.name)) {
            return No;
        }
        if is_weak(&shape) && fields.iter().all(|field| foreign(&field.name)) {
            return No;
        }
        if !shape.calls.is_empty() || !shape.constructs.is_empty() {
            return No;
        }
        Unsure
    }

    fn objects(&self, source: &Type, target: &Type, depth: u32) -> Verdict {
        match (source, target) {
            (Type::Array(source), Type::Array(target)) => {
                return self.compare(source, target, depth + 1);
            }
            (Type::Tuple(elements), Type::Array(target)) => {
                let elements = elements.iter();
                return worst(elements.map(|source| self.compare(source, target, depth + 1)));
            }
            // A list that is written where a tuple is asked for is one.
            (Type::Array(_), Type::Tuple(_)) => return Unsure,
            (Type::Tuple(from), Type::Tuple(to)) => {
                if from.len() != to.len() {
                    return No;
                }
                let pairs = from.iter().zip(to.iter());
                return worst(pairs.map(|(from, to)| self.compare(from, to, depth + 1)));
            }
            (Type::Named(from, a), Type::Named(to, b)) if from == to => {
                let pairs = a.iter().zip(b.iter());
                let verdict = worst(pairs.map(|(a, b)| self.compare(a, b, depth + 1)));
                return match verdict {
                    No if !is_promise(source) => Unsure,
                    verdict => verdict,
                };
            }
            _ => {}
        }
        if let Some(element) = target.argument_of(&["Iterable"]) {
            return match source {
                Type::Array(from) => self.compare(from, &element, depth + 1),
                _ => Unsure,
            };
        }
        if target.argument_of(&["AsyncIterable"]).is_some() {
            return match source {
                Type::Array(_) | Type::Tuple(_) => No,
                _ if is_promise(source) => No,
                _ => Unsure,
            };
        }
        self.members_fit(source, target, depth)
    }

    fn members_fit(&self, source: &Type, target: &Type, depth: u32) -> Verdict {
        let wanted = match target {
            Type::Array(_) | Type::Tuple(_) => {
                return match self.shape(source) {
                    Some(shape) if !shape.open && !self.extends_list(source) => No,
                    _ if is_promise(source) => No,
                    _ => Unsure,
                };
            }
            other => match self.shape(other) {
                Some(shape) => shape,
                None => return Unsure,
            },
        };
        let mut verdict = Yes;
        for field in &wanted.fields {
            let fits = match self.field(source, &field.name) {
                Lookup::Unknown => Unsure,
                Lookup::Missing if field.optional => Yes,
                // How long a list is isn't followed.
                Lookup::Missing
                    if matches!(source, Type::Array(_) | Type::Tuple(_))
                        && field.name.parse::<u32>().is_ok() =>
                {
                    Unsure
                }
                Lookup::Missing => No,
                Lookup::Found(found) => {
                    let mut ty = found.ty;
                    if found.optional && !field.optional {
                        ty = Type::union([ty, Type::Undefined]);
                    }
                    match field.optional {
                        true => self.compare(&ty.present(), &field.ty, depth + 1),
                        false => self.compare(&ty, &field.ty, depth + 1),
                    }
                }
            };
            verdict = verdict.and(fits);
        }
        let callable = self
            .shape(source)
            .is_none_or(|shape| shape.open || !shape.calls.is_empty());
        if !wanted.calls.is_empty() {
            verdict = verdict.and(if callable { Unsure } else { No });
        }
        if wanted.open || wanted.nominal || wanted.index.is_some() || !wanted.constructs.is_empty()
        {
            verdict = verdict.and(Unsure);
        }
        if verdict == Yes && self.shares_nothing(source, &wanted) {
            return No;
        }
        verdict
    }

    /// Whether a class or an interface extends a list.
    fn extends_list(&self, ty: &Type) -> bool {
        let mut left = vec![self.expand(ty)];
        let mut seen = 0;
        while let Some(Type::Object(shape)) = left.pop() {
            seen += 1;
            let list = |base: &Type| {
                matches!(base, Type::Array(_) | Type::Tuple(_))
                    || base.argument_of(&["Array"]).is_some()
            };
            if seen > COMPARED || shape.extends.iter().any(list) {
                return true;
            }
            left.extend(shape.extends.iter().map(|base| self.expand(base)));
        }
        false
    }

    /// A type whose members are all optional takes no object that has none of them.
    fn shares_nothing(&self, source: &Type, wanted: &Shape) -> bool {
        if !is_weak(wanted) {
            return false;
        }
        let (fields, open) = self.fields(source);
        let open = open && !is_promise(source);
        let callable = self
            .shape(source)
            .is_some_and(|shape| !shape.calls.is_empty() || shape.index.is_some());
        !open
            && !callable
            && !fields.is_empty()
            && fields
                .iter()
                .all(|field| wanted.field(&field.name).is_none())
    }
}

impl Verdict {
    pub(crate) fn and(self, other: Verdict) -> Verdict {
        match (self, other) {
            (No, _) | (_, No) => No,
            (Unsure, _) | (_, Unsure) => Unsure,
            (Yes, Yes) => Yes,
        }
    }
}

/// All members optional, at least one, and nothing else.
pub(crate) fn is_weak(shape: &Shape) -> bool {
    !shape.fields.is_empty()
        && shape.fields.iter().all(|field| field.optional)
        && shape.index.is_none()
        && shape.calls.is_empty()
        && shape.constructs.is_empty()
        && !shape.open
}

fn worst(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    verdicts.into_iter().fold(Yes, Verdict::and)
}

fn best(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    let mut result = No;
    for verdict in verdicts {
        match verdict {
            Yes => return Yes,
            Unsure => result = Unsure,
            No => {}
        }
    }
    result
}

fn all_refuse(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    match verdicts.into_iter().all(|verdict| verdict == No) {
        true => No,
        false => Unsure,
    }
}

fn is_boolean(ty: &Type) -> bool {
    matches!(ty, Type::Boolean | Type::Any | Type::Param(_))
}

fn is_primitive(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Boolean
            | Type::BooleanLiteral(_)
            | Type::Number
            | Type::NumberLiteral(_)
            | Type::BigInt
            | Type::String
            | Type::StringLiteral(_)
            | Type::Template
            | Type::Symbol
            | Type::Undefined
            | Type::Null
    )
}

fn primitives(source: &Type, target: &Type) -> Verdict {
    match (source, target) {
        (Type::BooleanLiteral(_), Type::Boolean)
        | (Type::NumberLiteral(_), Type::Number)
        | (Type::StringLiteral(_) | Type::Template, Type::String) => Yes,
        (Type::StringLiteral(_) | Type::String | Type::Template, Type::Template)
        | (Type::Template, Type::StringLiteral(_)) => Unsure,
        (Type::String, Type::StringLiteral(_))
        | (Type::Number, Type::NumberLiteral(_))
        | (Type::Boolean, Type::BooleanLiteral(_))
            if LITERALS_STAY.get() =>
        {
            Unsure
        }
        _ => No,
    }
}
