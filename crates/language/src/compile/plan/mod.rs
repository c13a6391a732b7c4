// SPDX-License-Identifier: Apache-2.0
//! Guards around what a branch depends on. A plan's run gives unknown values for what only a real
//! run would tell; they refuse to be coerced, but ECMAScript branches on an object without asking
//! it. So the code asks: every test, comparison and `!` calls the guard first. What tells rather
//! than asks goes on instead: a template or a `+` with something unknown in it is unknown.
//!
//! Where all that depends on a test is that something is thrown or printed (`passed`), the plan
//! goes on as if it weren't, and says so: the test is handed to [`ASK`] within a `try`, and what
//! that throws to [`PASS`], which knows its own refusals. A loop that only waits for a stream is
//! passed over in the same way, by [`SKIP`].
//!
//! Works on the erased tree: what TypeScript's forms became branches too. Not seen here: what the
//! library tests (`filter`, `some`, `find`, `Boolean(x)`); the evaluator guards that.

mod passed;

use oxc::allocator::{Allocator, TakeIn};
use oxc::ast::ast::{
    Argument, BinaryExpression, BinaryOperator, BindingPattern, BlockStatement, CatchClause,
    CatchParameter, ConditionalExpression, DoWhileStatement, Expression, ForInStatement,
    ForOfStatement, ForStatement, IdentifierName, IfStatement, LogicalExpression,
    PrivateInExpression, Program, Statement, SwitchCase, SwitchStatement, UnaryExpression,
    UnaryOperator, VariableDeclarator, WhileStatement,
};
use oxc::ast::builder::AstBuilder;
use oxc::ast_visit::{VisitMut, walk_mut};
use oxc::semantic::Scoping;
use oxc::span::{GetSpan, SPAN, Span};
use oxc::syntax::number::NumberBase;

use super::{ASK, GUARD, PASS, PLUS, SKIP, TEXT, TOLD};
use crate::source::Source;

/// Wraps every test in `program`, whose names `scoping` knows.
pub(super) fn guard<'a>(
    allocator: &'a Allocator,
    source: &Source,
    scoping: &Scoping,
    program: &mut Program<'a>,
) {
    let builder = AstBuilder::new(allocator);
    let name = allocator.alloc_str(source.name());
    let mut guards = Guards {
        builder,
        source,
        name,
        scoping,
    };
    guards.visit_program(program);
}

struct Guards<'a, 's> {
    builder: AstBuilder<'a>,
    source: &'s Source,
    name: &'a str,
    scoping: &'s Scoping,
}

