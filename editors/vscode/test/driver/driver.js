// SPDX-License-Identifier: Apache-2.0
// An extension of the test's own: opens the workspace's `main.ts`, types, asks VS Code what it would show, has it
// organize imports and repair, and writes that into `told.json`. What should be shown is `code.test.ts`'s to say.
const fs = require("node:fs");
const path = require("node:path");
const vscode = require("vscode");

const SECONDS = 90;

/** What `look` gives, once it gives something; `happens` tells that it may. */
function once(what, happens, look) {
  return new Promise((resolve, reject) => {
    const listening = happens(() => settle(false));
    const late = setTimeout(() => settle(true), SECONDS * 1000);
    function settle(end) {
      const found = look();
      if (found || end) {
        clearTimeout(late);
        listening.dispose();
        found ? resolve(found) : reject(new Error(`${what}: not within ${SECONDS} s`));
      }
    }
    settle(false);
  });
}

function ours(uri) {
  return vscode.languages.getDiagnostics(uri).filter((it) => it.source === "aurae");
}

function codes(uri) {
  return ours(uri).map((it) => (typeof it.code === "object" ? it.code.value : it.code));
}

function findings(uri, wanted) {
  return once(`findings of ${uri}`, vscode.languages.onDidChangeDiagnostics, () => {
    return wanted(codes(uri)) ? codes(uri) : undefined;
  });
}

function after(document, text) {
  const at = document.getText().indexOf(text);
  return document.positionAt(at + text.length);
}

const ask = vscode.commands.executeCommand;

async function story(folder) {
  const told = {};
  const document = await vscode.workspace.openTextDocument(path.join(folder, "main.ts"));
  const editor = await vscode.window.showTextDocument(document);
  const uri = document.uri;
  told.found = await findings(uri, (codes) => codes.includes("unknown-method"));

  const wrong = ours(uri)[0];
  const repairs = await ask("vscode.executeCodeActionProvider", uri, wrong.range);
  told.repairs = repairs.map((it) => it.title);
  const repair = repairs.find((it) => it.title === "Change to `List`");
  await vscode.workspace.applyEdit(repair.edit);
  told.mended = await findings(uri, (codes) => !codes.includes("unknown-method"));

  const hovers = await ask("vscode.executeHoverProvider", uri, after(document, "runtime.Li"));
  told.hover = hovers.flatMap((it) => it.contents.map((part) => part.value ?? part)).join("\n");
  told.places = {};
  for (const name of ["runtime.Li", "servi"]) {
    const places = await ask("vscode.executeDefinitionProvider", uri, after(document, name));
    told.places[name] = places.map((it) => path.basename((it.targetUri ?? it.uri).fsPath));
  }

  const end = document.lineAt(document.lineCount - 1).range.end;
  editor.selection = new vscode.Selection(end, end);
  for (const letter of "await runtime.") {
    await ask("type", { text: letter });
  }
  const here = editor.selection.active;
  const list = await ask("vscode.executeCompletionItemProvider", uri, here, ".");
  told.completed = list.items.map((it) => (typeof it.label === "string" ? it.label : it.label.label));
  await vscode.workspace.applyEdit(blanked(uri, new vscode.Range(end, here)));

  // VS Code's own TypeScript offers one as well, with a capital; which of both the command takes is VS Code's to say.
  const all = new vscode.Range(0, 0, document.lineCount, 0);
  const organizing = await ask("vscode.executeCodeActionProvider", uri, all, "source.organizeImports");
  const organize = organizing.find((it) => it.title === "Organize imports");
  await vscode.workspace.applyEdit(organize.edit);
  await ask("editor.action.formatDocument");
  told.text = document.getText();
  return told;
}

function blanked(uri, range) {
  const edit = new vscode.WorkspaceEdit();
  edit.delete(uri, range);
  return edit;
}

exports.activate = () => {
  const folder = vscode.workspace.workspaceFolders[0].uri.fsPath;
  const write = (told) => {
    // Renamed, so that who waits for the file never reads half of it.
    fs.writeFileSync(path.join(folder, "told.part"), JSON.stringify(told));
    fs.renameSync(path.join(folder, "told.part"), path.join(folder, "told.json"));
  };
  story(folder).then(write, (problem) => write({ failed: `${problem.stack}` }));
};
