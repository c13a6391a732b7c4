// SPDX-License-Identifier: Apache-2.0
//! `aurae plan`: what a program would change, against what the node has.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use script::host::Mode;
use script::plan::change::{Action, Change, Report};
use script::plan::difference::Difference;
use script::plan::{Plan, check_set};
use script::protocol::Failure as Refusal;
use serde_json::Value as Json;

use super::script::entry::Source;
use super::script::execute::{Job, execute};
use crate::failure::Failure;
use crate::global::{Global, ProgramArgs};
use crate::output::{Color, Style, print, print_line, printable};

const EXAMPLES: &str = "\
Examples:
  aurae plan apps/web.ts
  aurae plan -o json apps/web.ts          for programs
  aurae plan --set shop apps/web.ts       the set whose objects they are

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
}

/// What plan and apply share.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DeclaringArgs {
    /// The set that its objects belong to [default: the file's name]
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    /// The program, or `-`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What the program gets
    #[arg(
        value_name = "ARGS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    args: Vec<String>,
}

/// How a plan is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

impl DeclaringArgs {
    /// The set's name.
    pub(crate) fn set(&self) -> Result<String, Failure> {
        let stem = self.file.file_stem().and_then(|stem| stem.to_str());
        let name = match (&self.set, stem) {
            (Some(name), _) => name.clone(),
            (None, Some(stem)) if stem != "-" => stem.to_owned(),
            _ => return Err(Failure::usage("a program without a name needs --set NAME")),
        };
        check_set(&name)
            .map_err(|problem| Failure::usage(problem).with_hint("name the set with --set NAME"))?;
        Ok(name)
    }

    /// The program with its arguments.
    pub(crate) fn job(&self, mode: Mode) -> Job {
        let source = match self.file == Path::new("-") {
            true => Source::Stdin,
            false => Source::File(self.file.clone()),
        };
        Job::new(&self.program, source, self.args.clone(), mode)
    }
}

/// Runs the program without consequences and prints what they would be.
pub(crate) async fn run(global: &Global, args: &PlanArgs) -> Result<u8, Failure> {
    let plan = Arc::new(Plan::new(args.declaring.set()?));
    let job = args.declaring.job(Mode::Plan(Arc::clone(&plan)));
    let done = execute(global, job).await?;
    if done.status != 0 {
        return Ok(done.status);
    }
    let report = plan.finish(&done.nodes).await.map_err(refused)?;
    match args.output {
        Form::Json => print_json(&report)?,
        Form::Text => {
            let style = Style::of(&std::io::stdout(), global.color);
            print(&text(&report, style))?;
        }
    }
    Ok(0)
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
fn text(report: &Report, style: Style) -> String {
    let changes = report.changes.iter();
    let mut text: String = changes.map(|change| line(change, style)).collect();
    text.push_str(&sums(report, "to ", "nothing to do"));
    text
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
pub(crate) fn sums(report: &Report, prefix: &str, settled: &str) -> String {
    let unchanged = report.count(Action::Unchanged);
    if report.is_settled() {
        return format!("{settled}: {unchanged} as declared\n");
    }
    let words = [
        (Action::Create, "create"),
        (Action::Start, "start"),
        (Action::Update, "update"),
        (Action::Replace, "replace"),
        (Action::Stop, "stop"),
        (Action::Remove, "remove"),
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

fn of_change(change: &Change, style: Style) -> String {
    let (mark, color, word) = match change.action {
        Action::Create => ("+", Color::Green, "create"),
        Action::Start => ("+", Color::Green, "start"),
        Action::Update => ("~", Color::Yellow, "update"),
        Action::Replace => ("±", Color::Magenta, "replace"),
        Action::Stop => ("-", Color::Red, "stop"),
        Action::Remove => ("-", Color::Red, "remove"),
        Action::Call => (">", Color::Blue, "call"),
        Action::Unchanged => ("=", Color::Dim, "leave"),
    };
    let (mark, color) = match change.error {
        Some(_) => ("!", Color::Red),
        None => (mark, color),
    };
    let mut line = format!("{} {} {}", style.paint(color, mark), word, change.kind);
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
    if change.action == Action::Replace {
        line.push_str(": stop it, make it anew");
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
    format!("    {field}: {} -> {to}\n", show(&difference.from))
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
            unknown: false,
        });
        let report = Report {
            set: "shop".into(),
            changes: vec![
                update,
                change(Action::Stop, "old"),
                change(Action::Unchanged, "same"),
            ],
        };
        let told = text(&report, Style::PLAIN);
        assert_eq!(
            told,
            "~ update cell web\n    spec.resources.memory.max: 1 -> 2\n- stop cell old\n\
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
