// SPDX-License-Identifier: Apache-2.0
//! `aurae plan`: what a program would change, against what the node has.

use std::path::PathBuf;
use std::sync::Arc;

use script::host::Mode;
use script::plan::Plan;
use script::protocol::Failure as Refusal;
use script::reconcile::change::{Action, Change, Report};
use script::reconcile::difference::Difference;
use script::reconcile::set::Claim;
use serde_json::Value as Json;

use super::declaring::DeclaringArgs;
use super::saved::Saved;
use super::script::execute::{Done, Telling, execute};
use crate::failure::{FINDINGS, Failure};
use crate::global::Global;
use crate::output::{Color, Style, print, print_line, printable};

/// The status of `--exit-code` where something would change.
const WOULD_CHANGE: u8 = 2;

const EXAMPLES: &str = "\
Examples:
  aurae plan apps/web.ts
  aurae plan -o json apps/web.ts          for programs
  aurae plan --set shop apps/web.ts       the set whose objects they are
  aurae plan --out web.plan apps/web.ts   for `aurae apply web.plan`
  aurae plan --exit-code apps/web.ts      2 where something would change, for CI
  aurae plan --refresh-only apps/web.ts   what isn't as it was applied

Read permissions are enough: what would change something is recorded, not sent.";

/// `aurae plan`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) declaring: DeclaringArgs,
    /// How to print the plan
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    output: Form,
    /// Also write it into a file, for `aurae apply FILE`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Exit with 2 where something would change
    #[arg(long)]
    exit_code: bool,
    /// Only tell what isn't on the nodes as it was applied: gone, ended, or changed by hand
    #[arg(long, conflicts_with = "out")]
    refresh_only: bool,
}

/// How a plan is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// Lines with signs and colors
    #[default]
    Text,
    /// One JSON object
    Json,
}

impl Form {
    /// JSON has standard output for itself.
    pub(crate) const fn telling(self) -> Telling {
        match self {
            Self::Text => Telling::Plain,
            Self::Json => Telling::Aside,
        }
    }
}

/// A plan that was made.
pub(crate) struct Made {
    pub(crate) done: Done,
    /// `None` where the program has no plan; the errors are printed already.
    pub(crate) report: Option<Report>,
}

/// Runs the program without consequences.
pub(crate) async fn make(
    global: &Global,
    declaring: &DeclaringArgs,
    claim: Claim,
    telling: Telling,
) -> Result<Made, Failure> {
    let plan = Arc::new(Plan::new(claim));
    let job = declaring.job(Mode::Plan(Arc::clone(&plan)));
    let done = execute(global, job.telling(telling)).await?;
    if let (0, Some(refusal)) = (done.status, plan.refused()) {
        // Caught by the program, and still unknown.
        refused(refusal).report(Style::of(&std::io::stderr(), global.color));
        let done = done.with_status(FINDINGS);
        return Ok(Made { done, report: None });
    }
    let report = match done.status {
        0 => Some(plan.finish(&done.nodes).await.map_err(refused)?),
        _ => None,
    };
    if let Some(report) = &report {
        declaring.has_targets(report)?;
    }
    Ok(Made { done, report })
}

/// Runs the program without consequences and prints what they would be.
pub(crate) async fn run(global: &Global, args: &PlanArgs) -> Result<u8, Failure> {
    let claim = Claim {
        refresh: args.refresh_only,
        ..args.declaring.claim()?
    };
    let made = make(global, &args.declaring, claim, args.output.telling()).await?;
    let Some(report) = made.report else {
        return Ok(made.done.status);
    };
    match args.output {
        Form::Json => print_json(&report)?,
        Form::Text => {
            let style = Style::of(&std::io::stdout(), global.color);
            print(&match args.refresh_only {
                true => drift(&report, style),
                false => text(&report, style),
            })?;
        }
    }
    let changes = !report.is_noop();
    if let Some(out) = &args.out {
        let declaring = &args.declaring;
        if declaring.is_read_once() {
            return Err(
                Failure::usage("what comes from standard input can't be applied later")
                    .with_hint("write it into a file"),
            );
        }
        Saved::new(global, declaring, &made.done, report).write(out)?;
    }
    Ok(match args.exit_code && changes {
        true => WOULD_CHANGE,
        false => 0,
    })
}

