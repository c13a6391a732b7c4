// SPDX-License-Identifier: Apache-2.0
//! The modules below one root as an editor has them: unsaved texts before files, each module looked
//! at only once it is asked for, and again only when it or what it imports has changed. Trees
//! aren't kept; a module is small, and parsing it again costs less than keeping it. A clone is a
//! snapshot: cheap, for another thread, and what it comes to know of modules that haven't changed
//! since is known here, too.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxc::allocator::Allocator;

use super::findings::WhileWanted;
use super::readable::Readable;
use crate::check::{
    Claim, Environment, Facts, FileId, Origin, Seen, Slot, World, analyse, file_id, reports,
};
use crate::finding::Finding;
use crate::parse;
use crate::program::{Entry, Outline, Overlay, Program, outline};
use crate::root::{self, Root};
use crate::source::Source;

/// At most so many modules are looked for below a root when a name is searched everywhere.
const MODULES: usize = 5000;

/// So many modules are looked at on the way of one answer.
const STEP: usize = 32;

/// So many files and folders are looked through for those.
const NEAR: usize = 5000;

/// One module.
#[derive(Clone)]
pub(crate) struct Entered {
    /// Relative to the root.
    pub(super) path: String,
    pub(crate) source: Source,
    pub(super) outline: Outline,
    /// The modules behind its specifiers, with the text.
    origin: Arc<Origin>,
    /// The text that parsed last.
    pub(super) sound: Option<Source>,
}

impl Entered {
    /// Whether its present text parses.
    pub(super) fn is_sound(&self) -> bool {
        let sound = self.sound.as_ref();
        sound.is_some_and(|sound| sound.text() == self.source.text())
    }

    /// The modules behind its specifiers.
    pub(super) fn imports(&self) -> &HashMap<String, FileId> {
        &self.origin.imports
    }
}

/// A root and what is known below it.
#[derive(Clone)]
pub(crate) struct Project {
    pub(super) root: Arc<Root>,
    pub(crate) world: World,
    entries: Vec<Arc<Entered>>,
    ids: Arc<HashMap<String, FileId>>,
    /// Unsaved texts by path.
    open: Arc<HashMap<String, String>>,
    /// Modules below the root that aren't known yet; none: they haven't been looked for.
    left: Option<Vec<String>>,
    /// Modules without anything wrong in their form, with the names they had then.
    right: Arc<Mutex<HashMap<String, Vec<String>>>>,
}

impl Project {
    pub(crate) fn new(root: Root, environment: Arc<Environment>) -> Self {
        Self {
            root: Arc::new(root),
            world: World {
                environment,
                modules: Vec::new(),
            },
            entries: Vec::new(),
            ids: Arc::default(),
            open: Arc::default(),
            left: None,
            right: Arc::default(),
        }
    }

