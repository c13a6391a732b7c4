// SPDX-License-Identifier: Apache-2.0
// What a program may compute: nested loops, strings, sorting. The same file for both engines, so it has no types.
let sum = 0;
for (let i = 0; i < 2000; i++) {
  for (let j = 0; j < 2000; j++) {
    sum = (sum + i * j) % 1000003;
  }
}

let text = "";
for (let i = 0; i < 200000; i++) {
  text += "line " + i + "\n";
}

let seed = 42;
const objects = [];
for (let i = 0; i < 100000; i++) {
  seed = (seed * 1103515245 + 12345) % 2147483648;
  objects.push({ key: seed, name: "object-" + i });
}
objects.sort((a, b) => a.key - b.key);

console.log(sum, text.length, objects[0].name);