/// A refusal of the node while we asked by ourselves.
pub(crate) fn refused(refusal: Refusal) -> Failure {
    let failure = Failure::new(format!("{} [{}]", refusal.message, refusal.code));
    match refusal.hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

pub(crate) fn print_json(report: &Report) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(report)
        .map_err(|problem| Failure::new(format!("can't print the plan: {problem}")))?;
    print_line(&text)
}

/// A plan as people read it: each change with its fields, and the sums.
pub(crate) fn text(report: &Report, style: Style) -> String {
    let changes = report.changes.iter();
    let mut text: String = changes.map(|change| line(change, style)).collect();
    for note in &report.notes {
        let at = style.paint(Color::Dim, &format!("  ({})", printable(&note.at)));
        text.push_str(&format!("? {}{at}\n", printable(&note.text)));
    }
    text.push_str(&sums(report, "to ", "nothing to do"));
    text
}

/// What isn't as it was applied, as people read it.
fn drift(report: &Report, style: Style) -> String {
    let changes = report.changes.iter();
    let changes = changes.filter(|change| change.action != Action::Unchanged);
    let lines: String = changes
        .map(|change| {
            let (mark, color) = sign(change.action);
            let word = drifted(change.action);
            described(change, &style.paint(color, mark), word, style)
        })
        .collect();
    let same = report.count(Action::Unchanged);
    if report.is_noop() {
        return format!("no drift: {same} as applied\n");
    }
    let mut sums: Vec<String> = ["gone", "ended", "differs"]
        .into_iter()
        .map(|word| {
            let changes = report.changes.iter();
            let of = changes.filter(|change| {
                change.action != Action::Unchanged && drifted(change.action) == word
            });
            (of.count(), word)
        })
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    sums.push(format!("{same} as applied"));
    format!("{lines}set {}: {}\n", report.set, sums.join(", "))
}

/// What an object has become, by what an apply would do about it.
fn drifted(action: Action) -> &'static str {
    match action {
        Action::Create => "gone",
        Action::Start => "ended",
        _ => "differs",
    }
}

/// A change with its fields; nothing for what stays as it is, if there is nothing to say of it.
pub(crate) fn line(change: &Change, style: Style) -> String {
    let silent = change.reason.is_none() && change.error.is_none();
    match change.action {
        Action::Unchanged if silent => String::new(),
        _ => of_change(change, style),
    }
}

