// SPDX-License-Identifier: Apache-2.0
// A small API in the form of the generated one, for the checker's tests.

type Kind = "cell" | "executable" | number;
type Duration = string;

interface Memory {
    /** Bytes. @minimum 4096 @maximum 1099511627776 */
    max?: bigint | number;
    high?: bigint | number;
}
interface Resources {
    memory?: Memory;
    /** Shares. @minimum 1 @maximum 10000 */
    cpuWeight?: number;
}
interface ObjectRef {
    tenant?: string;
    /** DNS labels joined by `/`. */
    path?: string;
    uid?: string;
    kind?: Kind;
}
interface CellSpec {
    share?: ("net" | "uts" | "ipc" | number)[];
    resources?: Resources;
    hostname?: string;
    idRange?: number;
}
interface CellStatus {
    name: string;
    kind: Kind;
    pid: number;
    memory: bigint;
    labels: { [key: string]: string };
    spec?: CellSpec;
    startedAt?: string;
}
interface RunCellRequest {
    cell?: { meta?: { name?: string; labels?: { [key: string]: string } }; spec?: CellSpec };
    requestId?: string;
}
interface GetRequest { object?: ObjectRef }
declare namespace spaced {
    interface Nice {
        /** -20 to 19. @minimum -20 @maximum 19 */
        level?: number;
        inner?: Inner;
    }
    interface Inner { text?: string }
    type Either = { inner: Inner; nice?: undefined } | { inner?: undefined; nice: Nice };
    interface Page { all?: Inner[] }
}
declare const spaced: {
    Set(request: spaced.Nice): Promise<spaced.Inner>;
    Either(request: spaced.Nice): Promise<spaced.Either>;
    Pairs(request: spaced.Nice): Promise<spaced.Either[]>;
    Page(request: spaced.Nice): Promise<spaced.Page>;
};
interface ListRequest { kinds?: Kind[]; pageSize?: number }
interface ListResponse { objects: CellStatus[]; nextPage: string }
interface WatchEvent { object?: CellStatus; sequence: bigint }
/** How long a call may take, and how to end it. */
interface Context { timeout?: Duration | number; signal?: AbortSignal }
interface AbortSignal { readonly aborted: boolean }
interface Stream<T> extends AsyncIterable<T> {
    close(): void;
    withContext(context: Context): Stream<T>;
}
interface CellOptions extends CellSpec { name: string; tenant?: string; labels?: { [key: string]: string } }
declare class Cell {
    constructor(options: CellOptions);
    name: string;
    labels?: { [key: string]: string };
    resources?: Resources;
    Env(name: string, value: string): this;
    Equals(other: Cell): boolean;
    static From(json: string): Cell;
}
interface ExecutableOptions { name: string; argv: string[]; env?: { [key: string]: string }; stopGrace?: Duration }
declare class Executable {
    constructor(options: ExecutableOptions);
    name: string;
    argv: string[];
    Env(name: string, value: string): this;
}
interface Runtime {
    readonly action: "runtime";
    /** Starts a cell. */
    RunCell: {
        (request: RunCellRequest, context?: Context): Promise<CellStatus>;
        readonly action: "runtime.RunCell";
    };
    Get: { (request: GetRequest, context?: Context): Promise<CellStatus>; readonly action: "runtime.Get" };
    List: { (request: ListRequest, context?: Context): Promise<ListResponse>; readonly action: "runtime.List" };
    Watch: { (request: ListRequest, context?: Context): Stream<WatchEvent>; readonly action: "runtime.Watch" };
    Run: {
        (workload: Cell | Executable, context?: Context): Promise<CellStatus>;
        (workloads: (Cell | Executable)[], context?: Context): Promise<CellStatus[]>;
    };
    Stop: {
        (object: string | Cell | Executable, options?: { grace?: Duration }): Promise<void>;
        (request: { object?: ObjectRef; force?: boolean }, context?: Context): Promise<CellStatus>;
    };
}
declare const runtime: Runtime;
interface Observe {
    Stdout(object: string | Cell | Executable): Stream<string>;
}
declare const observe: Observe;
declare function print(...values: unknown[]): void;
declare function sleep(duration: Duration | number): Promise<void>;
declare function node(name: string): { runtime: Runtime; observe: Observe };
declare const args: string[];
