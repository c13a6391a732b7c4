// SPDX-License-Identifier: Apache-2.0
// The extension: starts `aurae lsp` once the first file of Aurae is open, and hands it those files
// alone. All knowledge of the language is the server's.
import { execFile } from "node:child_process";

import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions, type ServerOptions } from "vscode-languageclient/node";

import {
  isOurs,
  serverCommand,
  startHelp,
  typesCommand,
  typesHelp,
  withoutTypes,
} from "./server";

let client: LanguageClient | undefined;
let starting: Promise<void> | undefined;

export function activate(context: vscode.ExtensionContext): void {
  context.subscriptions.push(
    vscode.workspace.onDidOpenTextDocument((document) => void startFor(document)),
    vscode.workspace.onDidOpenTextDocument((document) => void offerTypes(context, document)),
    vscode.commands.registerCommand("aurae.restart", restart),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("aurae.path")) {
        void restart();
      }
    }),
  );
  for (const document of vscode.workspace.textDocuments) {
    void startFor(document);
    void offerTypes(context, document);
  }
}

/** Folders that were asked about since VS Code began: once is enough. */
const asked = new Set<string>();

/** Offers to write the types for VS Code's own TypeScript, where a program has none. */
async function offerTypes(
  context: vscode.ExtensionContext,
  document: vscode.TextDocument,
): Promise<void> {
  const folder = ours(document) ? withoutTypes(document.uri.fsPath) : undefined;
  const never = "aurae.types.never";
  const refused = context.workspaceState.get<string[]>(never, []);
  if (folder === undefined || asked.has(folder) || refused.includes(folder)) {
    return;
  }
  asked.add(folder);
  const [write, no] = ["Write them", "Don't ask again"];
  const answer = await vscode.window.showInformationMessage(typesHelp(folder), write, no);
  if (answer === no) {
    await context.workspaceState.update(never, [...refused, folder]);
  }
  if (answer === write) {
    writeTypes(folder);
  }
}

/** VS Code's TypeScript sees the files by itself once they are there. */
function writeTypes(folder: string): void {
  const setting = vscode.workspace.getConfiguration("aurae").get<string>("path");
  const { command, args } = typesCommand(setting, folder);
  execFile(command, args, (problem) => {
    if (problem !== null) {
      void vscode.window.showErrorMessage(startHelp(command, String(problem)));
    }
  });
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
      didOpen: tell,
      didChange: (event, next) => (ours(event.document) ? next(event) : Promise.resolve()),
      didSave: tell,
      didClose: tell,
      provideCompletionItem: ask,
      provideHover: ask,
      provideSignatureHelp: ask,
      provideDefinition: ask,
      provideReferences: ask,
      provideDocumentSymbols: ask,
      provideCodeActions: ask,
      provideDocumentFormattingEdits: ask,
      prepareRename: ask,
      provideRenameEdits: ask,
      provideDocumentSemanticTokens: ask,
      provideDocumentRangeFormattingEdits: ask,
      provideTypeDefinition: ask,
      provideImplementation: ask,
      provideDocumentHighlights: ask,
      provideFoldingRanges: ask,
      provideSelectionRanges: ask,
      provideInlayHints: ask,
      prepareCallHierarchy: ask,
    },
  };
}

type Next<Given extends unknown[], Answer> = (
  document: vscode.TextDocument,
  ...given: Given
) => Answer;

/** Tells the server of a document if it's ours. */
function tell(document: vscode.TextDocument, next: Next<[], Promise<void>>): Promise<void> {
  return ours(document) ? next(document) : Promise.resolve();
}

/** Asks the server about a document if it's ours; what asks comes last. */
function ask<Given extends unknown[], Answer>(
  document: vscode.TextDocument,
  ...rest: [...Given, Next<Given, Answer>]
): Answer | undefined {
  if (!ours(document)) {
    return undefined;
  }
  const next = rest.at(-1) as Next<Given, Answer>;
  return next(document, ...(rest.slice(0, -1) as Given));
}
