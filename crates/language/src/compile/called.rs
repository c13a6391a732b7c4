// SPDX-License-Identifier: Apache-2.0
//! From the engine's place of a call to the call. For a frame of a stack the engine tells the last
//! place that it noted before the call's own instruction, which lies among the call's arguments:
//! several lines below what is called, where the arguments are that long.
//!
//! The engine (QuickJS-ng) notes a place at each identifier that is read, at the first token behind
//! a call's `(`, behind `new`, at a template, and at the right side of a binary operator. For a
//! token that isn't read as an identifier it tells the last place where white space ended or an
//! identifier began ([`marks`]). This reads the generated code again, notes the same, and so knows
//! each call by the place that the engine tells of it. Only an error's places ask for it: a program
//! that runs well is never read again.

use oxc::allocator::Allocator;
use oxc::ast::ast::{
    Argument, ArrowFunctionExpression, BigIntLiteral, BinaryExpression, BinaryOperator,
    CallExpression, Expression, Function, IdentifierReference, NewExpression, NumericLiteral,
    ObjectProperty, PropertyDefinition, RegExpLiteral, StaticBlock, StringLiteral,
    TaggedTemplateExpression, TemplateElement,
};
use oxc::ast_visit::{Visit, walk};
use oxc::parser::Parser;
use oxc::span::{GetSpan, SourceType, Span};
use oxc::syntax::scope::ScopeFlags;

/// What the code of a frame was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing<'a> {
    /// It was calling a function of this name; empty where the function has none.
    Calls(&'a str),
    /// It was calling what isn't a function.
    CallsNone,
    /// An error of this name came up in it.
    Fails(&'a str),
}

/// Functions that no call calls, but an operator or a statement.
const IMPLIED: [&str; 7] = [
    "valueOf",
    "toString",
    "next",
    "return",
    "[Symbol.toPrimitive]",
    "[Symbol.iterator]",
    "[Symbol.asyncIterator]",
];

/// The calls of a module, by the engine's place of each.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    /// Inner ones first.
    all: Vec<Call>,
}

/// Places are bytes from the code's beginning.
#[derive(Clone, Debug)]
struct Call {
    /// What the engine tells; until the marks are known, the token that it tells it of.
    told: u32,
    /// The token is an identifier that is read.
    is_exact: bool,
    /// Where the name of the called begins, or `new`.
    at: u32,
    name: Option<Box<str>>,
    /// What is called, without the arguments.
    called: Span,
    is_new: bool,
}

/// Characters of what is called that an error names.
const MAX_CALLED: usize = 80;

impl Calls {
    /// Reads generated code. Must run inside [`crate::stack::on_big_stack`].
    pub(super) fn read(code: &str) -> Self {
        let allocator = Allocator::default();
        let kind = SourceType::unambiguous().with_javascript(true);
        let parsed = Parser::new(&allocator, code, kind).parse();
        let mut reader = Reader::default();
        reader.visit_program(&parsed.program);
        reader.literals.sort_by_key(|(span, _)| span.start);
        let marks = marks(code, &reader.literals);
        let mut all = reader.found;
        for call in &mut all {
            if !call.is_exact {
                let after = marks.partition_point(|mark| *mark <= call.told);
                let mark = after.checked_sub(1).and_then(|at| marks.get(at));
                call.told = mark.copied().unwrap_or(call.told);
            }
        }
        Self { all }
    }

    /// The call that the engine's place `told` stands for; none where it stands for itself.
    pub(super) fn at(&self, told: u32, doing: Doing<'_>) -> Option<u32> {
        let mut here = self.all.iter().filter(|call| call.told == told);
        let named = |name: &str| {
            let mut all = self.all.iter().filter(|call| call.told == told);
            all.find(|call| call.name.as_deref() == Some(name))
        };
        let found = match doing {
            Doing::Calls(name) => named(name).or_else(|| {
                let accessor = name.starts_with("get ") || name.starts_with("set ");
                let implied = accessor || IMPLIED.contains(&name);
                here.next().filter(|_| !implied)
            }),
            Doing::CallsNone => here.next(),
            Doing::Fails(name) => named(name),
        };
        found.map(|call| call.at)
    }

    /// What was called at the engine's place `told`, as `code` has it, and whether with `new`. Its
    /// name alone where it is long, or where a plan's guards are in it.
    pub(super) fn called(&self, code: &str, told: u32) -> Option<(String, bool)> {
        let call = self.all.iter().find(|call| call.told == told)?;
        let range = call.called.start as usize..call.called.end as usize;
        let text: String = code.get(range)?.lines().map(str::trim).collect();
        let is_long = text.chars().count() > MAX_CALLED;
        let text = match is_long || text.contains("__") {
            true => call.name.as_deref().map(str::to_owned)?,
            false => text,
        };
        Some((text, call.is_new))
    }
}

/// Where the engine's scanner keeps a place: behind white space and where identifiers and keywords
/// begin that begin in ASCII; in a template's text behind its line ends. `literals` are ascending.
fn marks(code: &str, literals: &[(Span, Literal)]) -> Vec<u32> {
    let mut literals = literals.iter().peekable();
    let mut marks = Vec::new();
    let mut in_word = false;
    for (at, character) in code.char_indices() {
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        while literals.next_if(|(span, _)| span.end <= at).is_some() {}
        let next = at.saturating_add(u32::try_from(character.len_utf8()).unwrap_or(1));
        if let Some((_, kind)) = literals.peek().filter(|(span, _)| span.start <= at) {
            if *kind == Literal::Template && character == '\n' {
                marks.push(next);
            }
            in_word = false;
        } else if character.is_whitespace() {
            marks.push(next);
            in_word = false;
        } else if character.is_alphanumeric() || matches!(character, '_' | '$' | '#') {
            if !in_word && character.is_ascii() && character != '#' {
                marks.push(at);
            }
            in_word = true;
        } else {
            in_word = false;
        }
    }
    marks
}

