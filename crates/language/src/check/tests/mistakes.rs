// SPDX-License-Identifier: Apache-2.0
//! What a user of other tools gets wrong, against the API's own types: each mistake is found once,
//! where it is, in words that say what to do.

use super::*;

/// A text with one mistake, marked by `«` and `»`; the finding's code, and parts of what is said.
type Mistake = (&'static str, &'static str, &'static str, &'static str);

const MISTAKES: &[Mistake] = &[
    // Names of the API.
    (
        "new Cell({ name: \"a\", «hostnme»: \"x\" });",
        "unknown-field",
        "`CellData` has no field `hostnme`",
        "did you mean `hostname`?",
    ),
    (
        "await runtime.«RunCel»({});",
        "unknown-method",
        "`runtime` has no method `RunCel`",
        "did you mean `RunCell`?",
    ),
    (
        "await «runtim».List({});",
        "unknown-name",
        "there is no `runtim`",
        "did you mean `runtime`?",
    ),
    (
        "new Cell({ name: \"a\", share: [«\"network\"»] });",
        "wrong-enum",
        "\"network\" is none of the values",
        "`net`",
    ),
    (
        "await runtime.List({ kinds: [«\"Cell\"»] });",
        "wrong-enum",
        "none of the values",
        "did you mean `cell`?",
    ),
    (
        "const c = new Cell({ name: \"a\" }); print(c.«resource»);",
        "unknown-field",
        "`Cell` has no field `resource`",
        "did you mean `resources`?",
    ),
    // A required field that is mistyped is one mistake.
    (
        "await runtime.RunCell({ «cel»: { ref: { path: \"a\" } } });",
        "unknown-field",
        "has no field `cel`",
        "did you mean `cell`?",
    ),
    // What is missing.
    (
        "new Cell(«{» hostname: \"x\" });",
        "missing-field",
        "the field `name` is missing",
        "",
    ),
    (
        "«runtime.List({})»;",
        "missing-await",
        "nothing waits for this call",
        "put `await` before it",
    ),
    (
        "const s = runtime.List({}); print(s.«objects»);",
        "missing-await",
        "`objects` is read of a promise",
        "put `await`",
    ),
    (
        "for (const o of «runtime.Watch({})») print(o);",
        "stream-misuse",
        "a stream is read with `for await`",
        "write `for await (…)`",
    ),
    (
        "print(«await runtime.Watch({})»);",
        "stream-misuse",
        "a stream isn't awaited but read",
        "for await",
    ),
    // Values of the wrong kind.
    (
        "new Cell({ name: \"a\", resources: { memory: { max: «\"256Mi\"» } } });",
        "wrong-type",
        "expected bigint | number, found \"256Mi\"",
        "write the number: 268435456",
    ),
    (
        "new Cell({ name: «5» });",
        "wrong-type",
        "expected string, found 5",
        "",
    ),
    (
        "new Executable({ name: \"a\", argv: «\"nginx -g\"» });",
        "wrong-type",
        "expected string[], found \"nginx -g\"",
        "",
    ),
    (
        "new Executable({ name: \"a\", argv: [\"a\"], env: { PORT: «80» } });",
        "wrong-type",
        "expected string, found 80",
        "",
    ),
    (
        "new Executable({ name: \"a\", argv: [\"a\"], stopGrace: «30» });",
        "wrong-type",
        "expected a duration, found 30",
        "\"30s\"",
    ),
    // Limits and units.
    (
        "new Executable({ name: \"a\", argv: [\"a\"], stopGrace: «\"30 sec\"» });",
        "out-of-range",
        "\"30 sec\" is no duration",
        "\"1m30s\"",
    ),
    (
        "new Executable({ name: \"a\", argv: [\"a\"], stopGrace: «\"2h\"» });",
        "out-of-range",
        "`stopGrace` is at most 1h",
        "",
    ),
    (
        "new Executable({ name: \"a\", argv: [\"a\"], nice: «20» });",
        "out-of-range",
        "`nice` is at most 19",
        "",
    ),
    (
        "new Executable({ name: \"a\", argv: [\"a\"], cpuAffinity: [0, «9000»] });",
        "out-of-range",
        "`cpuAffinity` is at most 8191",
        "",
    ),
    (
        "new Cell({ name: \"a\", resources: { cpu: { weight: «0» } } });",
        "out-of-range",
        "`weight` is at least 1",
        "",
    ),
    (
        "new Cell({ name: \"a\", resources: { pidsMax: «0n» } });",
        "out-of-range",
        "`pidsMax` is at least 1",
        "",
    ),
    (
        "await runtime.List({ pageSize: «5000» });",
        "out-of-range",
        "`pageSize` is at most 1000",
        "",
    ),
    (
        "await sleep(«\"5 seconds\"»);",
        "out-of-range",
        "\"5 seconds\" is no duration",
        "units",
    ),
    (
        "await runtime.List({}, { timeout: «\"5sec\"» });",
        "out-of-range",
        "\"5sec\" is no duration",
        "units",
    ),
    // What other places have.
    (
        "const fs = «require»(\"fs\");",
        "unknown-name",
        "there is no `require`",
        "write `import",
    ),
    (
        "await «fetch»(\"http://localhost\");",
        "unknown-name",
        "there is no `fetch`",
        "nodes alone",
    ),
    (
        "print(«process».env.HOME);",
        "unknown-name",
        "there is no `process`",
        "`args`",
    ),
    (
        "«setInterval»(() => {}, 1000);",
        "unknown-name",
        "there is no `setInterval`",
        "await sleep",
    ),
    (
        "print(«Buffer».from(\"a\"));",
        "unknown-name",
        "there is no `Buffer`",
        "Uint8Array",
    ),
    (
        "«module».exports = {};",
        "unknown-name",
        "there is no `module`",
        "`export`",
    ),
    (
        "«window».alert(\"a\");",
        "unknown-name",
        "there is no `window`",
        "no browser",
    ),
    // JavaScript itself.
    (
        "print([1, 2].«lenght»);",
        "unknown-field",
        "a list has no field `lenght`",
        "did you mean `length`?",
    ),
    (
        "const n = 5; print(n.«lenght»);",
        "unknown-field",
        "a number has no field `lenght`",
        "",
    ),
    (
        "print(\"a\".«toUppercase»());",
        "unknown-method",
        "a string has no method `toUppercase`",
        "did you mean `toUpperCase`?",
    ),
];

