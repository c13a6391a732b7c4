// SPDX-License-Identifier: Apache-2.0
// What the flow narrows, and what may be left out: right in every line.
type Tier = "front" | "back";
interface App {
  name: string;
  tier: Tier;
  replicas?: number;
  env?: Record<string, string>;
}

function isTier(text: string): text is Tier {
  return text === "front" || text === "back";
}

function labels(app: App): Record<string, string> {
  const { name, tier, replicas = 1 } = app;
  return { name, tier, replicas: String(replicas) };
}

export function make(app: App): Cell {
  return new Cell({ name: app.name, labels: labels(app), resources: { memory: { max: 64n << 20n } } });
}

const given = args[0] ?? "front";
const tier: Tier = isTier(given) ? given : "back";
const apps: App[] = [
  { name: "web", tier, replicas: 2 },
  { name: "db", tier: "back", env: { MODE: "primary" } },
];

for (const app of apps) {
  const cell = make(app);
  cell.labels = { ...cell.labels, extra: "yes" };
  const status = await runtime.Run(cell, { waitFor: "started" }, { timeout: 5000 });
  if (status.state === "running" && status.spec?.resources) {
    print(app.name, status.spec.resources.memory?.max, status.meta?.labels.extra);
  }
}

const byName = new Map(apps.map((app) => [app.name, app] as const));
const web = byName.get("web");
if (web !== undefined) print(web.name.length, web.env?.["MODE"]);

let last: runtime.Object | undefined;
for await (const object of runtime.All({ kinds: ["cell"] })) {
  if (object.cell) last = object;
}
print(last?.cell?.pid);

const names = apps.map((app) => app.name).filter((name) => name.length > 2);
const sizes = names.map((name) => ({ name, size: name.length }));
print(sizes[0]?.size, sizes.length, names.join(", "));

async function pause(times: number): Promise<number> {
  for (let index = 0; index < times; index++) await sleep("1ms");
  return times;
}
print(await pause(2), (await Promise.all([pause(1), pause(2)])).length);

class Counter {
  private count = 0;
  constructor(readonly label: string) {}
  next(): number {
    this.count += 1;
    return this.count;
  }
}
const counter = new Counter("c");
print(counter.next(), counter.label);

const request = { ref: { path: "web" }, grace: "1s" };
await runtime.Stop(request, { timeout: "10s" });
const kinds = ["cell", "executable"] as const;
for (const kind of kinds) await runtime.List({ kinds: [kind] });
try {
  await runtime.Get("nothing");
} catch (error) {
  if (error instanceof AuraeError) print(error.code, error.message);
}

type Name =
  | "bigint"
  | "boolean"
  | "function"
  | "number"
  | "object"
  | "string"
  | "symbol"
  | "undefined";
const named: Name = typeof given;
const ends: ("front-end" | "back-end")[] = [`${tier}-end`];
const end: "front-end" | "back-end" = `${tier}-end`;
print(named, ends, end, typeof given + `${tier}`);
