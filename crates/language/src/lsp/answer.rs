// SPDX-License-Identifier: Apache-2.0
//! The server's state and its answers, one method of the protocol each.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lsp_server::{ErrorCode, Notification, Request, RequestId, Response};
use lsp_types::*;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::capable::capabilities;
use super::navigate::{self, Use};
use super::project::Project;
use super::publish::Progress;
use super::rename::{Edits, prepare, rename};
use super::{Setup, complete, declared, outline, place, tell};
use crate::check::{ENVIRONMENT, FileId, LIBRARY};
use crate::finding::Finding;
use crate::root::Root;

/// Why a question has no answer.
pub(super) enum Failure {
    /// Its parameters aren't what the protocol says.
    Params(String),
    Unknown(String),
    Internal(String),
    /// It can't be done; the editor shows why.
    Refused(String),
}

impl Failure {
    pub(super) fn response(self, id: RequestId) -> Response {
        let (code, message) = match self {
            Self::Params(why) => (ErrorCode::InvalidParams, why),
            Self::Unknown(method) => (ErrorCode::MethodNotFound, format!("no method {method}")),
            Self::Internal(why) => (ErrorCode::InternalError, why),
            Self::Refused(why) => (ErrorCode::RequestFailed, why),
        };
        Response::new_err(id, code as i32, message)
    }
}

/// An opened document.
pub(super) struct Document {
    pub(super) folder: PathBuf,
    pub(super) path: String,
    pub(super) source: crate::source::Source,
    /// When it changed last, in the server's versions.
    pub(super) changed: u64,
    /// What was found last, and in which version.
    pub(super) found: Option<(u64, Vec<Finding>)>,
}

/// All that the server knows.
pub(super) struct Server {
    setup: Setup,
    pub(super) projects: HashMap<PathBuf, Project>,
    pub(super) documents: HashMap<Uri, Document>,
    /// Counts what may have changed findings.
    pub(super) version: u64,
    pub(super) progress: Progress,
    /// Documents whose findings the editor is still to forget.
    pub(super) closed: Vec<Uri>,
    /// Whether TypeScript's service is beside it: it can do more, then.
    pub(super) extended: bool,
}

pub(super) fn params<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| Failure::Params(error.to_string()))
}

pub(super) fn json(value: impl serde::Serialize) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(|error| Failure::Internal(error.to_string()))
}

impl Server {
    pub(super) fn new(setup: Setup) -> Self {
        Self {
            setup,
            projects: HashMap::new(),
            documents: HashMap::new(),
            version: 0,
            progress: Progress::default(),
            closed: Vec::new(),
            extended: false,
        }
    }

    pub(super) fn answer(&mut self, request: Request) -> Result<Value, Failure> {
        let given = request.params;
        if is_declarations(&given) {
            return Ok(Value::Null);
        }
        let cache = self.setup.cache.clone();
        match request.method.as_str() {
            "initialize" => {
                let shows = given.pointer("/capabilities/window/workDoneProgress");
                if shows == Some(&Value::Bool(true)) {
                    self.progress = Progress::Wanted;
                }
                json(capabilities(self.extended))
            }
            "textDocument/completion" => {
                let at: CompletionParams = params(given)?;
                let (project, id, offset) = self.at(&at.text_document_position)?;
                let items = complete::complete_and_import(project, id, offset);
                json(CompletionResponse::Array(items))
            }
            "textDocument/hover" => {
                let at: HoverParams = params(given)?;
                let (project, id, offset) = self.at(&at.text_document_position_params)?;
                json(tell::hover(project, id, offset))
            }
            "textDocument/signatureHelp" => {
                let at: SignatureHelpParams = params(given)?;
                let (project, id, offset) = self.at(&at.text_document_position_params)?;
                json(tell::signature(project, id, offset))
            }
            "textDocument/definition" => {
                let at: GotoDefinitionParams = params(given)?;
                let (project, id, offset) = self.at(&at.text_document_position_params)?;
                let found = navigate::definition(project, id, offset);
                let cache = cache.as_deref();
                json(found.and_then(|(file, span)| location(project, file, span, cache)))
            }
            "textDocument/references" => {
                let at: ReferenceParams = params(given)?;
                let mut uses = self.uses(&at.text_document_position)?;
                if !at.context.include_declaration {
                    let declared = self.declaration(&at.text_document_position)?;
                    uses.retain(|it| Some(it) != declared.as_ref());
                }
                json(uses)
            }
            "textDocument/prepareRename" => self.prepare_rename(&params(given)?),
            "textDocument/rename" => self.rename(params(given)?),
            "textDocument/documentSymbol" => {
                let of: DocumentSymbolParams = params(given)?;
                let (project, id) = self.of(&of.text_document.uri)?;
                let source = project.readable(id).map_or_else(empty, |it| it.source);
                let symbols =
                    project.with(id, &source, |module, _| outline::symbols(&source, module));
                json(symbols.unwrap_or_default())
            }
            "textDocument/semanticTokens/full" => {
                let of: SemanticTokensParams = params(given)?;
                let (project, id) = self.of(&of.text_document.uri)?;
                let source = project.readable(id).map_or_else(empty, |it| it.source);
                let data = project.with(id, &source, |module, _| outline::tokens(&source, module));
                json(SemanticTokens {
                    result_id: None,
                    data: data.unwrap_or_default(),
                })
            }
            "textDocument/formatting" => self.format(params(given)?),
            "textDocument/codeAction" => self.actions(&params(given)?),
            other => self.answer_more(other, given),
        }
    }