impl<'a> Guards<'a, '_> {
    fn wrap(&self, tested: &mut Expression<'a>) {
        if tested.is_literal() {
            return;
        }
        let span = tested.span();
        let inner = tested.take_in(&self.builder);
        let [line, column, file] = self.place(span);
        *tested = self.call(span, GUARD, [inner, line, column, file]);
    }

    /// Line, column and file of what was written, as arguments.
    fn place(&self, span: Span) -> [Expression<'a>; 3] {
        let place = self.source.position(span.start);
        let number = |value: u32| {
            let value = f64::from(value);
            Expression::new_numeric_literal(SPAN, value, None, NumberBase::Decimal, &self.builder)
        };
        let file = Expression::new_string_literal(SPAN, self.name, None, &self.builder);
        [number(place.line), number(place.column), file]
    }

    fn boolean(&self, value: bool) -> Expression<'a> {
        Expression::new_boolean_literal(SPAN, value, &self.builder)
    }

    /// Tells the guards of what a test is made of that a refusal of theirs may be passed.
    fn mark(&self, test: &mut Expression<'a>) {
        match test {
            Expression::CallExpression(call) if is_guard(&call.callee) => {
                if let Some(inner) = call
                    .arguments
                    .first_mut()
                    .and_then(Argument::as_expression_mut)
                {
                    self.mark(inner);
                }
                call.arguments.push(Argument::from(self.boolean(true)));
            }
            Expression::LogicalExpression(it) => {
                self.mark(&mut it.left);
                self.mark(&mut it.right);
            }
            Expression::BinaryExpression(it) => {
                self.mark(&mut it.left);
                self.mark(&mut it.right);
            }
            Expression::UnaryExpression(it) => self.mark(&mut it.argument),
            Expression::ParenthesizedExpression(it) => self.mark(&mut it.expression),
            _ => {}
        }
    }

    /// `try { tried } catch (thrown) { globalThis.name(arguments) }`.
    fn caught<const N: usize>(
        &self,
        tried: Statement<'a>,
        name: &'static str,
        arguments: [Expression<'a>; N],
    ) -> Statement<'a> {
        let thrown = BindingPattern::new_binding_identifier(SPAN, THROWN, &self.builder);
        let param = CatchParameter::new(SPAN, thrown, None, &self.builder);
        let call = self.call(SPAN, name, arguments);
        let call = Statement::new_expression_statement(SPAN, call, &self.builder);
        let block = BlockStatement::boxed(SPAN, [call], &self.builder);
        let clause = CatchClause::boxed(SPAN, Some(param), block, &self.builder);
        let block = BlockStatement::boxed(SPAN, [tried], &self.builder);
        Statement::new_try_statement(SPAN, block, Some(clause), None, &self.builder)
    }

    fn thrown(&self) -> Expression<'a> {
        Expression::new_identifier(SPAN, THROWN, &self.builder)
    }

    /// `{ try { ask(test) } catch (e) { pass(e, way, …) } if (told()) … }`.
    fn pass(&self, statement: &mut IfStatement<'a>, way: bool) -> Statement<'a> {
        let span = statement.test.span();
        self.mark(&mut statement.test);
        let test = statement.test.take_in(&self.builder);
        let [line, column, file] = self.place(span);
        let asked = self.call(span, ASK, [test, line, column, file]);
        let asked = Statement::new_expression_statement(SPAN, asked, &self.builder);
        let [line, column, file] = self.place(span);
        let tried = self.caught(
            asked,
            PASS,
            [self.thrown(), self.boolean(way), line, column, file],
        );
        let branch = Statement::new_if_statement(
            statement.span,
            self.call(span, TOLD, []),
            statement.consequent.take_in(&self.builder),
            statement.alternate.take(),
            &self.builder,
        );
        Statement::new_block_statement(SPAN, [tried, branch], &self.builder)
    }

    /// `globalThis.name`.
    fn global(&self, name: &'static str) -> Expression<'a> {
        let object = Expression::new_identifier(SPAN, "globalThis", &self.builder);
        let property = IdentifierName::new(SPAN, name, &self.builder);
        Expression::new_static_member_expression(SPAN, object, property, false, &self.builder)
    }

    /// `globalThis.name(arguments)`.
    fn call<const N: usize>(
        &self,
        span: Span,
        name: &'static str,
        arguments: [Expression<'a>; N],
    ) -> Expression<'a> {
        let arguments = arguments.map(Argument::from);
        let callee = self.global(name);
        Expression::new_call_expression(span, callee, None, arguments, false, &self.builder)
    }

    /// A template becomes a tagged one, `+` a call.
    fn tell(&self, expression: &mut Expression<'a>) {
        match expression {
            Expression::TemplateLiteral(template) if !template.expressions.is_empty() => {
                let span = template.span;
                let quasi = template.take_in(&self.builder);
                *expression = Expression::new_tagged_template_expression(
                    span,
                    self.global(TEXT),
                    None,
                    quasi,
                    &self.builder,
                );
            }
            Expression::BinaryExpression(sum)
                if sum.operator == BinaryOperator::Addition && !is_sum_of_literals(sum) =>
            {
                let left = sum.left.take_in(&self.builder);
                let right = sum.right.take_in(&self.builder);
                *expression = self.call(sum.span, PLUS, [left, right]);
            }
            _ => {}
        }
    }

    /// `typeof name` is asked of names that may not exist; any other use would throw.
    fn may_be_missing(&self, argument: &Expression<'a>) -> bool {
        match argument {
            Expression::Identifier(name) => {
                let free = self.scoping.root_unresolved_references();
                free.contains_key(&name.name)
            }
            _ => false,
        }
    }
}

/// What the error that a plan's own `catch` has caught is called. No program sees it: the calls in
/// that block are ours.
const THROWN: &str = "thrown";

fn is_guard(callee: &Expression<'_>) -> bool {
    matches!(callee, Expression::StaticMemberExpression(it) if it.property.name == GUARD)
}

/// What is within is told by now: a `+` that is still one has only literals.
fn is_sum_of_literals(sum: &BinaryExpression<'_>) -> bool {
    let is_plain = |side: &Expression<'_>| match side {
        Expression::BinaryExpression(inner) => inner.operator == BinaryOperator::Addition,
        other => other.is_literal(),
    };
    is_plain(&sum.left) && is_plain(&sum.right)
}

