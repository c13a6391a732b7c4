// SPDX-License-Identifier: Apache-2.0
//! A crontab (crontab(5)) as schedules: an entry each, run by its shell. What a schedule can't have
//! is a comment with its line and the reason. Pure; which form the file has is its caller's to say.

use std::collections::BTreeSet;

use super::compose::{name_for, text};
use super::write::{Expression, comment};
use super::{NotImported, Origin, finished};

/// Whose entries they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// One user's: an entry has five fields and a command.
    User,
    /// The machine's (`/etc/crontab`, `/etc/cron.d`): a user stands before the command.
    System,
}

/// So many lines are read.
const LINES: usize = 10_000;
/// The longest name of a schedule, less what tells several apart.
const LONGEST_NAME: usize = 38;

const WORDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// When an entry runs.
enum When {
    Pattern(String),
    Reboot,
}

/// The variables that hold for what follows, in their order.
#[derive(Default)]
struct Variables(Vec<(String, String)>);

impl Variables {
    fn set(&mut self, name: &str, value: &str) {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), value.to_owned()));
    }

    fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// What a program is given: not what is for cron alone.
    fn given(&self) -> Vec<(String, Expression)> {
        const CRON: [&str; 6] = [
            "SHELL",
            "MAILTO",
            "MAILFROM",
            "CRON_TZ",
            "CONTENT_TYPE",
            "TZ",
        ];
        let given = self.0.iter().filter(|(name, _)| !CRON.contains(&&**name));
        given
            .map(|(name, value)| (name.clone(), Expression::Text(value.clone())))
            .collect()
    }
}

/// The program that declares what a crontab does.
///
/// # Errors
/// It has no entry.
pub fn crontab(text: &str, owner: Owner, origin: &Origin) -> Result<String, NotImported> {
    let mut program = String::new();
    let words = format!("Imported from {} by `aurae import`.", origin.name);
    comment(&mut program, &words);
    program.push('\n');
    let mut variables = Variables::default();
    let (mut names, mut constants) = (BTreeSet::new(), BTreeSet::new());
    let mut entries = 0;
    for (number, line) in (1..).zip(text.lines()).take(LINES) {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{}:{number}", origin.name);
        if let Some((name, value)) = variable(line) {
            if name == "MAILTO" && !value.is_empty() {
                let words = format!(
                    "{place}: MAILTO={value}: no mail is sent; what is printed is in the log: \
                     `aurae schedule logs`"
                );
                comment(&mut program, &words);
            }
            variables.set(name, value);
            continue;
        }
        match entry(line, owner) {
            Ok(entry) => {
                let name = label(&entry.command, &mut names);
                let constant = name_for(&name, &mut constants);
                entry.write(&mut program, (&name, &constant), &place, &variables, origin);
                entries += 1;
            }
            Err(reason) => comment(&mut program, &format!("{place}: `{line}`: {reason}")),
        }
    }
    match entries {
        0 => Err(NotImported::NoEntry),
        _ => finished(program),
    }
}

/// `NAME=value`, with blanks around the sign and quotes around either.
fn variable(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let bare = |text: &'_ str| -> Option<(usize, usize)> {
        let inner = text.trim();
        let quoted = ['"', '\'']
            .into_iter()
            .find(|quote| inner.len() > 1 && inner.starts_with(*quote) && inner.ends_with(*quote));
        let at = text.find(inner)?;
        match quoted {
            Some(_) => Some((at + 1, at + inner.len() - 1)),
            None => Some((at, at + inner.len())),
        }
    };
    let cut = |text| {
        let (from, to) = bare(text)?;
        text.get(from..to)
    };
    let name = cut(name)?;
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = !name.is_empty() && name.chars().all(letters);
    (is_name && !name.starts_with(|c: char| c.is_ascii_digit())).then_some((name, cut(value)?))
}

/// One entry.
struct Entry {
    when: When,
    user: Option<String>,
    command: String,
    /// What follows the first `%`.
    input: bool,
}

