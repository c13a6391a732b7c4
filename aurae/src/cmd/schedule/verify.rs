// SPDX-License-Identifier: Apache-2.0
//! `aurae schedule verify`: what units would do, what is wrong in their files, and what of them
//! isn't honoured.

use serde::Serialize;
use units::finding::{Finding, Severity};
use units::honoured;
use units::verify::{Report, verify as look_at};

use super::print_json;
use crate::cmd::plan::Form;
use crate::cmd::units::{Which, each};
use crate::failure::{FINDINGS, Failure};
use crate::global::Global;
use crate::output::{Color, Style, print, printable};

const EXAMPLES: &str = "\
Examples:
  aurae schedule verify nginx             a unit of this machine, with its drop-ins
  aurae schedule verify ./web.service     a file, before it is installed
  aurae schedule verify --root /mnt nginx cron.service
  aurae schedule verify -o json ./*.timer

It asks no node. What isn't honoured is what a schedule hasn't that `aurae import` makes of the
unit.

Exit status: 0 all can be used; 3 a unit has an error; 1 there is no such unit.";

/// `aurae schedule verify`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    which: Which,
    /// How to print what is found
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    output: Form,
}

#[derive(Serialize)]
struct Verified {
    unit: String,
    file: Option<String>,
    drop_ins: Vec<String>,
    usable: bool,
    does: Vec<String>,
    findings: Vec<Told>,
}

/// A finding. Lines and columns count from 1; 0 is the whole file.
#[derive(Serialize)]
struct Told {
    severity: String,
    file: String,
    line: u32,
    column: u32,
    directive: String,
    message: String,
}

impl From<&Finding> for Told {
    fn from(finding: &Finding) -> Self {
        Told {
            severity: finding.severity.to_string(),
            file: finding.path.clone(),
            line: finding.at.line,
            column: finding.at.column,
            directive: finding.subject.clone(),
            message: finding.message.clone(),
        }
    }
}

/// Prints what is said of each unit.
pub(super) fn verify(global: &Global, args: &VerifyArgs) -> Result<u8, Failure> {
    let style = Style::of(&std::io::stdout(), global.color);
    let mut verified = Vec::new();
    let mut text = String::new();
    each(&args.which, |units, unit| {
        let report = look_at(&unit, &honoured::by_schedules, &|name| units.exists(name));
        if args.output == Form::Text {
            text += &shown(unit.id.as_str(), &report, style);
        }
        verified.push(Verified {
            unit: unit.id.to_string(),
            file: unit.fragment.clone(),
            drop_ins: unit.dropins.clone(),
            usable: report.is_usable() && unit.masked.is_none(),
            does: report.does,
            findings: report.findings.iter().map(Told::from).collect(),
        });
    })?;
    match args.output {
        Form::Text => print(&text)?,
        Form::Json => print_json(&verified)?,
    }
    let error = Severity::Error.to_string();
    let wrong = verified
        .iter()
        .flat_map(|it| &it.findings)
        .any(|it| it.severity == error);
    Ok(if wrong { FINDINGS } else { 0 })
}

fn shown(unit: &str, report: &Report, style: Style) -> String {
    let mut text = format!("{unit}\n");
    for line in &report.does {
        text += &format!("  {}\n", printable(line));
    }
    for finding in &report.findings {
        let color = match finding.severity {
            Severity::Error => Color::Red,
            Severity::Warning => Color::Yellow,
            Severity::Note => Color::Cyan,
        };
        text += &format!(
            "  {}\n",
            style.paint(color, &printable(&finding.to_string()))
        );
    }
    text
}
