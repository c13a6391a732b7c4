// SPDX-License-Identifier: Apache-2.0
//! crontab(5) as schedules: a user's file, or one of the system with a column for the user. Pure.
//! What a line means is what Debian's cron makes of it: the environment lines before it hold, the
//! shell runs the command, what follows the first `%` is its standard input. Output goes to the
//! run's log; on the node itself it is mailed, too, as `MAILTO` says, by the program that is given.

use std::collections::BTreeMap;

use super::cron::Pattern;
use super::spec::{Draft, Overlap, Program, Spec, When, Work};
use crate::capability::Capabilities;
use crate::cell::{self, Namespace};
use crate::error::{Error, Result, Within};
use crate::executable;
use crate::label::Labels;
use crate::name::Label;
use crate::seccomp::{Profile, Seccomp};

/// What schedules of crontabs are made from.
pub const KIND: &str = "crontab";
/// Lines of one file.
const MAX_LINES: usize = 256;
/// The search path of cron's programs where no line sets one.
const PATH: &str = "/usr/bin:/bin";
/// The longest part of a schedule's name that is its file's.
const MAX_STEM: usize = 32;

/// A line that runs something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// In the file, from 1.
    pub number: usize,
    /// The times at which it runs.
    pub when: When,
    /// Who; empty: the file has no such column.
    pub user: String,
    /// What the shell is given.
    pub command: String,
    /// What the command reads.
    pub stdin: Option<String>,
    /// The environment lines before it.
    pub env: BTreeMap<String, String>,
}

/// A line that can't be taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// In the file, from 1.
    pub line: usize,
    /// The reason, for people.
    pub words: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.words)
    }
}

/// Reads a crontab. `users`: it has the column of `/etc/crontab`. Times are of that zone.
///
/// # Errors
/// Every line that can't be taken; at least one. As with cron, none of the file counts then.
pub fn read(text: &str, users: bool, zone: &str) -> std::result::Result<Vec<Line>, Vec<Problem>> {
    let (mut lines, mut problems) = (Vec::new(), Vec::new());
    let mut env = BTreeMap::new();
    for (i, text) in text.lines().enumerate() {
        let number = i + 1;
        let text = text.trim_start();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some((name, value)) = variable(text) {
            env.insert(name, value);
            continue;
        }
        match line(text, users, zone) {
            Ok((when, user, command, stdin)) => lines.push(Line {
                number,
                when,
                user,
                command,
                stdin,
                env: env.clone(),
            }),
            Err(words) => problems.push(Problem {
                line: number,
                words,
            }),
        }
    }
    if lines.len() > MAX_LINES {
        let words = format!("the file has more than {MAX_LINES} commands");
        problems.push(Problem { line: 1, words });
    }
    match problems.is_empty() {
        true => Ok(lines),
        false => Err(problems),
    }
}

/// `NAME = value`, with quotes around either or none. `None`: the line is something else.
fn variable(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    let name = unquoted(name.trim());
    let first = name.bytes().next()?;
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !(first.is_ascii_alphabetic() || first == b'_') || !name.bytes().all(of_name) {
        return None;
    }
    Some((name.to_owned(), unquoted(value.trim()).to_owned()))
}

fn unquoted(text: &str) -> &str {
    let inner = |quote| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

type Parts = (When, String, String, Option<String>);

fn line(text: &str, users: bool, zone: &str) -> std::result::Result<Parts, String> {
    let (when, rest) = match text.starts_with('@') {
        true => nickname(text, zone)?,
        false => fields(text, zone)?,
    };
    let (user, rest) = match users {
        true => word(rest).ok_or("names no user and no command")?,
        false => ("", rest),
    };
    let (command, stdin) = divided(rest);
    if command.trim().is_empty() {
        return Err("has no command".to_owned());
    }
    Ok((when, user.to_owned(), command, stdin))
}

/// The first word, and what follows it.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find([' ', '\t']).unwrap_or(text.len());
    let (word, rest) = text.split_at_checked(end)?;
    (!word.is_empty()).then(|| (word, rest.trim_start()))
}

fn nickname<'a>(text: &'a str, zone: &str) -> std::result::Result<(When, &'a str), String> {
    let (name, rest) = word(text).ok_or("is empty")?;
    if name == "@reboot" {
        return Ok((When::Boot, rest));
    }
    let pattern = super::cron::nickname(name);
    let pattern = pattern.ok_or_else(|| format!("has {name}, which is no time of cron's"))?;
    Ok((cron(pattern, zone)?, rest))
}

fn fields<'a>(text: &'a str, zone: &str) -> std::result::Result<(When, &'a str), String> {
    let (mut pattern, mut rest) = (Vec::new(), text);
    for _ in 0..5 {
        let (field, after) = word(rest).ok_or("has fewer than five fields of a time")?;
        pattern.push(field);
        rest = after;
    }
    Ok((cron(&pattern.join(" "), zone)?, rest))
}