fn entry(line: &str, owner: Owner) -> Result<Entry, String> {
    let (when, rest) = match line.starts_with('@') {
        true => {
            let (word, rest) = field(line);
            let known = WORDS
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(word));
            let when = match known {
                Some((_, pattern)) => When::Pattern((*pattern).to_owned()),
                None if word.eq_ignore_ascii_case("@reboot") => When::Reboot,
                None => return Err(format!("{word} is no word of a crontab")),
            };
            (when, rest)
        }
        false => {
            let mut rest = line;
            let mut fields = Vec::new();
            for _ in 0..5 {
                let (word, left) = field(rest);
                fields.push(word);
                rest = left;
            }
            let plain = |c: char| c.is_ascii_alphanumeric() || "*-,/~".contains(c);
            let is_field = |word: &&str| !word.is_empty() && word.chars().all(plain);
            if !fields.iter().all(is_field) {
                return Err("it has no five fields of a time".to_owned());
            }
            if fields.iter().any(|word| word.contains('~')) {
                return Err("a pattern has no times at random (`~`)".to_owned());
            }
            (When::Pattern(fields.join(" ")), rest)
        }
    };
    let (user, rest) = match owner {
        Owner::User => (None, rest),
        Owner::System => {
            let (user, rest) = field(rest);
            (Some(user.to_owned()), rest)
        }
    };
    let (command, input) = command(rest);
    match command.trim() {
        "" => Err("it has no command".to_owned()),
        command => Ok(Entry {
            when,
            user,
            command: command.to_owned(),
            input,
        }),
    }
}

/// The first word, and what follows the blanks behind it.
fn field(text: &str) -> (&str, &str) {
    let blank = |c: char| c == ' ' || c == '\t';
    let (word, rest) = text.split_at(text.find(blank).unwrap_or(text.len()));
    (word, rest.trim_start_matches(blank))
}

/// The command, up to the first `%` that has no `\`, and whether there is one.
fn command(text: &str) -> (String, bool) {
    let mut command = String::new();
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        match c {
            '\\' if letters.peek() == Some(&'%') => command.extend(letters.next()),
            '%' => return (command, true),
            c => command.push(c),
        }
    }
    (command, false)
}

/// A name made of the program that a command runs first, past `cd` and tests.
fn label(command: &str, taken: &mut BTreeSet<String>) -> String {
    const PASSED: [&str; 6] = ["test", "[", "cd", "if", "command", "nice"];
    let parts = command.split(['|', '&', ';', '{', '(']);
    let programs = parts.filter_map(|part| part.split_whitespace().find(|it| !it.contains('=')));
    let programs: Vec<_> = programs.filter(|it| !PASSED.contains(it)).collect();
    let program = programs.first().copied().unwrap_or("job");
    let base = program.rsplit('/').next().unwrap_or(program);
    let base = base.split_once('.').map_or(base, |(stem, _)| stem);
    let label: String = text::label(base).chars().take(LONGEST_NAME).collect();
    text::unique(taken, label.trim_end_matches('-'), "-")
}

impl Entry {
    fn write(
        &self,
        program: &mut String,
        (name, constant): (&str, &str),
        place: &str,
        variables: &Variables,
        origin: &Origin,
    ) {
        let mut note = |words: &str| comment(program, &format!("{place}: {words}"));
        if self.input {
            note("what follows `%` is standard input of the command: a schedule gives none");
        }
        if matches!(self.when, When::Reboot) {
            note("@reboot: it runs when it is declared, and not again after a reboot");
        }
        let shell = variables.get("SHELL").unwrap_or("/bin/sh");
        let argv = [shell, "-c", &self.command].map(str::to_owned);
        let mut fields = vec![
            ("name".to_owned(), Expression::Text(format!("{name}/main"))),
            ("argv".to_owned(), Expression::texts(argv)),
        ];
        if let Some(user) = self.user.as_ref().filter(|it| *it != "root") {
            fields.push(("user".to_owned(), Expression::Text(user.clone())));
        }
        let env = variables.given();
        if !env.is_empty() {
            fields.push(("env".to_owned(), Expression::Object(env)));
        }
        let executable = Expression::Object(fields).written();
        program.push_str(&format!(
            "const {constant} = new Executable({executable});\n"
        ));
        let when = match &self.when {
            When::Reboot => "{ now: {} }".to_owned(),
            When::Pattern(pattern) => {
                let zone = variables.get("CRON_TZ").map(str::to_owned);
                let mut cron = vec![("pattern".to_owned(), Expression::Text(pattern.clone()))];
                let zone = zone.or_else(|| origin.zone.clone());
                cron.extend(zone.map(|zone| ("zone".to_owned(), Expression::Text(zone))));
                format!("{{ cron: {} }}", Expression::Object(cron).written())
            }
        };
        let name = Expression::Text(name.to_owned()).written();
        program.push_str(&format!(
            "await schedule.Declare({{\nname: {name},\nspec: {{\nwork: {{ executable: {{ \
             executable: {constant}, ownCell: {{}} }} }},\nwhen: {when},\n}},\n}});\n\n"
        ));
    }
}
