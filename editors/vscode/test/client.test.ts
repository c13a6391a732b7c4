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
  createProtocolConnection,
  DidOpenTextDocumentNotification,
  DocumentFormattingRequest,
  ExitNotification,
  HoverRequest,
  InitializedNotification,
  InitializeRequest,
  type PublishDiagnosticsParams,
  PublishDiagnosticsNotification,
  ShutdownRequest,
} from "vscode-languageserver-protocol/node";

import { serverCommand } from "../src/server";

/** A server, a connection, and the file that the test is about. */
async function withServer(
  text: string,
  story: (connection: ReturnType<typeof createProtocolConnection>, uri: string) => Promise<void>,
): Promise<void> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "aurae-"));
  fs.writeFileSync(path.join(folder, "aurae.json"), "{}");
  const file = path.join(folder, "web.ts");
  fs.writeFileSync(file, text);
  const { command, args } = serverCommand(process.env["AURAE_PATH"]);
  const server = spawn(command, args, { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
  const exited = new Promise<number | null>((resolve, reject) => {
    server.once("exit", resolve);
    server.once("error", reject);
  });
  const connection = createProtocolConnection(server.stdout, server.stdin);
  connection.listen();
  try {
    await connection.sendRequest(InitializeRequest.type, {
      processId: process.pid,
      rootUri: pathToFileURL(folder).href,
      capabilities: {},
    });
    await connection.sendNotification(InitializedNotification.type, {});
    await story(connection, pathToFileURL(file).href);
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
    assert.match(JSON.stringify(hover), /Makes a cell/);
    const edits = await connection.sendRequest(DocumentFormattingRequest.type, {
      textDocument: { uri },
      options: { tabSize: 2, insertSpaces: true },
    });
    assert.ok(edits !== null && edits.length > 0);
  });
});
