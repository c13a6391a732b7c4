// SPDX-License-Identifier: Apache-2.0
//! `systemd-analyze`: what of it needs no manager; the rest is the original's, by the bus. Unit
//! files are `aurae schedule verify`'s and `security`'s; calendars and spans are crate `units`'.

use std::ffi::OsString;

use clap::Parser as _;
use units::calendar::Calendar;
use units::calendar::zones::FileZones;
use units::time::span::Span;

use super::{left, refused, time};
use crate::args::{Args, Command};
use crate::cmd;
use crate::cmd::units::Machine;
use crate::failure::{FAILED, Failure};
use crate::output::print_line;

pub(super) fn run(words: &[OsString]) -> Result<u8, Failure> {
    let texts: Vec<String> = words
        .iter()
        .skip(1)
        .map(|it| it.to_string_lossy().into_owned())
        .filter(|it| !matches!(it.as_str(), "--no-pager" | "--system"))
        .collect();
    let Some((verb, rest)) = texts.split_first() else {
        return Err(left("systemd-analyze time"));
    };
    match verb.as_str() {
        "verify" | "security" => of_units(verb, rest),
        "calendar" => calendar(rest),
        "timespan" => timespan(rest),
        "timestamp" => timestamp(rest),
        other => Err(left(&format!("systemd-analyze {other}"))),
    }
}

/// As `aurae schedule VERB`, whose flags are understood.
fn of_units(verb: &str, rest: &[String]) -> Result<u8, Failure> {
    let usual = rest.iter().filter(|it| {
        // The unit alone is looked at, offline, whatever these say.
        !it.starts_with("--man") && !it.starts_with("--offline") && !it.starts_with("--generators")
    });
    let words = ["aurae", "schedule", verb].map(str::to_owned).into_iter();
    let args = Args::try_parse_from(words.chain(usual.cloned()));
    let args = args.map_err(|problem| Failure::new(problem.to_string().trim_end().to_owned()))?;
    match &args.command {
        Some(Command::Schedule(schedule)) => {
            let status = cmd::schedule::run_offline(&args.global, schedule)?;
            // Findings are a failure there.
            Ok(status.min(FAILED))
        }
        _ => Err(refused(verb)),
    }
}

/// `--iterations=N`, `-n N`, and the other words.
fn iterations(rest: &[String]) -> Result<(usize, Vec<&str>), Failure> {
    let (mut count, mut texts, mut words) = (1, Vec::new(), rest.iter());
    while let Some(word) = words.next() {
        let number = match word.as_str() {
            "-n" => words.next().map(String::as_str),
            word => word.strip_prefix("--iterations="),
        };
        match number {
            Some(number) => {
                let wrong = |_| Failure::new(format!("Failed to parse iterations: {number}"));
                count = number.parse::<usize>().map_err(wrong)?.min(10_000);
            }
            None => texts.push(word.as_str()),
        }
    }
    Ok((count, texts))
}

fn calendar(rest: &[String]) -> Result<u8, Failure> {
    let (count, texts) = iterations(rest)?;
    let machine = Machine::new(std::path::Path::new("/"), None)?;
    let (zones, zone) = (FileZones(&machine), time::zone());
    for (at, text) in texts.into_iter().enumerate() {
        if at > 0 {
            print_line("")?;
        }
        let wrong = |problem| {
            Failure::new(format!(
                "Failed to parse calendar specification '{text}': {problem}"
            ))
        };
        let calendar = Calendar::parse(text, &zones).map_err(wrong)?;
        let normal = calendar.to_string();
        if normal != text {
            print_line(&format!("  Original form: {text}"))?;
        }
        print_line(&format!("Normalized form: {normal}"))?;
        let now = time::now();
        let mut last = now;
        for number in 1..=count {
            let Some(next) = calendar.next(last, &zones) else {
                if number == 1 {
                    print_line("    Next elapse: never")?;
                }
                break;
            };
            let heading = match number {
                1 => "    Next elapse".to_owned(),
                number => format!("{:>15}", format!("Iter. #{number}")),
            };
            print_line(&format!("{heading}: {}", time::full(next, &zone)))?;
            let utc = jiff::tz::TimeZone::UTC;
            if time::full(next, &utc) != time::full(next, &zone) {
                print_line(&format!("       (in UTC): {}", time::full(next, &utc)))?;
            }
            print_line(&format!("       From now: {}", time::relative(next, now)))?;
            last = next;
        }
    }
    Ok(0)
}

fn timespan(rest: &[String]) -> Result<u8, Failure> {
    for (at, text) in rest.iter().enumerate() {
        if at > 0 {
            print_line("")?;
        }
        let wrong = |_| {
            Failure::new(format!(
                "Failed to parse time span '{text}': Invalid argument"
            ))
        };
        let span = Span::parse(text).map_err(wrong)?;
        let micros = span
            .micros()
            .map_or_else(|| u64::MAX.to_string(), |it| it.to_string());
        print_line(&format!("Original: {text}"))?;
        print_line(&format!("      μs: {micros}"))?;
        print_line(&format!("   Human: {span}"))?;
    }
    Ok(0)
}

fn timestamp(rest: &[String]) -> Result<u8, Failure> {
    let (now, zone) = (time::now(), time::zone());
    for (at, text) in rest.iter().enumerate() {
        if at > 0 {
            print_line("")?;
        }
        let micros = time::parse(text, now, &zone).map_err(Failure::new)?;
        let part = micros.rem_euclid(1_000_000);
        let seconds = micros.div_euclid(1_000_000);
        print_line(&format!("  Original form: {text}"))?;
        print_line(&format!("Normalized form: {}", time::full(micros, &zone)))?;
        let utc = jiff::tz::TimeZone::UTC;
        if time::full(micros, &utc) != time::full(micros, &zone) {
            print_line(&format!("       (in UTC): {}", time::full(micros, &utc)))?;
        }
        let exact = match part {
            0 => format!("@{seconds}"),
            part => format!("@{seconds}.{part:06}"),
        };
        print_line(&format!("   UNIX seconds: {exact}"))?;
        print_line(&format!("       From now: {}", time::relative(micros, now)))?;
    }
    Ok(0)
}