/// A literal whose text the scanner keeps no places in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Literal {
    Template,
    Other,
}

/// Notes what the engine notes, in the same order.
#[derive(Default)]
struct Reader {
    /// The place that was noted last in this function, and whether it is that of an identifier.
    last: (u32, bool),
    found: Vec<Call>,
    literals: Vec<(Span, Literal)>,
}

impl Reader {
    /// Something with code of its own.
    fn apart(&mut self, walk: impl FnOnce(&mut Self)) {
        let last = self.last;
        walk(self);
        self.last = last;
    }

    fn note(&mut self, token: u32) {
        self.last = (token, false);
    }

    fn literal(&mut self, span: Span) {
        self.literals.push((span, Literal::Other));
    }

    fn arguments(&mut self, arguments: &[Argument<'_>]) {
        for argument in arguments {
            self.visit_argument(argument);
        }
    }

    fn keep(&mut self, called: &Expression<'_>, at: Option<u32>) {
        let (name, place) = named(called);
        self.found.push(Call {
            told: self.last.0,
            is_exact: self.last.1,
            at: at.unwrap_or(place),
            name: name.map(Into::into),
            called: called.span(),
            is_new: at.is_some(),
        });
    }
}

/// The name of what is called, and where it begins.
fn named<'e>(called: &'e Expression<'_>) -> (Option<&'e str>, u32) {
    match called {
        Expression::Identifier(id) => (Some(id.name.as_str()), id.span.start),
        Expression::StaticMemberExpression(member) => {
            let name = &member.property;
            (Some(name.name.as_str()), name.span.start)
        }
        Expression::PrivateFieldExpression(member) => {
            let name = &member.field;
            (Some(name.name.as_str()), name.span.start)
        }
        Expression::ComputedMemberExpression(member) => {
            let name = match &member.expression {
                Expression::StringLiteral(text) => Some(text.value.as_str()),
                _ => None,
            };
            (name, member.expression.span().start)
        }
        Expression::ParenthesizedExpression(inner) => named(&inner.expression),
        other => (None, other.span().start),
    }
}

impl<'a> Visit<'a> for Reader {
    fn visit_call_expression(&mut self, call: &CallExpression<'a>) {
        self.visit_expression(&call.callee);
        let first = call.arguments.first();
        self.note(first.map_or(call.span.end - 1, |first| first.span().start));
        self.arguments(&call.arguments);
        self.keep(&call.callee, None);
    }

    fn visit_new_expression(&mut self, new: &NewExpression<'a>) {
        self.note(new.callee.span().start);
        self.visit_expression(&new.callee);
        self.arguments(&new.arguments);
        self.keep(&new.callee, Some(new.span.start));
    }

    fn visit_tagged_template_expression(&mut self, tagged: &TaggedTemplateExpression<'a>) {
        self.visit_expression(&tagged.tag);
        self.note(tagged.quasi.span.start);
        self.visit_template_literal(&tagged.quasi);
        self.keep(&tagged.tag, None);
    }

    fn visit_identifier_reference(&mut self, id: &IdentifierReference<'a>) {
        self.last = (id.span.start, true);
    }

    fn visit_string_literal(&mut self, text: &StringLiteral<'a>) {
        self.literal(text.span);
    }

    fn visit_numeric_literal(&mut self, number: &NumericLiteral<'a>) {
        self.literal(number.span);
    }

    fn visit_big_int_literal(&mut self, number: &BigIntLiteral<'a>) {
        self.literal(number.span);
    }

    fn visit_reg_exp_literal(&mut self, pattern: &RegExpLiteral<'a>) {
        self.literal(pattern.span);
    }

    fn visit_template_element(&mut self, text: &TemplateElement<'a>) {
        self.literals.push((text.span, Literal::Template));
    }

    fn visit_object_property(&mut self, property: &ObjectProperty<'a>) {
        // `{ a }` reads `a` without a place.
        if !property.shorthand {
            walk::walk_object_property(self, property);
        }
    }

    fn visit_binary_expression(&mut self, binary: &BinaryExpression<'a>) {
        self.visit_expression(&binary.left);
        if binary.operator != BinaryOperator::Exponential {
            self.note(binary.right.span().start);
        }
        self.visit_expression(&binary.right);
    }

    fn visit_function(&mut self, function: &Function<'a>, flags: ScopeFlags) {
        self.apart(|reader| walk::walk_function(reader, function, flags));
    }

    fn visit_arrow_function_expression(&mut self, arrow: &ArrowFunctionExpression<'a>) {
        self.apart(|reader| walk::walk_arrow_function_expression(reader, arrow));
    }

    fn visit_property_definition(&mut self, property: &PropertyDefinition<'a>) {
        self.apart(|reader| walk::walk_property_definition(reader, property));
    }

    fn visit_static_block(&mut self, block: &StaticBlock<'a>) {
        self.apart(|reader| walk::walk_static_block(reader, block));
    }
}
