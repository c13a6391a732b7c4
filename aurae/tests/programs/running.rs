// SPDX-License-Identifier: Apache-2.0
//! Stories of what a running program costs and says: timers, and errors with what led to them.

use std::time::{Duration, Instant};

use super::{Folder, node};

#[test]
fn a_hundred_thousand_timers_fire_in_their_order() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file(
        "timers.ts",
        r#"
const fired: number[] = [];
const ids: unknown[] = [];
for (let n = 0; n < 100000; n++) ids.push(setTimeout(() => fired.push(n), n % 7));
// Every third is taken back.
for (let n = 0; n < 100000; n += 3) clearTimeout(ids[n] as never);
await sleep(50);
while (fired.length < 66666) await sleep(10);
const late = fired.filter((n, at) => at > 0 && (fired[at - 1] as number) % 7 > n % 7);
print(fired.length, fired.some((n) => n % 3 === 0), late.length < 66666);
"#,
    );
    let begun = Instant::now();
    assert_eq!(node.aurae(&[&file]).ok(), "66666 false true\n");
    // Quadratic, it took minutes. What is left is for a debug build on a loaded machine.
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn an_error_tells_what_led_to_it() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file(
        "causes.ts",
        r#"
function inner(): never {
  throw new TypeError("the bottom");
}
try {
  inner();
} catch (error) {
  throw new Error("the top", { cause: new Error("the middle", { cause: error }) });
}
"#,
    );
    let told = node.aurae(&[&file]).fails(1);
    for part in [
        "the top",
        "caused by: Error: the middle",
        "caused by: TypeError: the bottom",
        "causes.ts:3:",
    ] {
        assert!(told.contains(part), "no {part} in:\n{told}");
    }
    let several = folder.file(
        "several.ts",
        "await Promise.any([1, 2].map(async (n) => { throw new Error(`no ${n}`); }));\n",
    );
    let told = node.aurae(&[&several]).fails(1);
    assert!(told.contains("no 1") && told.contains("no 2"), "{told}");
}

#[test]
fn a_full_heap_is_said_to_be_full() {
    let Some(node) = node() else { return };
    let code = "const all: unknown[] = []; for (;;) all.push(new Array(1000).fill(all.length));";
    let told = node.aurae(&["--max-memory", "16M", "-e", code]).fails(1);
    assert!(told.contains("out of memory"), "{told}");
    assert!(!told.contains("null"), "{told}");
}

#[test]
fn a_refusal_that_a_program_catches_is_no_plan() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file(
        "caught.ts",
        r#"
await runtime.Run(new Cell({ name: "c" }));
try {
  for await (const line of observe.Stdout("c/x")) print(line);
} catch {
  print("caught");
}
try {
  await runtime.Attach("c/x");
} catch {
  print("caught too");
}
"#,
    );
    let planned = node.aurae(&["plan", &file]);
    assert!(matches!(planned.status, Some(3)), "{planned:?}");
    assert!(planned.err.contains("caught.ts:"), "{planned:?}");
}
