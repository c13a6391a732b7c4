// SPDX-License-Identifier: Apache-2.0
//! Hooks of containers, as the OCI runtime specification has them: programs that run at a moment of
//! a container's life. Their form; who may ask for them is the runtime's to decide, and how they
//! are run is the node's.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::text::{check_absolute_path, check_length, weight};

/// The most hooks of one container.
pub const MAX_HOOKS: usize = 32;
/// The most that a hook's words and variables may take in a record, in bytes.
pub const MAX_HOOK_WEIGHT: usize = 4096;
/// How long a hook may take where it doesn't say.
pub const DEFAULT_HOOK_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest time that a hook may ask for.
pub const MAX_HOOK_TIMEOUT: Duration = Duration::from_secs(600);

/// A moment of a container's life, and where its hooks run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// The container is made, and none of its programs has run. On the node.
    CreateRuntime,
    /// The same moment, after those. In the container's namespaces, with the node's files.
    CreateContainer,
    /// Its main process is about to be executed. In the container, with its rights.
    StartContainer,
    /// Its main process has been executed. On the node.
    Poststart,
    /// The container is gone. On the node.
    Poststop,
}

impl Moment {
    /// The specification's word for it (`createRuntime`).
    pub fn name(self) -> &'static str {
        match self {
            Moment::CreateRuntime => "createRuntime",
            Moment::CreateContainer => "createContainer",
            Moment::StartContainer => "startContainer",
            Moment::Poststart => "poststart",
            Moment::Poststop => "poststop",
        }
    }

    /// The moment of that name. `prestart`, the older word, is [`Moment::CreateRuntime`].
    pub fn named(name: &str) -> Option<Moment> {
        Some(match name {
            "createRuntime" | "prestart" => Moment::CreateRuntime,
            "createContainer" => Moment::CreateContainer,
            "startContainer" => Moment::StartContainer,
            "poststart" => Moment::Poststart,
            "poststop" => Moment::Poststop,
            _ => return None,
        })
    }
}

/// A hook.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hook {
    /// When it runs.
    pub moment: Moment,
    /// Its program: an absolute path of the node; of [`Moment::StartContainer`] of the container.
    pub path: String,
    /// Its arguments, with its name first. Empty: its path alone.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub argv: Vec<String>,
    /// Its environment.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub env: BTreeMap<String, String>,
    /// How long it may take. `None`: [`DEFAULT_HOOK_TIMEOUT`].
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub timeout: Option<Duration>,
}

impl Hook {
    /// One without words, variables and a time of its own.
    pub fn new(moment: Moment, path: impl Into<String>) -> Hook {
        Hook {
            moment,
            path: path.into(),
            argv: Vec::new(),
            env: BTreeMap::new(),
            timeout: None,
        }
    }

    /// How long it may take.
    pub fn effective_timeout(&self) -> Duration {
        self.timeout.unwrap_or(DEFAULT_HOOK_TIMEOUT)
    }

    /// Its arguments, with its name first.
    pub fn effective_argv(&self) -> &[String] {
        match self.argv.is_empty() {
            true => std::slice::from_ref(&self.path),
            false => &self.argv,
        }
    }

    /// Checks its form.
    ///
    /// # Errors
    /// `INVALID_FIELD`, by the field.
    pub fn check(&self) -> Result<()> {
        check_absolute_path("path", &self.path)?;
        check_length("path", &self.path, 1024)?;
        if let Some(i) = self.argv.iter().position(|word| word.contains('\0')) {
            return Err(Error::invalid(format!("argv[{i}]"), "contains a NUL byte"));
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                let problem = format!("{name:?} is no variable: a name without =, no NUL byte");
                return Err(Error::invalid("env", problem));
            }
        }
        if self
            .timeout
            .is_some_and(|it| it.is_zero() || it > MAX_HOOK_TIMEOUT)
        {
            return Err(Error::invalid("timeout", "must be from 1 ns to 10 minutes"));
        }
        match self.weight() > MAX_HOOK_WEIGHT {
            true => {
                let problem =
                    format!("has more than {MAX_HOOK_WEIGHT} bytes of words and variables");
                Err(Error::invalid("argv", problem).hint("have a program of the node do it"))
            }
            false => Ok(()),
        }
    }

    /// What it takes in the record, in bytes.
    pub fn weight(&self) -> usize {
        let words = self.argv.iter().map(|word| weight(word) + 3);
        let variables = self.env.iter().map(|(k, v)| weight(k) + weight(v) + 6);
        weight(&self.path) + 80 + words.chain(variables).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_the_specifications_name() {
        use Moment::{CreateContainer, CreateRuntime, Poststart, Poststop, StartContainer};
        let all = [
            CreateRuntime,
            CreateContainer,
            StartContainer,
            Poststart,
            Poststop,
        ];
        for moment in all {
            assert_eq!(Moment::named(moment.name()), Some(moment));
        }
        assert_eq!(Moment::named("prestart"), Some(CreateRuntime));
        assert_eq!(Moment::named("create_runtime"), None);
    }

    #[test]
    fn a_hook_is_a_path_with_words_and_a_bounded_time() {
        let hook = Hook::new(Moment::Poststop, "/bin/true");
        assert_eq!(hook.check(), Ok(()));
        assert_eq!(hook.effective_argv(), ["/bin/true"]);
        assert_eq!(hook.effective_timeout(), DEFAULT_HOOK_TIMEOUT);
        type Change = fn(&mut Hook);
        let wrong: [(&str, Change); 6] = [
            ("path", |it| it.path = "true".into()),
            ("argv[1]", |it| it.argv = vec!["a".into(), "\0".into()]),
            ("env", |it| it.env = [("A=".into(), String::new())].into()),
            ("timeout", |it| it.timeout = Some(Duration::ZERO)),
            ("timeout", |it| it.timeout = Some(MAX_HOOK_TIMEOUT * 2)),
            ("argv", |it| it.argv = vec!["x".repeat(MAX_HOOK_WEIGHT)]),
        ];
        for (field, change) in wrong {
            let mut changed = hook.clone();
            change(&mut changed);
            let error = changed.check().unwrap_err();
            assert_eq!(error.field.as_deref(), Some(field), "{error}");
        }
    }
}
