// SPDX-License-Identifier: Apache-2.0
//! The guide, as its readers try it. What the first line of a block says behind the language
//! decides what becomes of it:
//!
//! * ```` ```console run ````: it is typed line by line on a node, in its page's order. Each line
//!   has to succeed. `NAME$ ` as its prompt is a user with a configuration of their own.
//! * ```` ```console by-hand ````: it isn't, since it needs a terminal, a registry, another machine
//!   or this one for itself, or goes on for ever. Every other block of commands is a fault.
//! * any other word, as in ```` ```yaml pod.yaml ````: the block is written to the file of that
//!   name, in `/root` or where its path says.
//!
//! The lines below a typed one are what it prints. Each is looked for in the output, in their
//! order; there may be more. White space counts as one blank; `…` and `...` stand for any text, and
//! alone for any lines.

use std::fs;

use anyhow::{Context, Result, ensure};
use testkit::node::{Node, Options};

use crate::image;
use crate::story::{Chapter, Story, powered_off};

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "guide",
    options: || Options {
        // The root of each container may take 256 MiB, and a pod has three.
        memory_mib: 2048,
        ..Options::default()
    },
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

/// In this order: the last one ends with a prune of what [`PRELUDE`] has brought.
const PAGES: [&str; 13] = [
    "first-node.md",
    "install.md",
    "configuration.md",
    "cells.md",
    "executables.md",
    "logs.md",
    "tenants.md",
    "identity.md",
    "containers.md",
    "network.md",
    "pods.md",
    "scheduling.md",
    "images.md",
];
/// Those that need a machine with units.
const PAGES_OF_UNITS: [&str; 2] = ["units.md", "replacing-systemd.md"];
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide");
/// The folders that shells bring, and the images that the pages name, without a registry: each is
/// that of busybox.
const PRELUDE: &str = r#"
mkdir -p /etc/bash_completion.d /root/.config/fish/completions
for name in registry.example/busybox:1 nginx:1.27 alpine:3; do
    aurae image import --name $name /root/busybox.tar || exit 1
done
"#;

fn programs(node: &mut Node) -> Result<()> {
    node.sh(image::BUSYBOX).context("an image")?;
    node.sh(PRELUDE).context("what the guide needs")?;
    let wrong = PAGES.map(|page| type_page(node, page).and_then(|()| leaves_nothing(node, page)));
    told(wrong.into_iter().filter_map(Result::err))
}

/// The bed's own agent runs as `boot/run`.
fn leaves_nothing(node: &Node, page: &str) -> Result<()> {
    let left = node.sh("aurae ps -Aq | grep -v boot || true")?;
    ensure!(left.trim().is_empty(), "{page} leaves {left}");
    Ok(())
}

/// All that is wrong at once, where something is.
fn told(wrong: impl Iterator<Item = anyhow::Error>) -> Result<()> {
    let wrong: Vec<String> = wrong.map(|problem| format!("{problem:#}")).collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    Ok(())
}

/// The guide's pages on units, on a machine that has some.
pub(crate) fn units(node: &mut Node) -> Result<()> {
    PAGES_OF_UNITS
        .into_iter()
        .try_for_each(|page| type_page(node, page))
}

/// Writes the page's files and types its lines, in their order.
fn type_page(node: &Node, page: &str) -> Result<()> {
    let text = fs::read_to_string(format!("{DOCS}/{page}"))?;
    let done = steps(&text).into_iter().map(|step| match step {
        Step::File(name, text) => write_file(node, name, &text),
        Step::Line(line) => type_line(node, &line),
    });
    told(done.filter_map(Result::err)).with_context(|| page.to_owned())
}

fn write_file(node: &Node, name: &str, text: &str) -> Result<()> {
    let written = format!(
        "cd /root && mkdir -p \"$(dirname {name})\" && cat > {name} <<'END'\n{text}\nEND\n"
    );
    node.sh(&written).map(drop)
}

fn type_line(node: &Node, line: &Line<'_>) -> Result<()> {
    let typed = line.typed.as_str();
    // A daemon that a `-d` line has started may need a moment to listen.
    let typed = if typed.contains("curl") {
        // A line of its own: it may end in a comment.
        format!("for _ in $(seq 60); do ({typed}\n) && exit 0; sleep 0.5; done; exit 1")
    } else {
        typed.to_owned()
    };
    let person = match line.person {
        "" => String::new(),
        name => format!("export AURAE_CONFIG=/root/{name}.toml; "),
    };
    // Redirected as a whole, for a line that ends in a comment or redirects its output.
    let printed = node.sh(&format!("exec 2>&1; cd /root; {person}\n{typed}"))?;
    let missing = missing(&line.prints, &printed);
    ensure!(
        missing.is_none(),
        "{}\ndoesn't print {:?} but\n{printed}",
        line.typed,
        missing.unwrap_or_default()
    );
    Ok(())
}

/// What a page has its reader do.
enum Step<'a> {
    /// Write a file: its name and text.
    File(&'a str, String),
    /// Type a line.
    Line(Line<'a>),
}

/// A line at a prompt.
struct Line<'a> {
    /// Who types it; empty: root, without a configuration.
    person: &'a str,
    typed: String,
    /// What the page shows of its output.
    prints: Vec<&'a str>,
}

fn steps(page: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for block in blocks(page) {
        match block.title.split_once(' ') {
            Some(("console", "run")) => steps.extend(lines(&block).into_iter().map(Step::Line)),
            Some(("console", _)) | None => {}
            Some((_, name)) => steps.push(Step::File(name, block.lines.join("\n"))),
        }
    }
    steps
}

