// SPDX-License-Identifier: Apache-2.0
//! The guide, as its readers try it: every block that is marked ```` ```console run ```` is typed
//! line by line on a node, in its page's order.

use anyhow::{Context, Result, ensure};
use testkit::node::{Node, Options};

use crate::story::{Chapter, Story, powered_off};

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "guide",
    options: Options::default,
    stories: &[
        Story {
            name: "every program of the guide runs",
            tell: programs,
        },
        Story {
            name: "a daemon that dies at once is told and shown",
            tell: dies_at_once,
        },
        Story {
            name: "the least memory of a cell is enough, and less is refused in words",
            tell: least_memory,
        },
    ],
    at_the_end: powered_off,
};

const PAGES: [&str; 6] = [
    "first-node.md",
    "cells.md",
    "executables.md",
    "logs.md",
    "tenants.md",
    "identity.md",
];
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide");

fn programs(node: &mut Node) -> Result<()> {
    for page in PAGES {
        let text = std::fs::read_to_string(format!("{DOCS}/{page}"))?;
        let lines = typed(&text);
        ensure!(
            lines.len() >= 8,
            "{page} has only {} lines to be typed",
            lines.len()
        );
        for line in lines {
            // A daemon that a `-d` line has started may need a moment to listen.
            let patient =
                // A line of its own: it may end in a comment.
                format!("for _ in $(seq 60); do ({line}\n) && exit 0; sleep 0.5; done 2>&1; exit 1");
            let typed = if line.contains("curl") {
                &patient
            } else {
                line
            };
            node.sh(&format!("{typed} 2>&1"))
                .with_context(|| format!("{page}: {line}"))?;
        }
        // The bed's own agent runs as `boot/run`.
        let left = node.sh("aurae ps -q | grep -v ^boot || true")?;
        ensure!(left.trim().is_empty(), "{page} leaves {left}");
    }
    Ok(())
}

/// What follows the prompt in the blocks that are to be run.
fn typed(page: &str) -> Vec<&str> {
    let mut is_open = false;
    let mut lines = Vec::new();
    for line in page.lines() {
        match line {
            "```console run" => is_open = true,
            "```" => is_open = false,
            line if is_open => lines.extend(line.strip_prefix("# ")),
            _ => {}
        }
    }
    lines
}

/// It is watched for half a second, which a busy machine may let pass before it has ended: then
/// another one is started.
fn dies_at_once(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run bare")?;
    let daemon = "busybox sh -c 'echo no configuration; exit 1'";
    let run = format!("aurae run --cell bare --name daemon$try -d -- {daemon} 2>&1");
    let said = node.sh(&format!(
        "for try in $(seq 20); do said=$({run}); status=$?; \
         case $said in *'no configuration'*) break;; esac; done; \
         echo \"$said\"; echo status $status"
    ))?;
    for part in [
        " has ended already: exited (1)",
        "no configuration",
        "aurae logs bare/daemon",
        "status 1",
    ] {
        ensure!(said.contains(part), "no {part:?} in {said}");
    }
    let shown = node.sh("aurae ps")?;
    ensure!(shown.contains("exited (1)"), "not shown: {shown}");
    node.sh("aurae rm -rf bare").map(drop)
}

fn least_memory(node: &mut Node) -> Result<()> {
    let said = node.sh("aurae run --rm --memory 1M -- true && echo fine")?;
    ensure!(said.contains("fine"), "{said}");
    let said = node.sh("aurae run --rm --memory 300k -- true 2>&1; echo status $?")?;
    ensure!(
        said.contains("too small for a cell (at least 1M)") && said.contains("status 125"),
        "{said}"
    );
    Ok(())
}
