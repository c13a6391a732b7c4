// SPDX-License-Identifier: Apache-2.0
// A file of values held against the types that the program declares (`language::check::expected`
// says how they are told), while it is laid over the program's own. Where the types say nothing,
// the defaults decide (`values.js`, which calls this and turns refusals into errors). Pure.
(function (native, types, tools) {
  "use strict";
  const { Refused, refuse, isPlain, kind, unknown, scalar, lay } = tools;
  // Types that hold each other in many ways would otherwise be tried for years.
  let steps = 100000;
  const any = { is: "any" };
  const part = (at) => types[at] ?? any;
  const own = (value, name) => (Object.hasOwn(value, name) ? value[name] : undefined);
  const words = {
    never: () => "nothing that can be set",
    undefined: () => "nothing",
    null: () => "nothing",
    boolean: () => "true or false",
    number: () => "a number",
    bigint: () => "a whole number",
    text: () => "text",
    literal: (type) => JSON.stringify(type.value),
    list: () => "a list",
    tuple: (type) => `a list of ${type.of.length}`,
    object: () => "an object",
  };
  const word = (type) => words[type.is](type);
  const got = (value) => {
    const text = typeof value === "string" ? JSON.stringify(value) : `${value}`;
    const isScalar = typeof value !== "object";
    return isScalar && text.length <= 40 ? text : kind(value);
  };
  // By part: what comes of a value of the file over the program's.
  const fits = {
    any: (_, below, over, path) => lay(below, over, path),
    never: (_, __, ___, path) => refuse(path, "can't be set"),
    // The file has one word for both.
    undefined: (_, __, over, path) =>
      over === null ? undefined : refuse(path, `is nothing, got ${kind(over)}`),
    null: (_, __, over, path) =>
      over === null ? null : refuse(path, `is nothing, got ${kind(over)}`),
    boolean: (type, _, over, path) => of("boolean", type, over, path),
    text: (type, _, over, path) => of("string", type, over, path),
    number: (type, _, over, path) =>
      scalar(0, typeof over === "bigint" ? over : of("number", type, over, path), path),
    bigint: (_, __, over, path) => {
      if (kind(over) !== "a number") refuse(path, `is a number, got ${kind(over)}`);
      return scalar(0n, over, path);
    },
    literal: (type, _, over, path) => {
      if (over === type.value) return over;
      throw new Refused(path, `is ${word(type)}, got ${got(over)}`, type);
    },
    list: (type, below, over, path) => {
      if (!Array.isArray(over)) refuse(path, `is a list, got ${kind(over)}`);
      if (part(type.of).is === "any") return lay(Array.isArray(below) ? below : [], over, path);
      return over.map((value, at) => typed(part(type.of), undefined, value, [...path, `${at}`]));
    },
    tuple: (type, _, over, path) => {
      if (!Array.isArray(over)) refuse(path, `is a list, got ${kind(over)}`);
      const most = type.of.length;
      if (over.length !== most) refuse(path, `is ${word(type)}, got one of ${over.length}`);
      return type.of.map((it, at) => typed(part(it), undefined, over[at], [...path, `${at}`]));
    },
    object: (type, below, over, path) => object(type, below, over, path),
    union: (type, below, over, path) => union(type.of.map(part), below, over, path),
  };
  const of = (name, type, over, path) =>
    typeof over === name ? over : refuse(path, `is ${word(type)}, got ${kind(over)}`);
  const typed = (type, below, over, path) => {
    steps -= 1;
    if (steps < 0) refuse(path, "can't be judged: its type has too many forms");
    return fits[type.is](type, below, over, path);
  };
  // What the program has is of another form where a literal says so: nothing is laid over that.
  const base = (type, below) => {
    if (!isPlain(below)) return {};
    const other = type.fields.some(({ name, of: at }) => {
      const { is, value } = part(at);
      return is === "literal" && Object.hasOwn(below, name) && below[name] !== value;
    });
    return other ? {} : below;
  };
  const object = (type, below, over, path) => {
    if (!isPlain(over)) refuse(path, `is an object, got ${kind(over)}`);
    // What says which form it is comes first: the rest of another form isn't looked at.
    for (const { name, of: at } of type.fields) {
      const says = part(at).is === "literal" && Object.hasOwn(over, name);
      if (says) typed(part(at), undefined, over[name], [...path, name]);
    }
    const under = base(type, below);
    const laid = new Map(Object.entries(under));
    const names = type.fields.map((field) => field.name);
    if (type.open) names.push(...Object.keys(under).filter((name) => !names.includes(name)));
    for (const [name, value] of Object.entries(over)) {
      const inner = [...path, name];
      const field = type.fields.find((one) => one.name === name);
      if (field?.optional && value === null && !takesNull(part(field.of))) {
        laid.delete(name);
        continue;
      }
      const known = field !== undefined || type.rest !== null || names.includes(name);
      if (!known) unknown(inner, names);
      const its = field?.of ?? type.rest;
      const said = its === null || its === undefined ? any : part(its);
      laid.set(name, typed(said, own(under, name), value, inner));
    }
    const lacking = type.fields.find((one) => !one.optional && !laid.has(one.name));
    if (lacking !== undefined) refuse(path, `lacks ${lacking.name}`);
    return Object.fromEntries(laid);
  };
  const takesNull = (type) =>
    type.is === "union" ? type.of.map(part).some(takesNull) : ["null", "any"].includes(type.is);
  const attempt = (type, below, over, path) => {
    try {
      return { value: typed(type, below, over, path) };
    } catch (refused) {
      if (!(refused instanceof Refused)) throw refused;
      return { refused, type };
    }
  };
  // One of several was asked for, and none was given.
  const choice = (path, members, over) => {
    const said = members.filter(({ is }) => is !== "undefined" && is !== "null");
    const all = [...new Set(said.map(word))].join(" or ");
    const texts = said.filter(({ is }) => is === "literal").map(({ value }) => `${value}`);
    const near = typeof over === "string" ? native.nearest(over, texts) : undefined;
    const hint = near === undefined ? "" : `; did you mean ${JSON.stringify(near)}?`;
    refuse(path, `is ${all}, got ${got(over)}${hint}`);
  };
  const union = (members, below, over, path) => {
    const refusals = [];
    for (const type of members) {
      const tried = attempt(type, below, over, path);
      if (tried.refused === undefined) return tried.value;
      refusals.push(tried);
    }
    // Told of the form that is meant: the one that the value's literals choose, else the only one
    // in which something within is wrong.
    const within = refusals.filter(({ refused }) => refused.path.length > path.length);
    const meant = refusals.filter(({ type }) => isMeant(type, over));
    if (meant.length === 1) throw meant[0].refused;
    const places = new Set(within.map(({ refused }) => refused.path.join("\0")));
    if (places.size === 1 && within.every(({ refused }) => refused.literal !== undefined)) {
      const inner = within[0].refused.path;
      const value = inner.slice(path.length).reduce((at, name) => at[name], over);
      choice(inner, within.map(({ refused }) => refused.literal), value);
    }
    if (within.length === 1) throw within[0].refused;
    if (within.length > 0) refuse(path, "is of none of the forms that the program takes");
    const alike = refusals.filter(({ type }) => type.is === "object" && isPlain(over));
    if (alike.length === 1) throw alike[0].refused;
    choice(path, members, over);
  };
  // Whether the literals of a form are those of the value.
  const isMeant = (type, over) => {
    if (type.is !== "object" || !isPlain(over)) return false;
    const literals = type.fields.filter((field) => part(field.of).is === "literal");
    return literals.length > 0 &&
      literals.every(({ name, of: at }) => own(over, name) === part(at).value);
  };
  // The first part is the whole.
  return (below, over, path) => typed(part(0), below, over, path);
})
