// SPDX-License-Identifier: Apache-2.0
//! `list-dependencies`: a tree of what units need, or with `--reverse` of what needs them; with
//! `--before` and `--after` of what is ordered.

use std::collections::BTreeMap;

use api::schedule::v0::UnitStatus;

use super::args::Options;
use super::list::dot_of;
use crate::failure::Failure;
use crate::output::{print_line, printable};
use crate::systemd::node::Node;

/// What is followed without another flag: systemctl(1), `list-dependencies`.
const NEEDS: [&str; 4] = ["Requires", "Requisite", "Wants", "BindsTo"];
/// A tree is no deeper.
const DEEPEST: usize = 100;
/// No more lines are printed.
const MOST: usize = 100_000;

/// Whom units lead to.
struct Tree<'a> {
    node: &'a Node,
    kinds: &'a [&'a str],
    reverse: bool,
    plain: bool,
    all: bool,
    units: Vec<UnitStatus>,
    known: BTreeMap<String, Vec<String>>,
    /// Filled for `reverse`: every unit, and who needs it.
    needed_by: Option<BTreeMap<String, Vec<String>>>,
    lines: usize,
}

pub(super) async fn run(node: &Node, options: &Options, words: &[String]) -> Result<u8, Failure> {
    let names = match words.is_empty() {
        true => vec!["default.target".to_owned()],
        false => node.named(words, options.among()).await?,
    };
    let kinds: &[&str] = match (options.before, options.after) {
        (true, _) => &["Before"],
        (_, true) => &["After"],
        _ => &NEEDS,
    };
    let mut tree = Tree {
        node,
        kinds,
        reverse: options.reverse,
        plain: options.plain,
        all: options.all,
        units: Vec::new(),
        known: BTreeMap::new(),
        needed_by: None,
        lines: 0,
    };
    for name in names {
        if node.get(&name).await?.is_none() {
            let words = format!("Failed to get properties: Unit {name} not found.");
            return Err(Failure::new(words));
        }
        // It is loaded now, and what it leads to.
        tree.units = node.list(false).await?;
        print_line(&printable(&name))?;
        let mut above = vec![name.clone()];
        tree.below(&name, &mut above, "").await?;
    }
    Ok(0)
}

impl Tree<'_> {
    /// Prints what a unit leads to. A unit that it is below of isn't printed again; a target alone
    /// is followed, but with `--all` everything is.
    async fn below(
        &mut self,
        name: &str,
        above: &mut Vec<String>,
        indent: &str,
    ) -> Result<(), Failure> {
        let mut next = self.of(name).await?;
        next.retain(|it| !above.contains(it));
        let count = next.len();
        for (at, unit) in next.into_iter().enumerate() {
            self.lines += 1;
            if self.lines > MOST {
                return Err(Failure::new(format!("more than {MOST} lines are left out")));
            }
            let last = at + 1 == count;
            let (branch, deeper) = match last {
                true => ("└─", "  "),
                false => ("├─", "│ "),
            };
            let line = match self.plain {
                true => format!("{}{unit}", "  ".repeat(above.len())),
                false => format!("{} {indent}{branch}{unit}", dot_of(&self.units, &unit)),
            };
            print_line(&printable(&line))?;
            let follows = self.all || unit.ends_with(".target");
            if follows && above.len() < DEEPEST {
                above.push(unit.clone());
                let indent = format!("{indent}{deeper}");
                Box::pin(self.below(&unit, above, &indent)).await?;
                above.pop();
            }
        }
        Ok(())
    }

    async fn of(&mut self, name: &str) -> Result<Vec<String>, Failure> {
        if self.reverse {
            if self.needed_by.is_none() {
                self.needed_by = Some(self.turned().await?);
            }
            let all = self.needed_by.as_ref().and_then(|it| it.get(name));
            return Ok(all.cloned().unwrap_or_default());
        }
        if let Some(known) = self.known.get(name) {
            return Ok(known.clone());
        }
        let detail = self.node.get(name).await?;
        let all = detail.map(|it| it.dependencies).unwrap_or_default();
        let mut found: Vec<String> = all
            .into_iter()
            .filter(|it| self.kinds.contains(&it.kind.as_str()))
            .flat_map(|it| it.units)
            .collect();
        found.sort();
        found.dedup();
        self.known.insert(name.to_owned(), found.clone());
        Ok(found)
    }

    /// Who needs whom, of all units that are loaded.
    async fn turned(&mut self) -> Result<BTreeMap<String, Vec<String>>, Failure> {
        let names: Vec<String> = self.units.iter().map(|it| it.name.clone()).collect();
        let mut turned: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for name in names {
            let Some(detail) = self.node.get(&name).await? else {
                continue;
            };
            let kinds = self.kinds;
            let of_kinds = detail.dependencies.into_iter();
            let of_kinds = of_kinds.filter(|it| kinds.contains(&it.kind.as_str()));
            for needed in of_kinds.flat_map(|it| it.units) {
                let by = turned.entry(needed).or_default();
                if !by.contains(&name) {
                    by.push(name.clone());
                }
            }
        }
        Ok(turned)
    }
}