    pub(super) fn file(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    pub(crate) fn entry(&self, id: FileId) -> Option<&Entered> {
        let index = usize::try_from(id).ok()?.checked_sub(1)?;
        self.entries.get(index).map(Arc::as_ref)
    }

    fn entry_mut(&mut self, id: FileId) -> Option<&mut Entered> {
        let index = usize::try_from(id).ok()?.checked_sub(1)?;
        self.entries.get_mut(index).map(Arc::make_mut)
    }

    /// A thread that panicked has left whole values behind.
    fn right(&self) -> MutexGuard<'_, HashMap<String, Vec<String>>> {
        self.right.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn id(&self, path: &str) -> Option<FileId> {
        self.ids.get(path).copied()
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (FileId, &Entered)> {
        let entries = self.entries.iter().enumerate();
        entries.map(|(index, entry)| (file_id(index), entry.as_ref()))
    }

    /// A module's text, or the last that parsed where this one doesn't.
    pub(super) fn readable(&self, id: FileId) -> Option<Readable> {
        let entry = self.entry(id)?;
        let source = entry.sound.as_ref().unwrap_or(&entry.source);
        Some(Readable::new(source.clone(), &entry.source))
    }

    /// The editor's text of a module; `None` gives the file its say again.
    pub(crate) fn set(&mut self, path: &str, text: Option<String>) {
        let open = Arc::make_mut(&mut self.open);
        match text {
            Some(text) => {
                open.insert(path.to_owned(), text);
            }
            None => {
                open.remove(path);
            }
        }
        if let Some(id) = self.id(path) {
            self.refresh(id);
        }
        self.enter(path);
    }

    /// Reads again what isn't open and has changed in its file.
    pub(super) fn reread(&mut self) {
        self.right().clear();
        self.left = None;
        let ids: Vec<FileId> = self
            .entries()
            .filter(|(_, entry)| !self.open.contains_key(&entry.path))
            .filter(|(_, entry)| {
                let text = self.root.text(&entry.path).unwrap_or_default();
                text != entry.source.text()
            })
            .map(|(id, _)| id)
            .collect();
        for id in ids {
            self.refresh(id);
        }
    }

    fn text(&self, path: &str) -> String {
        match self.open.get(path) {
            Some(text) => text.clone(),
            // A module that isn't there is empty; `program` says that it isn't.
            None => self.root.text(path).unwrap_or_default(),
        }
    }

    /// Takes a module's text anew and forgets what was known of it and of who imports it.
    fn refresh(&mut self, id: FileId) {
        let Some(path) = self.entry(id).map(|entry| entry.path.clone()) else {
            return;
        };
        let text = self.text(&path);
        let entered = look(&path, text);
        if let Some(entry) = self.entry_mut(id) {
            let sound = entered.sound.clone().or(entry.sound.take());
            *entry = Entered { sound, ..entered };
        }
        self.resolve(id);
        self.forget(id);
    }

    fn forget(&mut self, id: FileId) {
        for id in self.reached_by(&[id]) {
            let index = usize::try_from(id).ok().and_then(|id| id.checked_sub(1));
            if let Some(slot) = index.and_then(|index| self.world.modules.get_mut(index)) {
                *slot = Slot {
                    origin: slot.origin.take(),
                    ..Slot::default()
                };
            }
        }
    }

    /// These modules and all that import them, or import what does.
    pub(super) fn reached_by(&self, ids: &[FileId]) -> Vec<FileId> {
        let mut importers: HashMap<FileId, Vec<FileId>> = HashMap::new();
        for (importer, entry) in self.entries() {
            for imported in entry.imports().values() {
                importers.entry(*imported).or_default().push(importer);
            }
        }
        let mut left = ids.to_vec();
        let mut seen = HashSet::new();
        let mut reached = Vec::new();
        while let Some(id) = left.pop() {
            if seen.insert(id) {
                reached.push(id);
                left.extend(importers.get(&id).into_iter().flatten());
            }
        }
        reached
    }

    /// Makes a module and all that it reaches known.
    pub(super) fn enter(&mut self, path: &str) -> FileId {
        if let Some(id) = self.id(path) {
            return id;
        }
        let mut left = vec![path.to_owned()];
        let mut new = Vec::new();
        while let Some(path) = left.pop() {
            if self.ids.contains_key(&path) {
                continue;
            }
            let entered = look(&path, self.text(&path));
            let targets = targets(&entered).map(|(_, target)| target);
            left.extend(targets);
            self.entries.push(Arc::new(entered));
            self.world.modules.push(Slot::default());
            let id = file_id(self.entries.len() - 1);
            Arc::make_mut(&mut self.ids).insert(path, id);
            new.push(id);
        }
        for id in new {
            self.link(id);
        }
        self.id(path).unwrap_or_default()
    }

    /// Enters what a module imports, and links it.
    fn resolve(&mut self, id: FileId) {
        let wanted: Vec<String> = self.entry(id).map_or_else(Vec::new, |entry| {
            targets(entry).map(|(_, target)| target).collect()
        });
        for path in wanted {
            self.enter(&path);
        }
        self.link(id);
    }

    fn link(&mut self, id: FileId) {
        let Some(entry) = self.entry(id) else { return };
        let linked = targets(entry)
            .filter_map(|(specifier, target)| Some((specifier, self.id(&target)?)))
            .collect();
        let origin = Arc::new(Origin {
            source: entry.source.clone(),
            imports: linked,
        });
        if let Some(entry) = self.entry_mut(id) {
            entry.origin = Arc::clone(&origin);
        }
        let index = usize::try_from(id).ok().and_then(|id| id.checked_sub(1));
        if let Some(slot) = index.and_then(|index| self.world.modules.get_mut(index)) {
            *slot = Slot::of(origin);
        }
    }

    /// Looks at a text in the place of a module's, with everything around it known.
    pub(crate) fn with<R>(
        &self,
        id: FileId,
        source: &Source,
        look: impl FnOnce(&Facts<'_, '_>, bool) -> R,
    ) -> Option<R> {
        let entry = self.entry(id)?;
        let imports = entry.imports();
        if source.text() == entry.source.text() {
            return Some(analyse(&self.world, id, source, imports, look));
        }
        // A half-typed text declares nothing that can be relied on: the types of this module are
        // those of the text that is looked at.
        let mut world = self.world.clone();
        let index = usize::try_from(id).ok()?.checked_sub(1)?;
        *world.modules.get_mut(index)? = Slot::default();
        Some(analyse(&world, id, source, imports, |module, whole| {
            world.declare(id, module);
            look(module, whole)
        }))
    }

    /// All that is wrong with a module: its form first, its types only where its form is sound.
    /// Where `stale` says that they are not wanted any more, they are of no use.
    pub(super) fn findings(&self, path: &str, stale: &(dyn Fn() -> bool + Sync)) -> Vec<Claim> {
        let Some(entry) = self.id(path).and_then(|id| self.entry(id)) else {
            return Vec::new();
        };
        // Of its form nothing but ours is asked.
        let own = |finding: Finding| Claim {
            seen: Seen::Own,
            anchor: finding.span,
            finding,
        };
        match self.own_claims(path) {
            Ok(types) => {
                let form = self.form(path, entry, stale);
                form.into_iter().map(own).chain(types).collect()
            }
            Err(syntax) => syntax.into_iter().map(own).collect(),
        }
    }

    /// What can be said of a module without reading all that it imports: what is wrong with its
    /// types, or as an error with its syntax.
    pub(super) fn own_findings(&self, path: &str) -> Result<Vec<Finding>, Vec<Finding>> {
        let claims = self.own_claims(path)?.into_iter();
        Ok(claims.map(|claim| claim.finding).collect())
    }

    fn own_claims(&self, path: &str) -> Result<Vec<Claim>, Vec<Finding>> {
        let Some((id, entry)) = self.id(path).and_then(|id| Some((id, self.entry(id)?))) else {
            return Ok(Vec::new());
        };
        let allocator = Allocator::default();
        let parsed = parse::parse(&allocator, &entry.source);
        if !parsed.is_sound() {
            return Err(parsed.findings);
        }
        drop(parsed);
        let types = self.with(id, &entry.source, |module, whole| match whole {
            true => reports(module),
            false => Vec::new(),
        });
        let types = types.unwrap_or_default().into_iter();
        Ok(types.map(|report| report.claim(&entry.source)).collect())
    }

    /// What is wrong with a module's imports, exports and names. The whole program is read for it;
    /// so where nothing was wrong and no name has changed since, nothing is.
    fn form(&self, path: &str, entry: &Entered, stale: &(dyn Fn() -> bool + Sync)) -> Vec<Finding> {
        let imported = entry.imports().values().filter_map(|id| self.entry(*id));
        let names: Vec<String> = std::iter::once(entry)
            .chain(imported)
            .map(|entry| names_of(&entry.outline))
            .collect();
        if self.right().get(path) == Some(&names) {
            return Vec::new();
        }
        let files = Overlay {
            files: self.root.as_ref(),
            texts: &self.open,
        };
        let files = WhileWanted {
            files: &files,
            stale,
        };
        let globals = self.world.environment.globals();
        let program = Program::load(&files, Entry::File(path.to_owned()), &globals);
        let form = program.map_or_else(|_| Vec::new(), |it| it.findings().to_vec());
        let own = form.into_iter().filter(|it| it.source.name() == path);
        let own: Vec<Finding> = own.collect();
        if !stale() {
            match own.is_empty() {
                true => self.right().insert(path.to_owned(), names),
                false => self.right().remove(path),
            };
        }
        own
    }

    /// Enters at most [`STEP`] more of the modules below the root: a big workspace comes to be
    /// known while one types, and no answer waits for all of it.
    pub(super) fn enter_some(&mut self) {
        let left = self.left.take();
        let mut left = left.unwrap_or_else(|| below(self.root.path(), NEAR));
        left.retain(|path| !self.ids.contains_key(path));
        for path in left.split_off(left.len().saturating_sub(STEP)) {
            self.enter(&path);
        }
        self.left = Some(left);
    }

    /// Enters every module below the root, at most [`MODULES`].
    pub(crate) fn enter_all(&mut self) {
        for path in modules_below(self.root.path()) {
            self.enter(&path);
        }
    }
}

/// The modules below a root relative to it, at most [`MODULES`]; hidden folders and those of other
/// tools aren't looked into.
pub(super) fn modules_below(root: &Path) -> Vec<String> {
    below(root, usize::MAX)
}

/// Those that are among the first `items` files and folders.
fn below(root: &Path, items: usize) -> Vec<String> {
    let mut folders = vec![root.to_path_buf()];
    let mut found = Vec::new();
    let mut left = items;
    while let Some(folder) = folders.pop() {
        let Ok(list) = std::fs::read_dir(&folder) else {
            continue;
        };
        for item in list.flatten().take(left) {
            left = left.saturating_sub(1);
            let name = item.file_name();
            let name = name.to_string_lossy();
            let hidden = name.starts_with('.') || name == "node_modules" || name == "target";
            match item.file_type() {
                Ok(kind) if kind.is_dir() && !hidden => folders.push(item.path()),
                Ok(kind) if kind.is_file() && name.ends_with(".ts") && !name.ends_with(".d.ts") => {
                    let path = item.path();
                    let relative = path.strip_prefix(root).ok();
                    found.extend(relative.and_then(Path::to_str).map(str::to_owned));
                }
                _ => {}
            }
        }
        if found.len() > MODULES || left == 0 {
            break;
        }
    }
    found.truncate(MODULES);
    found
}

/// The names in a module's face, without their places.
fn names_of(outline: &Outline) -> String {
    let mut names = String::new();
    for import in &outline.imports {
        names.push_str(&import.specifier);
        for taken in &import.names {
            names.extend([" ", taken.name.as_str(), " ", taken.local.as_str()]);
        }
        names.push('\n');
    }
    for export in &outline.exports {
        names.extend(["\nexport ", export.name.as_str()]);
    }
    for (declared, _) in &outline.declared {
        names.extend(["\n", declared.as_str()]);
    }
    names
}

/// Reads a text's face.
fn look(path: &str, text: String) -> Entered {
    let source = Source::new(path, text);
    let allocator = Allocator::default();
    let parsed = parse::parse(&allocator, &source);
    let outline = outline(&parsed);
    let sound = parsed.is_sound().then(|| source.clone());
    drop(parsed);
    let origin = Arc::new(Origin {
        source: source.clone(),
        imports: HashMap::new(),
    });
    Entered {
        path: path.to_owned(),
        source,
        outline,
        origin,
        sound,
    }
}

/// The specifiers of a module with the paths they lead to.
fn targets(entry: &Entered) -> impl Iterator<Item = (String, String)> {
    entry.outline.imports.iter().filter_map(move |import| {
        let relative = import.specifier.starts_with("./") || import.specifier.starts_with("../");
        let module = relative && import.specifier.ends_with(".ts");
        let target = module.then(|| root::join(&entry.path, &import.specifier))??;
        Some((import.specifier.clone(), target))
    })
}
