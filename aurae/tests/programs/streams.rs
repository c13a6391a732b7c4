// SPDX-License-Identifier: Apache-2.0
//! Stories of calls in which both sides send: a program that speaks with what runs.

use std::process::Stdio;

use super::Folder;
use crate::bed::{node, read_line};

/// What both programs begin with.
const CAT: &str = r#"
await runtime.Run([
  new Cell({ name: "chat" }),
  new Executable({ name: "chat/cat", argv: ["cat"], stdin: true }),
]);
const ref = { path: "chat/cat" };
const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
const bytes = (words: string): Uint8Array => new TextEncoder().encode(words);
"#;

#[test]
fn a_program_speaks_with_what_runs_and_others_listen() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let talk = r#"
const listen = async (): Promise<string> => {
  const other = runtime.Attach();
  await other.Send({ start: { ref } });
  let heard = "";
  for await (const { output, exit } of other) {
    if (output !== undefined) heard += text(output.data);
    if (exit !== undefined) heard += `and ended with ${exit.code}`;
  }
  return heard;
};
const listeners = [listen(), listen()];
const talk = runtime.Attach();
await talk.Send({ start: { ref, stdin: true } });
await talk.Send({ stdin: bytes("one\n") });
const heard: string[] = [];
for await (const { output, exit } of talk) {
  if (output !== undefined) heard.push(text(output.data));
  const said = heard.join("");
  if (said === "one\n") {
    const second = runtime.Attach();
    await second.Send({ start: { ref, stdin: true } });
    try {
      for await (const _ of second) break;
      print("two may write");
    } catch (error) {
      print((error as AuraeError).code);
    }
    await talk.Send({ stdin: bytes("two\n") });
  }
  if (said === "one\ntwo\n" && exit === undefined) {
    await talk.Send({ eof: {} });
    await talk.CloseSend();
  }
  if (exit !== undefined) print("exit", exit.code);
}
print(heard.join(""), await Promise.all(listeners));
"#;
    let file = folder.file("talk.ts", &format!("{CAT}{talk}"));
    node.aurae(&["check", &file]).ok();
    let said = node.aurae(&["--timeout", "60s", &file]).ok();
    let all = "one\\ntwo\\nand ended with 0";
    assert_eq!(
        said,
        format!("STDIN_TAKEN\nexit 0\none\ntwo\n [ \"{all}\", \"{all}\" ]\n")
    );
    node.aurae(&["rm", "-rf", "chat"]).ok();
}

#[test]
fn a_conversation_that_the_daemons_death_breaks_is_gone_on_with() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let talk = r#"
let offset = 0n;
const speak = async (words: string): Promise<void> => {
  const talk = runtime.Attach();
  await talk.Send({ start: { ref, stdin: true, fromOffset: offset } });
  await talk.Send({ stdin: bytes(words) });
  for await (const { output } of talk) {
    if (output === undefined) continue;
    offset += BigInt(output.data.length);
    print("heard", text(output.data).trim());
    if (words === "last\n") break;
  }
};
try {
  await speak("first\n");
} catch (error) {
  print((error as AuraeError).code);
}
await speak("last\n");
print("ended");
"#;
    let file = folder.file("talk.ts", &format!("{CAT}{talk}"));
    let mut talking = node.command(&[&file]);
    let mut talking = talking.stdout(Stdio::piped()).spawn().unwrap();
    let out = talking.stdout.as_mut().unwrap();
    assert_eq!(read_line(out), "heard first");
    node.kill_daemon();
    assert_eq!(read_line(out), "UNAVAILABLE");
    assert_eq!(read_line(out), "heard last");
    assert_eq!(
        read_line(out),
        "ended",
        "a loop that is left ends its stream"
    );
    assert_eq!(talking.wait().unwrap().code(), Some(0));
    node.aurae(&["rm", "-rf", "chat"]).ok();
}
