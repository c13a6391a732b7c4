// SPDX-License-Identifier: Apache-2.0
// The extension: starts `aurae lsp` once the first file of Aurae is open, and hands it those files
// alone. All knowledge of the language is the server's.
import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions, type ServerOptions } from "vscode-languageclient/node";

import { isOurs, serverCommand, startHelp } from "./server";

let client: LanguageClient | undefined;
let starting: Promise<void> | undefined;

export function activate(context: vscode.ExtensionContext): void {
  context.subscriptions.push(
    vscode.workspace.onDidOpenTextDocument((document) => void startFor(document)),
    vscode.commands.registerCommand("aurae.restart", restart),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("aurae.path")) {
        void restart();
      }
    }),
  );
  for (const document of vscode.workspace.textDocuments) {
    void startFor(document);
  }
}

export async function deactivate(): Promise<void> {
  await starting;
  await client?.stop();
  client = undefined;
}

function ours(document: vscode.TextDocument): boolean {
  const isFile = document.languageId === "typescript" && document.uri.scheme === "file";
  return isFile && isOurs(document.uri.fsPath, document.lineAt(0).text);
}

async function startFor(document: vscode.TextDocument): Promise<void> {
  if (client === undefined && starting === undefined && ours(document)) {
    await start();
  }
}

async function restart(): Promise<void> {
  await deactivate();
  await start();
}

async function start(): Promise<void> {
  const { command, args } = serverCommand(vscode.workspace.getConfiguration("aurae").get("path"));
  const server: ServerOptions = { command, args };
  const created = new LanguageClient("aurae", "Aurae", server, clientOptions());
  starting = created.start();
  try {
    await starting;
    client = created;
  } catch (problem) {
    void vscode.window.showErrorMessage(startHelp(command, String(problem)));
  } finally {
    starting = undefined;
  }
}

/** Files that aren't ours are held back here: VS Code's own TypeScript serves them. */
function clientOptions(): LanguageClientOptions {
  return {
    documentSelector: [{ scheme: "file", language: "typescript" }],
    middleware: {
      didOpen: (document, next) => (ours(document) ? next(document) : Promise.resolve()),
      didChange: (event, next) => (ours(event.document) ? next(event) : Promise.resolve()),
      didSave: (document, next) => (ours(document) ? next(document) : Promise.resolve()),
      didClose: (document, next) => (ours(document) ? next(document) : Promise.resolve()),
      provideCompletionItem: (document, position, context, token, next) =>
        ours(document) ? next(document, position, context, token) : undefined,
      provideHover: (document, position, token, next) =>
        ours(document) ? next(document, position, token) : undefined,
      provideSignatureHelp: (document, position, context, token, next) =>
        ours(document) ? next(document, position, context, token) : undefined,
      provideDefinition: (document, position, token, next) =>
        ours(document) ? next(document, position, token) : undefined,
      provideReferences: (document, position, options, token, next) =>
        ours(document) ? next(document, position, options, token) : undefined,
      provideDocumentSymbols: (document, token, next) =>
        ours(document) ? next(document, token) : undefined,
      provideCodeActions: (document, range, context, token, next) =>
        ours(document) ? next(document, range, context, token) : undefined,
      provideDocumentFormattingEdits: (document, options, token, next) =>
        ours(document) ? next(document, options, token) : undefined,
      provideRenameEdits: (document, position, name, token, next) =>
        ours(document) ? next(document, position, name, token) : undefined,
      provideDocumentSemanticTokens: (document, token, next) =>
        ours(document) ? next(document, token) : undefined,
    },
  };
}
