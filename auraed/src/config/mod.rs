// SPDX-License-Identifier: Apache-2.0
//! The daemon's configuration: built-in defaults < file < kernel command line < flags.
//!
//! Each layer is checked against the whole schema on its own, so that an error names its layer:
//! file, line and key, or the word on the command line. Then the layers are laid over each other
//! leaf by leaf, and each leaf remembers where its value is from. Init and the daemon both load it;
//! nothing writes it.

mod layer;
mod schema;
mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use self::schema::Limits;
pub(crate) use self::schema::{Boot, Config, Then, is_reloadable};
pub(crate) use self::value::Switch;

use self::layer::Layer;

/// Where the file is unless `--config` says otherwise.
pub(crate) const DEFAULT_FILE: &str = "/etc/aurae/config.toml";

/// Where a value is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    KernelCommandLine,
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::KernelCommandLine => f.write_str("kernel command line"),
            Origin::Flag => f.write_str("flag"),
        }
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("{path}: {source}", path = path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path}:{line}: {key}{problem}", path = path.display())]
    File {
        path: PathBuf,
        line: usize,
        key: String,
        problem: String,
    },
    #[error("{origin}: {assignment}: {problem}")]
    Assignment {
        origin: Origin,
        assignment: String,
        problem: String,
    },
    #[error("the configuration contradicts itself: {0}")]
    Combined(String),
}

/// The sources of the configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// `--config`: must exist. Otherwise [`DEFAULT_FILE`], which need not.
    pub(crate) file: Option<PathBuf>,
    /// `--set KEY=VALUE` and the flags that stand for one.
    pub(crate) flags: Vec<String>,
    /// The kernel's command line, as `/proc/cmdline` has it.
    pub(crate) kernel_command_line: String,
}

/// The effective configuration and where each leaf is from.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    leaves: BTreeMap<String, (toml::Value, Origin)>,
}

impl Sources {
    /// Reads and merges all layers.
    pub(crate) fn load(&self) -> Result<Loaded, ConfigError> {
        let path = self.file.as_deref().unwrap_or(Path::new(DEFAULT_FILE));
        let text = self.read(path)?;
        let file = text.as_deref().map(|text| (path, text));
        merge(file, &self.kernel_command_line, &self.flags)
    }

    /// The file's text; `None` where it isn't there and needn't be.
    fn read(&self, path: &Path) -> Result<Option<String>, ConfigError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && self.file.is_none() => Ok(None),
            Err(source) => Err(ConfigError::Read {
                path: path.to_owned(),
                source,
            }),
        }
    }
}

/// Lays the layers over each other: the defaults, the file's text, the kernel's command line, the
/// flags.
pub(crate) fn merge(
    file: Option<(&Path, &str)>,
    kernel_command_line: &str,
    flags: &[String],
) -> Result<Loaded, ConfigError> {
    let mut leaves = BTreeMap::new();
    let defaults = toml::Table::try_from(Config::default())
        .map_err(|e| ConfigError::Combined(e.to_string()))?;
    Layer::of_table(&defaults, Origin::Default).lay_over(&mut leaves);
    if let Some((path, text)) = file {
        Layer::of_file(path, text)?.lay_over(&mut leaves);
    }
    let kernel = layer::kernel_assignments(kernel_command_line);
    for (words, origin) in [
        (kernel.as_slice(), Origin::KernelCommandLine),
        (flags, Origin::Flag),
    ] {
        for word in words {
            Layer::of_assignment(word, &origin)?.lay_over(&mut leaves);
        }
    }
    let config: Config = layer::table_of(&leaves)
        .try_into()
        .map_err(|e: toml::de::Error| ConfigError::Combined(e.message().to_owned()))?;
    let contradictions = [
        config.images.contradiction(),
        config.cell_network.contradiction(),
        crate::elsewhere::contradiction(&config.sandboxes),
    ];
    match contradictions.into_iter().flatten().next() {
        Some(problem) => Err(ConfigError::Combined(problem)),
        None => Ok(Loaded { config, leaves }),
    }
}

impl Loaded {
    /// Every leaf: key, value as TOML writes it, origin; ordered by key.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, String, &Origin)> {
        self.leaves
            .iter()
            .map(|(key, (value, origin))| (key.as_str(), value.to_string(), origin))
    }

    /// Takes over the keys of `new` that take effect while running; the others stay as they are in
    /// force.
    pub(crate) fn take_reloadable(&mut self, new: Loaded) {
        self.leaves.retain(|key, _| !is_reloadable(key));
        self.leaves
            .extend(new.leaves.into_iter().filter(|(key, _)| is_reloadable(key)));
        self.config.api.deadline = new.config.api.deadline;
        self.config.node.log_level = new.config.node.log_level;
        self.config.logs = new.config.logs;
        self.config.identity = new.config.identity;
        self.config.limits = Limits {
            message: self.config.limits.message,
            ..new.config.limits
        };
        self.config.runtime.finished_max_age = new.config.runtime.finished_max_age;
        self.config.runtime.finished_max_count = new.config.runtime.finished_max_count;
    }

    /// The keys whose values differ, split into those that take effect at once and those that
    /// don't.
    pub(crate) fn changes(&self, new: &Loaded) -> (Vec<String>, Vec<String>) {
        let keys: std::collections::BTreeSet<_> =
            self.leaves.keys().chain(new.leaves.keys()).collect();
        let value = |of: &Loaded, key: &str| of.leaves.get(key).map(|(value, _)| value.clone());
        keys.into_iter()
            .filter(|key| value(self, key) != value(new, key))
            .cloned()
            .partition(|key| is_reloadable(key))
    }
}

#[cfg(test)]
mod tests;
