// SPDX-License-Identifier: Apache-2.0
// The API as the prelude needs it: data, made from the descriptors (`language::prelude`), so that
// a new method or field is there without a line of this layer.

export interface Table {
  subsystems: SubsystemTable[];
  workloads: WorkloadTable[];
  /** Globals that the seeds promise and this API doesn't have yet. */
  notOffered: string[];
}

export interface SubsystemTable {
  /** `runtime` */
  name: string;
  methods: MethodTable[];
}

export interface MethodTable {
  /** `RunCell` */
  name: string;
  clientStreams: boolean;
  serverStreams: boolean;
  /** The field of the request that says which object, or objects: `ref`, `refs`. */
  target?: "ref" | "refs";
  /** The workload that the request takes: its field, and its class's kind. */
  workload?: {
    field: string;
    kind: string;
    /** The method is the one that runs it: the contract says that it declares it. */
    runs: boolean;
  };
  /** The answer is an object of any kind: `{ cell: … }`, `{ executable: … }`. */
  unwraps: boolean;
}

export interface WorkloadTable {
  /** `Cell`: the class, and the message. */
  name: string;
  /** `runtime` */
  subsystem: string;
  /** `cell`: its kind, its field in `RunCellRequest` and in `Object`. */
  kind: string;
  /** Fields of its spec. */
  fields: string[];
  /** Those of them that map strings to strings; each has a method that sets one. */
  maps: { field: string; method: string }[];
  /** Those that are lists; each has a method that adds to one. */
  lists: { field: string; method: string }[];
  /** Lists whose items have variables: `Env` sets one in each. */
  withEnv: string[];
  /** It can publish ports in its `network`: `Expose`. */
  exposes: boolean;
  /** Where in the spec 64-bit integers are: `resources.memory.max`; lists are walked through. */
  wide: string[];
}

export const table = __aurae.table as Table;
