// SPDX-License-Identifier: Apache-2.0
//! The types of what was typed at the prompt, for `.type` and for completion. Loading them takes a
//! moment, which happens beside the first prompt; until they are there, completion works without
//! them.

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
    /// Lines that came while they were being made.
    lines: Vec<String>,
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
        }
    }

    /// Remembers what a line declares.
    pub(super) async fn take(&mut self, line: &str) -> Result<(), Failure> {
        self.lines.push(line.to_owned());
        match self.is_made() {
            true => self.get().await.map(|_| ()),
            false => Ok(()),
        }
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
        for line in self.lines.drain(..) {
            prompt.take(&line)?;
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
