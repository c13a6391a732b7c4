// SPDX-License-Identifier: Apache-2.0
//! Calls: which overload is meant, what its type parameters stand for, what it gives. Where more
//! than one overload may be meant and they differ, the result is any.

use std::sync::Arc;

use oxc::ast::ast::*;
use oxc::span::GetSpan;

use super::assign::Verdict;
use super::convert::span;
use super::facts::Facts;
use super::fit::{Place, fit};
use super::infer::infer;
use super::meant::converter;
use super::names::is_global;
use super::substitute::{substitute, substitute_signature};
use super::types::{Signature, Type, same};
use super::world::is_promise;
use crate::source::Span;

use Verdict::{No, Unsure, Yes};

/// A call or a `new`: what both have.
pub(crate) struct Called<'n, 'a> {
    pub(crate) arguments: &'n [Argument<'a>],
    pub(crate) explicit: Option<&'n TSTypeParameterInstantiation<'a>>,
    /// Where `tsc` says that there are too few arguments, or that no overload fits.
    pub(crate) anchor: Span,
    pub(crate) whole: Span,
    /// It is the API's: its schema says what it takes.
    pub(crate) api: bool,
}

impl<'n, 'a> Called<'n, 'a> {
    pub(crate) fn of_call(call: &'n CallExpression<'a>) -> Self {
        let anchor = match call.callee.get_inner_expression() {
            Expression::StaticMemberExpression(member) => member.property.span,
            callee => callee.span(),
        };
        Self {
            arguments: &call.arguments,
            explicit: call.type_arguments.as_deref(),
            anchor: span(anchor),
            whole: span(call.span),
            api: false,
        }
    }

    pub(crate) fn of_new(new: &'n NewExpression<'a>) -> Self {
        Self {
            arguments: &new.arguments,
            explicit: new.type_arguments.as_deref(),
            anchor: span(new.span),
            whole: span(new.span),
            api: false,
        }
    }

    pub(super) fn spreads(&self) -> bool {
        self.arguments.iter().any(Argument::is_spread)
    }

    pub(super) fn counts(&self, signature: &Signature) -> bool {
        let given = self.arguments.len();
        self.spreads()
            || (given >= signature.required()
                && (signature.rest || given <= signature.params.len()))
    }
}

/// What a call may mean.
type Signatures = Vec<Arc<Signature>>;

/// The signatures of what is called; `None` where they aren't known.
pub(crate) fn signatures_of_call<'a>(
    facts: &Facts<'a, '_>,
    call: &CallExpression<'a>,
) -> Option<Signatures> {
    let callee = infer(facts, &call.callee).present();
    let signatures = facts.world.signatures(&callee)?;
    Some(match call.callee.get_inner_expression() {
        Expression::FunctionExpression(it) => lenient(signatures, &it.params),
        Expression::ArrowFunctionExpression(it) => lenient(signatures, &it.params),
        _ => signatures,
    })
}

/// The constructors of what `new` is called on, and the instance it gives.
pub(crate) fn constructors<'a>(
    facts: &Facts<'a, '_>,
    new: &NewExpression<'a>,
) -> Option<(Signatures, Type)> {
    let callee = infer(facts, &new.callee);
    if let Type::ClassOf(name) = &callee {
        let declared = facts.world.type_declaration(name)?;
        let arguments: Vec<Type> = match &new.type_arguments {
            Some(list) => {
                let converter = converter(facts);
                list.params.iter().map(|ty| converter.ty(ty)).collect()
            }
            None => declared.generics.iter().map(|_| Type::Any).collect(),
        };
        let instance = Type::Named(name.clone(), arguments.into());
        let shape = facts.world.shape(&callee)?;
        let constructs = match (shape.constructs.is_empty(), shape.open) {
            (true, true) => Vec::new(),
            (true, false) => vec![Arc::new(Signature::default())],
            (false, _) => shape.constructs.clone(),
        };
        let generic = !declared.generics.is_empty();
        let constructs = match generic {
            true => Vec::new(),
            false => constructs,
        };
        return Some((constructs, instance));
    }
    let shape = facts.world.shape(&callee)?;
    let first = shape.constructs.first()?;
    let instance = match shape.constructs.len() {
        1 => constructed(facts, first, new),
        _ => Type::Any,
    };
    Some((shape.constructs.clone(), instance))
}

/// What a constructor gives: its type parameters are what is named, else any.
fn constructed<'a>(facts: &Facts<'a, '_>, signature: &Signature, new: &NewExpression<'a>) -> Type {
    let converter = converter(facts);
    let named = new.type_arguments.as_ref();
    let named = named.map_or(&[][..], |list| list.params.as_slice());
    let mut named = named.iter().map(|ty| converter.ty(ty));
    let bindings = signature.generics.iter().map(|generic| {
        let ty = named.next().unwrap_or_default();
        (generic.name.clone(), ty)
    });
    substitute(&signature.returns, &bindings.collect::<Vec<_>>())
}

