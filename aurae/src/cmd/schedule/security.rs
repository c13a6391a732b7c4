// SPDX-License-Identifier: Apache-2.0
//! `aurae schedule security`: how much services leave open, as systemd's program counts it.

use serde::Serialize;
use units::name::UnitType;
use units::security::{Answer, Level, Score, score};

use super::print_json;
use crate::cmd::plan::Form;
use crate::cmd::units::{Which, each};
use crate::failure::{FINDINGS, Failure};
use crate::global::Global;
use crate::output::{Color, Style, Table, print};

const EXAMPLES: &str = "\
Examples:
  aurae schedule security nginx
  aurae schedule security ./web.service   a file, before it is installed
  aurae schedule security --root /mnt nginx cron
  aurae schedule security --threshold 5.0 ./*.service
  aurae schedule security -o json nginx

0.0 leaves nothing open, 10.0 all. Questions, weights and words are those of `systemd-analyze
security --offline=true` of systemd 252. It judges what the files say, and not the program.

Exit status: 0; 3 a unit is above the threshold; 1 there is no such unit, or it is no service.";

/// `aurae schedule security`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct SecurityArgs {
    #[command(flatten)]
    which: Which,
    /// Fail where a unit is above it, from 0.0 to 10.0
    #[arg(long, value_name = "NUMBER", value_parser = tenths, default_value = "10.0")]
    threshold: u64,
    /// How to print the score
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    output: Form,
}

/// `7`, or `7.5`.
fn tenths(text: &str) -> Result<u64, String> {
    let wrong = || "must be a number from 0.0 to 10.0, with one decimal".to_owned();
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() != 1 {
        return Err(wrong());
    }
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    let tenths = number(whole)?
        .saturating_mul(10)
        .saturating_add(number(part)?);
    (tenths <= 100).then_some(tenths).ok_or_else(wrong)
}

#[derive(Serialize)]
struct Scored {
    unit: String,
    /// In tenths, as it is shown: `9.6`.
    exposure: String,
    level: String,
    answers: Vec<Told>,
}

#[derive(Serialize)]
struct Told {
    id: String,
    name: String,
    /// Null: it has no meaning for this service.
    exposure: Option<String>,
    risk: String,
}

impl From<&Answer> for Told {
    fn from(answer: &Answer) -> Self {
        Told {
            id: answer.id.clone(),
            name: answer.name.clone(),
            exposure: answer.exposure.map(|it| it.to_string()),
            risk: answer.risk.clone(),
        }
    }
}

/// Prints the score of each unit.
pub(super) fn security(global: &Global, args: &SecurityArgs) -> Result<u8, Failure> {
    let style = Style::of(&std::io::stdout(), global.color);
    let mut scores = Vec::new();
    let mut none = None;
    each(&args.which, |_, unit| match score(&unit) {
        Some(score) => scores.push((unit.id.to_string(), score)),
        None => none = none.take().or(Some((unit.id, unit.masked))),
    })?;
    match none {
        Some((id, Some(path))) => {
            return Err(Failure::new(format!(
                "{id} is masked by {path}: it can't be started"
            )));
        }
        Some((id, None)) => {
            let kind: UnitType = id.kind();
            return Err(Failure::new(format!(
                "{id} is a {kind} unit: only services are scored"
            )));
        }
        None => {}
    }
    match args.output {
        Form::Json => print_json(&scores.iter().map(scored).collect::<Vec<_>>())?,
        Form::Text => {
            for (unit, score) in &scores {
                print(&shown(unit, score, style))?;
            }
        }
    }
    let above = scores
        .iter()
        .any(|(_, score)| score.overall.0 > args.threshold);
    Ok(if above { FINDINGS } else { 0 })
}

fn scored((unit, score): &(String, Score)) -> Scored {
    Scored {
        unit: unit.clone(),
        exposure: score.overall.to_string(),
        level: score.level.to_string(),
        answers: score.answers.iter().map(Told::from).collect(),
    }
}

/// What is left open, and the whole.
fn shown(unit: &str, score: &Score, style: Style) -> String {
    let headings = ["EXPOSURE", "WHAT WOULD CLOSE IT", "NOW"];
    let mut table = Table::new(&headings).right(&["EXPOSURE"]);
    for answer in score.answers.iter().filter(|it| !it.risk.is_empty()) {
        let exposure = answer.exposure.map(|it| it.to_string());
        table.push(vec![
            exposure.unwrap_or_default().into(),
            answer.name.as_str().into(),
            answer.risk.as_str().into(),
        ]);
    }
    let color = match score.level {
        Level::Perfect | Level::Safe | Level::Ok => Color::Green,
        Level::Medium => Color::Yellow,
        _ => Color::Red,
    };
    let overall = style.paint(color, &format!("{} {}", score.overall, score.level));
    let open = match table.is_empty() {
        true => String::new(),
        false => table.render(style),
    };
    format!("{open}{unit}: {overall}\n")
}

#[cfg(test)]
mod tests {
    use super::tenths;

    #[test]
    fn a_threshold_has_one_decimal() {
        assert_eq!(
            (tenths("7.5"), tenths("10"), tenths("0.0")),
            (Ok(75), Ok(100), Ok(0))
        );
        for wrong in ["", "10.1", "-1", "7.55", "7.", "x", "99999999999999999999"] {
            assert!(tenths(wrong).is_err(), "{wrong}");
        }
    }
}