#[test]
fn what_people_get_wrong_is_said_where_it_is() {
    let environment = Arc::new(Environment::new(crate::declare::aurae_d_ts().unwrap()));
    let mut wrong = Vec::new();
    for (marked, code, message, help) in MISTAKES {
        let start = marked.find('«').unwrap();
        let end = marked.find('»').unwrap() - '«'.len_utf8();
        let text = marked.replace(['«', '»'], "");
        let file = File {
            source: Source::new("main.ts", text.as_str()),
            imports: HashMap::new(),
        };
        let findings = check(&environment, &[file]);
        let said: Vec<String> = findings
            .iter()
            .map(|it| {
                let (from, to) = (it.span.start as usize, it.span.end as usize);
                let help = it.help.as_deref().unwrap_or_default();
                format!("{} {:?}: {} ({help})", it.code, &text[from..to], it.message)
            })
            .collect();
        let right = findings.len() == 1
            && findings[0].code == *code
            && findings[0].message.contains(message)
            && findings[0]
                .help
                .as_deref()
                .unwrap_or_default()
                .contains(help)
            && findings[0].span.start as usize == start
            && findings[0].span.end as usize == end;
        if !right {
            wrong.push(format!("{marked}\n    {}", said.join("\n    ")));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn where_nothing_may_stand_the_message_says_so() {
    for text in [
        "const o: { [field: string]: never } = { a: 1 }; print(o);",
        "function f(n: never): void { print(n); } f(5);",
    ] {
        let found = said(text);
        let told = |line: &String| line.contains("nothing may be given here, found ");
        assert!(found.iter().any(told), "{text}: {found:?}");
    }
}
