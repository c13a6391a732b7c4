// SPDX-License-Identifier: Apache-2.0
//! A program: an entry and every module that it reaches by imports, read, resolved and in order.
//! Where modules come from is the caller's: a folder held open (`root`), or that with an editor's
//! unsaved buffers over it ([`Overlay`]).
//!
//! What is found here is of form: syntax, limits, imports that lead nowhere, names that a module
//! doesn't export, cycles, globals that a module shadows. Trees aren't kept: who needs one parses
//! the module's `source` again, in its own arena.

use std::collections::{BTreeMap, HashMap};

use crate::compile::{self, Compiled, Options};
use crate::finding::{Finding, Severity};
use crate::root::{ReadError, Root};
use crate::source::Source;
use crate::stack;

mod ahead;
mod load;
mod outline;
mod resolve;

use ahead::Ahead;
pub use outline::{Export, Import, ImportedName, Outline, outline};

/// Where modules' texts come from.
pub trait Files: Sync {
    /// A module's text; `path` is relative to the root, without `.` and `..`.
    ///
    /// # Errors
    /// It isn't there or isn't a module's text.
    fn text(&self, path: &str) -> Result<String, ReadError>;
}

impl Files for Root {
    fn text(&self, path: &str) -> Result<String, ReadError> {
        Root::text(self, path)
    }
}

/// Files with some texts in front of them: an editor's buffers that aren't saved.
pub struct Overlay<'f> {
    /// What lies beneath.
    pub files: &'f dyn Files,
    /// Texts by path relative to the root.
    pub texts: &'f HashMap<String, String>,
}

impl Files for Overlay<'_> {
    fn text(&self, path: &str) -> Result<String, ReadError> {
        match self.texts.get(path) {
            Some(text) => Ok(text.clone()),
            None => self.files.text(path),
        }
    }
}

/// No files: for a program that stands alone, as the prelude does.
pub struct NoFiles;

impl Files for NoFiles {
    fn text(&self, path: &str) -> Result<String, ReadError> {
        Err(ReadError::Missing(path.to_owned()))
    }
}

/// Where a program begins.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A module's path relative to the root.
    File(String),
    /// Text that is no file, from standard input or `-e`. Its imports are relative to the root.
    Text {
        /// What people see instead of a path: `<stdin>`, `<eval>`.
        name: String,
        /// The whole text.
        text: String,
    },
}

/// One module of a program.
#[derive(Clone, Debug)]
pub struct Module {
    /// Relative to the root without `.` and `..`; an entry's pseudo name. Unique in a program, and
    /// the module's name in the engine.
    pub path: String,
    /// Its text under its path.
    pub source: Source,
    /// What it imports and exports.
    pub outline: Outline,
}

/// An entry and all that it reaches.
#[derive(Debug)]
pub struct Program {
    /// Each after what it imports, but in a cycle; the entry is the last.
    modules: Vec<Module>,
    index: BTreeMap<String, usize>,
    findings: Vec<Finding>,
    globals: Vec<String>,
    bytes: usize,
}

impl Program {
    /// Reads and resolves the program that begins at `entry`. `globals` are the names that the
    /// language gives: a module that declares one at its top level is told so.
    ///
    /// # Errors
    /// The entry can't be read, or there is no room for the parser's stack. All else is a finding.
    pub fn load(files: &dyn Files, entry: Entry, globals: &[&str]) -> Result<Self, ReadError> {
        Self::load_all(files, vec![entry], globals)
    }

