// SPDX-License-Identifier: Apache-2.0
//! Which branches a plan may pass without knowing: those that only throw or print. A program that
//! throws where a job has failed is planned as if the job succeeds; the plan says so. Pure: looks
//! at the erased tree, before anything is guarded. Called by `plan`, which rewrites what it finds.

use oxc::ast::ast::{
    AssignmentExpression, AwaitExpression, CallExpression, Expression, ForOfStatement,
    ForStatementLeft, IfStatement, Statement, UnaryExpression, UnaryOperator, UpdateExpression,
    VariableDeclaration, VariableDeclarationKind, YieldExpression,
};
use oxc::ast_visit::{Visit, walk};

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// Prints, or nothing; it may also throw.
    Tells,
    /// Throws, whichever way it takes.
    Throws,
    /// Anything else.
    Acts,
}

/// The value that the test of `statement` is planned to have where it can't be known; none where
/// both ways do something.
pub(super) fn outcome(statement: &IfStatement<'_>) -> Option<bool> {
    if !is_short(&statement.test) {
        return None;
    }
    let consequent = does(&statement.consequent, false);
    let alternate = statement.alternate.as_ref();
    let alternate = alternate.map_or(Does::Tells, |it| does(it, false));
    match (consequent, alternate) {
        (Does::Throws, Does::Throws) => None,
        (Does::Throws, _) | (Does::Tells, Does::Tells) => Some(false),
        (_, Does::Throws) => Some(true),
        _ => None,
    }
}

/// Whether a loop over a stream only waits: its body throws, prints, or leaves it.
pub(super) fn only_waits(statement: &ForOfStatement<'_>) -> bool {
    statement.r#await && does(&statement.body, true) != Does::Acts
}

/// What is behind an operator isn't evaluated where what is before it isn't known: nothing may
/// happen there.
fn is_short(test: &Expression<'_>) -> bool {
    match test {
        Expression::LogicalExpression(it) => is_short(&it.left) && is_quiet(&it.right),
        Expression::BinaryExpression(it) => is_short(&it.left) && is_quiet(&it.right),
        Expression::UnaryExpression(it) => is_short(&it.argument),
        Expression::ParenthesizedExpression(it) => is_short(&it.expression),
        _ => true,
    }
}

fn does(statement: &Statement<'_>, in_loop: bool) -> Does {
    match statement {
        Statement::EmptyStatement(_) => Does::Tells,
        Statement::ThrowStatement(it) if is_quiet(&it.argument) => Does::Throws,
        Statement::ExpressionStatement(it) if tells(&it.expression) => Does::Tells,
        // What a block names goes with it.
        Statement::VariableDeclaration(it) => tells_or_acts(only_names(it)),
        Statement::BreakStatement(it) if in_loop && it.label.is_none() => Does::Tells,
        Statement::ContinueStatement(it) if in_loop && it.label.is_none() => Does::Tells,
        Statement::BlockStatement(block) => {
            let all = block.body.iter().map(|one| does(one, in_loop));
            let mut all = all.skip_while(|one| *one == Does::Tells);
            all.next().unwrap_or(Does::Tells)
        }
        Statement::IfStatement(it) if is_quiet(&it.test) => {
            let alternate = it.alternate.as_ref();
            let alternate = alternate.map_or(Does::Tells, |it| does(it, in_loop));
            match (does(&it.consequent, in_loop), alternate) {
                (Does::Acts, _) | (_, Does::Acts) => Does::Acts,
                (Does::Throws, Does::Throws) => Does::Throws,
                _ => Does::Tells,
            }
        }
        // These may throw, or do nothing at all.
        Statement::ForOfStatement(it) if !it.r#await && is_quiet(&it.right) => {
            let names =
                matches!(&it.left, ForStatementLeft::VariableDeclaration(it) if only_names(it));
            tells_or_acts(names && does(&it.body, true) != Does::Acts)
        }
        Statement::SwitchStatement(it) if is_quiet(&it.discriminant) => {
            let mut tests = it.cases.iter().filter_map(|case| case.test.as_ref());
            let mut all = it.cases.iter().flat_map(|case| &case.consequent);
            let acts = all.any(|one| does(one, true) == Does::Acts);
            tells_or_acts(tests.all(is_quiet) && !acts)
        }
        _ => Does::Acts,
    }
}

const fn tells_or_acts(tells: bool) -> Does {
    match tells {
        true => Does::Tells,
        false => Does::Acts,
    }
}

/// Whether a declaration changes nothing but its own names, which end with the block around them.
fn only_names(declaration: &VariableDeclaration<'_>) -> bool {
    let kinds = [VariableDeclarationKind::Const, VariableDeclarationKind::Let];
    let mut quiet = Quiet(true);
    quiet.visit_variable_declaration(declaration);
    kinds.contains(&declaration.kind) && quiet.0
}

/// Whether an expression prints, or nothing: also on one side of an operator.
fn tells(expression: &Expression<'_>) -> bool {
    match expression {
        Expression::LogicalExpression(it) => is_quiet(&it.left) && tells(&it.right),
        Expression::ConditionalExpression(it) => {
            is_quiet(&it.test) && tells(&it.consequent) && tells(&it.alternate)
        }
        Expression::ParenthesizedExpression(it) => tells(&it.expression),
        _ => is_print(expression),
    }
}

/// `print(…)`, `console.log(…)`.
fn is_print(expression: &Expression<'_>) -> bool {
    let Expression::CallExpression(call) = expression else {
        return false;
    };
    let is_named = match &call.callee {
        Expression::Identifier(name) => name.name == "print",
        Expression::StaticMemberExpression(member) => {
            matches!(&member.object, Expression::Identifier(name) if name.name == "console")
        }
        _ => false,
    };
    let mut quiet = Quiet(true);
    for argument in &call.arguments {
        quiet.visit_argument(argument);
    }
    is_named && quiet.0
}

/// Whether an expression changes nothing by its form: nothing is awaited or assigned in it.
fn is_quiet(expression: &Expression<'_>) -> bool {
    let mut quiet = Quiet(true);
    quiet.visit_expression(expression);
    quiet.0
}

struct Quiet(bool);

impl<'a> Visit<'a> for Quiet {
    fn visit_await_expression(&mut self, _: &AwaitExpression<'a>) {
        self.0 = false;
    }

    fn visit_yield_expression(&mut self, _: &YieldExpression<'a>) {
        self.0 = false;
    }

    fn visit_assignment_expression(&mut self, _: &AssignmentExpression<'a>) {
        self.0 = false;
    }

    fn visit_update_expression(&mut self, _: &UpdateExpression<'a>) {
        self.0 = false;
    }

    fn visit_unary_expression(&mut self, it: &UnaryExpression<'a>) {
        self.0 &= it.operator != UnaryOperator::Delete;
        walk::walk_unary_expression(self, it);
    }

    /// A method of the API begins with a capital, and acts when it is called.
    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        if let Expression::StaticMemberExpression(member) = &it.callee {
            self.0 &= !member
                .property
                .name
                .starts_with(|c: char| c.is_ascii_uppercase());
        }
        walk::walk_call_expression(self, it);
    }
}