impl<'a> VisitMut<'a> for Guards<'a, '_> {
    fn visit_expression(&mut self, expression: &mut Expression<'a>) {
        walk_mut::walk_expression(self, expression);
        self.tell(expression);
    }

    fn visit_statement(&mut self, statement: &mut Statement<'a>) {
        match statement {
            Statement::IfStatement(it) if let Some(way) = passed::outcome(it) => {
                walk_mut::walk_if_statement(self, it);
                *statement = self.pass(it, way);
            }
            Statement::ForOfStatement(it) if passed::only_waits(it) => {
                let span = it.right.span();
                self.visit_for_of_statement(it);
                let [line, column, file] = self.place(span);
                let tried = statement.take_in(&self.builder);
                *statement = self.caught(tried, SKIP, [self.thrown(), line, column, file]);
            }
            _ => walk_mut::walk_statement(self, statement),
        }
    }

    fn visit_if_statement(&mut self, statement: &mut IfStatement<'a>) {
        walk_mut::walk_if_statement(self, statement);
        self.wrap(&mut statement.test);
    }

    fn visit_conditional_expression(&mut self, expression: &mut ConditionalExpression<'a>) {
        walk_mut::walk_conditional_expression(self, expression);
        self.wrap(&mut expression.test);
    }

    fn visit_while_statement(&mut self, statement: &mut WhileStatement<'a>) {
        walk_mut::walk_while_statement(self, statement);
        self.wrap(&mut statement.test);
    }

    fn visit_do_while_statement(&mut self, statement: &mut DoWhileStatement<'a>) {
        walk_mut::walk_do_while_statement(self, statement);
        self.wrap(&mut statement.test);
    }

    fn visit_for_statement(&mut self, statement: &mut ForStatement<'a>) {
        walk_mut::walk_for_statement(self, statement);
        if let Some(test) = &mut statement.test {
            self.wrap(test);
        }
    }

    fn visit_for_of_statement(&mut self, statement: &mut ForOfStatement<'a>) {
        walk_mut::walk_for_of_statement(self, statement);
        self.wrap(&mut statement.right);
    }

    fn visit_for_in_statement(&mut self, statement: &mut ForInStatement<'a>) {
        walk_mut::walk_for_in_statement(self, statement);
        self.wrap(&mut statement.right);
    }

    fn visit_switch_statement(&mut self, statement: &mut SwitchStatement<'a>) {
        walk_mut::walk_switch_statement(self, statement);
        self.wrap(&mut statement.discriminant);
    }

    fn visit_switch_case(&mut self, case: &mut SwitchCase<'a>) {
        walk_mut::walk_switch_case(self, case);
        if let Some(test) = &mut case.test {
            self.wrap(test);
        }
    }

    /// The engine refuses these by itself, but can't say on which line.
    fn visit_variable_declarator(&mut self, declarator: &mut VariableDeclarator<'a>) {
        walk_mut::walk_variable_declarator(self, declarator);
        let counts = match &declarator.id {
            BindingPattern::ArrayPattern(_) => true,
            BindingPattern::ObjectPattern(pattern) => pattern.rest.is_some(),
            _ => false,
        };
        if let (true, Some(init)) = (counts, &mut declarator.init) {
            self.wrap(init);
        }
    }

    fn visit_logical_expression(&mut self, expression: &mut LogicalExpression<'a>) {
        walk_mut::walk_logical_expression(self, expression);
        self.wrap(&mut expression.left);
    }

    fn visit_private_in_expression(&mut self, expression: &mut PrivateInExpression<'a>) {
        walk_mut::walk_private_in_expression(self, expression);
        self.wrap(&mut expression.right);
    }

    fn visit_binary_expression(&mut self, expression: &mut BinaryExpression<'a>) {
        walk_mut::walk_binary_expression(self, expression);
        let operator = expression.operator;
        let compares = operator.is_equality() || operator.is_compare();
        let asks = matches!(operator, BinaryOperator::In | BinaryOperator::Instanceof);
        if compares || asks {
            self.wrap(&mut expression.left);
            self.wrap(&mut expression.right);
        }
    }

    fn visit_unary_expression(&mut self, expression: &mut UnaryExpression<'a>) {
        walk_mut::walk_unary_expression(self, expression);
        match expression.operator {
            UnaryOperator::LogicalNot => self.wrap(&mut expression.argument),
            UnaryOperator::Typeof if !self.may_be_missing(&expression.argument) => {
                self.wrap(&mut expression.argument);
            }
            _ => {}
        }
    }
}
