// SPDX-License-Identifier: Apache-2.0
// What a plan doesn't know: stands-in that may be passed on and asked for members, and the guards
// that refuse a way which depends on one. There only while a program is planned. The compiler
// guards what the language tests (`language::compile`); this guards what the library tests: what
// callbacks answer, and what `Boolean` and its like are given.
(function (native, define) {
  "use strict";
  // Taken before anything is guarded.
  const { apply, construct } = Reflect;
  const unknowns = new WeakMap();
  const { get: find } = WeakMap.prototype;
  const textOf = (value) => apply(find, unknowns, [value]);
  let met;
  // Refusals of tests on which only a throw or a print depends.
  const passable = new WeakSet();
  const mayBePassed = passable.has.bind(passable);

  class PlanUnknown extends Error {
    constructor(unknown, place, mayPass) {
      super(`this depends on ${unknown}, which only a real call would give`);
      this.unknown = unknown;
      if (place) this.place = place;
      // A program that catches it has taken a way all the same.
      if (mayPass) passable.add(this);
      else met ??= this;
    }
    get name() {
      return "PlanUnknown";
    }
  }

  const refuse = (target) => {
    throw new PlanUnknown(target.text());
  };
  const makeUnknown = (text) => {
    const target = function () {};
    target.text = () => text;
    const proxy = new Proxy(target, {
      get(_, key) {
        // What is awaited is asked for `then`.
        if (key === "then") return undefined;
        if (key === "toJSON") refuse(target);
        return typeof key === "symbol" ? refuse(target) : makeUnknown(`${text}.${key}`);
      },
      set: refuse, has: refuse, deleteProperty: refuse, ownKeys: refuse, apply: refuse,
      construct: refuse, defineProperty: refuse, getOwnPropertyDescriptor: refuse,
      getPrototypeOf: refuse, setPrototypeOf: refuse, isExtensible: refuse,
      preventExtensions: refuse,
    });
    unknowns.set(proxy, text);
    return proxy;
  };
  const known = (value, place, mayPass) => {
    const unknown = textOf(value);
    if (unknown !== undefined) throw new PlanUnknown(unknown, place, mayPass);
    return value;
  };
  // The same for all that is in a value.
  const allKnown = (value, seen = new WeakSet()) => {
    if (typeof known(value) !== "object" || value === null || seen.has(value)) return value;
    seen.add(value);
    for (const item of Object.values(value)) allKnown(item, seen);
    return value;
  };

  // What the compiler puts into a plan's code: around what is tested, for templates, for `+`.
  define("__known", (value, line, column, file, mayPass) =>
    known(value, { line, column }, mayPass));
  // What was asked last: nothing comes between the question and the branch.
  let told;
  define("__ask", (value, line, column) => {
    told = known(value, { line, column }, true);
  });
  define("__pass", (thrown, way, line, column, file) => {
    if (!mayBePassed(thrown)) throw thrown;
    native.assume(file, line, column, thrown.unknown, false);
    told = way;
  });
  define("__told", () => told);
  // A stream that isn't there yet; the parent knows which it has refused.
  define("__skip", (thrown, line, column, file) => {
    if (thrown?.code !== "UNKNOWN_IN_PLAN") throw thrown;
    native.assume(file, line, column, thrown.message, true);
  });
  const shown = (value) => textOf(value) ?? (typeof value === "string" ? JSON.stringify(value)
    : String(value));
  define("__text", (strings, ...values) => {
    if (values.every((value) => textOf(value) === undefined)) {
      return strings.reduce((text, next, index) => `${text}${values[index - 1]}${next}`);
    }
    const hole = (value) => {
      const unknown = textOf(value);
      return unknown === undefined ? `${value}` : `\${${unknown}}`;
    };
    const whole = strings.reduce((text, next, index) => text + hole(values[index - 1]) + next);
    return makeUnknown(`\`${whole}\``);
  });
  define("__plus", (left, right) => {
    if (textOf(left) === undefined && textOf(right) === undefined) return left + right;
    return makeUnknown(`${shown(left)} + ${shown(right)}`);
  });

  const change = (object, names, guard) => {
    for (const name of names) {
      const found = Object.getOwnPropertyDescriptor(object ?? {}, name);
      if (typeof found?.value !== "function") continue;
      Object.defineProperty(object, name, { ...found, value: guard(found.value) });
    }
  };
  // A callback whose answer is tested, the `at`th thing given.
  const asks = (at) => (method) => new Proxy(method, {
    apply(_, self, given) {
      const callback = given[at];
      if (typeof callback !== "function") return apply(method, self, given);
      const guarded = [...given];
      guarded[at] = function (...items) {
        return known(apply(callback, this, items));
      };
      return apply(method, self, guarded);
    },
  });
  // Something that is tested itself, or looked up.
  const looks = (method) => new Proxy(method, {
    apply(_, self, given) {
      known(given[0]);
      return apply(method, self, given);
    },
    construct(_, given, made) {
      known(given[0]);
      return construct(method, given, made);
    },
  });
  // Both, of all the items too.
  const compares = (method) => new Proxy(method, {
    apply(_, self, given) {
      for (let at = 0; at < self?.length; at++) known(self[at]);
      known(given[0]);
      return apply(method, self, given);
    },
  });

  const tests = [
    "filter", "some", "every", "find", "findIndex", "findLast", "findLastIndex", "flatMap",
  ];
  const typed = Object.getPrototypeOf(Uint8Array.prototype);
  for (const kind of [Array.prototype, typed, globalThis.Iterator?.prototype]) {
    change(kind, tests, asks(0));
  }
  change(Array.prototype, ["includes", "indexOf", "lastIndexOf", "flat"], compares);
  change(Object, ["groupBy"], asks(1));
  change(Map, ["groupBy"], asks(1));
  change(Object, ["is"], (is) => (left, right) => is(known(left), known(right)));
  change(Array, ["isArray"], looks);
  change(ArrayBuffer, ["isView"], looks);
  change(Error, ["isError"], looks);
  change(Number, ["isFinite", "isInteger", "isNaN", "isSafeInteger"], looks);
  change(Set.prototype, ["add", "has", "delete"], looks);
  change(Map.prototype, ["set", "get", "has", "delete"], looks);
  change(globalThis, ["Boolean"], looks);
  Object.defineProperty(Boolean.prototype, "constructor", { value: Boolean });

  return { makeUnknown, known, allKnown, unknown: textOf, met: () => met };
})
