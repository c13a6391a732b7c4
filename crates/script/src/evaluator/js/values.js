// SPDX-License-Identifier: Apache-2.0
// `values(defaults)`: the program's own values, with those of the command line's file laid over
// them. What the program's types don't allow is refused with its place in the file; where they say
// nothing, what isn't among the defaults, or is of another kind. Pure: nothing but the file, the
// defaults and the types is looked at.
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
  // One that is thrown in vain, where another form fits, costs no look for its place.
  class Refused {
    constructor(path, why, literal) {
      this.path = path;
      this.why = why;
      this.literal = literal;
    }
    // The innermost value around it that the file has: what lacks something may be the program's.
    place() {
      for (let length = this.path.length; length > 0; length -= 1) {
        const place = native.valuesPlace(given.text, this.path.slice(0, length));
        if (place !== undefined) return `${given.name}:${place[0]}:${place[1]}`;
      }
      return given.name;
    }
    error() {
      return new TypeError(`${this.place()}: ${this.path.join(".") || "the whole"} ${this.why}`);
    }
  }
  const refuse = (path, why) => {
    throw new Refused(path, why);
  };
  const check = (value, path) => {
    if (kind(value) === "no plain data") {
      throw new TypeError(`values: ${path.join(".") || "the argument"} isn't plain data`);
    }
    if (typeof value !== "object" || value === null) return;
    for (const [key, inner] of Object.entries(value)) check(inner, [...path, key]);
  };
  const unknown = (path, names) => {
    const meant = native.nearest(path.at(-1), names);
    const known = names.length === 0 ? "there is none" : `there is ${names.join(", ")}`;
    const hint = meant === undefined ? known : `did you mean ${meant}?`;
    refuse(path, `is no value of this program; ${hint}`);
  };
  // Numbers are one kind in the file, and two in a program.
  const scalar = (below, over, path) => {
    if (typeof below === "bigint") {
      if (typeof over === "bigint" || Number.isInteger(over)) return BigInt(over);
      refuse(path, `is a whole number, got ${over}`);
    }
    if (typeof over === "bigint") refuse(path, `is a number of at most 2^53, got ${over}`);
    return over;
  };
  // An item of a list is whole, and like those that the program has.
  const item = (samples, over, path) => {
    // Nothing says what it would be: anything.
    const says = samples.length > 0 && samples.every((one) => (one ?? undefined) !== undefined);
    if (!says) return over;
    const kinds = [...new Set(samples.map(kind))];
    if (!kinds.includes(kind(over))) refuse(path, `is ${kinds.join(" or ")}, got ${kind(over)}`);
    const alike = samples.filter((one) => kind(one) === kind(over));
    if (Array.isArray(over)) return items(alike.flat(), over, path);
    if (!isPlain(over)) return scalar(alike[0], over, path);
    const names = [...new Set(alike.flatMap(Object.keys))];
    if (names.length === 0) return over;
    const lacking = names.find((name) =>
      !Object.hasOwn(over, name) && alike.every((one) => Object.hasOwn(one, name)));
    if (lacking !== undefined) refuse(path, `lacks ${lacking}`);
    const members = Object.entries(over).map(([key, value]) => {
      const inner = [...path, key];
      if (!names.includes(key)) unknown(inner, names);
      const having = alike.filter((one) => Object.hasOwn(one, key));
      return [key, item(having.map((one) => one[key]), value, inner)];
    });
    return Object.fromEntries(members);
  };
  const items = (samples, over, path) =>
    over.map((value, at) => item(samples, value, [...path, `${at}`]));
  const lay = (below, over, path) => {
    if (below === undefined || below === null) return over;
    if (kind(over) !== kind(below)) refuse(path, `is ${kind(below)}, got ${kind(over)}`);
    if (Array.isArray(below)) return items(below, over, path);
    if (!isPlain(below)) return scalar(below, over, path);
    const names = Object.keys(below);
    // An empty object is a table: its keys are the file's.
    if (names.length === 0) return over;
    const laid = Object.entries(over).map(([key, value]) => {
      const inner = [...path, key];
      if (!names.includes(key)) unknown(inner, names);
      return [key, lay(below[key], value, inner)];
    });
    return { ...below, ...Object.fromEntries(laid) };
  };
  // What the program's types say, where they say something (`typed.js`).
  const tools = { Refused, refuse, isPlain, kind, unknown, scalar, lay };
  const typed = given?.typed?.(native, JSON.parse(given.expected), tools);
  let taken = false;
  const values = (defaults) => {
    if (taken) throw new TypeError("values: a program asks for its values once");
    taken = true;
    if (!isPlain(defaults)) throw new TypeError("values: expected an object of defaults");
    check(defaults, []);
    if (!given) return defaults;
    const over = native.yamlParse(given.text);
    try {
      return (typed ?? lay)(defaults, over, []);
    } catch (refused) {
      throw refused instanceof Refused ? refused.error() : refused;
    }
  };
  // What is wrong in the file is told before anything is asked of a node.
  const settled = () => {
    if (!given || taken) return;
    throw new TypeError(`${given.name}: the program asks a node before it has called values()`);
  };
  return { values, settled };
})
