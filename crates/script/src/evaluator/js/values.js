// SPDX-License-Identifier: Apache-2.0
// `values(defaults)`: the program's own values, with those of the command line's file laid over
// them. What isn't among the defaults, or is of another kind, is refused with its place in the
// file. Pure: nothing but the two is looked at.
(function (native, given) {
  "use strict";
  const isPlain = (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
    const prototype = Object.getPrototypeOf(value);
    return prototype === Object.prototype || prototype === null;
  };
  const kind = (value) => {
    if (value === null || value === undefined) return "nothing";
    if (Array.isArray(value)) return "a list";
    return { string: "text", boolean: "true or false", number: "a number", bigint: "a number" }[
      typeof value
    ] ?? (isPlain(value) ? "an object" : "no plain data");
  };
  const refuse = (path, why) => {
    const place = native.valuesPlace(given.text, path);
    const at = place === undefined ? given.name : `${given.name}:${place[0]}:${place[1]}`;
    throw new TypeError(`${at}: ${path.join(".") || "the whole"} ${why}`);
  };
  const check = (value, path) => {
    if (kind(value) === "no plain data") {
      throw new TypeError(`values: ${path.join(".") || "the argument"} isn't plain data`);
    }
    if (typeof value !== "object" || value === null) return;
    for (const [key, inner] of Object.entries(value)) check(inner, [...path, key]);
  };
  const lay = (below, over, path) => {
    // Nothing says what it would be: anything.
    if (below === undefined || below === null) return over;
    if (kind(over) !== kind(below)) refuse(path, `is ${kind(below)}, got ${kind(over)}`);
    if (Array.isArray(below)) {
      const first = below[0];
      return over.map((item, at) => {
        // Items of a list are all of one shape, and whole.
        const path_ = [...path, `${at}`];
        if (first !== undefined && kind(item) !== kind(first)) {
          refuse(path_, `is ${kind(first)}, got ${kind(item)}`);
        }
        return item;
      });
    }
    if (typeof below === "bigint") return BigInt(over);
    if (!isPlain(below)) return over;
    const names = Object.keys(below);
    const laid = { ...below };
    for (const [key, value] of Object.entries(over)) {
      const inner = [...path, key];
      // An empty object is a table: its keys are the file's.
      if (names.length === 0) laid[key] = value;
      else if (Object.hasOwn(below, key)) laid[key] = lay(below[key], value, inner);
      else refuse(inner, `is no value of this program; there is ${names.join(", ")}`);
    }
    return laid;
  };
  let taken = false;
  return (defaults) => {
    if (taken) throw new TypeError("values: a program asks for its values once");
    taken = true;
    if (!isPlain(defaults)) throw new TypeError("values: expected an object of defaults");
    check(defaults, []);
    return given ? lay(defaults, native.yamlParse(given.text), []) : defaults;
  };
})