    /// Takes note of something; true if findings may have changed.
    pub(super) fn hear(&mut self, told: Notification) -> bool {
        const HEARD: [&str; 5] = [
            "textDocument/didOpen",
            "textDocument/didChange",
            "textDocument/didClose",
            "textDocument/didSave",
            "workspace/didChangeWatchedFiles",
        ];
        if !HEARD.contains(&told.method.as_str()) {
            return false;
        }
        self.version += 1;
        match told.method.as_str() {
            "textDocument/didOpen" => {
                if let Ok(it) = params::<DidOpenTextDocumentParams>(told.params) {
                    self.open(it.text_document.uri, it.text_document.text);
                }
            }
            "textDocument/didChange" => {
                if let Ok(it) = params::<DidChangeTextDocumentParams>(told.params) {
                    self.change(&it);
                }
            }
            "textDocument/didClose" => {
                if let Ok(it) = params::<DidCloseTextDocumentParams>(told.params)
                    && let Some(document) = self.documents.remove(&it.text_document.uri)
                    && let Some(project) = self.projects.get_mut(&document.folder)
                {
                    project.set(&document.path, None);
                    self.closed.push(it.text_document.uri);
                }
            }
            "textDocument/didSave" | "workspace/didChangeWatchedFiles" => {
                self.projects.values_mut().for_each(Project::reread);
            }
            _ => {}
        }
        true
    }

    fn open(&mut self, uri: Uri, text: String) {
        let Some(file) = place::path(&uri).filter(|_| !uri.as_str().ends_with(".d.ts")) else {
            return;
        };
        let Some((folder, path)) = self.project_of(&file) else {
            return;
        };
        let source = crate::source::Source::new(path.as_str(), text.as_str());
        if let Some(project) = self.projects.get_mut(&folder) {
            project.set(&path, Some(text));
            project.enter_some();
        }
        let document = Document {
            folder,
            path,
            source,
            changed: self.version,
            found: None,
        };
        self.documents.insert(uri, document);
    }

    /// The project that a file belongs to, made if there is none: the nearest `aurae.json`'s folder
    /// or the file's own.
    pub(super) fn project_of(&mut self, file: &Path) -> Option<(PathBuf, String)> {
        let (root, path) = match Root::of_entry(file) {
            Ok(found) => found,
            // A file that isn't saved yet.
            Err(_) => {
                let root = Root::open(file.parent()?).ok()?;
                (root, file.file_name()?.to_str()?.to_owned())
            }
        };
        let folder = root.path().to_path_buf();
        let environment = Arc::clone(&self.setup.environment);
        let known = self.projects.entry(folder.clone());
        known.or_insert_with(|| Project::new(root, environment));
        Some((folder, path))
    }

    fn change(&mut self, change: &DidChangeTextDocumentParams) {
        let Some(document) = self.documents.get_mut(&change.text_document.uri) else {
            return;
        };
        document.changed = self.version;
        for step in &change.content_changes {
            document.source = place::changed(&document.source, step);
        }
        if let Some(project) = self.projects.get_mut(&document.folder) {
            let text = document.source.text().to_owned();
            project.set(&document.path, Some(text));
            project.enter_some();
        }
    }

    pub(super) fn of(&mut self, uri: &Uri) -> Result<(&mut Project, FileId), Failure> {
        let unknown = || Failure::Refused(format!("{} isn't open", uri.as_str()));
        let document = self.documents.get(uri).ok_or_else(unknown)?;
        let project = self
            .projects
            .get_mut(&document.folder)
            .ok_or_else(unknown)?;
        let id = project.id(&document.path).ok_or_else(unknown)?;
        Ok((project, id))
    }

