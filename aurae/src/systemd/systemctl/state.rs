// SPDX-License-Identifier: Apache-2.0
//! Verbs that answer by their exit status: is-active, is-failed, is-enabled, is-system-running; and
//! get-default.

use std::path::Path;
use std::time::Duration;

use super::args::Options;
use super::too_few;
use crate::failure::{FAILED, Failure};
use crate::output::{note, print_line};
use crate::systemd::node::{Among, Node};

/// LSB's status of a program that doesn't run, which systemctl has for `is-active`.
const NOT_RUNNING: u8 = 3;
/// Between two looks at a machine that comes up.
const LOOK: Duration = Duration::from_millis(250);

/// Prints how units are; 0 where one is as wanted.
async fn any(
    node: &Node,
    options: &Options,
    words: &[String],
    wanted: &[&str],
    otherwise: u8,
) -> Result<u8, Failure> {
    if words.is_empty() {
        return Err(too_few("it"));
    }
    let mut status = otherwise;
    for name in node.named(words, options.among()).await? {
        let detail = node.get(&name).await?;
        let active = detail.and_then(|it| it.status).map(|it| it.active);
        let active = active.unwrap_or_else(|| "inactive".to_owned());
        if wanted.contains(&active.as_str()) {
            status = 0;
        }
        if !options.quiet {
            print_line(&active)?;
        }
    }
    Ok(status)
}

pub(super) async fn active(
    node: &Node,
    options: &Options,
    words: &[String],
) -> Result<u8, Failure> {
    any(node, options, words, &["active", "reloading"], NOT_RUNNING).await
}

pub(super) async fn failed(
    node: &Node,
    options: &Options,
    words: &[String],
) -> Result<u8, Failure> {
    any(node, options, words, &["failed"], FAILED).await
}

/// Whether that word of `is-enabled` gives status 0: systemctl(1), table 1.
pub(super) fn counts_as_enabled(state: &str) -> bool {
    matches!(
        state,
        "enabled" | "enabled-runtime" | "static" | "alias" | "indirect" | "generated" | "transient"
    )
}

pub(super) async fn enabled(
    node: &Node,
    options: &Options,
    words: &[String],
) -> Result<u8, Failure> {
    if words.is_empty() {
        return Err(too_few("is-enabled"));
    }
    let mut status = FAILED;
    for name in node.named(words, Among::Files).await? {
        let found = node.get(&name).await?.and_then(|it| it.status);
        let state = found.map(|it| it.file_state).unwrap_or_default();
        if state.is_empty() {
            note(&format!(
                "Failed to get unit file state for {name}: No such file or directory"
            ));
            return Ok(FAILED);
        }
        if counts_as_enabled(&state) {
            status = 0;
        }
        if !options.quiet {
            print_line(&state)?;
        }
    }
    Ok(status)
}

/// How the machine is, in systemctl's words.
pub(super) async fn of_machine(node: &Node) -> Result<&'static str, Failure> {
    let units = node.list(false).await?;
    let active = |name: &str| {
        let mut units = units.iter();
        units.any(|it| it.name == name && it.active == "active")
    };
    Ok(match () {
        () if active("rescue.target") || active("emergency.target") => "maintenance",
        () if units.iter().any(|it| it.job_id != 0) => "starting",
        () if units.iter().any(|it| it.active == "failed") => "degraded",
        () => "running",
    })
}

pub(super) async fn system(node: &Node, options: &Options) -> Result<u8, Failure> {
    let mut state = of_machine(node).await?;
    while options.wait && state == "starting" {
        tokio::time::sleep(LOOK).await;
        state = of_machine(node).await?;
    }
    if !options.quiet {
        print_line(state)?;
    }
    Ok(match state {
        "running" => 0,
        _ => FAILED,
    })
}

/// The target that the machine boots to: where `default.target` leads.
pub(super) async fn default_target(node: &Node) -> Result<u8, Failure> {
    let found = node.get("default.target").await?.and_then(|it| it.status);
    let Some(found) = found else {
        note("Failed to get default target: No such file or directory");
        return Ok(FAILED);
    };
    let file = Path::new(&found.fragment).file_name();
    let name = file.map(|it| it.to_string_lossy().into_owned());
    print_line(&name.unwrap_or(found.name))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::counts_as_enabled;

    #[test]
    fn states_count_as_the_manuals_table_says() {
        for yes in [
            "enabled",
            "enabled-runtime",
            "static",
            "alias",
            "indirect",
            "generated",
        ] {
            assert!(counts_as_enabled(yes), "{yes}");
        }
        for no in [
            "disabled",
            "masked",
            "masked-runtime",
            "linked",
            "linked-runtime",
            "",
        ] {
            assert!(!counts_as_enabled(no), "{no}");
        }
    }
}
