// SPDX-License-Identifier: Apache-2.0
//! The scan's measure: levels of brackets, and the operators and statements that are open on each.
//! Called for each token; which tokens there are is `super`'s.

use super::{Last, Scan, Step};
use crate::limits::Passed;
use crate::limits::words::{begins, goes_on};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bracket {
    File,
    Paren { head: bool },
    Square,
    Brace,
    Template,
}

pub(super) struct Level {
    pub(super) bracket: Bracket,
    /// Operators since the last comma.
    pub(super) chain: usize,
    /// Statements in statements since the last statement's end.
    pub(super) held: usize,
    /// `<` that may be open.
    pub(super) angles: usize,
    /// Those of them that look like a type's.
    pub(super) tight: usize,
    /// The line that the bracket stands on.
    pub(super) line: usize,
}

impl Scan<'_> {
    pub(super) fn push(&mut self, bracket: Bracket) -> Step {
        if self.levels.len() > self.most.brackets {
            return Err((Passed::Brackets, self.at.saturating_sub(1)));
        }
        let line = self.line;
        let levels = self.levels.iter().rev();
        if levels.take_while(|level| level.line == line).count() > self.most.line {
            return Err((Passed::Line, self.at.saturating_sub(1)));
        }
        self.levels.push(Level::new(bracket, line));
        self.ended_by(Last::Operator)
    }

    pub(super) fn pop(&mut self) {
        if let Some(level) = self.levels.pop() {
            self.depth -= level.chain + level.held;
        }
        self.ended = false;
    }

    /// A `<` that is spelled as a type's: without space on either side.
    pub(super) fn tight(&mut self, rest: &str) -> Result<(), (Passed, usize)> {
        let before = self.text.get(..self.at).unwrap_or_default();
        let spaced = before.ends_with(char::is_whitespace)
            || rest
                .get(1..)
                .is_some_and(|it| it.starts_with(char::is_whitespace));
        let Some(level) = self.levels.last_mut().filter(|_| !spaced) else {
            return Ok(());
        };
        level.tight += 1;
        match level.tight > self.most.line {
            true => Err((Passed::Line, self.at)),
            false => Ok(()),
        }
    }

    pub(super) fn angles(&mut self, change: impl Fn(usize) -> usize) {
        if let Some(level) = self.levels.last_mut() {
            level.angles = change(level.angles);
        }
    }

    pub(super) fn comma(&mut self) {
        let Some(level) = self.levels.last_mut() else {
            return;
        };
        if level.angles == 0 {
            self.depth -= level.chain;
            level.chain = 0;
        }
    }

    /// One operator more on this level.
    pub(super) fn operator(&mut self) -> Result<(), (Passed, usize)> {
        if let Some(level) = self.levels.last_mut() {
            level.chain += 1;
        }
        self.deeper()
    }

    /// One statement more within a statement.
    pub(super) fn hold(&mut self) -> Result<(), (Passed, usize)> {
        if let Some(level) = self.levels.last_mut() {
            level.held += 1;
        }
        self.deeper()
    }

    pub(super) fn deeper(&mut self) -> Result<(), (Passed, usize)> {
        self.depth += 1;
        match self.depth > self.most.expression {
            true => Err((Passed::Expression, self.at)),
            false => Ok(()),
        }
    }

    /// An operand begins here, with this word where it is one: after an operand, that is a new
    /// statement.
    pub(super) fn operand_begins(&mut self, text: &str) {
        self.settle(text);
        let follows = match self.last {
            Last::Operand | Last::Brace => true,
            Last::Angle => begins(text),
            Last::Unsure | Last::Operator | Last::Head => false,
        };
        if follows && !self.after_dot && !goes_on(text) {
            self.statement_ends();
        }
    }

    /// A `;` has ended the statement, unless what follows goes on with it.
    pub(super) fn settle(&mut self, text: &str) {
        if std::mem::take(&mut self.ended) && !matches!(text, "else" | "while") {
            self.statement_ends();
        }
    }

    pub(super) fn statement_ends(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            self.depth -= level.chain + level.held;
            level.chain = 0;
            level.held = 0;
            level.angles = 0;
            level.tight = 0;
        }
    }
}

impl Level {
    pub(super) fn new(bracket: Bracket, line: usize) -> Self {
        Self {
            bracket,
            chain: 0,
            held: 0,
            angles: 0,
            tight: 0,
            line,
        }
    }
}
