// SPDX-License-Identifier: Apache-2.0
//! The types of what was typed at the prompt: for `.type`, for completion, and for what they say
//! against a line. Loading them takes a
//! moment, which happens beside the first prompt; until they are there, completion works without
//! them, and what they say of the first lines is told later.

use language::check::Environment;
use language::declare::aurae_d_ts;
use language::finding::Finding;
use language::prompt::{Completed, Prompt};
use language::root::Root;
use tokio::task::JoinHandle;

use crate::failure::Failure;

/// A session's types, being made or there.
pub(super) struct Types {
    making: Option<JoinHandle<Result<Prompt, String>>>,
    made: Option<Prompt>,
    /// Lines that came while they were being made, with their names.
    lines: Vec<(String, String)>,
    /// What is to be told of lines.
    found: Vec<Finding>,
}

impl Types {
    /// Begins to make them; imports lead below `root`.
    pub(super) fn begin(root: Root) -> Self {
        let make = move || {
            let types = aurae_d_ts().map_err(ToString::to_string)?;
            Ok(Prompt::new(root, Environment::new(types)))
        };
        Self {
            making: Some(tokio::task::spawn_blocking(make)),
            made: None,
            lines: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Remembers what a line declares; gives what the types say against it, and against earlier
    /// ones that came before the types were there.
    pub(super) async fn take(&mut self, name: &str, line: &str) -> Result<Vec<Finding>, Failure> {
        self.lines.push((name.to_owned(), line.to_owned()));
        if self.is_made() {
            self.get().await?;
        }
        Ok(std::mem::take(&mut self.found))
    }

    fn is_made(&self) -> bool {
        self.making.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The types, waited for, with all lines so far.
    async fn get(&mut self) -> Result<&mut Prompt, Failure> {
        if let Some(making) = self.making.take() {
            let made = making
                .await
                .map_err(|problem| Failure::new(format!("can't make the types: {problem}")))?;
            self.made = Some(made.map_err(Failure::new)?);
        }
        let missing = || Failure::new("the types can't be made");
        let prompt = self.made.as_mut().ok_or_else(missing)?;
        for (name, line) in self.lines.drain(..) {
            self.found.extend(prompt.take(&name, &line)?);
        }
        Ok(prompt)
    }

    /// The type that `.type` prints, or the error in the expression.
    pub(super) async fn of(
        &mut self,
        expression: &str,
    ) -> Result<Result<String, Vec<Finding>>, Failure> {
        Ok(self.get().await?.type_of(expression))
    }

    /// The names that fit at the byte `at` of a line; none while the types are being loaded.
    pub(super) async fn complete(&mut self, line: &str, at: usize) -> Completed {
        if !self.is_made() {
            return Completed::default();
        }
        match self.get().await {
            // Without room for a stack there is nothing to offer, and typing goes on.
            Ok(prompt) => prompt.complete(line, at).unwrap_or_default(),
            Err(_) => Completed::default(),
        }
    }
}
