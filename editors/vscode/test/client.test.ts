// SPDX-License-Identifier: Apache-2.0
// The command that the extension starts, spoken to with the protocol's own library. AURAE_PATH names
// the program: `./x test` sets it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

import {
  type ClientCapabilities,
  CodeActionRequest,
  CompletionRequest,
  CompletionResolveRequest,
  createProtocolConnection,
  DefinitionRequest,
  type Diagnostic,
  DidChangeTextDocumentNotification,
  DidOpenTextDocumentNotification,
  DocumentFormattingRequest,
  ExitNotification,
  HoverRequest,
  InitializedNotification,
  InitializeRequest,
  type InitializeResult,
  InlayHintRequest,
  type PublishDiagnosticsParams,
  PublishDiagnosticsNotification,
  ShutdownRequest,
} from "vscode-languageserver-protocol/node";

import { HELD, serverCommand } from "../src/server";

type Connection = ReturnType<typeof createProtocolConnection>;

/** Of what VS Code's client says that it can, the parts by which servers answer otherwise. */
const VS_CODE: ClientCapabilities = {
  textDocument: {
    completion: {
      completionItem: {
        snippetSupport: true,
        documentationFormat: ["markdown", "plaintext"],
        labelDetailsSupport: true,
        resolveSupport: { properties: ["documentation", "detail", "additionalTextEdits"] },
      },
      contextSupport: true,
    },
    hover: { contentFormat: ["markdown", "plaintext"] },
    codeAction: {
      codeActionLiteralSupport: { codeActionKind: { valueSet: ["", "quickfix", "source"] } },
    },
    publishDiagnostics: { relatedInformation: true, tagSupport: { valueSet: [1, 2] } },
    inlayHint: { dynamicRegistration: true, resolveSupport: { properties: ["tooltip"] } },
  },
  workspace: { workspaceEdit: { documentChanges: true } },
};