/// A block of a page.
struct Block<'a> {
    /// What its first line says.
    title: &'a str,
    lines: Vec<&'a str>,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix("```") {
            let lines = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push(Block { title, lines });
        }
    }
    blocks
}

fn lines<'a>(block: &Block<'a>) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'a>> = Vec::new();
    for &shown in &block.lines {
        let before = lines.last_mut();
        match (prompt(shown), before) {
            (_, Some(line)) if line.typed.ends_with('\\') && line.prints.is_empty() => {
                line.typed.push('\n');
                line.typed.push_str(shown);
            }
            (Some((person, typed)), _) => lines.push(Line {
                person,
                typed: typed.to_owned(),
                prints: Vec::new(),
            }),
            (None, Some(line)) => line.prints.push(shown),
            (None, None) => {}
        }
    }
    lines
}

/// Who types this line, and what, where it has a prompt: `# aurae ps`, `alice$ aurae ps`.
fn prompt(line: &str) -> Option<(&str, &str)> {
    if let Some(typed) = line.strip_prefix("# ") {
        return Some(("", typed));
    }
    let (person, typed) = line.split_once("$ ")?;
    let is_name = !person.is_empty() && person.bytes().all(|byte| byte.is_ascii_lowercase());
    is_name.then_some((person, typed))
}

/// The first line that isn't printed behind those before it.
fn missing<'a>(wanted: &[&'a str], printed: &str) -> Option<&'a str> {
    let mut printed = printed.lines();
    let is_gap = |line: &str| ["…", "..."].contains(&line.trim());
    let mut wanted = wanted.iter().copied().filter(|line| !is_gap(line));
    wanted.find(|wanted| !printed.any(|line| is_like(line, wanted)))
}

/// Whether a line is as the page has it.
fn is_like(line: &str, wanted: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (line, wanted) = (plain(line), plain(&wanted.replace("...", "…")));
    let Some((begin, rest)) = wanted.split_once('…') else {
        return line == wanted;
    };
    let Some(mut line) = line.strip_prefix(begin) else {
        return false;
    };
    let (middle, end) = rest.rsplit_once('…').unwrap_or(("", rest));
    for part in middle.split('…') {
        match line.split_once(part) {
            Some((_, behind)) => line = behind,
            None => return false,
        }
    }
    line.ends_with(end)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that `./x` has measured.
    const MEASURED: &str = "figures.md";

    #[test]
    fn every_block_of_commands_is_typed_or_says_that_it_is_not() {
        let mut wrong = Vec::new();
        for entry in fs::read_dir(DOCS).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if !name.ends_with(".md") || name == MEASURED {
                continue;
            }
            let page = fs::read_to_string(format!("{DOCS}/{name}")).unwrap();
            let is_typed = [&PAGES[..], &PAGES_OF_UNITS].concat().contains(&&*name);
            let faults = blocks(&page);
            let faults = faults.iter().filter_map(|block| fault(block, is_typed));
            wrong.extend(faults.map(|fault| format!("{name}: {fault}")));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// What keeps a block from being what its title says.
    fn fault(block: &Block<'_>, is_typed: bool) -> Option<String> {
        let first = block.lines.first().copied().unwrap_or_default();
        let said = match block.title.split_once(' ') {
            Some(("console", "run")) if !is_typed => "no story types this page",
            Some(("console", "run")) if prompt(first).is_none() => "it begins without a prompt",
            Some(("console", "run" | "by-hand")) => return None,
            Some(("console", _)) => "neither `run` nor `by-hand`",
            None if block.title == "console" => "neither `run` nor `by-hand`",
            None if block.lines.iter().any(|line| is_command(line)) => "commands, and no `console`",
            Some(_) if !is_typed => "a file, and no story writes it",
            _ => return None,
        };
        Some(format!("```{}: {first}: {said}", block.title))
    }

    fn is_command(line: &str) -> bool {
        ["# ", "$ ", ""]
            .iter()
            .filter_map(|prompt| line.strip_prefix(prompt))
            .any(|typed| typed.starts_with("aurae "))
    }

    #[test]
    fn lines_are_compared_by_words_and_with_gaps() {
        for (line, wanted) in [
            ("a  b\t c ", " a b  c"),
            ("error: no such program", "error: ..."),
            ("blue 12.0Mi/480Mi 2/64 1/64", "blue  …/480Mi  2/64  …"),
            ("image@sha256:ab12", "image@sha256:…"),
            ("aba", "a…a"),
        ] {
            assert!(is_like(line, wanted), "{line} is {wanted}");
        }
        for (line, wanted) in [
            ("a b c", "a b"),
            ("a", "a…a"),
            ("blue 12.0Mi/960Mi", "blue …/480Mi"),
            ("127", "7"),
        ] {
            assert!(!is_like(line, wanted), "{line} is not {wanted}");
        }
        assert_eq!(missing(&["b", "a"], "a\nb\n"), Some("a"));
        assert_eq!(missing(&["a", "b"], "a\nx\nb\n"), None);
        assert_eq!(missing(&["a", "…", "b", "..."], "a\nb\n"), None);
    }

    #[test]
    fn a_page_is_what_its_titles_say() {
        let page = "```yaml a.yaml\nkey: 1\n```\n\n```console by-hand\n# no\n```\n\n\
            ```console run\n# one \\\n    two\nprinted\nann$ three\n```\n";
        let steps = steps(page);
        let [
            Step::File("a.yaml", text),
            Step::Line(one),
            Step::Line(three),
        ] = &steps[..]
        else {
            panic!("{} steps", steps.len());
        };
        assert_eq!(text, "key: 1");
        assert_eq!(
            (&*one.typed, &one.prints[..]),
            ("one \\\n    two", &["printed"][..])
        );
        assert_eq!((three.person, &*three.typed), ("ann", "three"));
    }
}
