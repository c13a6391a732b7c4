// SPDX-License-Identifier: Apache-2.0
//! What the scan must know of a word: whether it ends an operand, nests a statement, or is one of
//! TypeScript's contextual words that may be either.

/// A word's part in an expression or a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// A name or a value: an operand ends with it.
    Operand,
    /// `if`, `while`, `for`, `with`: what its parenthesis holds is no operand.
    Control,
    /// Never an operand, and begins one level of a statement: `else`, `do`.
    Nests,
    /// Never an operand's end: what follows it may be a regular expression.
    Prefix,
    /// Reserved, but an operand's end where it is a type (`as const`, `=> void`).
    MaybeType,
    /// A name or a word of the grammar, by context: never taken for an operand's end when that
    /// would begin a new statement.
    Contextual,
}

pub(super) fn word(text: &str) -> Word {
    match text {
        "if" | "while" | "for" | "with" => Word::Control,
        "else" | "do" | "try" | "finally" | "catch" => Word::Nests,
        "break" | "case" | "class" | "continue" | "debugger" | "default" | "delete" | "enum"
        | "export" | "extends" | "function" | "import" | "in" | "instanceof" | "new" | "return"
        | "switch" | "throw" | "typeof" | "var" => Word::Prefix,
        "const" | "void" => Word::MaybeType,
        "abstract" | "accessor" | "as" | "assert" | "asserts" | "async" | "await"
        | "constructor" | "declare" | "defer" | "from" | "get" | "global" | "implements"
        | "infer" | "interface" | "is" | "keyof" | "let" | "module" | "namespace" | "of"
        | "out" | "override" | "package" | "private" | "protected" | "public" | "readonly"
        | "require" | "satisfies" | "set" | "source" | "static" | "type" | "unique" | "using"
        | "yield" => Word::Contextual,
        _ => Word::Operand,
    }
}

/// Whether a word goes on with the statement before it rather than beginning one.
pub(super) fn goes_on(text: &str) -> bool {
    matches!(
        text,
        "else"
            | "while"
            | "catch"
            | "finally"
            | "as"
            | "satisfies"
            | "in"
            | "of"
            | "instanceof"
            | "extends"
            | "implements"
            | "is"
            | "from"
    )
}

/// Whether a word stands nowhere but at a statement's beginning.
pub(super) fn begins(text: &str) -> bool {
    matches!(
        text,
        "const"
            | "export"
            | "var"
            | "return"
            | "if"
            | "for"
            | "throw"
            | "switch"
            | "break"
            | "continue"
            | "try"
            | "debugger"
    )
}
