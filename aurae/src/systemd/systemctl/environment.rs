// SPDX-License-Identifier: Apache-2.0
//! What the unit manager itself is given: its environment, and whether watchdogs of services count.
//! Output and messages are systemctl's (systemctl(1), "Environment Commands").

use std::fmt::Write as _;

use api::schedule::v0::{GetUnitManagerRequest, SetUnitManagerRequest, UnitManager};
use units::exec::environment::{assignment, is_name};
use units::value::scalar::boolean;

use super::args::Options;
use super::too_few;
use crate::failure::Failure;
use crate::output::{print, print_line, printable};
use crate::systemd::node::Node;
use crate::systemd::tell;

pub(super) const VERBS: [&str; 5] = [
    "show-environment",
    "set-environment",
    "unset-environment",
    "import-environment",
    "service-watchdogs",
];

pub(super) async fn run(
    node: &Node,
    options: &Options,
    verb: &str,
    words: &[String],
) -> Result<u8, Failure> {
    let mut request = SetUnitManagerRequest::default();
    match verb {
        "show-environment" if words.is_empty() => show(options, &get(node).await?.environment)?,
        "show-environment" => return Err(Failure::new("Too many arguments.")),
        "set-environment" | "unset-environment" if words.is_empty() => return Err(too_few(verb)),
        "set-environment" => {
            request.set = words.to_vec();
            change(node, request, "set environment").await?;
        }
        "unset-environment" => {
            request.unset = words.to_vec();
            change(node, request, "unset environment").await?;
        }
        "import-environment" => {
            request.set = imported(options, words)?;
            change(node, request, "import environment").await?;
        }
        _ => return watchdogs(node, words).await,
    }
    Ok(0)
}

pub(super) async fn get(node: &Node) -> Result<UnitManager, Failure> {
    let request = node.session.node.unary(GetUnitManagerRequest {});
    Ok(node.units().get_unit_manager(request).await?.into_inner())
}

async fn change(node: &Node, request: SetUnitManagerRequest, what: &str) -> Result<(), Failure> {
    let request = node.session.node.unary(request);
    let changed = node.units().set_unit_manager(request).await;
    changed.map(|_| ()).map_err(|status| {
        let failure = Failure::from(client::Error::from(status));
        Failure::new(format!("Failed to {what}: {}", failure.message()))
    })
}

fn show(options: &Options, all: &[String]) -> Result<(), Failure> {
    if let Some(is_pretty) = options.json() {
        return print_line(&json(all, is_pretty));
    }
    // In one piece: a reader such as `grep -q` goes when it has found its line.
    print(&lines(all))
}

fn lines(all: &[String]) -> String {
    let pairs = all.iter().filter_map(|it| it.split_once('='));
    pairs
        .map(|(name, value)| format!("{name}={}\n", quoted(value)))
        .collect()
}

/// One object of all variables.
fn json(all: &[String], is_pretty: bool) -> String {
    let pairs = all.iter().filter_map(|it| it.split_once('='));
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.into()));
    let object = serde_json::Value::Object(pairs.collect());
    match is_pretty {
        true => format!("{object:#}"),
        false => object.to_string(),
    }
}

/// A value that a shell reads back as it is: `$'…'` where a letter of it has a meaning there.
fn quoted(value: &str) -> String {
    const SPECIAL: &str = " \t\n\r\"\\`$*?['()<>|&;!";
    let is_special = |c: char| c.is_ascii_control() || SPECIAL.contains(c);
    if !value.contains(is_special) {
        return value.to_owned();
    }
    let mut text = String::from("$'");
    for c in value.chars() {
        match c {
            '\\' | '\'' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            c if c.is_ascii_control() => {
                let _ = write!(text, "\\{:03o}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('\'');
    text
}

/// Variables of this program's own environment; without words all that can be given.
fn imported(options: &Options, words: &[String]) -> Result<Vec<String>, Failure> {
    if words.is_empty() {
        let words = "Calling import-environment without a list of variable names is deprecated.";
        tell(options.quiet, words);
        let all = std::env::vars_os()
            .filter_map(|(name, value)| Some(format!("{}={}", name.to_str()?, value.to_str()?)));
        return Ok(all.filter(|it| assignment(it).is_some()).collect());
    }
    let mut all = Vec::new();
    for name in words {
        if !is_name(name) {
            let words = format!("Not a valid environment variable name: {}", printable(name));
            return Err(Failure::new(words));
        }
        match std::env::var(name) {
            Ok(value) => all.push(format!("{name}={value}")),
            Err(std::env::VarError::NotPresent) => {
                let words = format!("Environment variable ${name} not set, ignoring.");
                tell(options.quiet, &words);
            }
            Err(std::env::VarError::NotUnicode(_)) => {
                return Err(Failure::new(format!("${name} is no text.")));
            }
        }
    }
    Ok(all)
}

async fn watchdogs(node: &Node, words: &[String]) -> Result<u8, Failure> {
    match words {
        [] => {
            let counts = get(node).await?.service_watchdogs;
            print_line(if counts { "yes" } else { "no" })?;
        }
        [word] => {
            let wrong = |_| Failure::new("Failed to parse service-watchdogs argument");
            let request = SetUnitManagerRequest {
                service_watchdogs: Some(boolean(word).map_err(wrong)?),
                ..Default::default()
            };
            change(node, request, "set service-watchdog state").await?;
        }
        _ => return Err(Failure::new("Too many arguments.")),
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// systemd's `shell_maybe_quote`.
    #[test]
    fn values_are_quoted_as_systemctl_does() {
        for (value, shown) in [
            ("BAR", "BAR"),
            ("", ""),
            ("/usr/bin:/bin", "/usr/bin:/bin"),
            ("a=b,c", "a=b,c"),
            ("ü", "ü"),
            ("a b", "$'a b'"),
            ("it's", "$'it\\'s'"),
            ("a\\b\n\tc\u{1}", "$'a\\\\b\\n\\tc\\001'"),
            ("$HOME", "$'$HOME'"),
        ] {
            assert_eq!(quoted(value), shown, "{value:?}");
        }
    }

    #[test]
    fn all_is_printed_in_one_piece() {
        let all = ["A=x \"y\"".to_owned(), "B=".to_owned()];
        assert_eq!(lines(&all), "A=$'x \"y\"'\nB=\n");
        assert_eq!(json(&all, false), "{\"A\":\"x \\\"y\\\"\",\"B\":\"\"}");
        assert!(json(&all, true).contains('\n'));
    }

    #[test]
    fn words_for_yes_and_no_are_systemds() {
        assert_eq!(["yes", "On", "1"].map(boolean), [const { Ok(true) }; 3]);
        assert_eq!(["no", "F", "0"].map(boolean), [const { Ok(false) }; 3]);
        assert!(boolean("perhaps").is_err());
    }

    #[test]
    fn a_name_that_is_none_is_not_imported() {
        use clap::Parser;
        let options = Options::parse_from(["systemctl", "-q"]);
        assert!(imported(&options, &["A-B".to_owned()]).is_err());
        assert!(
            imported(&options, &["AURAE_SURELY_UNSET".to_owned()])
                .unwrap()
                .is_empty()
        );
        let path = imported(&options, &["PATH".to_owned()]).unwrap();
        assert!(path[0].starts_with("PATH="));
    }
}
