// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { test } from "node:test";

import {
  isAuraeScript,
  isOurs,
  rootOf,
  serverCommand,
  startHelp,
  typesCommand,
  typesHelp,
  withoutTypes,
} from "../src/server";

test("the setting names the program, and an empty one is the default", () => {
  assert.deepEqual(serverCommand("/opt/aurae"), { command: "/opt/aurae", args: ["lsp"] });
  assert.deepEqual(serverCommand("  "), { command: "aurae", args: ["lsp"] });
  assert.deepEqual(serverCommand(undefined), { command: "aurae", args: ["lsp"] });
});

test("the first line makes a script ours", () => {
  for (const line of [
    "#!/usr/bin/env aurae",
    "#!/usr/bin/env -S aurae --timeout 10s",
    "#!/usr/local/bin/aurae",
    "#! /usr/bin/aurae -",
  ]) {
    assert.ok(isAuraeScript(line), line);
  }
  for (const line of ["#!/usr/bin/env node", "#!/usr/bin/auraed", "// aurae", ""]) {
    assert.ok(!isAuraeScript(line), line);
  }
});

test("files below an aurae.json are ours, their neighbours aren't", () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "aurae-"));
  try {
    fs.mkdirSync(path.join(folder, "ours/apps"), { recursive: true });
    fs.mkdirSync(path.join(folder, "theirs"));
    fs.writeFileSync(path.join(folder, "ours/aurae.json"), "{}");
    assert.equal(rootOf(path.join(folder, "ours/apps/web.ts")), path.join(folder, "ours"));
    assert.ok(isOurs(path.join(folder, "ours/apps/web.ts"), ""));
    assert.ok(!isOurs(path.join(folder, "theirs/web.ts"), ""));
    assert.ok(isOurs(path.join(folder, "theirs/web.ts"), "#!/usr/bin/env aurae"));
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});

test("where VS Code's own TypeScript has no types, they are offered", () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "aurae-"));
  try {
    fs.mkdirSync(path.join(folder, "apps/.aurae"), { recursive: true });
    const script = path.join(folder, "script.ts");
    assert.equal(withoutTypes(script), undefined);
    const file = path.join(folder, "apps/web.ts");
    const root = path.join(folder, "apps");
    fs.writeFileSync(path.join(root, "aurae.json"), "{}");
    assert.equal(withoutTypes(file), root);
    assert.match(typesHelp(root), /aurae types/);
    assert.deepEqual(typesCommand(" /opt/aurae", root), {
      command: "/opt/aurae",
      args: ["types", root],
    });
    fs.writeFileSync(path.join(root, ".aurae/aurae.d.ts"), "");
    assert.equal(withoutTypes(file), undefined);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});

test("a program that isn't there is told with what to do", () => {
  const text = startHelp("aurae", "spawn aurae ENOENT");
  assert.match(text, /aurae lsp/);
  assert.match(text, /aurae\.path/);
});
