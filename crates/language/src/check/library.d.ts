// SPDX-License-Identifier: Apache-2.0
// What the checker knows of the ECMAScript library: names first of all, so that a name that is
// none of them and none of the API's is a mistake; members only where knowing them lets types
// flow. What has members here has all that the engine has, which a test of `script` holds against
// it. Promise, Array, String, Number, BigInt and Boolean are closed: what else is asked of them is
// a mistake. Every other interface here is open: a member that isn't listed is any.

interface Promise<T> {
    /** What follows once it is settled. */
    then<U>(fulfilled: (value: T) => U): Promise<U>;
    then(fulfilled?: null): Promise<T>;
    then(fulfilled: any, rejected: any): Promise<any>;
    /** What follows a failure. */
    catch(rejected?: any): Promise<any>;
    /** Runs in either case. */
    finally(settled?: any): Promise<T>;
}
interface PromiseLike<T> {}
interface Iterable<T> {}
interface Iterator<T> {}
interface IterableIterator<T> {}
interface AsyncIterable<T> {}
interface AsyncIterator<T> {}
interface AsyncIterableIterator<T> {}
interface Generator<T> {}
interface AsyncGenerator<T> {}

interface Array<T> {
    /** How many elements there are. */
    length: number;
    push(...items: T[]): number;
    pop(): T | undefined;
    shift(): T | undefined;
    unshift(...items: T[]): number;
    slice(start?: number, end?: number): T[];
    concat(...items: any[]): T[];
    reverse(): T[];
    join(separator?: string): string;
    at(index: number): T | undefined;
    includes(item: any, from?: number): boolean;
    indexOf(item: any, from?: number): number;
    sort(compare?: (a: T, b: T) => number): T[];
    toSorted(compare?: (a: T, b: T) => number): T[];
    map<U>(each: (value: T, index: number, array: T[]) => U, self?: any): U[];
    flatMap(each: (value: T, index: number, array: T[]) => any, self?: any): any[];
    filter(test: (value: T, index: number, array: T[]) => any, self?: any): any[];
    find(test: (value: T, index: number, array: T[]) => any, self?: any): any;
    findIndex(test: (value: T, index: number, array: T[]) => any, self?: any): number;
    some(test: (value: T, index: number, array: T[]) => any, self?: any): boolean;
    every(test: (value: T, index: number, array: T[]) => any, self?: any): boolean;
    forEach(each: (value: T, index: number, array: T[]) => any, self?: any): void;
    reduce(step: any, start?: any): any;
    entries(): Iterable<[number, T]>;
    keys(): Iterable<number>;
    values(): Iterable<T>;
    copyWithin: any;
    fill: any;
    lastIndexOf: any;
    reduceRight: any;
    findLast: any;
    findLastIndex: any;
    flat: any;
    toReversed: any;
    toSpliced: any;
    with: any;
    splice: any;
}
interface String {
    /** How many UTF-16 code units there are. */
    length: number;
    trim(): string;
    trimStart(): string;
    trimEnd(): string;
    toUpperCase(): string;
    toLowerCase(): string;
    slice(start?: number, end?: number): string;
    substring(start: number, end?: number): string;
    padStart(length: number, fill?: string): string;
    padEnd(length: number, fill?: string): string;
    repeat(count: number): string;
    split(separator: any, limit?: number): string[];
    startsWith(search: string, position?: number): boolean;
    endsWith(search: string, position?: number): boolean;
    includes(search: string, position?: number): boolean;
    indexOf(search: string, position?: number): number;
    charCodeAt(index: number): number;
    replace(search: any, replacement: any): string;
    replaceAll(search: any, replacement: any): string;
    at(index: number): string | undefined;
    match(pattern: any): any;
    charAt: any;
    codePointAt: any;
    concat: any;
    lastIndexOf: any;
    localeCompare: any;
    matchAll: any;
    normalize: any;
    search: any;
    substr: any;
    toLocaleLowerCase: any;
    toLocaleUpperCase: any;
    anchor: any;
    big: any;
    blink: any;
    bold: any;
    fixed: any;
    fontcolor: any;
    fontsize: any;
    italics: any;
    link: any;
    small: any;
    strike: any;
    sub: any;
    sup: any;
    trimLeft: any;
    trimRight: any;
    isWellFormed: any;
    toWellFormed: any;
}
interface Number {
    toFixed(digits?: number): string;
    toExponential: any;
    toPrecision: any;
    toString(radix?: number): string;
}
interface BigInt {
    toString(radix?: number): string;
}
interface Boolean {}
interface Uint8Array {
    length: number;
    byteLength: number;
    byteOffset: number;
    buffer: any;
    at: any;
    set: any;
    copyWithin: any;
    entries: any;
    every: any;
    fill: any;
    filter: any;
    find: any;
    findIndex: any;
    findLast: any;
    findLastIndex: any;
    forEach: any;
    includes: any;
    indexOf: any;
    join: any;
    keys: any;
    lastIndexOf: any;
    map: any;
    reduce: any;
    reduceRight: any;
    reverse: any;
    slice: any;
    some: any;
    sort: any;
    subarray: any;
    toReversed: any;
    toSorted: any;
    values: any;
    with: any;
    BYTES_PER_ELEMENT: any;
    setFromBase64: any;
    setFromHex: any;
    toBase64: any;
    toHex: any;
}
interface Symbol {}
interface Map<K, V> {
    size: number;
    has(key: any): boolean;
    get(key: any): V | undefined;
    delete(key: any): boolean;
    clear(): void;
    keys(): Iterable<K>;
    values(): Iterable<V>;
    entries(): Iterable<[K, V]>;
    set(key: any, value: any): this;
    forEach(each: (value: V, key: K, map: Map<K, V>) => any, self?: any): void;
    getOrInsert: any;
    getOrInsertComputed: any;
}
interface MapConstructor {
    new <K, V>(entries?: any): Map<K, V>;
    groupBy: any;
}
interface Set<T> {
    size: number;
    has(value: any): boolean;
    delete(value: any): boolean;
    clear(): void;
    values(): Iterable<T>;
    keys(): Iterable<T>;
    entries(): Iterable<[T, T]>;
    add(value: any): this;
    forEach(each: (value: T, same: T, set: Set<T>) => any, self?: any): void;
    union(other: any): any;
    intersection(other: any): any;
    difference(other: any): any;
    symmetricDifference(other: any): any;
    isSubsetOf(other: any): boolean;
    isSupersetOf(other: any): boolean;
    isDisjointFrom(other: any): boolean;
}
interface SetConstructor {
    new <T>(values?: any): Set<T>;
}
interface Date {
    getTime(): number;
    getFullYear(): number;
    getMonth(): number;
    getDate(): number;
    getDay(): number;
    getHours(): number;
    getMinutes(): number;
    getSeconds(): number;
    getMilliseconds(): number;
    getTimezoneOffset(): number;
    getUTCFullYear(): number;
    getUTCMonth(): number;
    getUTCDate(): number;
    getUTCDay(): number;
    getUTCHours(): number;
    getUTCMinutes(): number;
    getUTCSeconds(): number;
    getUTCMilliseconds(): number;
    setTime(time: number): number;
    setFullYear: any;
    setMonth: any;
    setDate: any;
    setHours: any;
    setMinutes: any;
    setSeconds: any;
    setMilliseconds: any;
    setUTCFullYear: any;
    setUTCMonth: any;
    setUTCDate: any;
    setUTCHours: any;
    setUTCMinutes: any;
    setUTCSeconds: any;
    setUTCMilliseconds: any;
    toISOString(): string;
    toJSON: any;
    toString(): string;
    toDateString(): string;
    toTimeString(): string;
    toUTCString(): string;
    toLocaleString: any;
    toLocaleDateString: any;
    toLocaleTimeString: any;
    valueOf(): number;
    getYear: any;
    setYear: any;
    toGMTString: any;
}
interface DateConstructor {
    new (...parts: any[]): Date;
    now(): number;
    parse(text: string): number;
    UTC(...parts: any[]): number;
}
interface PromiseConstructor {
    new <T>(run: any): Promise<T>;
    all(promises: any): Promise<any>;
    allSettled(promises: any): Promise<any>;
    any(promises: any): Promise<any>;
    race(promises: any): Promise<any>;
    resolve(value?: any): Promise<any>;
    reject(reason?: any): Promise<any>;
    try: any;
    withResolvers: any;
}
interface Math {
    abs(x: number): number;
    ceil(x: number): number;
    floor(x: number): number;
    round(x: number): number;
    trunc(x: number): number;
    sqrt(x: number): number;
    log2(x: number): number;
    log10(x: number): number;
    random(): number;
    max(...values: number[]): number;
    min(...values: number[]): number;
    pow(x: number, y: number): number;
    PI: number;
    sin(x: number): number;
    cos(x: number): number;
    tan(x: number): number;
    asin(x: number): number;
    acos(x: number): number;
    atan(x: number): number;
    atan2(y: number, x: number): number;
    sinh(x: number): number;
    cosh(x: number): number;
    tanh(x: number): number;
    asinh(x: number): number;
    acosh(x: number): number;
    atanh(x: number): number;
    exp(x: number): number;
    expm1(x: number): number;
    log(x: number): number;
    log1p(x: number): number;
    cbrt(x: number): number;
    hypot(...values: number[]): number;
    sign(x: number): number;
    fround(x: number): number;
    f16round(x: number): number;
    imul(x: number, y: number): number;
    clz32(x: number): number;
    E: number;
    LN10: number;
    LN2: number;
    LOG10E: number;
    LOG2E: number;
    SQRT1_2: number;
    SQRT2: number;
    sumPrecise: any;
}
interface JSON {
    parse(text: string, reviver?: any): any;
    stringify(value: any, replacer?: any, space?: any): any;
    isRawJSON: any;
    rawJSON: any;
}
interface ObjectConstructor {
    keys(of: any): string[];
    values(of: any): any;
    entries(of: any): any;
    assign(target: any, ...sources: any[]): any;
    freeze(of: any): any;
    fromEntries(entries: any): any;
    create: any;
    defineProperty: any;
    defineProperties: any;
    getOwnPropertyDescriptor: any;
    getOwnPropertyDescriptors: any;
    getOwnPropertyNames: any;
    getOwnPropertySymbols: any;
    getPrototypeOf: any;
    groupBy: any;
    hasOwn: any;
    is: any;
    isExtensible: any;
    isFrozen: any;
    isSealed: any;
    preventExtensions: any;
    seal: any;
    setPrototypeOf: any;
}

