// SPDX-License-Identifier: Apache-2.0
// Uses of every part of the types, as people write them.
const web = new Cell({ name: "web", labels: { app: "web" }, resources: { memory: { max: 268435456 } } });
const nginx = new Executable({ name: "web/nginx", argv: ["nginx", "-g", "daemon off;"] }).Env("user", "nova");
nginx.Label("tier", "front").argv = ["x"];
const status = await runtime.Run(web);
const pid: number = status.pid;
const ran = await runtime.Run(nginx, { waitFor: "exited" }, { timeout: "5s" });
const code = ran.exit?.code;
const all = await runtime.Run([web, nginx]);
for (const one of all) print(one.meta?.ref?.path, one.state === "running");
const got = await runtime.Get("web/nginx");
if (got.cell) print(got.cell.runningChildren);
const gotCell = await runtime.Get(web);
print(gotCell.cgroup, gotCell.spec?.resources?.memory?.max);
await runtime.Stop(nginx, { grace: "1s" });
await runtime.Stop(status);
await runtime.Stop(got);
await runtime.Stop({ ref: { path: "web" }, grace: "1s" }, { timeout: 500 });
await runtime.Signal("web/nginx", { signal: "HUP" });
const nova = identity.User("nova");
await nova.Allow(runtime.Stop, { path: "web" });
const grants = await nova.Allow(runtime.Run);
await nova.Withdraw(grants);
await nova.Allow(runtime);
for await (const line of observe.Stdout(nginx).withContext({ timeout: "1m" })) print(line);
const alice = node("alice");
await alice.runtime.Run(web);
const me = await node.Get();
const big: bigint = me.memoryBytes;
for await (const event of runtime.Watch()) { if (event.type === "added" && event.object?.executable) print(event.resumeToken); }
const attach = runtime.Attach();
await attach.Send({ start: { ref: { path: "web/nginx" } } });
await runtime.UpdateCell(web, { spec: { resources: { memory: { max: 1048576n } } }, updateMask: ["spec.resources.memory.max"] });
await runtime.RunCell({ cell: web });
await runtime.RunExecutable({ executable: { ref: { path: "a" }, spec: { argv: ["a"] } }, ownCell: {} });
const back = Cell.From(JSON.parse(JSON.stringify(web)));
print(back.Equals(web), pid, code, big, await observe.Usage([web, "x"]), await observe.Usage());
try { await runtime.Get("x"); } catch (e) { if (e instanceof AuraeError && e.code === "NOT_FOUND") print(e.hint); }
for await (const o of runtime.All({ selector: "app=web" })) print(o);
const spec: runtime.CellSpec = status.spec ?? {};
print(spec, args, yaml.stringify(web), await file.readText("./x"));
await Promise.all(["a", "b"].map((n) => node(n).runtime.Stop("web", { grace: "1s" })));
function kind(json: Cell | Executable): unknown {
  return json.kind === "cell" ? json.hostname : json.argv;
}
print(kind(web));
const busybox = new Image("busybox:1", { pull: "never" });
const shop = new Pod({ name: "shop", containers: [busybox.Container({ name: "app", args: ["true"] })] });
shop.Env("user", "nova").Expose(80, { hostPort: 8443, port: 443 }).Label("app", "shop");
const kept = await runtime.Run(shop, { waitFor: "ready" });
print(kept.phase, (await runtime.Run([web, shop])).map((one) => one.meta?.ref?.path));
await runtime.Run(new Cell({ name: "box", container: busybox.Root({ readOnly: true }) }));
