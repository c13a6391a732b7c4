// SPDX-License-Identifier: Apache-2.0
//! A loaded program, while it runs: its modules as the engine takes them, more of them as it
//! imports them, files below its root, and the way back from the engine's places to what was
//! written.
//!
//! What a program says is `language`'s; this only keeps it at hand for the host.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use language::check::{Environment, check_program, expected};
use language::compile::{self, Compiled, Options, compile};
use language::finding::Finding;
use language::program::{Entry, Files, NoFiles, Program};
use language::root::{ReadError, Root, join};
use language::source::{Position, Source};

use sha2::{Digest, Sha256};

use crate::protocol::{Doing, Failure, Frame, Module, Thrown};

/// A program's root.
#[derive(Debug)]
pub enum Place {
    /// A folder, held open.
    Folder(Root),
    /// None: a program from standard input or the command line without `--root`.
    Nowhere,
}

impl Files for Place {
    fn text(&self, path: &str) -> Result<String, ReadError> {
        match self {
            Self::Folder(root) => Files::text(root, path),
            Self::Nowhere => NoFiles.text(path),
        }
    }
}

/// A loaded program: it runs, or is about to.
#[derive(Debug)]
pub struct Loaded {
    place: Place,
    options: Options,
    entry: String,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    program: Program,
    compiled: HashMap<String, Compiled>,
}

/// Why a program can't be run.
#[derive(Debug)]
pub enum LoadError {
    /// Its entry can't be read.
    Read(ReadError),
    /// It isn't a program.
    Findings(Vec<Finding>),
}

/// An error with its places as they were written.
#[derive(Clone, Debug)]
pub struct Located {
    /// The innermost place in what was written.
    pub at: Option<(Source, Position)>,
    /// All of them: the function and `file:line:column`.
    pub trace: Vec<(String, String)>,
}

impl Loaded {
    /// Reads, resolves and compiles the program that begins at `entry`.
    ///
    /// # Errors
    /// It can't be read, or has errors of form.
    pub fn load(
        place: Place,
        entry: Entry,
        globals: &[&str],
        options: Options,
    ) -> Result<(Self, Vec<Module>), LoadError> {
        let name = match &entry {
            Entry::File(path) => path.clone(),
            Entry::Text { name, .. } => name.clone(),
        };
        let program = Program::load(&place, entry, globals).map_err(LoadError::Read)?;
        if !program.is_sound() {
            return Err(LoadError::Findings(program.findings().to_vec()));
        }
        let all = program.compile(options).map_err(LoadError::Findings)?;
        let mut modules = Vec::with_capacity(all.len());
        let mut compiled = HashMap::with_capacity(all.len());
        for one in all {
            let name = one.source.name().to_owned();
            modules.push(Module {
                name: name.clone(),
                code: one.code.clone(),
            });
            compiled.insert(name, one);
        }
        let running = Self {
            place,
            options,
            entry: name,
            inner: Mutex::new(Inner { program, compiled }),
        };
        Ok((running, modules))
    }

    /// The entry's name in the engine.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// A fingerprint of all that was read of it, in hexadecimal.
    pub fn digest(&self) -> String {
        self.digest_with(None)
    }

    /// The same with the values that were laid over it.
    pub fn digest_with(&self, values: Option<&str>) -> String {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sources: Vec<_> = inner.compiled.values().map(|one| &one.source).collect();
        sources.sort_by_key(|source| source.name().to_owned());
        let mut hash = Sha256::new();
        for source in sources {
            for text in [source.name(), source.text()] {
                hash.update(text.len().to_le_bytes());
                hash.update(text);
            }
        }
        if let Some(values) = values {
            hash.update(b"values");
            hash.update(values);
        }
        let bytes = hash.finalize();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What is wrong with its types, as `aurae check` would say.
    pub fn check(&self, environment: &Arc<Environment>) -> Vec<Finding> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        check_program(environment, &inner.program)
    }

