// SPDX-License-Identifier: Apache-2.0
//! The friendly layer in the engine that runs it, with a host that only writes down what it is
//! asked: workloads as data, every way to say whom a call is about, lines, grants, what isn't
//! there.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on says why"
)]

use rquickjs::{CatchResultExt, Context, Module, Runtime};

/// Writes calls down; answers are queued by the test.
const HOST: &str = r#"
globalThis.calls = [];
globalThis.answers = [];
globalThis.TextDecoder = class {
  decode(bytes) { return decodeURIComponent(escape(String.fromCharCode(...bytes))); }
};
globalThis.__aurae = {
  known: (value) => value,
  call(node, method, request, context) {
    calls.push({ node, method, request, context });
    const answer = answers.shift();
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  },
  stream(node, method, request, context) {
    calls.push({ node, method, request, context });
    const items = answers.shift() ?? [];
    const sent = [];
    return {
      sent,
      closed: false,
      async next() { return items.length > 0 ? { done: false, value: items.shift() } : { done: true }; },
      async send(item) { calls.push({ sent: item }); },
      async closeSend() { calls.push({ sent: "end" }); },
      close() { calls.push({ closed: method }); },
    };
  },
};
globalThis.equal = (a, b) => {
  const text = (value) =>
    JSON.stringify(value, (_, item) => (typeof item === "bigint" ? `${item}n` : item));
  if (text(a) !== text(b)) throw new Error(`${text(a)}\nis not\n${text(b)}`);
};
globalThis.throws = (what, words) => {
  try { what(); } catch (error) {
    if (!String(error.message).includes(words)) throw new Error(`${error.message}\nhas no ${words}`);
    return;
  }
  throw new Error(`nothing was thrown: ${words}`);
};
globalThis.text = (string) => new Uint8Array([...string].map((c) => c.charCodeAt(0)));
"#;

