// SPDX-License-Identifier: Apache-2.0
//! What each test of runc's suite is to come to: it passes, unless a row of
//! `docs/reference/runc-tests.md` says otherwise. That page is the table, so that what is written
//! of it and what is compared with it can't differ.

use anyhow::{Context, Result, bail, ensure};

use super::tap::Heard;

const PAGE: &str = include_str!("../../../../docs/reference/runc-tests.md");
/// The row above the table's own.
const HEAD: &str = "| file | test | root | rootless | why |";

/// As whom the suite is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum User {
    Root,
    Rootless,
}

impl User {
    pub(super) const ALL: [Self; 2] = [Self::Root, Self::Rootless];

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Rootless => "rootless",
        }
    }

    pub(super) fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|user| user.word() == word)
    }
}

/// What a test has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Came {
    Passed,
    Skipped,
    Failed,
}

impl Came {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }

    fn of(word: &str) -> Option<Self> {
        let all = [Self::Passed, Self::Skipped, Self::Failed];
        all.into_iter().find(|came| came.word() == word)
    }
}

#[derive(Debug)]
struct Row {
    file: String,
    name: String,
    root: Came,
    rootless: Came,
}

/// The page's rows.
#[derive(Debug)]
pub(super) struct Table(Vec<Row>);

impl Table {
    /// The committed one.
    ///
    /// # Errors
    /// When a row isn't one.
    pub(super) fn read() -> Result<Self> {
        Self::of_page(PAGE)
    }

    fn of_page(page: &str) -> Result<Self> {
        let rows = page.lines().skip_while(|line| *line != HEAD).skip(2);
        let rows = rows.take_while(|line| line.starts_with('|'));
        let rows: Vec<Row> = rows
            .map(|line| row(line).with_context(|| line.to_owned()))
            .collect::<Result<_>>()?;
        ensure!(
            !rows.is_empty(),
            "docs/reference/runc-tests.md has no table under {HEAD}"
        );
        Ok(Self(rows))
    }

    /// What a test is to come to.
    pub(super) fn of(&self, heard: &Heard, user: User) -> Came {
        let row = self
            .0
            .iter()
            .find(|row| row.file == heard.file && row.name == heard.name);
        row.map_or(Came::Passed, |row| match user {
            User::Root => row.root,
            User::Rootless => row.rootless,
        })
    }
}

fn row(line: &str) -> Result<Row> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [file, name, root, rootless, why] = cells[..] else {
        bail!("a row has five cells: file, test, root, rootless, why");
    };
    ensure!(!why.is_empty(), "the last cell must say why");
    let came =
        |word: &str| Came::of(word).with_context(|| format!("`{word}`: passed, skipped or failed"));
    Ok(Row {
        file: file.trim_matches('`').to_owned(),
        name: name.trim_matches('`').to_owned(),
        root: came(root)?,
        rootless: came(rootless)?,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Came, HEAD, Heard, Table, User};

    #[test]
    fn what_the_page_does_not_name_is_to_pass() {
        let page =
            format!("text\n{HEAD}\n|-|-|-|-|-|\n| `a` | `b c` | failed | skipped | so |\n\n|");
        let table = Table::of_page(&page).unwrap();
        let heard = |name: &str| Heard {
            file: "a".into(),
            name: name.into(),
            came: Came::Passed,
            planned: 1,
            said: Vec::new(),
        };
        assert_eq!(table.of(&heard("b c"), User::Root), Came::Failed);
        assert_eq!(table.of(&heard("b c"), User::Rootless), Came::Skipped);
        assert_eq!(table.of(&heard("b"), User::Root), Came::Passed);
        assert!(Table::of_page(&page.replace("skipped", "maybe")).is_err());
        assert!(Table::of_page("text").is_err());
    }

    #[test]
    fn the_page_can_be_read_and_names_no_test_twice() {
        let table = Table::read().unwrap();
        let mut seen = BTreeSet::new();
        for row in &table.0 {
            assert!(seen.insert((&row.file, &row.name)), "{row:?}: twice");
            let one = row.root != Came::Passed || row.rootless != Came::Passed;
            assert!(one, "{row:?}: what passes needs no row");
        }
    }
}
