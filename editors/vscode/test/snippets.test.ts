// SPDX-License-Identifier: Apache-2.0
// What a snippet gives with its defaults is a program that `aurae check` has nothing to say about.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { test } from "node:test";

interface Snippet {
  prefix: string;
  body: string[];
}

/** The snippet's text with every placeholder at its default. */
function expanded(snippet: Snippet): string {
  const text = snippet.body.join("\n");
  const filled = text.replace(/\$\{\d+:((?:\\\}|[^}])*)\}/g, (_, value: string) => value.replaceAll("\\}", "}"));
  return `${filled.replace(/\$\d+/g, "")}\n`;
}

const snippets = JSON.parse(fs.readFileSync("snippets/aurae.json", "utf8")) as Record<string, Snippet>;

for (const [title, snippet] of Object.entries(snippets)) {
  test(`the snippet "${title}" checks`, () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "aurae-"));
    try {
      fs.writeFileSync(path.join(folder, "aurae.json"), "{}");
      fs.writeFileSync(path.join(folder, "snippet.ts"), expanded(snippet));
      const program = process.env["AURAE_PATH"] ?? "aurae";
      const said = execFileSync(program, ["check", "-o", "json", "snippet.ts"], { cwd: folder, encoding: "utf8" });
      assert.deepEqual(JSON.parse(said), []);
    } finally {
      fs.rmSync(folder, { recursive: true });
    }
  });
}