    pub(super) fn at(
        &mut self,
        at: &TextDocumentPositionParams,
    ) -> Result<(&mut Project, FileId, u32), Failure> {
        let (project, id) = self.of(&at.text_document.uri)?;
        let source = project.entry(id).map(|entry| &entry.source);
        let offset = source.map_or(0, |source| place::offset(source, at.position));
        Ok((project, id, offset))
    }

    pub(super) fn cache(&self) -> Option<PathBuf> {
        self.setup.cache.clone()
    }

    fn uses(&mut self, at: &TextDocumentPositionParams) -> Result<Vec<Location>, Failure> {
        let (project, id, offset) = self.at(at)?;
        let uses = navigate::uses(project, id, offset).map_or_else(|_| Vec::new(), |it| it.all);
        let locations = uses.into_iter();
        Ok(locations
            .filter_map(|it| location(project, it.file, it.span, None))
            .collect())
    }

    /// Where the name at a place is declared.
    fn declaration(
        &mut self,
        at: &TextDocumentPositionParams,
    ) -> Result<Option<Location>, Failure> {
        let (project, id, offset) = self.at(at)?;
        let found = navigate::definition(project, id, offset);
        Ok(found.and_then(|(file, span)| location(project, file, span, None)))
    }

    /// The name at a place, if it can be changed.
    fn prepare_rename(&mut self, at: &TextDocumentPositionParams) -> Result<Value, Failure> {
        let (project, id, offset) = self.at(at)?;
        let uses = prepare(project, id, offset).map_err(Failure::Refused)?;
        let here = |it: &&Use| it.file == id && it.span.start <= offset && offset <= it.span.end;
        let found = uses.iter().find(here);
        let entry = project.entry(id);
        json(
            found
                .zip(entry)
                .map(|(it, entry)| place::range(&entry.source, it.span)),
        )
    }

    fn rename(&mut self, given: RenameParams) -> Result<Value, Failure> {
        let name = given.new_name;
        if !navigate::is_name(&name) {
            return Err(Failure::Refused(format!("`{name}` can't be a name")));
        }
        let (project, id, offset) = self.at(&given.text_document_position)?;
        let edits = rename(project, id, offset, &name).map_err(Failure::Refused)?;
        json(workspace_edit(project, edits))
    }

    fn format(&mut self, given: DocumentFormattingParams) -> Result<Value, Failure> {
        let (project, id) = self.of(&given.text_document.uri)?;
        let Some(entry) = project.entry(id) else {
            return Ok(Value::Null);
        };
        let Ok(text) = crate::format::format(&entry.source) else {
            // What doesn't parse has findings already.
            return Ok(Value::Null);
        };
        if text == entry.source.text() {
            return json(Vec::<TextEdit>::new());
        }
        let end = u32::try_from(entry.source.text().len()).unwrap_or(u32::MAX);
        let range = place::range(&entry.source, crate::source::Span::new(0, end));
        json([TextEdit {
            range,
            new_text: text,
        }])
    }
}

/// Changes of modules, as the protocol has them.
#[allow(
    clippy::mutable_key_type,
    reason = "the protocol's own type of a workspace edit"
)]
pub(super) fn workspace_edit(project: &Project, edits: Edits) -> WorkspaceEdit {
    let mut changes: HashMap<Uri, Vec<TextEdit>> = HashMap::new();
    for (file, edits) in edits {
        let Some(entry) = project.entry(file) else {
            continue;
        };
        let Some(uri) = place::uri(&project.file(&entry.path)) else {
            continue;
        };
        let edits = edits.into_iter().map(|(span, new_text)| TextEdit {
            range: place::range(&entry.source, span),
            new_text,
        });
        changes.insert(uri, edits.collect());
    }
    WorkspaceEdit::new(changes)
}

fn empty() -> crate::source::Source {
    crate::source::Source::new("", "")
}

/// Whether a question is about a file of declarations, in which nothing is looked at.
fn is_declarations(given: &Value) -> bool {
    let uri = given.pointer("/textDocument/uri").and_then(Value::as_str);
    uri.is_some_and(|uri| uri.ends_with(".d.ts"))
}

/// A place as the editor opens it; what the environment declares in a file below `cache`.
pub(super) fn location(
    project: &Project,
    file: FileId,
    span: crate::source::Span,
    cache: Option<&Path>,
) -> Option<Location> {
    if matches!(file, ENVIRONMENT | LIBRARY) {
        let source = declared::source(&project.world.environment, file);
        // Where it can't be written there is no place to show.
        let path = declared::file(&source, &project.root, cache?).ok()?;
        return Some(Location::new(
            place::uri(&path)?,
            place::range(&source, span),
        ));
    }
    let entry = project.entry(file)?;
    let uri = place::uri(&project.file(&entry.path))?;
    Some(Location::new(uri, place::range(&entry.source, span)))
}
