// SPDX-License-Identifier: Apache-2.0
//! What bats prints, read as it comes: one test after the other, each with what was said about it.
//! What is to become of a test is no business of this file.

use std::io::{self, Write};

use super::table::Came;

/// Lines that are kept of what a test has said.
const KEPT: usize = 40;

/// A test that has been run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Heard {
    /// Of the suite, without its ending.
    pub(super) file: String,
    pub(super) name: String,
    pub(super) came: Came,
    /// How many tests its file has.
    pub(super) planned: usize,
    /// What it has said, and why it was skipped.
    pub(super) said: Vec<String>,
}

/// A writer that takes bats's output, and hands on each test once all of it is there.
#[derive(Debug)]
pub(super) struct Tap<F> {
    rest: Vec<u8>,
    file: String,
    planned: usize,
    open: Option<Heard>,
    heard: Vec<Heard>,
    tell: F,
}

impl<F: FnMut(&Heard)> Tap<F> {
    /// `tell` is told of each test.
    pub(super) fn new(tell: F) -> Self {
        Self {
            rest: Vec::new(),
            file: String::new(),
            planned: 0,
            open: None,
            heard: Vec::new(),
            tell,
        }
    }

    /// All tests.
    pub(super) fn into_heard(mut self) -> Vec<Heard> {
        self.close();
        self.heard
    }

    fn close(&mut self) {
        if let Some(done) = self.open.take() {
            (self.tell)(&done);
            self.heard.push(done);
        }
    }

    fn line(&mut self, line: &str) {
        if let Some(file) = line.strip_prefix("file ") {
            self.close();
            self.file = file.to_owned();
            self.planned = 0;
        } else if let Some(planned) = line.strip_prefix("1..") {
            self.planned = planned.trim().parse().unwrap_or(0);
        } else if let Some((came, name, why)) = result(line) {
            self.close();
            self.open = Some(Heard {
                file: self.file.clone(),
                // Some end with a space.
                name: name.trim().to_owned(),
                came,
                planned: self.planned,
                said: why.map(str::to_owned).into_iter().collect(),
            });
        } else if let Some(open) = &mut self.open
            && open.said.len() < KEPT
        {
            open.said.push(line.to_owned());
        }
    }
}

/// `ok 3 NAME`, `not ok 3 NAME`, `ok 3 NAME # skip WHY`.
fn result(line: &str) -> Option<(Came, &str, Option<&str>)> {
    let (came, rest) = match line.strip_prefix("not ok ") {
        Some(rest) => (Came::Failed, rest),
        None => (Came::Passed, line.strip_prefix("ok ")?),
    };
    let (number, name) = rest.split_once(' ')?;
    number.parse::<usize>().ok()?;
    match name.split_once(" # skip") {
        Some((name, why)) if came == Came::Passed => Some((Came::Skipped, name, Some(why.trim()))),
        _ => Some((came, name, None)),
    }
}

impl<F: FnMut(&Heard)> Write for Tap<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            self.line(String::from_utf8_lossy(&line).trim_end());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{Came, Tap};

    #[test]
    fn tests_are_read_as_they_come() {
        let mut told = Vec::new();
        let mut tap = Tap::new(|heard: &super::Heard| told.push(heard.name.clone()));
        tap.write_all(b"file update\n1..3\nok 1 update: a\nnot o")
            .unwrap();
        tap.write_all(b"k 2 b # c\n# it said\n# more\nok 3 d # skip test requires criu\n")
            .unwrap();
        let heard = tap.into_heard();
        assert_eq!(told, ["update: a", "b # c", "d"]);
        let came: Vec<Came> = heard.iter().map(|one| one.came).collect();
        assert_eq!(came, [Came::Passed, Came::Failed, Came::Skipped]);
        assert!(
            heard
                .iter()
                .all(|one| one.file == "update" && one.planned == 3)
        );
        assert_eq!(heard[1].said, ["# it said", "# more"]);
        assert_eq!(heard[2].said, ["test requires criu"]);
    }
}