/** A server, a connection, and the file that the test is about. */
async function withServer(
  text: string,
  story: (connection: Connection, uri: string, able: InitializeResult) => Promise<void>,
  beside: { files?: Record<string, string>; typescript?: boolean } = {},
): Promise<void> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "aurae-"));
  fs.writeFileSync(path.join(folder, "aurae.json"), "{}");
  const file = path.join(folder, "web.ts");
  fs.writeFileSync(file, text);
  for (const [name, said] of Object.entries(beside.files ?? {})) {
    fs.writeFileSync(path.join(folder, name), said);
  }
  if (beside.typescript) {
    fs.symlinkSync(path.resolve("node_modules"), path.join(folder, "node_modules"));
  }
  const { command, args } = serverCommand(process.env["AURAE_PATH"]);
  const server = spawn(command, args, { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
  const exited = new Promise<number | null>((resolve, reject) => {
    server.once("exit", resolve);
    server.once("error", reject);
  });
  const connection = createProtocolConnection(server.stdout, server.stdin);
  connection.listen();
  try {
    const able = await connection.sendRequest(InitializeRequest.type, {
      processId: process.pid,
      rootUri: pathToFileURL(folder).href,
      capabilities: VS_CODE,
    });
    await connection.sendNotification(InitializedNotification.type, {});
    await story(connection, pathToFileURL(file).href, able);
    await connection.sendRequest(ShutdownRequest.type);
    await connection.sendNotification(ExitNotification.type);
    assert.equal(await exited, 0, "the server ends cleanly when told to");
  } finally {
    connection.dispose();
    server.kill();
    fs.rmSync(folder, { recursive: true });
  }
}

test("a mistake is shown as one types, with its place", async () => {
  const text = 'export const web = new Cell({ name: "web", labls: { app: "web" } });\n';
  await withServer(text, async (connection, uri) => {
    const shown = new Promise<PublishDiagnosticsParams>((resolve) => {
      connection.onNotification(PublishDiagnosticsNotification.type, resolve);
    });
    await connection.sendNotification(DidOpenTextDocumentNotification.type, {
      textDocument: { uri, languageId: "typescript", version: 1, text },
    });
    const { diagnostics } = await shown;
    assert.equal(diagnostics.length, 1);
    assert.equal(diagnostics[0]?.code, "unknown-field");
    assert.deepEqual(diagnostics[0]?.range.start, { line: 0, character: text.indexOf("labls") });
    assert.match(JSON.stringify(diagnostics[0]?.message), /labels/);
  });
});

test("hover says what a method does, and formatting answers", async () => {
  const text = "await   runtime.RunCell({})\n";
  await withServer(text, async (connection, uri) => {
    await connection.sendNotification(DidOpenTextDocumentNotification.type, {
      textDocument: { uri, languageId: "typescript", version: 1, text },
    });
    const hover = await connection.sendRequest(HoverRequest.type, {
      textDocument: { uri },
      position: { line: 0, character: text.indexOf("RunCell") + 1 },
    });
    assert.match(JSON.stringify(hover), /Creates a cell/);
    const edits = await connection.sendRequest(DocumentFormattingRequest.type, {
      textDocument: { uri },
      options: { tabSize: 2, insertSpaces: true },
    });
    assert.ok(edits !== null && edits.length > 0);
  });
});

test("what the server can do is asked of it about our files alone", async () => {
  const extension = fs.readFileSync("src/extension.ts", "utf8");
  await withServer("print(1);\n", async (_connection, _uri, able) => {
    const all = Object.keys(able.capabilities).filter((name) => name.endsWith("Provider"));
    // That one is about the folder, not about a document.
    const documents = all.filter((name) => name !== "workspaceSymbolProvider");
    assert.deepEqual(documents.filter((name) => HELD[name] === undefined), []);
    for (const name of documents) {
      assert.ok(extension.includes(`${HELD[name]}: ask,`), `${name} is asked about every file`);
    }
  });
});

const MAIN = `import { total } from "./sum.ts";
const sizes = new Map([["a", 1]]);
print(total([1]), sizes.get("a") * "2");
const web = new Cell({ name: "web", memroy: 1 });
`;

const SUM = `/** Adds them. */
export function total(all: number[]): number {
  return all.reduce((a, b) => a + b, 0);
}
export const extra = 1;
`;

test("TypeScript's service and ours answer VS Code as one", async () => {
  const beside = { files: { "sum.ts": SUM }, typescript: true };
  await withServer(
    MAIN,
    async (connection, uri) => {
      const codes = (found: Diagnostic[]): string[] => found.map((one) => String(one.code));
      let waiting: ((found: Diagnostic[]) => void) | undefined;
      connection.onNotification(PublishDiagnosticsNotification.type, (told) => {
        if (told.uri === uri) waiting?.(told.diagnostics);
      });
      /** Until what is found in the file has these codes. */
      const finds = (...wanted: string[]): Promise<Diagnostic[]> =>
        new Promise((resolve, reject) => {
          let last: string[] = [];
          const late = setTimeout(() => reject(new Error(`found ${last}, not ${wanted}`)), 30_000);
          waiting = (found) => {
            last = codes(found);
            if (!wanted.every((code) => last.includes(code))) return;
            clearTimeout(late);
            resolve(found);
          };
        });
      const textDocument = { uri };
      const first = finds("unknown-field", "TS2532");
      await connection.sendNotification(DidOpenTextDocumentNotification.type, {
        textDocument: { uri, languageId: "typescript", version: 1, text: MAIN },
      });
      const found = await first;
      // What the schema makes certain is told once and in our words, as an error.
      const field = found.filter((one) => one.range.start.line === 3 && one.severity === 1);
      assert.deepEqual(codes(field), ["unknown-field"]);

      const at = (line: number, character: number) => ({ textDocument, position: { line, character } });
      const hover = JSON.stringify(await connection.sendRequest(HoverRequest.type, at(1, 8)));
      assert.match(hover, /Map<string, number>/);
      const place = await connection.sendRequest(DefinitionRequest.type, at(2, 8));
      assert.match(JSON.stringify(place), /sum\.ts/);
      const ours = JSON.stringify(await connection.sendRequest(HoverRequest.type, at(3, 18)));
      assert.match(ours, /[Cc]ell/);
      const whole = { start: { line: 0, character: 0 }, end: { line: 4, character: 0 } };
      const hints = await connection.sendRequest(InlayHintRequest.type, { textDocument, range: whole });
      assert.ok(Array.isArray(hints) && hints.length > 0, JSON.stringify(hints));

      // A name that another module exports comes with its import, from one of the two.
      const text = "print(ext);\n";
      const second = finds("unknown-name");
      await connection.sendNotification(DidChangeTextDocumentNotification.type, {
        textDocument: { uri, version: 2 },
        contentChanges: [{ text }],
      });
      await second;
      const list = await connection.sendRequest(CompletionRequest.type, at(0, 9));
      const items = Array.isArray(list) ? list : (list?.items ?? []);
      const named = items.filter((item) => item.label === "extra");
      assert.equal(named.length, 1, `extra is offered ${named.length} times`);
      const resolved = await connection.sendRequest(CompletionResolveRequest.type, named[0]!);
      const edits = resolved.additionalTextEdits ?? named[0]!.additionalTextEdits;
      assert.match(JSON.stringify(edits), /import \{ extra \} from \\"\.\/sum\.ts\\"/);
      // And what is the API's own is mended as ever.
      const misspelt = "await runtime.Lst({});\n";
      const third = finds("unknown-method");
      await connection.sendNotification(DidChangeTextDocumentNotification.type, {
        textDocument: { uri, version: 3 },
        contentChanges: [{ text: misspelt }],
      });
      const diagnostics = await third;
      const actions = await connection.sendRequest(CodeActionRequest.type, {
        textDocument,
        range: diagnostics[0]!.range,
        context: { diagnostics },
      });
      assert.match(JSON.stringify(actions), /Change to `List`/);
    },
    beside,
  );
});