pub(crate) fn new_type<'a>(facts: &Facts<'a, '_>, new: &NewExpression<'a>) -> Type {
    constructors(facts, new).map_or(Type::Any, |(_, instance)| instance)
}

pub(crate) fn call_type<'a>(facts: &Facts<'a, '_>, call: &CallExpression<'a>) -> Type {
    if let Some(settled) = promise_all(facts, call).or_else(|| filtered(facts, call)) {
        return settled;
    }
    let Some(signatures) = signatures_of_call(facts, call) else {
        return Type::Any;
    };
    let called = Called::of_call(call);
    match select(facts, &signatures, &called) {
        Some(signature) => instantiate(facts, &signature, &called).returns,
        // None fits yet, as while one types; what all of them give it will give.
        None => match signatures.split_first() {
            Some((first, rest)) if rest.iter().all(|it| same(&it.returns, &first.returns)) => {
                instantiate(facts, first, &called).returns
            }
            // Whichever is meant: it has to be waited for.
            Some(_) if signatures.iter().all(|it| is_promise(&it.returns)) => {
                Type::global("Promise", [Type::Any])
            }
            _ => Type::Any,
        },
    }
}

/// `Promise.all([…])`, which nearly every script over several nodes has.
fn promise_all<'a>(facts: &Facts<'a, '_>, call: &CallExpression<'a>) -> Option<Type> {
    let Expression::StaticMemberExpression(member) = &call.callee else {
        return None;
    };
    let Expression::Identifier(name) = &member.object else {
        return None;
    };
    let all = name.name == "Promise" && member.property.name == "all" && is_global(facts, name);
    let argument = call.arguments.first()?.as_expression()?;
    if !all || matches!(argument, Expression::ArrayExpression(_)) {
        return None;
    }
    let element = facts.world.element(&infer(facts, argument))?.awaited();
    let list = Type::Array(Arc::new(element));
    Some(Type::global("Promise", [list]))
}

/// `list.filter(test)`: a list of the same, but where the test may tell more of an element.
fn filtered<'a>(facts: &Facts<'a, '_>, call: &CallExpression<'a>) -> Option<Type> {
    let Expression::StaticMemberExpression(member) = &call.callee else {
        return None;
    };
    let [Argument::ArrowFunctionExpression(test)] = call.arguments.as_slice() else {
        return None;
    };
    let written = facts.tree.written(test.span)?;
    let tells = written.contains("instanceof") || written.contains(" is ");
    if member.property.name != "filter" || tells {
        return None;
    }
    match facts.world.resolve(&infer(facts, &member.object)) {
        Type::Array(element) => match facts.world.resolve(&element) {
            Type::Object(_) | Type::Named(..) => Some(Type::Array(element)),
            _ => None,
        },
        _ => None,
    }
}

/// The signature that is meant, if that is sure enough to go on with what it gives.
fn select<'a>(
    facts: &Facts<'a, '_>,
    signatures: &[Arc<Signature>],
    called: &Called<'_, 'a>,
) -> Option<Arc<Signature>> {
    if let [one] = signatures {
        return Some(one.clone());
    }
    let mut possible = signatures
        .iter()
        .filter(|signature| called.counts(signature))
        .map(|signature| (signature, accepts(facts, signature, called)))
        .filter(|(_, verdict)| *verdict != No);
    let (first, verdict) = possible.next()?;
    // Of overloads that may fit the compiler takes the first that does.
    let alike = |other: &Signature| same(&first.returns, &other.returns);
    (verdict == Yes || signatures.iter().all(|other| alike(other))).then(|| first.clone())
}

pub(super) fn accepts<'a>(
    facts: &Facts<'a, '_>,
    signature: &Signature,
    called: &Called<'_, 'a>,
) -> Verdict {
    if called.spreads() {
        return Unsure;
    }
    let signature = instantiate(facts, signature, called);
    let mut verdict = Yes;
    for (index, argument) in called.arguments.iter().enumerate() {
        let wanted = signature.param(index);
        if let (Some(expression), Some(wanted)) = (argument.as_expression(), wanted) {
            let place = Place::new(&wanted, span(expression.span()));
            verdict = verdict.and(fit(facts, expression, place, &mut Vec::new()));
        }
    }
    verdict
}