/// How many changes there are of each kind.
pub(crate) fn sums(report: &Report, prefix: &str, noop: &str) -> String {
    let unchanged = report.count(Action::Unchanged);
    if report.is_noop() {
        return format!("{noop}: {unchanged} as declared\n");
    }
    let words = [
        (Action::Create, "create"),
        (Action::Start, "start"),
        (Action::Update, "update"),
        (Action::Replace, "replace"),
        (Action::Stop, "stop"),
        (Action::Remove, "remove"),
        (Action::Adopt, "take over"),
        (Action::Call, "call"),
    ];
    let mut sums: Vec<String> = words
        .iter()
        .map(|(action, word)| (report.count(*action), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {prefix}{word}"))
        .collect();
    if report.failed() > 0 {
        sums.push(format!("{} failed", report.failed()));
    }
    sums.push(format!("{unchanged} unchanged"));
    format!("set {}: {}\n", report.set, sums.join(", "))
}

/// What is done about an object.
pub(crate) fn word(action: Action) -> &'static str {
    match action {
        Action::Create => "create",
        Action::Start => "start",
        Action::Update => "update",
        Action::Replace => "replace",
        Action::Stop => "stop",
        Action::Remove => "remove",
        Action::Adopt => "take over",
        Action::Call => "call",
        Action::Unchanged => "leave",
    }
}

fn of_change(change: &Change, style: Style) -> String {
    let (mark, color) = match change.error {
        Some(_) => ("!", Color::Red),
        None => sign(change.action),
    };
    described(
        change,
        &style.paint(color, mark),
        word(change.action),
        style,
    )
}

/// What stands before a change.
fn sign(action: Action) -> (&'static str, Color) {
    match action {
        Action::Create | Action::Start => ("+", Color::Green),
        Action::Update => ("~", Color::Yellow),
        Action::Replace => ("±", Color::Magenta),
        Action::Stop | Action::Remove => ("-", Color::Red),
        Action::Adopt => ("^", Color::Yellow),
        Action::Call => (">", Color::Blue),
        Action::Unchanged => ("=", Color::Dim),
    }
}

fn described(change: &Change, mark: &str, word: &str, style: Style) -> String {
    let mut line = format!("{mark} {word} {}", change.kind);
    if !change.name.is_empty() {
        line.push_str(&format!(
            " {}",
            style.paint(Color::Bold, &printable(&change.name))
        ));
    }
    if !change.tenant.is_empty() {
        line.push_str(&format!(" of {}", printable(&change.tenant)));
    }
    if let Some(node) = &change.node {
        line.push_str(&format!(" on {}", printable(node)));
    }
    if word == "replace" {
        line.push_str(": stop it, create it again");
    }
    if let Some(reason) = &change.reason {
        line.push_str(&format!(": {}", printable(reason)));
    }
    if let Some(at) = &change.at {
        line.push_str(&style.paint(Color::Dim, &format!("  ({})", printable(at))));
    }
    line.push('\n');
    if let Some(error) = &change.error {
        line.push_str(&format!("    failed: {}\n", printable(error)));
    }
    for difference in &change.differences {
        line.push_str(&of_difference(difference));
    }
    line
}

fn of_difference(difference: &Difference) -> String {
    let show = |value: &Option<Json>| match value {
        None => "(none)".to_owned(),
        Some(value) => printable(&value.to_string()),
    };
    let to = match difference.unknown {
        true => "(known once it is applied)".to_owned(),
        false => show(&difference.to),
    };
    let field = printable(&difference.field);
    match (&difference.from, difference.sensitive) {
        (None, false) => format!("    {field}: {to}\n"),
        (None, true) => format!("    {field}: set, not shown\n"),
        (Some(_), true) => format!("    {field}: changed, not shown\n"),
        (from, false) => format!("    {field}: {} -> {to}\n", show(from)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(action: Action, name: &str) -> Change {
        Change {
            action,
            kind: "cell".into(),
            name: name.into(),
            tenant: String::new(),
            node: None,
            reason: None,
            differences: Vec::new(),
            at: None,
            error: None,
        }
    }

    #[test]
    fn a_plan_tells_each_field_and_the_sums() {
        let mut update = change(Action::Update, "web");
        update.differences.push(Difference {
            field: "spec.resources.memory.max".into(),
            from: Some(Json::from(1)),
            to: Some(Json::from(2)),
            sensitive: false,
            unknown: false,
        });
        update.differences.push(Difference {
            field: "spec.env.TOKEN".into(),
            from: Some(Json::from("(hidden)")),
            to: Some(Json::from("(hidden)")),
            sensitive: true,
            unknown: false,
        });
        let report = Report {
            set: "shop".into(),
            changes: vec![
                update,
                change(Action::Stop, "old"),
                change(Action::Unchanged, "same"),
            ],
            ..Report::default()
        };
        let told = text(&report, Style::PLAIN);
        assert_eq!(
            told,
            "~ update cell web\n    spec.resources.memory.max: 1 -> 2\n    \
             spec.env.TOKEN: changed, not shown\n- stop cell old\n\
             set shop: 1 to update, 1 to stop, 1 unchanged\n"
        );
    }

    #[test]
    fn what_failed_is_told_and_counted_apart() {
        let mut failed = change(Action::Create, "web");
        failed.error = Some("there is no such program".into());
        let report = Report {
            set: "shop".into(),
            changes: vec![failed.clone(), change(Action::Create, "db")],
            ..Report::default()
        };
        assert_eq!(
            line(&failed, Style::PLAIN),
            "! create cell web\n    failed: there is no such program\n"
        );
        assert_eq!(
            sums(&report, "× ", "nothing changed"),
            "set shop: 1 × create, 1 failed, 0 unchanged\n"
        );
    }
}
