// SPDX-License-Identifier: Apache-2.0
//! The prompt itself, on a thread of its own: line editing, history, more lines while something is
//! open, and completion, for which it asks the thread that evaluates. It evaluates nothing itself.

use std::path::{Path, PathBuf};
use std::sync::mpsc as sync;
use std::time::Duration;

use language::compile::is_unfinished;
use language::prompt::Completed;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use script::protocol::Name;
use tokio::sync::mpsc;

use super::above::ToPrompt;
use super::command;
use crate::failure::Failure;

/// Lines of history that are kept.
const HISTORY: usize = 10_000;

/// How long Tab waits for names.
const TAB_WAIT: Duration = Duration::from_millis(300);

/// What the prompt says.
const PROMPT: &str = "> ";

/// A request of the editor.
#[derive(Debug)]
pub(super) enum Ask {
    /// This line was typed. The editor then waits until the evaluation is done.
    Line(String),
    /// Ctrl-C at the prompt; it waits too.
    Stopped,
    /// Asks for names that fit at the cursor; the editor waits, but not long.
    Complete {
        /// All that is typed.
        line: String,
        /// The cursor's offset in the line, in bytes.
        at: usize,
        /// Where the answer goes.
        reply: sync::SyncSender<Offer>,
    },
    /// Ctrl-D, or no terminal any more.
    End,
    /// The terminal can't be used.
    Failed(String),
}

/// The names that fit at the cursor.
#[derive(Debug, Default)]
pub(super) struct Offer {
    /// Names that fit by their types.
    pub(super) typed: Completed,
    /// The names that the value before the cursor has, or the session.
    pub(super) live: Vec<Name>,
}

/// Starts the thread. Each `()` sent makes it prompt once; the other way leads above the prompt.
pub(super) fn start(
    history: Option<PathBuf>,
    asks: mpsc::Sender<Ask>,
) -> Result<(sync::SyncSender<()>, ToPrompt), Failure> {
    let (prompt, prompts) = sync::sync_channel(1);
    let (opened, is_open) = sync::sync_channel(1);
    let failed = |problem: &dyn std::fmt::Display| {
        Failure::new(format!("can't use the terminal: {problem}"))
    };
    std::thread::Builder::new()
        .name("prompt".to_owned())
        .spawn(move || read(history.as_deref(), &asks, &prompts, &opened))
        .map_err(|problem| failed(&problem))?;
    match is_open.recv() {
        Ok(Ok(above)) => Ok((prompt, above)),
        Ok(Err(problem)) => Err(failed(&problem)),
        Err(_) => Err(failed(&"the prompt has ended")),
    }
}

fn read(
    history: Option<&Path>,
    asks: &mpsc::Sender<Ask>,
    prompts: &sync::Receiver<()>,
    opened: &sync::SyncSender<rustyline::Result<ToPrompt>>,
) {
    let printing = open(history, asks).and_then(|mut editor| {
        let above = editor.create_external_printer()?;
        Ok((editor, Box::new(above) as ToPrompt))
    });
    let (editor, above) = match printing {
        Ok((editor, above)) => (Some(editor), Ok(above)),
        Err(problem) => (None, Err(problem)),
    };
    // Only its starter waits for it.
    let _ = opened.send(above);
    let Some(mut editor) = editor else {
        return;
    };
    while prompts.recv().is_ok() {
        let ask = match editor.readline(PROMPT) {
            Ok(line) => {
                remember(&mut editor, history, &line);
                Ask::Line(line)
            }
            Err(ReadlineError::Interrupted) => Ask::Stopped,
            Err(ReadlineError::Eof) => Ask::End,
            Err(problem) => Ask::Failed(format!("can't read the terminal: {problem}")),
        };
        if asks.blocking_send(ask).is_err() {
            return;
        }
    }
}

type Prompt = Editor<Help, DefaultHistory>;

fn open(history: Option<&Path>, asks: &mpsc::Sender<Ask>) -> rustyline::Result<Prompt> {
    let config = Config::builder()
        .max_history_size(HISTORY)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .bracketed_paste(true)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Help(asks.clone())));
    if let Some(history) = history {
        if let Some(folder) = history.parent() {
            std::fs::create_dir_all(folder)?;
        }
        if history.exists() {
            editor.load_history(history)?;
        }
    }
    Ok(editor)
}

/// A history that can't be written is no reason to stop: the line is what counts.
fn remember(editor: &mut Prompt, history: Option<&Path>, line: &str) {
    let added = editor.add_history_entry(line).unwrap_or(false);
    if let (true, Some(history)) = (added, history) {
        let _ = editor.append_history(history);
    }
}

/// The editor's helper while a line is typed.
struct Help(mpsc::Sender<Ask>);

