// SPDX-License-Identifier: Apache-2.0
// The extension in VS Code itself: code-server, which is VS Code behind a web server, with a headless Chromium as its
// window. It needs both, which this project doesn't install: AURAE_CODE_SERVER names code-server's program, and
// `chromium` is on PATH; without them the test says so and is left out.
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import * as readline from "node:readline";
import { test } from "node:test";

const CODE = process.env["AURAE_CODE_SERVER"];
const CHROMIUM = "chromium";

function missing(): string | false {
  if (CODE === undefined) {
    return "AURAE_CODE_SERVER doesn't name code-server's program";
  }
  const found = spawnSync(CHROMIUM, ["--version"]).status === 0;
  return found ? false : "chromium isn't on PATH";
}

const MAIN = `import { unused } from "./service.ts";
import { service } from "./service.ts";
import { limits } from "./limits.ts";

const answer = await runtime.Lst({ pageSize: limits.page });
print(answer.objects.length,   service("web").length)
`;
const ORGANIZED = `import { limits } from "./limits.ts";
import { service } from "./service.ts";

const answer = await runtime.List({ pageSize: limits.page });
print(answer.objects.length, service("web").length);
`;

/** The workspace, and VS Code's folders: our extension, the driver, the settings. */
function laidOut(folder: string): void {
  const put = (name: string, text: string) => {
    fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    fs.writeFileSync(path.join(folder, name), text);
  };
  put("work/aurae.json", "{}");
  put("work/main.ts", MAIN);
  put("work/limits.ts", "export const limits = { page: 3 };\n");
  put(
    "work/service.ts",
    "export const unused = 1;\n\nexport function service(name: string): Workload[] {\n  return [new Cell({ name })];\n}\n",
  );
  const settings = {
    "aurae.path": process.env["AURAE_PATH"],
    "files.autoSave": "off",
    "security.workspace.trust.enabled": false,
    "[typescript]": { "editor.defaultFormatter": "aurae-runtime.aurae" },
  };
  put("user/User/settings.json", JSON.stringify(settings));
  const ours = path.join(folder, "extensions/aurae-runtime.aurae-0.1.0");
  for (const part of ["package.json", "out", "syntaxes", "snippets"]) {
    fs.cpSync(part, path.join(ours, part), { recursive: true });
  }
  fs.cpSync("test/driver", path.join(folder, "extensions/aurae-runtime.driver-0.0.1"), { recursive: true });
}

/** The line of a child's output that matches. */
async function line(child: ChildProcess, wanted: RegExp): Promise<string> {
  const heard: string[] = [];
  for await (const line of readline.createInterface({ input: child.stdout! })) {
    heard.push(line);
    const found = wanted.exec(line);
    if (found !== null) {
      child.stdout!.resume();
      return found[1]!;
    }
  }
  throw new Error(`it ended: ${heard.join("\n")}`);
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => child.once("exit", () => resolve()));
}

/** What a file holds as soon as it is there. */
function appears(file: string, seconds: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const done = (act: () => void) => {
      watcher.close();
      clearTimeout(late);
      act();
    };
    const look = () => {
      if (fs.existsSync(file)) {
        done(() => resolve(fs.readFileSync(file, "utf8")));
      }
    };
    const late = setTimeout(() => done(() => reject(new Error(`no ${file} within ${seconds} s`))), seconds * 1000);
    const watcher = fs.watch(path.dirname(file), look);
    look();
  });
}

test("VS Code shows findings, repairs, hovers, definitions and completion", { skip: missing() }, async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "aurae-code-"));
  laidOut(folder);
  const env = { ...process.env, HOME: path.join(folder, "home") };
  fs.mkdirSync(env.HOME);
  const code = spawn(
    CODE!,
    ["--auth", "none", "--bind-addr", "127.0.0.1:0", "--disable-telemetry", "--disable-update-check"].concat(
      ["--user-data-dir", path.join(folder, "user"), "--extensions-dir", path.join(folder, "extensions")],
      [path.join(folder, "work")],
    ),
    { env, stdio: ["ignore", "pipe", "inherit"], detached: true },
  );
  let window: ChildProcess | undefined;
  try {
    const address = await line(code, /listening on (http:\S+)/);
    // Its sandbox needs a kernel's help that a container doesn't have; it shows our own page alone.
    window = spawn(
      CHROMIUM,
      ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"].concat([
        `--user-data-dir=${path.join(folder, "chromium")}`,
        `${address}?folder=${path.join(folder, "work")}`,
      ]),
      { env, stdio: "ignore", detached: true },
    );
    const told = JSON.parse(await appears(path.join(folder, "work/told.json"), 300));
    assert.equal(told.failed, undefined);
    assert.ok(told.found.includes("unknown-method"), told.found);
    assert.ok(told.repairs.includes("Change to `List`"), told.repairs);
    assert.deepEqual(told.mended.filter((code: string) => code === "unknown-method"), []);
    assert.match(told.hover, /List/);
    assert.ok(told.places["runtime.Li"].includes("aurae.d.ts"), JSON.stringify(told.places));
    assert.ok(told.places["servi"].includes("service.ts"), JSON.stringify(told.places));
    assert.ok(told.completed.includes("RunCell"), told.completed);
    assert.equal(told.text, ORGANIZED);
  } finally {
    for (const child of [window, code]) {
      if (child?.pid !== undefined && child.exitCode === null) {
        const end = ended(child);
        process.kill(-child.pid, "SIGKILL");
        await end;
      }
    }
    fs.rmSync(folder, { recursive: true, force: true });
  }
});
