// SPDX-License-Identifier: Apache-2.0
//! Whether a part of the node that must write works, in words that `Node.Get` shows. Set by the
//! part's own thread, read from any thread without waiting.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

/// A flag with words. Cheap to clone; clones share the flag.
#[derive(Clone, Debug)]
pub struct Health {
    part: &'static str,
    words: Arc<ArcSwapOption<String>>,
}

impl Health {
    /// A healthy part of that name.
    pub fn new(part: &'static str) -> Self {
        Self {
            part,
            words: Arc::new(ArcSwapOption::empty()),
        }
    }

    /// `None` while healthy; otherwise what is wrong, for people.
    pub fn degraded(&self) -> Option<String> {
        self.words
            .load()
            .as_ref()
            .map(|words| format!("{}: {words}", self.part))
    }

    /// Whether writing works.
    pub fn is_well(&self) -> bool {
        self.words.load().is_none()
    }

    /// Says that the part is degraded, once per change of words in the log.
    pub fn fail(&self, words: &str) {
        let known = self.words.load();
        if known.as_deref().map(String::as_str) != Some(words) {
            tracing::error!(part = self.part, "degraded: {words}");
            self.words.store(Some(Arc::new(words.to_owned())));
        }
    }

    /// Says that it works again.
    pub fn recover(&self) {
        if self.words.swap(None).is_some() {
            tracing::info!(part = self.part, "works again");
        }
    }
}
