// SPDX-License-Identifier: Apache-2.0
//! Variables in command lines: `${NAME}` within a word, `$NAME` as a word (systemd.service(5),
//! "Command lines"). Done when a command is run, with the environment that it gets.

use super::command::Command;
use super::environment::Environment;
use crate::syntax::words::{Escapes, next};

/// The longest argument list that comes out, in bytes: what `execve` takes.
const LONGEST: usize = 2 << 20;

/// The words of a command, its own name first.
///
/// # Errors
/// They are longer than `execve` takes.
pub fn argv(command: &Command, environment: &Environment) -> Result<Vec<String>, String> {
    let name = command.argv0.as_ref().unwrap_or(&command.program);
    let mut argv = vec![name.clone()];
    for argument in &command.arguments {
        if command.keeps_variables {
            argv.push(argument.clone());
        } else {
            word(argument, environment, &mut argv);
        }
        if argv.iter().map(String::len).sum::<usize>() > LONGEST {
            let program = &command.program;
            return Err(format!(
                "the arguments of {program} are longer than {LONGEST} bytes"
            ));
        }
    }
    Ok(argv)
}

fn word(text: &str, environment: &Environment, argv: &mut Vec<String>) {
    match text.strip_prefix('$') {
        Some(name) if !name.starts_with(['{', '$']) => {
            let value = environment.get(name).map_or("", String::as_str);
            argv.extend(split(value));
        }
        _ => argv.push(text_of(text, environment)),
    }
}

/// At blanks, with quotes; a quote without an end reaches to the end.
fn split(value: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        match next(value, &mut at, Escapes::Drop) {
            Ok(Some(word)) => words.push(word.text),
            Ok(None) => return words,
            Err(open) => {
                let rest = value.get(open.offset..).unwrap_or("");
                words.push(rest.replace(['\'', '"'], ""));
                return words;
            }
        }
    }
}

/// With `${NAME}` put in and `$$` made one dollar. Anything else stays.
fn text_of(text: &str, environment: &Environment) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('{').and_then(|it| it.split_once('}'))
        {
            out.push_str(environment.get(name).map_or("", String::as_str));
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::command;
    use crate::name::UnitName;
    use crate::specifier::{Context, NoHost};

    fn expanded(line: &str, variables: &[(&str, &str)]) -> Vec<String> {
        let name = UnitName::parse("a.service").unwrap();
        let context = Context {
            name: &name,
            fragment: None,
            host: &NoHost,
        };
        let read = command::parse(line, context).unwrap();
        let pairs = variables
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        argv(&read.commands[0], &pairs.collect())
            .unwrap()
            .split_off(1)
    }

    #[test]
    fn the_manuals_examples_expand_as_it_says() {
        // systemd.service(5), "Command lines".
        let first = [("ONE", "one"), ("TWO", "two two")];
        assert_eq!(
            expanded("echo $ONE $TWO ${TWO}", &first),
            ["one", "two", "two", "two two"]
        );
        let second = [("ONE", "'one'"), ("TWO", "'two two' too"), ("THREE", "")];
        assert_eq!(
            expanded("/bin/echo ${ONE} ${TWO} ${THREE}", &second),
            ["'one'", "'two two' too", ""]
        );
        assert_eq!(
            expanded("/bin/echo $ONE $TWO $THREE", &second),
            ["one", "two two", "too"]
        );
    }

    #[test]
    fn dollars_are_kept_where_they_are_no_variable() {
        let one = [("A", "x y")];
        for (line, expected) in [
            ("echo $$A a$A b${A}c", vec!["$A", "a$A", "bx yc"]),
            ("echo ${NONE} $NONE ${A", vec!["", "${A"]),
            ("echo '$A' $$$$", vec!["x", "y", "$$"]),
            (":echo $A ${A}", vec!["$A", "${A}"]),
        ] {
            assert_eq!(expanded(line, &one), expected, "{line}");
        }
    }
}