fn cron(pattern: &str, zone: &str) -> std::result::Result<When, String> {
    Pattern::new(pattern, zone).map_err(|error| error.to_string())?;
    Ok(When::Cron {
        pattern: pattern.to_owned(),
        zone: zone.to_owned(),
    })
}

/// The command, and after the first `%` its input, in which further ones are ends of lines. `\%`
/// is `%`.
fn divided(text: &str) -> (String, Option<String>) {
    let (mut command, mut stdin) = (String::new(), None::<String>);
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let into = stdin.as_mut().unwrap_or(&mut command);
        match char {
            '\\' if chars.peek() == Some(&'%') => into.extend(chars.next()),
            '%' => match &mut stdin {
                Some(stdin) => stdin.push('\n'),
                None => stdin = Some(String::new()),
            },
            char => into.push(char),
        }
    }
    // cron ends the input with the end of a line.
    let stdin = stdin.map(|text| format!("{text}\n"));
    (command, stdin)
}

/// Where the commands of a crontab run.
pub enum Place<'a> {
    /// On the node itself, as cron's do.
    Node {
        /// Whose home is where.
        home: &'a dyn Fn(&str) -> Option<String>,
        /// Runs a command and mails what it writes.
        mailer: &'a Mailer,
    },
    /// In a cell of their own; nothing is mailed.
    Cell,
}

/// What mails the output of commands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mailer {
    /// The daemon's program, whose role `mailed` runs the command.
    pub program: String,
    /// `sendmail`.
    pub sendmail: String,
}

impl Line {
    /// The name of its schedule: the file's, and a number that the line's words make. A line that
    /// changes is another one.
    ///
    /// # Errors
    /// `INVALID_FIELD`: the file's name has no letter.
    pub fn name(&self, file: &str) -> Result<Label> {
        let plain = |char: char| match char.is_ascii_alphanumeric() {
            true => char.to_ascii_lowercase(),
            false => '-',
        };
        let stem: String = file.chars().map(plain).take(MAX_STEM).collect();
        let words = format!(
            "{:?} {} {} {:?} {:?}",
            self.when, self.user, self.command, self.stdin, self.env
        );
        // FNV-1a: it only has to be the same each time.
        let hash = words.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        let name = format!("{}-{hash:08x}", stem.trim_matches('-'));
        let name = name.trim_start_matches('-').parse();
        name.map_err(|e| Error::invalid("name", e))
    }

    /// Its schedule.
    ///
    /// # Errors
    /// `INVALID_FIELD`: what a program of ours can't have.
    pub fn spec(&self, place: &Place<'_>) -> Result<Spec> {
        let given = |name: &str| self.env.get(name).cloned();
        let shell = given("SHELL").unwrap_or_else(|| "/bin/sh".to_owned());
        let mut env = self.env.clone();
        env.insert("SHELL".to_owned(), shell.clone());
        env.entry("PATH".to_owned())
            .or_insert_with(|| PATH.to_owned());
        let mut program = executable::Draft {
            argv: self.argv(&shell),
            ..executable::Draft::default()
        };
        let mut cell = cell::Draft::default();
        if let Place::Node { home, mailer } = place {
            program.argv = self.mailed(mailer, program.argv);
            let own = home(&self.user);
            let home = given("HOME").or(own).unwrap_or_else(|| "/".to_owned());
            env.insert("LOGNAME".to_owned(), self.user.clone());
            env.insert("HOME".to_owned(), home.clone());
            (program.user, program.cwd) = (self.user.clone(), home);
            // As root's programs are under cron.
            program.capabilities = Some(Capabilities {
                bounding: vec!["ALL".to_owned()],
                ambient: Vec::new(),
            });
            program.no_new_privileges = Some(false);
            program.seccomp = Seccomp {
                profile: Profile::Unconfined,
                ..Seccomp::default()
            };
            cell.share = Namespace::ALL.into_iter().collect();
        }
        program.env = env;
        let program = Program {
            name: "main".parse().map_err(|e| Error::invalid("name", e))?,
            labels: Labels::default(),
            spec: program.try_into().within("command")?,
        };
        let work = Work::Executable {
            program: Box::new(program),
            cell: Box::new(cell.try_into()?),
        };
        let mut draft = Draft::new(work, self.when.clone());
        draft.overlap = Overlap::Allow;
        draft.kind = KIND.to_owned();
        draft.try_into()
    }

    /// Who gets the output: whom `MAILTO` names, or else the user. `None`: it is set to nothing.
    pub fn mail_to(&self) -> Option<&str> {
        let to = self.env.get("MAILTO").map_or(&self.user, |to| to);
        (!to.is_empty()).then_some(to)
    }