/// Runs a module after the layer; panics with what it throws.
fn run(code: &str) {
    let runtime = Runtime::new().unwrap();
    let context = Context::full(&runtime).unwrap();
    context.with(|ctx| {
        ctx.eval::<(), _>(HOST)
            .catch(&ctx)
            .unwrap_or_else(|e| panic!("{e}"));
        for (name, code) in [
            (language::prelude::NAME, language::prelude::JAVASCRIPT),
            ("test", code),
        ] {
            let done = Module::evaluate(ctx.clone(), name, code).catch(&ctx);
            let done = done.unwrap_or_else(|e| panic!("{name}: {e}"));
            done.finish::<()>()
                .catch(&ctx)
                .unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    });
}

#[test]
fn workloads_are_data() {
    run(r#"
const web = new Cell({ name: "web", labels: { app: "web" }, resources: { memory: { max: 2n ** 60n } } });
equal(calls, []);
equal(web.kind, "cell");
equal(web.resources.memory.max, 2n ** 60n);
web.hostname = "w";
equal(JSON.parse(JSON.stringify(web)), {
  kind: "cell", name: "web", labels: { app: "web" },
  resources: { memory: { max: "1152921504606846976" } }, hostname: "w",
});
const back = Cell.From(JSON.parse(JSON.stringify(web)));
equal(back.resources.memory.max, 2n ** 60n);
equal(back.Equals(web), true);
back.resources.memory.max = 1;
equal(back.Equals(web), false);
equal(new Cell({ name: "a", idRange: 5 }).Equals(new Cell({ idRange: 5n, name: "a" })), true);

const data = { name: "web/nginx", argv: ["nginx"], env: { __proto__: null, a: "1" } };
const nginx = new Executable(data).Env("user", "nova").Label("tier", "front");
data.argv.push("changed afterwards");
equal([nginx.argv, nginx.env, nginx.labels], [["nginx"], { a: "1", user: "nova" }, { tier: "front" }]);
equal(nginx.Equals(web), false);
equal(web instanceof Workload, true);

throws(() => new Cell({}), "it needs a name");
throws(() => new Cell({ name: "a", memroy: 1 }), 'Cell has no field "memroy"; it has name, tenant, labels, protect, share');
throws(() => new Cell({ name: "a", hostnme: "x" }), 'Cell has no field "hostnme"; did you mean "hostname"?');
throws(() => { web.hostnme = "x"; }, "extensible");
throws(() => Cell.From(nginx.toJSON()), 'this is of kind "executable"');
const shown = __aurae.inspect(nginx);
equal(shown.name, "Executable");
equal(__aurae.inspect(runtime).name, "runtime");
equal(__aurae.inspect({}), undefined);
equal(shown.value, { name: "web/nginx", labels: { tier: "front" }, argv: ["nginx"], env: { a: "1", user: "nova" } });
"#);
}

#[test]
fn a_call_is_about_whom_it_says_however_it_says_so() {
    run(r#"
const web = new Cell({ name: "web", tenant: "t" });
const ref = { tenant: "t", path: "web", uid: "u" };
const asked = [];
for (const target of ["web", web, { meta: { ref } }, { cell: { meta: { ref } } }, ref, { ref, grace: "9s" }]) {
  answers.push({});
  await (target.grace ? runtime.Stop(target, { timeout: "1.5s" }) : runtime.Stop(target, { grace: "1s" }, { timeout: 5 }));
  asked.push(calls.pop());
}
equal(asked.map((call) => call.request), [
  { grace: "1s", ref: { path: "web" } },
  { grace: "1s", ref: { tenant: "t", path: "web" } },
  { grace: "1s", ref }, { grace: "1s", ref }, { grace: "1s", ref },
  { ref, grace: "9s" },
]);
equal(asked.map((call) => call.context.timeout), [5, 5, 5, 5, 5, "1.5s"]);
equal(asked[0].method, "runtime.Stop");

// A declaration gets its own status, everything else an object of any kind.
answers.push({ cell: { pid: 7 } }, { cell: { pid: 7 } });
equal(await runtime.Get(web), { pid: 7 });
equal(await runtime.Get("web"), { cell: { pid: 7 } });

answers.push({});
await observe.Usage([web, "x"]);
equal(calls.at(-1).request, { refs: [{ tenant: "t", path: "web" }, { path: "x" }] });
throws(() => observe.Usage([5]), "expected a path, a workload or a status, got number");
throws(() => runtime.Stop("web", {}, { tmeout: 1 }), 'a context has no field "tmeout"');
"#);
}

#[test]
fn run_takes_any_workload_and_cells_come_first() {
    run(r#"
const web = new Cell({ name: "web" });
const nginx = new Executable({ name: "web/nginx", argv: ["nginx"] });
answers.push({ pid: 1 });
equal(await runtime.Run(nginx, { waitFor: "exited" }), { pid: 1 });
equal(calls, [{
  method: "runtime.RunExecutable",
  request: { waitFor: "exited", executable: { ref: { path: "web/nginx" }, labels: {}, spec: { argv: ["nginx"] } } },
}]);
calls.length = 0;
answers.push({ pid: 2 }, { pid: 3 });
equal(await runtime.Run([nginx, web]), [{ pid: 3 }, { pid: 2 }]);
equal(calls.map((call) => call.method), ["runtime.RunCell", "runtime.RunExecutable"]);
answers.push({ pid: 4 });
await runtime.RunCell({ cell: web });
equal(calls.at(-1).request, { cell: { ref: { path: "web" }, labels: {}, spec: {} } });
throws(() => runtime.Run({ name: "web" }), "expected a workload");

// A pod is run by its own subsystem.
calls.length = 0;
const nginxImage = new Image("nginx:1.25", { pull: "never" });
const app = nginxImage.Container({ name: "app", args: ["-q"] });
equal(app, { name: "app", args: ["-q"], image: "nginx:1.25", pull: "never" });
equal(nginxImage.Root({ readOnly: true }), { readOnly: true, image: "nginx:1.25", pull: "never" });
equal(`${nginxImage}`, "nginx:1.25");
throws(() => nginxImage.Container({ name: "a", image: "b" }), 'leave "image" out');
throws(() => new Image(""), "it needs a name");
const shop = new Pod({ name: "shop", containers: [app] });
answers.push({ phase: "pending" }, { pid: 1 });
equal(await runtime.Run([shop, web], { waitFor: "x" }), [{ phase: "pending" }, { pid: 1 }]);
equal(calls[0].method, "pod.Run");
equal(calls[0].request, {
  waitFor: "x",
  pod: { ref: { path: "shop" }, labels: {}, spec: { containers: [app] } },
});
// To the runtime it is a cell.
answers.push({ cell: { pid: 7 } });
equal(await runtime.Get(shop), { cell: { pid: 7 } });

// Who waits by name waits for the run that is there now.
calls.length = 0;
answers.push({ executable: { meta: { ref: { path: "a", uid: "u" } } } }, { executable: { pid: 0 } });
equal(await runtime.Wait(new Executable({ name: "a", argv: [] })), { pid: 0 });
equal(calls.map((call) => [call.method, call.request.ref.uid]), [["runtime.Get", undefined], ["runtime.Wait", "u"]]);

answers.push({ objects: [1, 2], nextPageToken: "n" }, { objects: [3], nextPageToken: "" });
const all = [];
for await (const object of runtime.All({ selector: "a" })) all.push(object);
equal(all, [1, 2, 3]);
equal(calls.at(-1).request, { selector: "a", pageToken: "n" });
"#);
}

#[test]
fn a_workload_is_scheduled_by_when_it_runs() {
    run(r#"
const pod = new Pod({ name: "shop", tenant: "t", containers: [{ name: "a", image: "i" }] });
const backup = new Executable({ name: "nightly", argv: ["/bin/backup"] });
const web = new Cell({ name: "web" });
const app = new Executable({ name: "web/app", argv: ["/bin/app"] });
const asked = async (call) => { answers.push({ name: "x" }); await call(); return calls.pop(); };

const sent = await asked(() => schedule.Cron(pod, "0 4 * * *", { overlap: "replace" }, { timeout: 5 }));
equal([sent.method, sent.context.timeout], ["schedule.Declare", 5]);
equal(sent.request, {
  tenant: "t", name: "shop",
  spec: {
    overlap: "replace", when: { cron: { pattern: "0 4 * * *" } },
    work: { pod: { pod: {
      ref: { tenant: "t", path: "shop" }, labels: {}, spec: { containers: [{ name: "a", image: "i" }] },
    } } },
  },
});
const zoned = await asked(() => schedule.Cron(backup, { pattern: "@daily", zone: "Europe/Berlin" }));
equal(zoned.request.spec.when, { cron: { pattern: "@daily", zone: "Europe/Berlin" } });
equal(zoned.request.spec.work.executable.executable.ref, { path: "nightly/main" });
equal(backup.name, "nightly");
const now = await asked(() => schedule.Now([web, app], { restart: "always" }));
equal([now.request.name, now.request.spec.when, now.request.spec.restart], ["web", { now: {} }, "always"]);
equal(now.request.spec.work.cell.cell.cell.ref, { path: "web" });
equal(now.request.spec.work.cell.executables[0].executable.ref, { path: "web/app" });
const lax = await asked(() => schedule.Lax(app, { quietFor: "1m" }));
equal([lax.request.name, lax.request.spec.when], ["web", { lax: { quietFor: "1m" } }]);

// A node may be said by its subsystems, by the name of its context, and as the one here.
const places = [node("alice"), node("alice").node, "alice", node];
const nodes = [];
for (const place of places) nodes.push((await asked(() => schedule.Pin(pod, place))).node);
equal(nodes, ["alice", "alice", "alice", undefined]);

throws(() => schedule.Pin(pod, {}), 'expected a node, such as node("alice")');
throws(() => schedule.Cron("web", "* * * * *"), "expected a workload");
throws(() => schedule.Cron(pod, 5), "expected a pattern");
throws(() => schedule.Now(web), "a cell runs nothing");
throws(() => schedule.Now([pod, app]), "the first is a cell, this is a Pod");
throws(() => schedule.At(pod, "x"), "schedule.At isn't offered");
"#);
}

#[test]
fn other_nodes_have_the_same_objects() {
    run(r#"
const alice = node("alice");
answers.push({}, {});
await alice.runtime.Stop("web");
equal(calls.at(-1).node, "alice");
await node.Get();
equal([calls.at(-1).node, calls.at(-1).method, calls.at(-1).request], [undefined, "node.Get", {}]);
equal(node("alice") === alice, true);
equal(alice.node("bob").runtime.Stop.action, "runtime.Stop");
throws(() => node(5), "expected the name of a context");
"#);
}

#[test]
fn output_is_lines() {
    run(r#"
const ref = { tenant: "", path: "web/nginx", uid: "u" };
const data = (string) => ({ ref, data: { data: text(string) } });
answers.push([data("one\ntw"), data("o\n\nth"), { ref, gap: { bytes: 9n, reason: "retention" } }, data("end"), { ref, end: {} }]);
const lines = observe.Stdout("web/nginx").withContext({ timeout: "1m" });
equal(calls, []);
const all = [];
for await (const line of lines) all.push(line);
equal(all, ["one", "two", "", "th", "[9 bytes were not kept: retention]", "end"]);
equal(calls[0], {
  method: "observe.Logs",
  request: { follow: true, refs: [{ path: "web/nginx" }], streams: ["stdout"] },
  context: { timeout: "1m" },
});
// A loop that is left ends the call.
calls.length = 0;
answers.push([data("a\nb\nc\n")]);
for await (const line of observe.Stderr("x", { follow: false })) { equal(line, "a"); break; }
equal(calls.at(-1), { closed: "observe.Logs" });
// Without a line end for ever: cut, not kept.
const long = new Uint8Array(2 ** 20 + 3).fill(97);
answers.push([{ ref, data: { data: long } }]);
const lengths = [];
globalThis.TextDecoder.prototype.decode = (bytes) => ({ length: bytes.length });
for await (const line of observe.Stdout("x")) lengths.push(line.length);
equal(lengths, [2 ** 20, 3]);
"#);
}

#[test]
fn streams_end_with_the_loop_and_both_ways_send() {
    run(r#"
answers.push([{ type: "added" }, { type: "removed" }]);
const events = runtime.Watch({ tenant: "t" });
for await (const event of events) { equal(event, { type: "added" }); break; }
equal(calls, [{ method: "runtime.Watch", request: { tenant: "t" } }, { closed: "runtime.Watch" }]);
calls.length = 0;
answers.push([{ output: {} }]);
const attach = runtime.Attach({ timeout: 5 });
await attach.Send({ start: {} });
await attach.CloseSend();
for await (const item of attach) equal(item, { output: {} });
equal(calls, [{ method: "runtime.Attach", context: { timeout: 5 } }, { sent: { start: {} } }, { sent: "end" }]);
"#);
}

#[test]
fn users_are_granted_methods_and_subsystems() {
    run(r#"
const nova = identity.User("nova", { tenant: "t" });
answers.push({ id: "1" }, { id: "2" }, { id: "3" }, { id: "4" }, { id: "5" }, {}, {}, {});
equal(await nova.Allow(runtime.Stop, { path: "web" }), { id: "1" });
equal(await nova.Deny(runtime), { id: "2" });
const grants = await nova.Allow(runtime.Run);
equal(grants, [{ id: "3" }, { id: "4" }, { id: "5" }]);
await nova.Withdraw(grants);
equal(calls.map(({ method, request }) => [method, request]), [
  ["identity.Allow", { tenant: "t", user: "nova", path: "web", action: "runtime.Stop" }],
  ["identity.Deny", { tenant: "t", user: "nova", action: "runtime" }],
  ["identity.Allow", { tenant: "t", user: "nova", action: "runtime.RunExecutable" }],
  ["identity.Allow", { tenant: "t", user: "nova", action: "runtime.RunCell" }],
  ["identity.Allow", { tenant: "t", user: "nova", action: "pod.Run" }],
  ["identity.Withdraw", { id: "3" }],
  ["identity.Withdraw", { id: "4" }],
  ["identity.Withdraw", { id: "5" }],
]);
throws(() => nova.Allow({}), "expected an action");
answers.push({ users: [{ name: "nova" }] }, { users: [] });
equal(await nova.Get(), { name: "nova" });
const gone = await nova.Get().catch((error) => error);
equal([gone instanceof AuraeError, gone.code, gone.object], [true, "NOT_FOUND", "nova"]);
"#);
}

#[test]
fn what_is_not_offered_says_so_by_name() {
    run(r#"
throws(() => runtime.Lst, 'runtime.Lst isn\'t offered; did you mean "List"?');
throws(() => runtime.RunPod, "runtime.RunPod isn't offered; runtime has RunExecutable, RunCell");
throws(() => secrets, "secrets isn't offered yet");
throws(() => new Instance({ name: "i" }), "Instance isn't offered yet");
equal(runtime.then, undefined);
equal("RunCell" in runtime, true);
throws(() => { runtime.Stop = 1; }, "");
equal([runtime.action, runtime.RunCell.action, runtime.RunCell.name], ["runtime", "runtime.RunCell", "runtime.RunCell"]);
"#);
}

/// `aurae types` promises ES2025 to other tools: its newest parts are there, but for
/// `Atomics.waitAsync`, which is about threads.
#[test]
fn the_engine_has_the_library_that_the_types_promise() {
    assert!(language::declare::TSCONFIG.contains("\"es2025\""));
    run(r#"
equal([
  typeof Promise.try, typeof RegExp.escape, typeof Iterator.prototype.map, typeof Set.prototype.union,
  typeof Float16Array, typeof Math.f16round, typeof Object.groupBy, typeof Map.groupBy,
  typeof Promise.withResolvers, typeof ArrayBuffer.prototype.transfer, typeof Array.fromAsync,
  typeof String.prototype.isWellFormed, typeof Array.prototype.toSorted,
  typeof WeakRef, typeof Error("", { cause: 1 }).cause,
], [...Array(14).fill("function"), "number"]);
equal(/(?i:a)(?<x>b)|(?<x>c)/.exec("c").groups.x, "c");
equal(typeof Symbol.dispose, "symbol");
equal(typeof DisposableStack, "function");
"#);
}