/// The signature with its own type parameters replaced by what the arguments say.
pub(super) fn instantiate<'a>(
    facts: &Facts<'a, '_>,
    signature: &Signature,
    called: &Called<'_, 'a>,
) -> Signature {
    if signature.generics.is_empty() {
        return signature.clone();
    }
    let mut bindings: Vec<(Arc<str>, Option<Type>)> = signature
        .generics
        .iter()
        .map(|generic| (generic.name.clone(), None))
        .collect();
    if let Some(list) = called.explicit {
        let converter = converter(facts);
        for ((_, bound), ty) in bindings.iter_mut().zip(&list.params) {
            *bound = Some(converter.ty(ty));
        }
    } else {
        for (index, argument) in called.arguments.iter().enumerate() {
            let (Some(expression), Some(wanted)) =
                (argument.as_expression(), signature.param(index))
            else {
                continue;
            };
            if mentions(&wanted, 0) {
                unify(facts, &wanted, &infer(facts, expression), &mut bindings, 0);
            }
        }
    }
    let generics = signature.generics.iter();
    let bindings: Vec<(Arc<str>, Type)> = bindings
        .into_iter()
        .zip(generics)
        .map(|((name, bound), generic)| match bound {
            // What a bound leaves of a literal isn't followed.
            Some(_) if generic.constrained && called.explicit.is_none() => (name, Type::Any),
            Some(ty) => (name, ty.widened()),
            None => (name, Type::Any),
        })
        .collect();
    let plain = Signature {
        generics: [].into(),
        ..signature.clone()
    };
    substitute_signature(&plain, &bindings)
}

/// Finds what the parameters in `wanted` must be for `given` to fit.
fn unify(
    facts: &Facts<'_, '_>,
    wanted: &Type,
    given: &Type,
    bindings: &mut [(Arc<str>, Option<Type>)],
    depth: u32,
) {
    const DEEP: u32 = 6;
    if depth > DEEP {
        return;
    }
    match (wanted, given) {
        (Type::Param(name), given) => {
            let Some((_, bound)) = bindings.iter_mut().find(|(it, _)| it == name) else {
                return;
            };
            *bound = Some(match bound.take() {
                None => given.clone(),
                Some(known) if super::types::same(&known, given) => known,
                Some(_) => Type::Any,
            });
        }
        (Type::Array(wanted), given) => {
            let element = facts.world.element(given).unwrap_or_default();
            unify(facts, wanted, &element, bindings, depth + 1);
        }
        (Type::Named(wanted, a), Type::Named(given, b)) if wanted == given => {
            for (a, b) in a.iter().zip(b.iter()) {
                unify(facts, a, b, bindings, depth + 1);
            }
        }
        (Type::Object(wanted), Type::Object(given)) => {
            if let ([wanted], [given]) = (wanted.calls.as_slice(), given.calls.as_slice()) {
                unify(facts, &wanted.returns, &given.returns, bindings, depth + 1);
            }
        }
        // `T | Promise<T>` and the like: several ways, none of them followed.
        (Type::Union(members), _) => {
            for member in members.iter().filter(|it| mentions(it, 0)) {
                unify(facts, member, &Type::Any, bindings, depth + 1);
            }
        }
        _ => {}
    }
}

/// What is asked for in the place of an argument, if there is one signature only.
pub(crate) fn parameter_of_call<'a>(
    facts: &Facts<'a, '_>,
    call: &CallExpression<'a>,
    index: usize,
) -> Option<Type> {
    let signatures = signatures_of_call(facts, call)?;
    let [signature] = signatures.as_slice() else {
        return None;
    };
    let wanted = signature.param(index)?;
    Some(match signature.generics.is_empty() {
        true => wanted,
        // Its own parameters would have to be inferred without this argument.
        false => substitute(
            &wanted,
            &signature
                .generics
                .iter()
                .map(|generic| (generic.name.clone(), Type::Any))
                .collect::<Vec<_>>(),
        ),
    })
}

/// A function that is called where it is written needs no argument for what isn't annotated.
fn lenient(signatures: Signatures, params: &FormalParameters<'_>) -> Signatures {
    let eased = signatures.iter().map(|signature| {
        let mut eased = signature.as_ref().clone();
        for (param, written) in eased.params.iter_mut().zip(&params.items) {
            param.optional |= written.type_annotation.is_none();
        }
        Arc::new(eased)
    });
    eased.collect()
}

/// Whether a type parameter is in it.
fn mentions(ty: &Type, depth: u32) -> bool {
    const DEEP: u32 = 6;
    if depth > DEEP {
        return false;
    }
    match ty {
        Type::Param(_) => true,
        Type::Array(element) => mentions(element, depth + 1),
        Type::Union(list) | Type::Tuple(list) | Type::Named(_, list) => {
            list.iter().any(|ty| mentions(ty, depth + 1))
        }
        Type::Object(shape) => shape.calls.iter().any(|call| {
            let params = call.params.iter();
            mentions(&call.returns, depth + 1)
                || params.map(|it| &it.ty).any(|ty| mentions(ty, depth + 1))
        }),
        _ => false,
    }
}