    /// Reads several programs that share modules as one: each module once, however many reach it.
    /// The entries are among the modules, each after all that it reaches.
    ///
    /// # Errors
    /// As [`Program::load`], for the first entry that can't be read.
    pub fn load_all(
        files: &dyn Files,
        entries: Vec<Entry>,
        globals: &[&str],
    ) -> Result<Self, ReadError> {
        let mut program = Self {
            modules: Vec::new(),
            index: BTreeMap::new(),
            findings: Vec::new(),
            globals: globals.iter().map(|name| (*name).to_owned()).collect(),
            bytes: 0,
        };
        let mut sources = Vec::new();
        for entry in entries {
            sources.push(match entry {
                Entry::File(path) => {
                    let text = files.text(&path)?;
                    Source::new(path, text)
                }
                Entry::Text { name, text } => Source::new(name, text),
            });
        }
        let first = sources.first().map(|source| source.name().to_owned());
        let work = || {
            let mut ahead = Ahead::of(&program, files, &sources);
            for source in sources {
                if !program.index.contains_key(source.name()) {
                    load::reach(&mut program, files, source, &mut ahead);
                }
            }
        };
        stack::on_big_stack(work).map_err(|error| ReadError::System {
            path: first.unwrap_or_default(),
            source: error,
        })?;
        Ok(program)
    }

    /// What `import(specifier)` in the module at `from` leads to while the program runs: the path
    /// of a module of the program, with it and all that it imports read now where it wasn't
    /// reached before. The second is how many modules are new: the last of `modules`.
    ///
    /// # Errors
    /// It leads nowhere, or what it leads to has errors of form; nothing was added.
    pub fn import(
        &mut self,
        files: &dyn Files,
        from: &str,
        specifier: &str,
    ) -> Result<(String, usize), ImportError> {
        let path = resolve::target(from, specifier).map_err(ImportError::Path)?;
        if self.index.contains_key(&path) {
            return Ok((path, 0));
        }
        let text = files.text(&path).map_err(ImportError::Read)?;
        let (known, bytes) = (self.modules.len(), self.bytes);
        let found = self.findings.len();
        let source = Source::new(path.clone(), text);
        let work = || {
            let mut ahead = Ahead::of(self, files, std::slice::from_ref(&source));
            load::reach(self, files, source, &mut ahead);
        };
        stack::on_big_stack(work).map_err(|error| {
            ImportError::Read(ReadError::System {
                path: path.clone(),
                source: error,
            })
        })?;
        let new = self.findings.split_off(found);
        if new
            .iter()
            .any(|finding| finding.severity == Severity::Error)
        {
            self.modules.truncate(known);
            self.index.retain(|_, at| *at < known);
            self.bytes = bytes;
            return Err(ImportError::Findings(new));
        }
        self.findings.extend(new);
        Ok((path, self.modules.len() - known))
    }

    /// All modules: each after what it imports, but in a cycle; the entry after all that it
    /// reaches, and what was imported while running after the entry.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The module at a path.
    pub fn module(&self, path: &str) -> Option<&Module> {
        self.modules.get(*self.index.get(path)?)
    }

    /// What is wrong with the program's form, by file and place.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Whether nothing stands against running it.
    pub fn is_sound(&self) -> bool {
        let mut findings = self.findings.iter();
        findings.all(|finding| finding.severity != Severity::Error)
    }

    /// Every module's JavaScript, in `modules`' order.
    ///
    /// # Errors
    /// All errors of form, of all modules.
    pub fn compile(&self, options: Options) -> Result<Vec<Compiled>, Vec<Finding>> {
        let mut compiled = Vec::new();
        let mut findings = Vec::new();
        for module in &self.modules {
            match compile::compile(&module.source, options) {
                Ok(done) => compiled.push(done),
                Err(found) => findings.extend(found),
            }
        }
        if findings.is_empty() {
            Ok(compiled)
        } else {
            Err(findings)
        }
    }
}

/// Why an `import(…)` fails while the program runs.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The specifier is no path to a module below the root.
    #[error("{0}")]
    Path(String),
    /// The file can't be read.
    #[error(transparent)]
    Read(ReadError),
    /// It, or what it imports, has errors of form.
    #[error("the module has errors: {}", first(.0))]
    Findings(Vec<Finding>),
}

fn first(findings: &[Finding]) -> String {
    let first = findings.first().map(|finding| {
        let place = finding.source.position(finding.span.start);
        let name = finding.source.name();
        format!(
            "{name}:{}:{}: {}",
            place.line, place.column, finding.message
        )
    });
    first.unwrap_or_default()
}

#[cfg(test)]
mod tests;