    /// The same words, run by what mails their output.
    fn mailed(&self, by: &Mailer, argv: Vec<String>) -> Vec<String> {
        let Some(to) = self.mail_to() else {
            return argv;
        };
        let mut words = vec![by.program.clone(), "mailed".to_owned()];
        words.extend([
            format!("--sendmail={}", by.sendmail),
            format!("--to={to}"),
            format!("--user={}", self.user),
            format!("--command={}", self.command),
            "--".to_owned(),
        ]);
        words.extend(argv);
        words
    }

    fn argv(&self, shell: &str) -> Vec<String> {
        let mut argv = vec![shell.to_owned(), "-c".to_owned()];
        match &self.stdin {
            None => argv.push(self.command.clone()),
            Some(stdin) => {
                let feed = "printf %s \"$2\" | \"$0\" -c \"$1\"";
                argv.extend([feed.to_owned(), shell.to_owned()]);
                argv.extend([self.command.clone(), stdin.clone()]);
            }
        }
        argv
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# a comment
SHELL=/bin/bash
MAILTO = \"root\"
17 *  * * *  root  cd / && run-parts --report /etc/cron.hourly
@daily\tann\techo 100\\% > f%first%second
  25 6 * * 7 root test -x /usr/sbin/anacron || { cd / && run-parts /etc/cron.daily; }
PATH='/opt/bin:/bin'
@reboot ann a=b c
";

    #[test]
    fn lines_are_what_cron_makes_of_them() {
        let lines = read(FILE, true, "Europe/Berlin").unwrap();
        assert_eq!(lines.len(), 4);
        assert_eq!(
            lines[0].command,
            "cd / && run-parts --report /etc/cron.hourly"
        );
        assert_eq!((lines[1].number, lines[1].user.as_str()), (5, "ann"));
        assert_eq!(lines[1].command, "echo 100% > f");
        assert_eq!(lines[1].stdin.as_deref(), Some("first\nsecond\n"));
        assert!(!lines[2].env.contains_key("PATH"), "it comes later");
        assert_eq!(
            (&lines[3].when, lines[3].env["PATH"].as_str()),
            (&When::Boot, "/opt/bin:/bin")
        );
        let home = |user: &str| Some(format!("/home/{user}"));
        let mailer = Mailer {
            program: "/usr/sbin/auraed".to_owned(),
            sendmail: "/usr/sbin/sendmail".to_owned(),
        };
        let node = Place::Node {
            home: &home,
            mailer: &mailer,
        };
        let spec = lines[1].spec(&node).unwrap();
        let Work::Executable { program, cell } = &spec.work else {
            panic!("no program");
        };
        let argv = program.spec.argv.join(" ");
        let mailed = "/usr/sbin/auraed mailed --sendmail=/usr/sbin/sendmail --to=root --user=ann";
        assert!(argv.starts_with(mailed), "{argv}");
        assert!(argv.contains(" -- /bin/bash -c "), "{argv}");
        assert_eq!(
            (program.spec.user.as_str(), program.spec.cwd.as_str()),
            ("ann", "/home/ann")
        );
        assert_eq!(cell.share.len(), Namespace::ALL.len());
        let names: Vec<_> = lines.iter().map(|it| it.name("crontab").unwrap()).collect();
        assert!(names[0].as_str().starts_with("crontab-") && names[0] != names[1]);
        let own = read("* * * * * date", false, "").unwrap();
        assert_eq!(own[0].command, "date");
        own[0].spec(&Place::Cell).unwrap();
    }

    #[test]
    fn output_is_mailed_to_the_user_unless_mailto_says_otherwise() {
        let text =
            "0 0 * * * a\nMAILTO=bob@example.org\n0 0 * * * b\nMAILTO=\"\"\n0 0 * * * true\n";
        let mut lines = read(text, false, "").unwrap();
        lines.iter_mut().for_each(|it| it.user = "ann".to_owned());
        let to: Vec<_> = lines.iter().map(Line::mail_to).collect();
        assert_eq!(to, [Some("ann"), Some("bob@example.org"), None]);
        let mailer = Mailer {
            program: "/auraed".to_owned(),
            sendmail: "/sendmail".to_owned(),
        };
        let argv = lines[2].mailed(&mailer, lines[2].argv("/bin/sh"));
        assert_eq!(argv, ["/bin/sh", "-c", "true"], "nothing stands in between");
    }

    #[test]
    fn bad_lines_are_told_with_their_numbers() {
        let problems = read(
            "61 * * * * a\n\n@never b\n* * * *\n1 1 1 1 1 root\n",
            true,
            "",
        );
        let problems = problems.unwrap_err();
        let lines: Vec<_> = problems.iter().map(|it| it.line).collect();
        assert_eq!(lines, [1, 3, 4, 5], "{problems:?}");
        assert!(problems[1].to_string().starts_with("line 3: has @never"));
    }
}
