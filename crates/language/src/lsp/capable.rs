// SPDX-License-Identifier: Apache-2.0
//! What the server says of itself when an editor initializes it.

use lsp_types::*;

use super::outline::MEANINGS;

/// All that it can do; `extended` with TypeScript's service beside it.
pub(super) fn capabilities(extended: bool) -> InitializeResult {
    let mut able = own();
    if extended {
        extend(&mut able.capabilities);
    }
    able
}

/// What TypeScript's service answers alone, and more of what we answer too.
fn extend(to: &mut ServerCapabilities) {
    if let Some(completion) = &mut to.completion_provider {
        completion.resolve_provider = Some(true);
    }
    to.code_action_provider = Some(actions(&[
        CodeActionKind::QUICKFIX,
        CodeActionKind::SOURCE_ORGANIZE_IMPORTS,
        CodeActionKind::SOURCE_FIX_ALL,
    ]));
}

/// Imports follow the modules that are renamed.
fn renames() -> WorkspaceServerCapabilities {
    let modules = FileOperationFilter {
        scheme: Some("file".to_owned()),
        pattern: FileOperationPattern {
            glob: "**/*.ts".to_owned(),
            matches: None,
            options: None,
        },
    };
    let renames = FileOperationRegistrationOptions {
        filters: vec![modules],
    };
    WorkspaceServerCapabilities {
        workspace_folders: None,
        file_operations: Some(WorkspaceFileOperationsServerCapabilities {
            will_rename: Some(renames),
            ..WorkspaceFileOperationsServerCapabilities::default()
        }),
    }
}

fn actions(kinds: &[CodeActionKind]) -> CodeActionProviderCapability {
    CodeActionProviderCapability::Options(CodeActionOptions {
        code_action_kinds: Some(kinds.to_vec()),
        ..CodeActionOptions::default()
    })
}

/// What is answered here.
fn own() -> InitializeResult {
    let triggers = [".", "\"", "'", "/"].map(str::to_owned).to_vec();
    let legend = SemanticTokensLegend {
        token_types: MEANINGS.to_vec(),
        token_modifiers: Vec::new(),
    };
    InitializeResult {
        server_info: Some(ServerInfo {
            name: "aurae".to_owned(),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        }),
        capabilities: ServerCapabilities {
            text_document_sync: Some(TextDocumentSyncCapability::Options(
                TextDocumentSyncOptions {
                    open_close: Some(true),
                    change: Some(TextDocumentSyncKind::INCREMENTAL),
                    save: Some(TextDocumentSyncSaveOptions::Supported(true)),
                    ..TextDocumentSyncOptions::default()
                },
            )),
            completion_provider: Some(CompletionOptions {
                trigger_characters: Some(triggers),
                ..CompletionOptions::default()
            }),
            hover_provider: Some(HoverProviderCapability::Simple(true)),
            signature_help_provider: Some(SignatureHelpOptions {
                trigger_characters: Some(["(", ","].map(str::to_owned).to_vec()),
                ..SignatureHelpOptions::default()
            }),
            definition_provider: Some(OneOf::Left(true)),
            references_provider: Some(OneOf::Left(true)),
            rename_provider: Some(OneOf::Right(RenameOptions {
                prepare_provider: Some(true),
                work_done_progress_options: WorkDoneProgressOptions::default(),
            })),
            document_symbol_provider: Some(OneOf::Left(true)),
            document_formatting_provider: Some(OneOf::Left(true)),
            document_range_formatting_provider: Some(OneOf::Left(true)),
            type_definition_provider: Some(TypeDefinitionProviderCapability::Simple(true)),
            implementation_provider: Some(ImplementationProviderCapability::Simple(true)),
            document_highlight_provider: Some(OneOf::Left(true)),
            folding_range_provider: Some(FoldingRangeProviderCapability::Simple(true)),
            selection_range_provider: Some(SelectionRangeProviderCapability::Simple(true)),
            workspace_symbol_provider: Some(OneOf::Left(true)),
            workspace: Some(renames()),
            call_hierarchy_provider: Some(CallHierarchyServerCapability::Simple(true)),
            inlay_hint_provider: Some(OneOf::Left(true)),
            code_action_provider: Some(actions(&[
                CodeActionKind::QUICKFIX,
                CodeActionKind::SOURCE_ORGANIZE_IMPORTS,
            ])),
            semantic_tokens_provider: Some(
                SemanticTokensServerCapabilities::SemanticTokensOptions(SemanticTokensOptions {
                    legend,
                    full: Some(SemanticTokensFullOptions::Bool(true)),
                    ..SemanticTokensOptions::default()
                }),
            ),
            ..ServerCapabilities::default()
        },
    }
}
