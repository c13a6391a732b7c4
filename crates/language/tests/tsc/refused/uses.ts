// SPDX-License-Identifier: Apache-2.0
// Each line that says so is refused.
const web = new Cell({ name: "web" });
new Cell({ labels: {} }); // wrong: no name
new Cell({ name: "web", memroy: 1 }); // wrong: no such field
print(web.argv); // wrong: a cell has none
web.Expose("80"); // wrong: not a number
web.Env("a", "b"); // wrong: a cell has no variables
runtime.RunPod; // wrong: not offered
schedule.Every("1m", web); // wrong: not offered
await runtime.Run(web, { waitFor: "exitd" }); // wrong: no such value
await runtime.RunCell({ cell: { spec: { resources: { memory: { max: "1" } } } } }); // wrong: not a number
await runtime.FreezeCell("web", { grace: "1s" }); // wrong: takes nothing
await node.Get({ name: "alice" }); // wrong: takes nothing
const status = await runtime.Run(web);
if (status.state === "runing") print(status); // wrong: no such state
const generation: number = status.meta!.generation; // wrong: a bigint
const request: runtime.AttachRequest = { start: {}, eof: {} }; // wrong: two of a oneof
await runtime.Get(5); // wrong: not a target
process.exit(generation); // wrong: not Node
fetch("https://example.org"); // wrong: no network
for await (const line of runtime.Get(web)) print(line, request); // wrong: not a stream
runtime.Run(web).state; // wrong: a promise
