// SPDX-License-Identifier: Apache-2.0
// How the server is started and which files are its business. Nothing of VS Code here, so that the
// tests start the very same command that the extension does.
import * as fs from "node:fs";
import * as path from "node:path";

/** A program and its arguments. */
export interface ServerCommand {
  command: string;
  args: string[];
}

/** `aurae lsp`, from the setting `aurae.path`. An empty setting is the default. */
export function serverCommand(setting: string | undefined): ServerCommand {
  const command = setting?.trim() || "aurae";
  return { command, args: ["lsp"] };
}

/** The file that marks the root of a program. */
export const ROOT_FILE = "aurae.json";

/** The nearest folder upward from `file` that holds `aurae.json`. */
export function rootOf(file: string): string | undefined {
  let folder = path.dirname(file);
  for (;;) {
    if (fs.existsSync(path.join(folder, ROOT_FILE))) {
      return folder;
    }
    const parent = path.dirname(folder);
    if (parent === folder) {
      return undefined;
    }
    folder = parent;
  }
}

/** Whether a first line asks for `aurae`: `#!/usr/bin/env aurae`, also with `-S`, flags or a path. */
export function isAuraeScript(firstLine: string): boolean {
  return /^#!\s*\S*(?:\benv\s+(?:-S\s+)?(?:\S*\/)?|\/)aurae(?:\s|$)/.test(firstLine);
}

/**
 * Whether a TypeScript file is a program of Aurae: below a root, or by its first line. Every other
 * TypeScript file is another tool's, and left alone.
 */
export function isOurs(file: string, firstLine: string): boolean {
  return isAuraeScript(firstLine) || rootOf(file) !== undefined;
}

/** Where `aurae types` puts its file: beside `aurae.json`, or in a folder of its own there. */
const TYPES = ["aurae.d.ts", path.join(".aurae", "aurae.d.ts")];

/**
 * The folder in which VS Code's own TypeScript, which serves the same file, doesn't know the API
 * yet: the program's root, where `aurae types` was never run. None for a script without a root.
 */
export function withoutTypes(file: string): string | undefined {
  const root = rootOf(file);
  const has = root !== undefined && TYPES.some((name) => fs.existsSync(path.join(root, name)));
  return has ? undefined : root;
}

/** `aurae types FOLDER`, from the setting `aurae.path`. */
export function typesCommand(setting: string | undefined, folder: string): ServerCommand {
  return { command: serverCommand(setting).command, args: ["types", folder] };
}

/** What to tell a user in whose folder they are missing. */
export function typesHelp(folder: string): string {
  return (
    `Aurae: VS Code's own TypeScript doesn't know runtime and the others in ${folder} yet. ` +
    `"aurae types" writes aurae.d.ts and, where there is none, tsconfig.json there.`
  );
}

/** What to tell a user whose `aurae` could not be started. */
export function startHelp(command: string, problem: string): string {
  return (
    `Aurae: can't start "${command} lsp": ${problem}. ` +
    `Install aurae, or set "aurae.path" to where it is.`
  );
}

/**
 * What the server can do with a document, and where the client is held back from asking it about
 * files that aren't ours.
 */
export const HELD: Readonly<Record<string, string>> = {
  callHierarchyProvider: "prepareCallHierarchy",
  codeActionProvider: "provideCodeActions",
  completionProvider: "provideCompletionItem",
  definitionProvider: "provideDefinition",
  documentFormattingProvider: "provideDocumentFormattingEdits",
  documentHighlightProvider: "provideDocumentHighlights",
  documentRangeFormattingProvider: "provideDocumentRangeFormattingEdits",
  documentSymbolProvider: "provideDocumentSymbols",
  foldingRangeProvider: "provideFoldingRanges",
  hoverProvider: "provideHover",
  implementationProvider: "provideImplementation",
  inlayHintProvider: "provideInlayHints",
  referencesProvider: "provideReferences",
  renameProvider: "provideRenameEdits",
  selectionRangeProvider: "provideSelectionRanges",
  semanticTokensProvider: "provideDocumentSemanticTokens",
  signatureHelpProvider: "provideSignatureHelp",
  typeDefinitionProvider: "provideTypeDefinition",
};