impl Helper for Help {}
impl Highlighter for Help {}

impl Hinter for Help {
    type Hint = String;
}

impl Validator for Help {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input();
        let more = command::Command::of(text).is_none() && is_unfinished(text);
        Ok(match more {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

impl Completer for Help {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let before = line.get(..at).unwrap_or(line);
        if before.starts_with('.') {
            let known = command::NAMES
                .iter()
                .filter(|name| name.starts_with(before));
            return Ok((0, known.map(|name| format!("{name} ")).collect()));
        }
        let (reply, offered) = sync::sync_channel(1);
        let line = line.to_owned();
        if self
            .0
            .blocking_send(Ask::Complete { line, at, reply })
            .is_err()
        {
            return Ok((at, Vec::new()));
        }
        let offer = offered.recv_timeout(TAB_WAIT).unwrap_or_default();
        Ok(merged(before, offer))
    }
}

/// Where the completed text begins, and the texts: by types first, then what only values know.
fn merged(before: &str, offer: Offer) -> (usize, Vec<String>) {
    let mut texts = offer.typed.texts;
    let Some((_, begun)) = word(before) else {
        return (offer.typed.start, texts);
    };
    let start = before.len() - begun.len();
    if offer.typed.quoted {
        // Where a name means nothing.
        return (offer.typed.start, texts);
    }
    let live = matching(offer.live, begun).into_iter();
    let known = |name: &String| texts.iter().any(|text| text.trim_end_matches(": ") == name);
    let new: Vec<String> = live.filter(|name| !known(name)).collect();
    texts.extend(new);
    (start, texts)
}

/// Names that go on as the typed part begins; hidden ones only where they began so.
fn matching(names: Vec<Name>, begun: &str) -> Vec<String> {
    let is_shown = |name: &&Name| {
        let plain = name
            .name
            .chars()
            .all(|c| c.is_alphanumeric() || "_$".contains(c));
        plain && name.name.starts_with(begun) && (!name.name.starts_with('_') || !begun.is_empty())
    };
    names
        .iter()
        .filter(is_shown)
        .map(|name| name.name.clone())
        .collect()
}

/// The path before the cursor and what was begun of its last name: `web.spec.ar` is `web`, `spec`
/// and `ar`. None where a path can't be.
pub(super) fn word(before: &str) -> Option<(Vec<&str>, &str)> {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.');
    let start = before.len()
        - before
            .chars()
            .rev()
            .take_while(|c| part(*c))
            .map(char::len_utf8)
            .sum::<usize>();
    let mut path: Vec<&str> = before.get(start..)?.split('.').collect();
    let begun = path.pop()?;
    let is_name = |name: &&str| name.chars().next().is_some_and(|c| !c.is_numeric());
    // What follows a call or an index has an empty first name: its type isn't known.
    let sound = path.iter().all(is_name) && (begun.is_empty() || is_name(&begun));
    sound.then_some((path, begun))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_before_the_cursor() {
        assert_eq!(word("await runtime.Ru"), Some((vec!["runtime"], "Ru")));
        assert_eq!(word("f(web.spec."), Some((vec!["web", "spec"], "")));
        assert_eq!(word("pri"), Some((vec![], "pri")));
        assert_eq!(word("f().na"), None);
        assert_eq!(word("1.to"), None);
        assert_eq!(word(""), Some((vec![], "")));
    }

    #[test]
    fn what_types_say_comes_before_what_values_have() {
        let offer = |start, texts: &[&str], live: &[&str], quoted| Offer {
            typed: Completed {
                start,
                texts: texts.iter().map(ToString::to_string).collect(),
                quoted,
            },
            live: live
                .iter()
                .map(|name| Name {
                    name: (*name).into(),
                    function: false,
                })
                .collect(),
        };
        let both = merged("web.na", offer(4, &["name"], &["name", "naked"], false));
        assert_eq!(both, (4, vec!["name".to_owned(), "naked".to_owned()]));
        let unknown = merged("x.na", offer(0, &[], &["name"], false));
        assert_eq!(unknown, (2, vec!["name".to_owned()]));
        let string = merged("f({ share: [\"n", offer(13, &["net"], &["nothing"], true));
        assert_eq!(string, (13, vec!["net".to_owned()]));
    }

    #[test]
    fn names_that_can_t_be_typed_are_not_offered() {
        let name = |name: &str| Name {
            name: name.into(),
            function: false,
        };
        let names = vec![name("ab"), name("a-b"), name("_ab"), name("b")];
        assert_eq!(matching(names.clone(), "a"), ["ab"]);
        assert_eq!(matching(names.clone(), ""), ["ab", "b"]);
        assert_eq!(matching(names, "_"), ["_ab"]);
    }
}