    /// The type that it declares its own values to be, for [`crate::protocol::Values`].
    pub fn expected(&self, environment: &Arc<Environment>) -> Option<String> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        expected(environment, &inner.program)
    }

    /// Whether what was written has one of these words in it, be it in a comment: a guess for who
    /// prepares what the program will ask for.
    pub fn mentions(&self, words: &[&str]) -> bool {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut texts = inner.compiled.values().map(|one| one.source.text());
        texts.any(|text| words.iter().any(|word| text.contains(word)))
    }

    /// The root of its files, where it has one.
    pub fn root(&self) -> Option<&Path> {
        match &self.place {
            Place::Folder(root) => Some(root.path()),
            Place::Nowhere => None,
        }
    }

    /// Keeps a line of the REPL, so that an error's places in it are found.
    pub fn keep(&self, line: Compiled) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.compiled.insert(line.source.name().to_owned(), line);
    }

    /// What `import(specifier)` gives.
    ///
    /// # Errors
    /// It leads nowhere, or to what is no module.
    pub(crate) fn import(&self, from: &str, specifier: &str) -> Result<Module, Failure> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let fail = |problem: &dyn std::fmt::Display| {
            Failure::new("BAD_IMPORT", format!("{specifier}: {problem}"))
        };
        let (path, _) = inner
            .program
            .import(&self.place, from, specifier)
            .map_err(|problem| fail(&problem))?;
        if let Some(done) = inner.compiled.get(&path) {
            return Ok(as_module(done));
        }
        let module = inner.program.module(&path);
        let source = module.map(|module| module.source.clone());
        let source = source.ok_or_else(|| fail(&"it was not read"))?;
        let done = compile(&source, self.options).map_err(|findings| {
            let first = findings.into_iter().next().map(|finding| finding.message);
            fail(&first.unwrap_or_default())
        })?;
        let module = as_module(&done);
        inner.compiled.insert(path, done);
        Ok(module)
    }

    /// A file's bytes, relative to the module that asks.
    ///
    /// # Errors
    /// There is no such file below the root, or it isn't one that may be read.
    pub(crate) fn read(&self, from: &str, path: &str) -> Result<Vec<u8>, Failure> {
        let Place::Folder(root) = &self.place else {
            let message = format!("{path} can't be read: this program has no root");
            return Err(Failure::new("NO_ROOT", message).hint("name one with --root DIR"));
        };
        let outside = || {
            let message = format!("{path} leads out of the program's root");
            Failure::new("OUTSIDE_ROOT", message).hint(format!(
                "the root is {}: the nearest folder with an aurae.json, or --root",
                root.path().display()
            ))
        };
        let whole = join(from, path).ok_or_else(outside)?;
        root.bytes(&whole).map_err(|problem| match problem {
            ReadError::Outside(_) => outside(),
            ReadError::Missing(_) => Failure::new("NOT_FOUND", problem.to_string()),
            other => Failure::new("UNREADABLE", other.to_string()),
        })
    }

    /// Where a stack's innermost place that was written is: `apps/web.ts:12:3`.
    pub fn place(&self, stack: &[Frame]) -> Option<String> {
        let (source, position) = self.located(stack).at?;
        Some(shown(&source, position))
    }

    /// An error's places.
    pub fn locate(&self, thrown: &Thrown) -> Located {
        self.located(&thrown.stack)
    }

    /// An error's message with what was called and is no function, which the engine leaves out:
    /// `web.nmae is not a function`. Other messages stay as they are.
    pub fn named(&self, message: &str, stack: &[Frame]) -> String {
        const CONSTRUCTOR: &str = "not a constructor";
        let named = || {
            let ends = ["not a function", CONSTRUCTOR];
            let rest = ends.into_iter().find(|rest| message.ends_with(rest))?;
            let before = message.strip_suffix(rest)?;
            // A message with a subject is the program's own, or another engine's.
            let bare = before.is_empty() || before.ends_with(": ");
            let frame = stack.first().filter(|_| bare)?;
            if frame.doing != Doing::CallsNone {
                return None;
            }
            let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let compiled = inner.compiled.get(&frame.module)?;
            let (called, is_new) = compiled.called(frame.line, frame.column)?;
            // The program throws an error of these words.
            if called == "TypeError" {
                return None;
            }
            let rest = if is_new { CONSTRUCTOR } else { rest };
            Some(format!("{before}{called} is {rest}"))
        };
        named().unwrap_or_else(|| message.to_owned())
    }

    fn located(&self, stack: &[Frame]) -> Located {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let found: Vec<_> = stack
            .iter()
            .filter_map(|frame| {
                let compiled = inner.compiled.get(&frame.module)?;
                let doing = match &frame.doing {
                    Doing::Calls(name) => compile::Doing::Calls(name),
                    Doing::CallsNone => compile::Doing::CallsNone,
                    Doing::Fails(name) => compile::Doing::Fails(name),
                };
                let position = compiled.frame(frame.line, frame.column, doing)?;
                Some((frame.function.clone(), compiled.source.clone(), position))
            })
            .collect();
        Located {
            at: found
                .first()
                .map(|(_, source, position)| (source.clone(), *position)),
            trace: found
                .iter()
                .map(|(function, source, position)| (function.clone(), shown(source, *position)))
                .collect(),
        }
    }
}

fn as_module(compiled: &Compiled) -> Module {
    Module {
        name: compiled.source.name().to_owned(),
        code: compiled.code.clone(),
    }
}

fn shown(source: &Source, position: Position) -> String {
    format!("{}:{}:{}", source.name(), position.line, position.column)
}
