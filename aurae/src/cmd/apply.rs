// SPDX-License-Identifier: Apache-2.0
//! `aurae apply`: starts and changes the objects that a program declares, and stops those that it
//! no longer declares.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;

use script::apply::Apply;
use script::host::Mode;
use script::reconcile::change::{Action, Change, Report};

use super::declaring::DeclaringArgs;
use super::plan::{Form, line, make, print_json, refused, sums, text, word};
use super::saved::Saved;
use super::script::execute::{Telling, execute};
use crate::failure::{FAILED, FINDINGS, Failure};
use crate::global::Global;
use crate::output::{Steps, Style, note, print, printable};

const EXAMPLES: &str = "\
Examples:
  aurae apply apps/web.ts
  aurae apply --set shop apps/web.ts      the set whose objects they are
  aurae apply web.plan                    just what `aurae plan --out web.plan` has shown
  aurae apply --yes apps/web.ts           on a terminal, without being asked

It does what `aurae plan` shows, and tells each change when it is done; on a terminal it shows the plan
and asks first. What it makes is of its set: what is of the set and isn't declared any more is stopped,
and grants are withdrawn. Applied twice, the second changes nothing.";

/// `aurae apply`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    declaring: DeclaringArgs,
    /// How to print what was done
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    output: Form,
    /// Go ahead without asking, on a terminal too
    #[arg(short, long)]
    yes: bool,
}

/// Runs the program and applies what it declares, after the user has confirmed the plan where that
/// is asked for.
pub(crate) async fn run(global: &Global, args: &ApplyArgs) -> Result<u8, Failure> {
    let saved = Saved::read(&args.declaring.file)?;
    let Some(saved) = saved else {
        return match args.asks() {
            true => confirmed(global, args).await,
            false => apply(global, args, None).await,
        };
    };
    args.declaring.says_nothing_more()?;
    let global = saved.global(global)?;
    shown(&global, &args.clone().of(&saved), &saved, Telling::Aside).await
}

/// Applies what a plan has shown; nothing where anything would be done differently now.
async fn shown(
    global: &Global,
    args: &ApplyArgs,
    saved: &Saved,
    telling: Telling,
) -> Result<u8, Failure> {
    let made = make(global, &args.declaring, args.declaring.claim()?, telling).await?;
    let Some(report) = made.report else {
        return Ok(made.done.status);
    };
    saved.check(&made.done, &report)?;
    apply(global, args, Some(&report)).await
}

/// Shows the plan and asks. The answer is to what was shown: where the program or the nodes have
/// changed meanwhile, nothing is done.
async fn confirmed(global: &Global, args: &ApplyArgs) -> Result<u8, Failure> {
    let claim = args.declaring.claim()?;
    let made = make(global, &args.declaring, claim, Telling::Aside).await?;
    let asked = match &made.report {
        Some(report) if report.is_noop() => {
            match args.output {
                Form::Json => print_json(report)?,
                Form::Text => print(&sums(report, "× ", "nothing changed"))?,
            }
            return Ok(0);
        }
        Some(report) => {
            match args.output {
                // Standard output is for what will have been done.
                Form::Json => {
                    let style = Style::of(&std::io::stderr(), global.color);
                    note(text(report, style).trim_end());
                }
                Form::Text => print(&text(report, Style::of(&std::io::stdout(), global.color)))?,
            }
            "apply this?"
        }
        // The errors are printed already; findings of the check stop an apply as well.
        None if made.done.is_planned_unknown() => "it can't be planned; apply it all the same?",
        None => return Ok(made.done.status),
    };
    if !agreed(asked)? {
        note("nothing was changed");
        return Ok(FAILED);
    }
    let Some(report) = made.report else {
        return apply(global, args, None).await;
    };
    let saved = Saved::new(global, &args.declaring, &made.done, report);
    shown(global, args, &saved, Telling::Again).await
}

/// The progress of what a plan has told.
pub(crate) fn steps_of(planned: &Report) -> Steps {
    let changes = planned.changes.iter();
    let some = changes.filter(|change| change.action != Action::Unchanged);
    Steps::start(Some(some.count()))
}

/// Tells a change when it has ended, and until then that it is being done.
pub(crate) fn hear(steps: &Steps, change: &Change, style: Style) {
    let word = word(change.action);
    let what = format!("{word} {} {}", change.kind, printable(&change.name));
    match change.is_open() {
        true if change.action == Action::Unchanged => {}
        true => steps.begin(what),
        false => {
            steps.end(&what);
            _ = print(&line(change, style));
        }
    }
}

/// Asks on the terminal; on standard error, since what is printed may go elsewhere.
pub(crate) fn agreed(question: &str) -> Result<bool, Failure> {
    let mut terminal = std::io::stderr().lock();
    let asked = write!(terminal, "{question} [y/N] ");
    let flushed = asked.and_then(|()| terminal.flush());
    drop(terminal);
    let mut answer = String::new();
    let read = flushed.and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    read.map_err(|problem| Failure::new(format!("no answer: {problem}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

impl ApplyArgs {
    /// Whether a person is there for the question: one that keeps what is printed
    /// (`aurae apply web.ts | tee log`) is asked as well.
    fn asks(&self) -> bool {
        let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        terminal && !self.yes && !self.declaring.is_read_once()
    }

    /// The same about a saved plan's program.
    fn of(mut self, saved: &Saved) -> Self {
        self.declaring.file.clone_from(&saved.file);
        self.declaring.args.clone_from(&saved.args);
        self.declaring.retell(&saved.set);
        self
    }
}

/// Each change is printed when it is done, so that an interrupted apply has printed all that it
/// did; changes that were begun or failed are printed at the end. `planned` is the plan, if there
/// is one: it says how many changes there are.
async fn apply(global: &Global, args: &ApplyArgs, planned: Option<&Report>) -> Result<u8, Failure> {
    let style = Style::of(&std::io::stdout(), global.color);
    let claim = args.declaring.claim()?;
    let apply = Arc::new(match args.output {
        Form::Json => Apply::new(claim),
        // A closed standard output has not stopped the apply.
        Form::Text => {
            let steps = planned.map_or_else(|| Steps::start(None), steps_of);
            Apply::heard_by(claim, move |change| hear(&steps, change, style))
        }
    });
    let job = args.declaring.job(Mode::Apply(Arc::clone(&apply)));
    let done = execute(global, job.telling(args.output.telling())).await?;
    // Of what wasn't begun there is nothing to report.
    if done.status == FINDINGS {
        return Ok(FINDINGS);
    }
    let finished = match done.status {
        0 => apply.finish(&done.nodes).await.map(drop).map_err(refused),
        _ => Ok(()),
    };
    let report = apply.report();
    if done.status == 0 {
        args.declaring.has_targets(&report)?;
    }
    match args.output {
        Form::Json => print_json(&report)?,
        Form::Text => {
            let open = report.changes.iter().filter(|change| change.is_open());
            let open: String = open.map(|change| line(change, style)).collect();
            let sums = sums(&report, "× ", "nothing changed");
            print(&format!("{open}{sums}"))?;
        }
    }
    if done.status != 0 {
        note(
            match report
                .changes
                .iter()
                .any(|it| it.action != Action::Unchanged)
            {
                true => {
                    "the apply stopped here: what is done stays, what follows in the program \
                     wasn't begun, and nothing was stopped for not being declared. Once the cause \
                     is mended, apply again: it goes on from here"
                }
                false => "the apply stopped before its first change: nothing was changed",
            },
        );
    }
    finished.map(|()| done.status)
}
