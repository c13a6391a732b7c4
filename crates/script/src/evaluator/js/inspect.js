// SPDX-License-Identifier: Apache-2.0
// Values as people read them: `print`, `console` and the REPL. It runs inside the evaluator, before
// the program, and never runs the program's code: getters are named, proxies aren't looked into.
// It is bounded: by depth, by elements and by the length of the whole.
(function (native) {
  "use strict";
  const MAX_DEPTH = 6;
  const MAX_ITEMS = 100;
  const MAX_TEXT = 1 << 20;
  const WIDTH = 76;
  const { getOwnPropertyDescriptor, getPrototypeOf, prototype: objectPrototype } = Object;
  const { ownKeys } = Reflect;
  const call = Function.prototype.call.bind(Function.prototype.call);
  const getter = (object, name) => {
    const found = getOwnPropertyDescriptor(object, name).get;
    return (value) => call(found, value);
  };
  const mapSize = getter(Map.prototype, "size");
  const setSize = getter(Set.prototype, "size");
  const mapEach = Map.prototype.forEach;
  const setEach = Set.prototype.forEach;
  const typed = getPrototypeOf(Uint8Array.prototype);
  const typedName = getter(typed, Symbol.toStringTag);
  const typedLength = getter(typed, "length");
  const bufferLength = getter(ArrayBuffer.prototype, "byteLength");
  const dateValue = Date.prototype.getTime;
  const dateText = Date.prototype.toISOString;
  const regexpSource = getter(RegExp.prototype, "source");
  const { isArray } = Array;
  const regexpFlags = [
    ["d", "hasIndices"], ["g", "global"], ["i", "ignoreCase"], ["m", "multiline"],
    ["s", "dotAll"], ["u", "unicode"], ["v", "unicodeSets"], ["y", "sticky"],
  ].map(([flag, name]) => [flag, getter(RegExp.prototype, name)]);
  const boxes = [Number, String, Boolean, Symbol, BigInt].map((box) => box.prototype.valueOf);
  const functionText = Function.prototype.toString;
  const { stringify } = JSON;

  const codes = {
    number: "33", bigint: "33", boolean: "33", string: "32", symbol: "32", undefined: "90",
    null: "1", special: "36", date: "35", key: "", error: "31", unknown: "95",
  };
  const paint = (state, kind, text) =>
    state.color && codes[kind] ? `\x1b[${codes[kind]}m${text}\x1b[39;22m` : text;

  const attempt = (f, value) => {
    try {
      return call(f, value);
    } catch {
      return undefined;
    }
  };
  const holds = (f, value) => {
    try {
      f(value);
      return true;
    } catch {
      return false;
    }
  };
  // The engine's own, which isn't of the kind of the other errors.
  const exception = {
    name: getter(DOMException.prototype, "name"),
    message: getter(DOMException.prototype, "message"),
  };
  const isException = (value) => holds(exception.name, value);
  const engines = native.isError;
  native.isError = (value) => engines(value) || isException(value);
  const isIdentifier = /^[A-Za-z_$][\w$]*$/;
  const own = (object, key) => {
    const found = getOwnPropertyDescriptor(object, key);
    return found && "value" in found ? found.value : undefined;
  };

  function className(object) {
    for (let at = object; at !== null; at = getPrototypeOf(at)) {
      if (native.isProxy(at)) return "Object";
      const constructor = own(at, "constructor");
      if (typeof constructor === "function" && !native.isProxy(constructor)) {
        const name = own(constructor, "name");
        if (typeof name === "string" && name !== "") return name;
      }
    }
    return "[Object: null prototype]";
  }

  function primitive(state, value) {
    switch (typeof value) {
      case "string":
        return paint(state, "string", stringify(value.length > 10000
          ? value.slice(0, 10000) + "…" : value));
      case "bigint":
        return paint(state, "bigint", `${value}n`);
      case "number":
        return paint(state, "number", Object.is(value, -0) ? "-0" : `${value}`);
      case "symbol":
        return paint(state, "symbol", Symbol.prototype.toString.call(value));
      case "undefined":
        return paint(state, "undefined", "undefined");
      case "boolean":
        return paint(state, "boolean", `${value}`);
      default:
        return paint(state, "null", "null");
    }
  }

  function functionName(state, value) {
    const name = own(value, "name");
    const named = typeof name === "string" && name !== "" ? `: ${name}` : " (anonymous)";
    const text = attempt(functionText, value) ?? "";
    const kind = text.startsWith("class") ? "class" : "Function";
    return paint(state, "special", `[${kind}${named}]`);
  }

  // How a value with a slot of its own begins, and what it holds besides properties.
  function slots(state, value) {
    if (isArray(value)) return items(state, value, own(value, "length") ?? 0, "");
    if (holds(mapSize, value)) {
      const entries = [];
      call(mapEach, value, (item, key) => {
        if (entries.length < MAX_ITEMS) {
          entries.push(`${show(state, key)} => ${show(state, item)}`);
        }
      });
      return more({ prefix: `Map(${mapSize(value)}) `, entries }, mapSize(value));
    }
    if (holds(setSize, value)) {
      const entries = [];
      call(setEach, value, (item) => {
        if (entries.length < MAX_ITEMS) entries.push(show(state, item));
      });
      return more({ prefix: `Set(${setSize(value)}) `, entries }, setSize(value));
    }
    const kind = typedName(value);
    if (kind !== undefined) {
      return items(state, value, typedLength(value), `${kind}(${typedLength(value)}) `);
    }
    if (holds(bufferLength, value)) {
      return { whole: paint(state, "special", `[ArrayBuffer: ${bufferLength(value)} bytes]`) };
    }
    return undefined;
  }

  function items(state, value, length, prefix) {
    const entries = [];
    for (let index = 0; index < length && entries.length < MAX_ITEMS; index++) {
      const found = getOwnPropertyDescriptor(value, index);
      entries.push(found ? property(state, found) : paint(state, "undefined", "<empty>"));
    }
    return more({ prefix, entries, list: true }, length);
  }

  function more(shown, length) {
    const rest = length - shown.entries.length;
    if (rest > 0) shown.entries.push(`… ${rest} more`);
    return shown;
  }

  function property(state, found) {
    if ("value" in found) return show(state, found.value);
    const kind = found.get ? (found.set ? "[Getter/Setter]" : "[Getter]") : "[Setter]";
    return paint(state, "special", kind);
  }

  function special(state, value) {
    const unknown = native.unknown(value);
    if (unknown !== undefined) return paint(state, "unknown", `<unknown: ${unknown}>`);
    if (native.isProxy(value)) return paint(state, "special", "[Proxy]");
    if (typeof value === "function") return functionName(state, value);
    const time = attempt(dateValue, value);
    if (time !== undefined) {
      const text = time === time ? call(dateText, value) : "Invalid Date";
      return paint(state, "date", text);
    }
    if (value !== RegExp.prototype && holds(regexpSource, value)) {
      const flags = regexpFlags.filter(([, has]) => has(value)).map(([flag]) => flag).join("");
      return paint(state, "error", `/${regexpSource(value)}/${flags}`);
    }
    const promise = native.promiseState(value);
    if (promise !== undefined) return paint(state, "special", `Promise { <${promise}> }`);
    for (const box of boxes) {
      const inner = attempt(box, value);
      if (inner !== undefined) {
        return paint(state, "special", `[${className(value)}: ${primitive(state, inner)}]`);
      }
    }
    return undefined;
  }

  function errorHead(state, value) {
    const find = (name) => {
      if (isException(value)) return exception[name](value);
      for (let at = value; at !== null && !native.isProxy(at); at = getPrototypeOf(at)) {
        const found = own(at, name);
        if (found !== undefined) return found;
      }
      return undefined;
    };
    const name = find("name");
    const message = find("message");
    const head = typeof name === "string" ? name : className(value);
    const text = typeof message === "string" && message !== "" ? `${head}: ${message}` : head;
    return paint(state, "error", text);
  }

  function show(state, value) {
    if ((typeof value !== "object" && typeof value !== "function") || value === null) {
      const text = primitive(state, value);
      state.length += text.length;
      return text;
    }
    if (state.length > MAX_TEXT) return "…";
    const whole = special(state, value);
    if (whole !== undefined) {
      state.length += whole.length;
      return whole;
    }
    if (state.above.includes(value)) return paint(state, "special", "[Circular]");
    const custom = native.custom(value);
    const name = custom?.name ?? className(value);
    if (state.above.length >= MAX_DEPTH) {
      return paint(state, "special", isArray(value) ? "[Array]" : `[${name}]`);
    }
    state.above.push(value);
    const text = compound(state, custom?.value ?? value, name, custom !== undefined);
    state.above.pop();
    state.length += text.length;
    return text;
  }

  function compound(state, value, name, isCustom) {
    const isError = native.isError(value);
    const slot = slots(state, value);
    if (slot?.whole !== undefined) return slot.whole;
    const entries = slot?.entries ?? [];
    let properties = 0;
    for (const key of ownKeys(value)) {
      const found = getOwnPropertyDescriptor(value, key);
      if (found === undefined || !found.enumerable) continue;
      if (isError && "value" in found && found.value === undefined) continue;
      if (slot?.list && typeof key === "string" && /^\d+$/.test(key)) continue;
      if (++properties > MAX_ITEMS) continue;
      const label = typeof key === "symbol" ? `[${primitive(state, key)}]`
        : isIdentifier.test(key) ? key : paint(state, "string", stringify(key));
      entries.push(`${label}: ${property(state, found)}`);
    }
    if (properties > MAX_ITEMS) entries.push(`… ${properties - MAX_ITEMS} more`);
    if (isError) {
      const head = errorHead(state, value);
      return entries.length === 0 ? head : `${head} ${layout(entries, "{", "}")}`;
    }
    const plain = !isCustom && getPrototypeOf(value) === objectPrototype;
    const prefix = slot?.prefix ?? (plain ? "" : `${name} `);
    return prefix + (slot?.list ? layout(entries, "[", "]") : layout(entries, "{", "}"));
  }

  const bare = (text) => text.replace(/\x1b\[[0-9;]*m/g, "").length;

  function layout(entries, open, close) {
    if (entries.length === 0) return open + close;
    let width = 4;
    let lines = false;
    for (const entry of entries) {
      width += bare(entry) + 2;
      lines ||= entry.includes("\n");
    }
    if (!lines && width <= WIDTH) return `${open} ${entries.join(", ")} ${close}`;
    const indented = entries.map((entry) => "  " + entry.replaceAll("\n", "\n  "));
    return `${open}\n${indented.join(",\n")}\n${close}`;
  }

  return (value, color) => show({ color, above: [], length: 0 }, value);
})
