// SPDX-License-Identifier: Apache-2.0
//! A healthcheck of Compose as a probe.

use std::time::Duration;

use serde_json::Value;

use super::fields::{Fields, Notes, scalar};
use super::text::time;
use crate::import::NotImported;
use crate::import::write::Expression;

/// The shortest that a node takes.
const SHORTEST: Duration = Duration::from_secs(1);

/// The probe of a healthcheck; none where there is none, or it is switched off.
pub(super) fn of(mut said: Fields, notes: &mut Notes) -> Result<Option<Expression>, NotImported> {
    let path = said.path("test");
    let argv = match said.take("test") {
        Some(Value::Array(items)) => {
            let words = items.into_iter().map(|item| scalar(item, &path));
            let words = words.collect::<Result<Vec<_>, _>>()?;
            match words.split_first() {
                Some((first, rest)) if first == "CMD" => rest.to_vec(),
                Some((first, rest)) if first == "CMD-SHELL" => shell(&rest.join(" ")),
                _ => Vec::new(),
            }
        }
        Some(line) => shell(&scalar(line, &path)?),
        None => Vec::new(),
    };
    let off = said.flag("disable", notes)?;
    let times = [
        ("start_period", "initialDelay", None),
        ("interval", "period", Some("30s")),
        ("timeout", "timeout", Some("30s")),
    ];
    let argv = Expression::texts(argv.into_iter().map(|word| word.replace("$$", "$")));
    let is_none = matches!(&argv, Expression::List(words) if words.is_empty());
    let exec = Expression::Object(vec![("argv".to_owned(), argv)]);
    let mut made = vec![("exec".to_owned(), exec)];
    for (field, ours, default) in times {
        let given = said.plain(field, notes)?;
        let Some(text) = given.or(default.map(str::to_owned)) else {
            continue;
        };
        let text = match time(&text) {
            None => {
                notes.add(format!("healthcheck.{field} {text}: is no time"));
                continue;
            }
            Some(short) if short < SHORTEST && ours != "initialDelay" => {
                notes.add(format!("healthcheck.{field} {text}: is at least 1s"));
                "1s".to_owned()
            }
            Some(_) => text,
        };
        made.push((ours.to_owned(), Expression::Text(text)));
    }
    // Compose's default is what a node has, too.
    if let Some(count) = said.plain("retries", notes)? {
        match count.parse() {
            Ok(count) => made.push(("failureThreshold".to_owned(), Expression::Number(count))),
            Err(_) => notes.add(format!("healthcheck.retries {count}: is no number")),
        }
    }
    if said.take("start_interval").is_some() {
        notes.add("healthcheck.start_interval: a probe has one period");
    }
    said.end("healthcheck.", notes);
    Ok((!off && !is_none).then_some(Expression::Object(made)))
}

fn shell(line: &str) -> Vec<String> {
    ["/bin/sh", "-c", line].map(str::to_owned).into()
}