declare const Promise: PromiseConstructor;
declare const Map: MapConstructor;
declare const Set: SetConstructor;
declare const Date: DateConstructor;
declare const Math: Math;
declare const JSON: JSON;
declare const Object: ObjectConstructor;
declare const undefined: undefined;
declare const NaN: number;
declare const Infinity: number;
declare function isNaN(value: number): boolean;
declare function isFinite(value: number): boolean;
declare function parseInt(text: string, radix?: number): number;
declare function parseFloat(text: string): number;
declare function encodeURIComponent(text: any): string;
declare function decodeURIComponent(text: string): string;
declare function encodeURI(text: string): string;
declare function decodeURI(text: string): string;
declare const AggregateError: any, Array: any, ArrayBuffer: any, AsyncDisposableStack: any,
    Atomics: any, BigInt: any, BigInt64Array: any, BigUint64Array: any,
    Boolean: any, DataView: any, DisposableStack: any, Error: any, EvalError: any,
    FinalizationRegistry: any, Float16Array: any, Float32Array: any, Float64Array: any,
    Function: any, Int16Array: any, Int32Array: any, Int8Array: any, Iterator: any,
    Number: any, Proxy: any, RangeError: any, ReferenceError: any, Reflect: any,
    RegExp: any, SharedArrayBuffer: any, String: any, SuppressedError: any,
    Symbol: any, SyntaxError: any, TypeError: any, URIError: any, Uint16Array: any,
    Uint32Array: any, Uint8Array: any, Uint8ClampedArray: any, WeakMap: any, WeakRef: any,
    WeakSet: any, arguments: any, escape: any, eval: any, globalThis: any, unescape: any;
