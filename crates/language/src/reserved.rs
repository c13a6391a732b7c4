// SPDX-License-Identifier: Apache-2.0
//! Words that no module can declare. Editors ask before a rename, the import of other formats
//! before it names a constant.

/// Reserved by ECMAScript (12.7.2), in modules and strict code as well.
const WORDS: [&str; 48] = [
    "arguments",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "eval",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "let",
    "new",
    "null",
    "package",
    "private",
    "protected",
    "public",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

/// Whether a module can't declare that name.
pub(crate) fn is_reserved(word: &str) -> bool {
    WORDS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_with_a_reserved_name_does_not_parse() {
        for word in WORDS {
            let allocator = oxc::allocator::Allocator::default();
            let text = format!("const {word} = 1; export {{}};");
            let parsed = oxc::parser::Parser::new(&allocator, &text, oxc::span::SourceType::ts());
            let parsed = parsed.parse();
            let checked = oxc::semantic::SemanticBuilder::new()
                .with_check_syntax_error(true)
                .build(&parsed.program);
            let is_refused = !parsed.diagnostics.is_empty() || !checked.diagnostics.is_empty();
            assert!(is_refused && is_reserved(word), "{word}");
        }
        assert!(!is_reserved("web"));
    }
}
