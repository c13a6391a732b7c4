// SPDX-License-Identifier: Apache-2.0
// Generated from the other files here and the API: AURAE_UPDATE=1 cargo test -p language prelude
__aurae.table = {
  "notOffered": [
    "secrets",
    "route",
    "batch",
    "mount",
    "Container",
    "VirtualMachine",
    "Instance"
  ],
  "subsystems": [
    {
      "methods": [
        {
          "clientStreams": false,
          "name": "Pull",
          "serverStreams": true,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Push",
          "serverStreams": true,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "List",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Get",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Remove",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Pin",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Prune",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": true,
          "name": "Import",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Export",
          "serverStreams": true,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Verify",
          "serverStreams": false,
          "unwraps": false
        }
      ],
      "name": "image"
    },
    {
      "methods": [
        {
          "clientStreams": false,
          "name": "RunExecutable",
          "serverStreams": false,
          "unwraps": false,
          "workload": {
            "field": "executable",
            "kind": "executable",
            "runs": true
          }
        },
        {
          "clientStreams": false,
          "name": "RunCell",
          "serverStreams": false,
          "unwraps": false,
          "workload": {
            "field": "cell",
            "kind": "cell",
            "runs": true
          }
        },
        {
          "clientStreams": false,
          "name": "UpdateCell",
          "serverStreams": false,
          "target": "ref",
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "UpdateExecutable",
          "serverStreams": false,
          "target": "ref",
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "FreezeCell",
          "serverStreams": false,
          "target": "ref",
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "ThawCell",
          "serverStreams": false,
          "target": "ref",
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Get",
          "serverStreams": false,
          "target": "ref",
          "unwraps": true
        },
        {
          "clientStreams": false,
          "name": "List",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Watch",
          "serverStreams": true,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Wait",
          "serverStreams": false,
          "target": "ref",
          "unwraps": true
        },
        {
          "clientStreams": false,
          "name": "Signal",
          "serverStreams": false,
          "target": "ref",
          "unwraps": true
        },
        {
          "clientStreams": false,
          "name": "Stop",
          "serverStreams": false,
          "target": "ref",
          "unwraps": true
        },
        {
          "clientStreams": false,
          "name": "Remove",
          "serverStreams": false,
          "target": "ref",
          "unwraps": false
        },
        {
          "clientStreams": true,
          "name": "Attach",
          "serverStreams": true,
          "unwraps": false
        }
      ],
      "name": "runtime"
    },
    {
      "methods": [
        {
          "clientStreams": false,
          "name": "Logs",
          "serverStreams": true,
          "target": "refs",
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Journal",
          "serverStreams": true,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Usage",
          "serverStreams": false,
          "target": "refs",
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "WatchUsage",
          "serverStreams": true,
          "target": "refs",
          "unwraps": false
        }
      ],
      "name": "observe"
    },
    {
      "methods": [
        {
          "clientStreams": false,
          "name": "CreateUser",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "ListUsers",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "DisableUser",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "EnableUser",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Issue",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Renew",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "ListCertificates",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Revoke",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Allow",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Deny",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Withdraw",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Explain",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Audit",
          "serverStreams": true,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "WhoAmI",
          "serverStreams": false,
          "unwraps": false
        }
      ],
      "name": "identity"
    },
    {
      "methods": [
        {
          "clientStreams": false,
          "name": "Get",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "GetConfig",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "ListUnowned",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Reload",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Shutdown",
          "serverStreams": false,
          "unwraps": false
        }
      ],
      "name": "node"
    },
    {
      "methods": [
        {
          "clientStreams": false,
          "name": "List",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Get",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Set",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Remove",
          "serverStreams": false,
          "unwraps": false
        }
      ],
      "name": "tenant"
    },
    {
      "methods": [
        {
          "clientStreams": false,
          "name": "Get",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "List",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Put",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Remove",
          "serverStreams": false,
          "unwraps": false
        }
      ],
      "name": "sets"
    },
    {
      "methods": [
        {
          "clientStreams": false,
          "name": "Run",
          "serverStreams": false,
          "unwraps": false,
          "workload": {
            "field": "pod",
            "kind": "pod",
            "runs": true
          }
        },
        {
          "clientStreams": false,
          "name": "Get",
          "serverStreams": false,
          "target": "ref",
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "List",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Watch",
          "serverStreams": true,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Update",
          "serverStreams": false,
          "unwraps": false,
          "workload": {
            "field": "pod",
            "kind": "pod",
            "runs": false
          }
        },
        {
          "clientStreams": false,
          "name": "Debug",
          "serverStreams": false,
          "target": "ref",
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Stop",
          "serverStreams": false,
          "target": "ref",
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Remove",
          "serverStreams": false,
          "target": "ref",
          "unwraps": false
        },
        {
          "clientStreams": true,
          "name": "Dial",
          "serverStreams": true,
          "unwraps": false
        }
      ],
      "name": "pod"
    },
    {
      "methods": [
        {
          "clientStreams": false,
          "name": "Declare",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Get",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "List",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Watch",
          "serverStreams": true,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Remove",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Trigger",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Pause",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Resume",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Undo",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "History",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "Why",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "PutConfig",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "GetConfig",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "ListConfigs",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "RemoveConfig",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "ListUnits",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "GetUnit",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "StartUnit",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "StopUnit",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "RestartUnit",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "ReloadUnit",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "KillUnit",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "ResetFailedUnits",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "EnableUnits",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "DisableUnits",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "MaskUnits",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "UnmaskUnits",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "PresetUnits",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "SetDefaultUnit",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "StartTransientUnit",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "SetUnitProperties",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "GetUnitManager",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "SetUnitManager",
          "serverStreams": false,
          "unwraps": false
        },
        {
          "clientStreams": false,
          "name": "ReloadUnitFiles",
          "serverStreams": false,
          "unwraps": false
        }
      ],
      "name": "schedule"
    }
  ],
  "workloads": [
    {
      "exposes": false,
      "fields": [
        "argv",
        "env",
        "cwd",
        "user",
        "group",
        "groups",
        "umask",
        "rlimits",
        "nice",
        "oomScoreAdj",
        "cpuAffinity",
        "capabilities",
        "noNewPrivileges",
        "seccomp",
        "terminal",
        "stdin",
        "stopSignal",
        "stopGrace",
        "resources",
        "autoRemove",
        "logs",
        "main",
        "entrypoint",
        "program",
        "cwdOptional",
        "ending",
        "streams",
        "scheduling",
        "ignoreSigpipe",
        "keyring",
        "personality",
        "apparmorProfile",
        "selinuxLabel"
      ],
      "kind": "executable",
      "lists": [
        {
          "field": "argv",
          "method": "Argv"
        },
        {
          "field": "groups",
          "method": "Groups"
        },
        {
          "field": "rlimits",
          "method": "Rlimits"
        },
        {
          "field": "cpuAffinity",
          "method": "CpuAffinity"
        },
        {
          "field": "entrypoint",
          "method": "Entrypoint"
        }
      ],
      "maps": [
        {
          "field": "env",
          "method": "Env"
        }
      ],
      "name": "Executable",
      "subsystem": "runtime",
      "wide": [
        "rlimits.soft",
        "rlimits.hard",
        "resources.cpu.weight",
        "resources.memory.min",
        "resources.memory.low",
        "resources.memory.high",
        "resources.memory.max",
        "resources.memory.swapMax",
        "resources.pidsMax",
        "resources.io.weight",
        "resources.io.max.readBytesPerSecond",
        "resources.io.max.writeBytesPerSecond",
        "resources.io.max.readsPerSecond",
        "resources.io.max.writesPerSecond",
        "resources.hugetlb.maxBytes",
        "logs.maxBytes"
      ],
      "withEnv": []
    },
    {
      "exposes": true,
      "fields": [
        "share",
        "resources",
        "mounts",
        "volumes",
        "hostname",
        "idRange",
        "container",
        "network",
        "sysctls",
        "light",
        "join"
      ],
      "kind": "cell",
      "lists": [
        {
          "field": "share",
          "method": "Share"
        },
        {
          "field": "mounts",
          "method": "Mounts"
        },
        {
          "field": "volumes",
          "method": "Volumes"
        },
        {
          "field": "join",
          "method": "Join"
        }
      ],
      "maps": [
        {
          "field": "sysctls",
          "method": "Sysctls"
        }
      ],
      "name": "Cell",
      "subsystem": "runtime",
      "wide": [
        "resources.cpu.weight",
        "resources.memory.min",
        "resources.memory.low",
        "resources.memory.high",
        "resources.memory.max",
        "resources.memory.swapMax",
        "resources.pidsMax",
        "resources.io.weight",
        "resources.io.max.readBytesPerSecond",
        "resources.io.max.writeBytesPerSecond",
        "resources.io.max.readsPerSecond",
        "resources.io.max.writesPerSecond",
        "resources.hugetlb.maxBytes",
        "volumes.sizeBytes",
        "container.rootBytes",
        "container.sharedMemoryBytes"
      ],
      "withEnv": []
    },
    {
      "exposes": true,
      "fields": [
        "containers",
        "initContainers",
        "volumes",
        "restartPolicy",
        "stopGrace",
        "hostname",
        "hostAliases",
        "user",
        "group",
        "groups",
        "fsGroup",
        "network",
        "hostNetwork",
        "sandboxClass",
        "selinuxFileLabel",
        "shareProcesses",
        "sysctls",
        "hostPid",
        "hostIpc",
        "activeDeadline"
      ],
      "kind": "pod",
      "lists": [
        {
          "field": "containers",
          "method": "Containers"
        },
        {
          "field": "initContainers",
          "method": "InitContainers"
        },
        {
          "field": "volumes",
          "method": "Volumes"
        },
        {
          "field": "hostAliases",
          "method": "HostAliases"
        },
        {
          "field": "groups",
          "method": "Groups"
        }
      ],
      "maps": [
        {
          "field": "sysctls",
          "method": "Sysctls"
        }
      ],
      "name": "Pod",
      "subsystem": "pod",
      "wide": [
        "containers.resources.cpuRequestMillis",
        "containers.resources.cpuLimitMillis",
        "containers.resources.memoryRequestBytes",
        "containers.resources.memoryLimitBytes",
        "containers.rootBytes",
        "initContainers.resources.cpuRequestMillis",
        "initContainers.resources.cpuLimitMillis",
        "initContainers.resources.memoryRequestBytes",
        "initContainers.resources.memoryLimitBytes",
        "initContainers.rootBytes",
        "volumes.empty.sizeBytes",
        "volumes.files.facts.amount.divisor"
      ],
      "withEnv": [
        "containers",
        "initContainers"
      ]
    }
  ]
};
class AuraeError extends Error {
 code;
 hint;
 field;
 object;
 method;
 constructor(failure) {
  super(failure.message);
  this.name = "AuraeError";
  this.code = failure.code;
  this.hint = failure.hint;
  this.field = failure.field;
  this.object = failure.object;
  this.method = failure.method;
 }
}
const table = __aurae.table;
const { known } = __aurae;
function isPlain(value) {
 if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
 const prototype = Object.getPrototypeOf(value);
 return prototype === Object.prototype || prototype === null;
}
function copy(value) {
 if (typeof value !== "object" || value === null) return value;
 if (Array.isArray(value)) return value.map(copy);
 if (value instanceof Uint8Array) return value.slice();
 if (!isPlain(value)) return value;
 return mapEntries(value, copy);
}
function equal(a, b) {
 if (Object.is(a, b)) return true;
 if (isWide(a) && isWide(b)) return BigInt(a) === BigInt(b);
 if (Array.isArray(a) && Array.isArray(b)) {
  return a.length === b.length && a.every((item, index) => equal(item, b[index]));
 }
 if (a instanceof Uint8Array && b instanceof Uint8Array) {
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
 }
 if (!isPlain(a) || !isPlain(b)) return false;
 const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
 return [...keys].every((key) => equal(own(a, key), own(b, key)));
}
function toJSON(value) {
 if (typeof value === "bigint") {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value.toString();
 }
 if (Array.isArray(value)) return value.map(toJSON);
 return isPlain(value) ? mapEntries(value, toJSON) : value;
}
function fromJSON(value, wide) {
 const result = copy(value);
 for (const path of wide) revive(result, path.split("."));
 return result;
}
function revive(at, path) {
 const [key, ...rest] = path;
 if (key === undefined) return;
 if (Array.isArray(at)) {
  for (const item of at) revive(item, path);
 } else if (isPlain(at) && Object.hasOwn(at, key)) {
  const found = at[key];
  if (rest.length > 0) revive(found, rest);
  else if (typeof found === "string" && /^-?[0-9]+$/.test(found)) at[key] = BigInt(found);
 }
}
function isWide(value) {
 return typeof value === "bigint" || Number.isSafeInteger(value);
}
function own(value, key) {
 return Object.hasOwn(value, key) ? value[key] : undefined;
}
function mapEntries(value, change) {
 const entries = Object.entries(value).filter(([, item]) => item !== undefined);
 return Object.fromEntries(entries.map(([key, item]) => [key, change(item)]));
}
function didYouMean(written, names) {
 const most = Math.max(1, Math.floor(written.length / 3));
 let best;
 let least = most + 1;
 for (const name of names) {
  const far = Math.abs(name.length - written.length) > most ? least : distance(written, name);
  if (far < least) [best, least] = [name, far];
 }
 return best === undefined ? "" : `; did you mean ${JSON.stringify(best)}?`;
}
function distance(from, to) {
 const [a, b] = [from.toLowerCase(), to.toLowerCase()];
 let above = Array.from({ length: b.length + 1 }, (_, index) => index);
 for (let row = 1; row <= a.length; row++) {
  const line = [row];
  for (let column = 1; column <= b.length; column++) {
   const changed = (above[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1);
   line.push(Math.min(changed, (above[column] ?? 0) + 1, (line[column - 1] ?? 0) + 1));
  }
  above = line;
 }
 return above[b.length] ?? 0;
}
const PROTECT = "aurae.io/protect";
class Workload {
 name;
 tenant;
 labels;
 constructor(data) {
  const shape = shapeOf(this);
  known(data);
  if (!isPlain(data) || typeof known(data.name) !== "string" || data.name === "") {
   throw new TypeError(`new ${shape.name}({ name: … }): it needs a name, such as "web"`);
  }
  const { name, tenant, labels, protect, ...spec } = data;
  if (protect !== undefined && typeof known(protect) !== "boolean") {
   throw new TypeError(`${shape.name}: protect is true or false`);
  }
  const unknown = Object.keys(spec).find((key) => !shape.fields.includes(key));
  if (unknown !== undefined) throw new TypeError(noField(shape, unknown));
  specs.set(this, copy(spec));
  this.name = name;
  this.tenant = tenant;
  this.labels = copy(labels ?? {});
  if (protect) this.labels[PROTECT] = "true";
  Object.preventExtensions(this);
 }
 Label(key, value) {
  this.labels[key] = value;
  return this;
 }
 Equals(other) {
  return isWorkload(other) && equal(describe(this), describe(other));
 }
 toJSON() {
  return toJSON(describe(this));
 }
}
function isWorkload(value) {
 return typeof value === "object" && value instanceof Workload;
}
const specs = new WeakMap();
const shapes = new Map();
function shapeOf(workload) {
 const shape = shapes.get(workload.constructor);
 if (shape === undefined) throw new TypeError("a workload's class can't be extended");
 return shape;
}
function message(workload) {
 const { name, tenant, labels } = workload;
 const ref = tenant === undefined ? { path: name } : {
  tenant,
  path: name
 };
 return {
  ref,
  labels: copy(labels),
  spec: copy(specs.get(workload) ?? {})
 };
}
function describe(workload) {
 const { name, tenant, labels } = workload;
 const { kind } = shapeOf(workload);
 const some = Object.keys(labels).length > 0 ? { labels } : {};
 return copy({
  kind,
  name,
  tenant,
  ...some,
  ...specs.get(workload)
 });
}
function workloadClasses() {
 return new Map(table.workloads.map((shape) => [shape.name, workloadClass(shape)]));
}
function workloadClass(shape) {
 const made = class extends Workload {
  get kind() {
   return shape.kind;
  }
  static From(json) {
   if (!isPlain(json)) throw new TypeError(`${shape.name}.From: expected an object`);
   const { kind, ...data } = fromJSON(json, shape.wide);
   if (kind !== undefined && kind !== shape.kind) {
    throw new TypeError(`${shape.name}.From: this is of kind ${JSON.stringify(kind)}`);
   }
   return new made(data);
  }
 };
 Object.defineProperty(made, "name", { value: shape.name });
 for (const field of shape.fields) {
  Object.defineProperty(made.prototype, field, {
   get() {
    return specs.get(this)?.[field];
   },
   set(value) {
    const spec = specs.get(this);
    if (spec !== undefined) spec[field] = value;
   }
  });
 }
 for (const { field, method } of shape.maps) {
  const value = function(key, to) {
   this[field] = {
    ...this[field],
    [key]: to
   };
   return this;
  };
  Object.defineProperty(made.prototype, method, { value });
 }
 for (const { field, method } of shape.lists) {
  const value = function(...items) {
   this[field] = [...this[field] ?? [], ...items];
   return this;
  };
  Object.defineProperty(made.prototype, method, { value });
 }
 addForAll(made.prototype, shape);
 shapes.set(made, shape);
 return made;
}
function addForAll(prototype, { withEnv, exposes }) {
 const define = (name, value) => void Object.defineProperty(prototype, name, { value });
 if (withEnv.length > 0) {
  define("Env", function(name, value) {
   for (const field of withEnv) {
    const items = this[field];
    if (items) this[field] = items.map((item) => withVariable(item, name, value));
   }
   return this;
  });
 }
 if (exposes) {
  define("Expose", function(...ports) {
   const before = this.network?.["ports"] ?? [];
   const more = ports.map((port) => isPlain(port) ? port : {
    hostPort: port,
    port
   });
   this.network = {
    ...this.network,
    ports: [...before, ...more]
   };
   return this;
  });
 }
}
function withVariable(item, name, value) {
 const all = item["env"] ?? [];
 const others = all.filter((variable) => variable["name"] !== name);
 return {
  ...item,
  env: [...others, {
   name,
   value
  }]
 };
}
function noField(shape, name) {
 const known = [
  "name",
  "tenant",
  "labels",
  "protect",
  ...shape.fields
 ];
 const meant = didYouMean(name, known) || `; it has ${known.join(", ")}`;
 return `${shape.name} has no field ${JSON.stringify(name)}${meant}`;
}
class Image {
 reference;
 pull;
 constructor(reference, options = {}) {
  if (typeof known(reference) !== "string" || reference === "") {
   throw new TypeError("new Image(reference): it needs a name, such as \"nginx:1.25\"");
  }
  this.reference = reference;
  this.pull = options.pull;
  Object.freeze(this);
 }
 Container(data) {
  return within(this, "Container", data);
 }
 Root(data = {}) {
  return within(this, "Root", data);
 }
 toString() {
  return this.reference;
 }
}
function within(image, method, data) {
 known(data);
 if (!isPlain(data)) throw new TypeError(`Image.${method}: expected a plain object`);
 if (data["image"] !== undefined) {
  throw new TypeError(`Image.${method}: its image is ${image.reference}, leave "image" out`);
 }
 const pull = image.pull === undefined ? {} : { pull: image.pull };
 return {
  ...copy(data),
  image: image.reference,
  ...pull
 };
}
function reference(value) {
 known(value);
 if (typeof value === "string") return { path: value };
 if (isWorkload(value)) return message(value)["ref"];
 if (typeof value !== "object" || value === null) return undefined;
 const { meta, path } = value;
 if (typeof path === "string") return value;
 return meta?.ref ?? inside(value);
}
function inside(value) {
 const statuses = Object.values(value).filter((item) => typeof item === "object");
 if (statuses.length !== 1) return undefined;
 return statuses[0]?.meta?.ref;
}
function mustRefer(value, what) {
 const found = reference(value);
 if (found !== undefined) return found;
 const got = isPlain(value) ? "an object without a path or a status" : typeof value;
 throw new TypeError(`${what}: expected a path, a workload or a status, got ${got}`);
}
const parent = __aurae;
function bind(node, subsystem, shape) {
 const action = `${subsystem}.${shape.name}`;
 if (shape.clientStreams) {
  return (context) => bothWays(parent.stream(node, action, undefined, hostContext(context)));
 }
 return (...given) => {
  const { request, context, workload } = understand(action, shape, given);
  if (shape.serverStreams) return itemsOf(parent.stream(node, action, request, context));
  const answer = parent.call(node, action, request, context);
  if (!shape.unwraps || workload === undefined) return answer;
  if (shapeOf(workload).subsystem !== subsystem) return answer;
  return answer.then((object) => object[shapeOf(workload).kind]);
 };
}
function understand(action, shape, given) {
 const [first, second, third] = given;
 if (shape.workload !== undefined && isWorkload(first)) {
  const { field, kind } = shape.workload;
  if (first.kind !== kind) {
   throw new TypeError(`${action}: expected ${kind} data, got a ${shapeOf(first).name}`);
  }
  const request = {
   ...plainRequest(action, second ?? {}),
   [field]: message(first)
  };
  return {
   request,
   context: hostContext(third),
   workload: undefined
  };
 }
 const named = shape.target === undefined ? undefined : targets(shape.target, first, action);
 if (shape.target === undefined || named === undefined) {
  const request = plainRequest(action, first ?? {});
  return {
   request,
   context: hostContext(second),
   workload: undefined
  };
 }
 const request = {
  ...plainRequest(action, second ?? {}),
  [shape.target]: named
 };
 const workload = isWorkload(first) ? first : undefined;
 return {
  request,
  context: hostContext(third),
  workload
 };
}
function targets(field, value, action) {
 if (field === "ref") return reference(value);
 if (Array.isArray(value)) return value.map((item) => mustRefer(item, action));
 const one = reference(value);
 return one === undefined ? undefined : [one];
}
function plainRequest(action, request) {
 known(request);
 if (!isPlain(request)) {
  throw new TypeError(`${action}: expected a request, a plain object`);
 }
 const entries = Object.entries(request).map(([key, value]) => [key, isWorkload(value) ? message(value) : value]);
 return Object.fromEntries(entries);
}
let origin;
function beginFrom(stack, begin) {
 origin = stack;
 try {
  return begin();
 } finally {
  origin = undefined;
 }
}
function hostContext(context) {
 known(context);
 if (context === undefined) return origin === undefined ? undefined : { origin };
 if (!isPlain(context)) throw new TypeError("a context is { timeout?, signal? }");
 const { timeout, signal, ...rest } = context;
 const unknown = Object.keys(rest)[0];
 if (unknown !== undefined) {
  throw new TypeError(`a context has no field ${JSON.stringify(unknown)}: { timeout?, signal? }`);
 }
 const host = {};
 if (timeout !== undefined) host.timeout = timeout;
 if (signal !== undefined) host.signal = signal;
 if (origin !== undefined) host.origin = origin;
 return host;
}
function itemsOf(stream) {
 return {
  close: () => stream.close(),
  [Symbol.asyncIterator]: () => ({
   next: () => stream.next(),
   return: () => {
    stream.close();
    return Promise.resolve({
     done: true,
     value: undefined
    });
   }
  })
 };
}
function bothWays(stream) {
 return {
  ...itemsOf(stream),
  Send: (item) => stream.send(item),
  CloseSend: () => stream.closeSend()
 };
}
function runAny(run, what, options, context) {
 known(what);
 if (Array.isArray(what)) return runAll(run, what, options, context);
 if (!isWorkload(what)) {
  throw new TypeError("runtime.Run: expected a workload, such as new Cell({ name: \"web\" })");
 }
 const { name, kind } = shapeOf(what);
 const method = run.get(kind);
 if (method === undefined) throw new TypeError(`runtime.Run: no method runs a ${name}`);
 return method(what, options, context);
}
async function runAll(run, what, options, context) {
 const depth = (item) => isWorkload(item) ? item.name.split("/").length : 0;
 const depths = [...new Set(what.map(depth))].sort((a, b) => a - b);
 const answers = new Map();
 const { stack } = new Error();
 for (const level of depths) {
  const now = what.filter((item) => depth(item) === level);
  const begin = () => now.map((item) => runAny(run, item, options, context));
  const ran = await Promise.all(beginFrom(stack, begin));
  now.forEach((item, index) => answers.set(item, ran[index]));
 }
 return what.map((item) => answers.get(item));
}
async function waitFor(raw, what, ...rest) {
 const ref = reference(what);
 if (ref === undefined) return raw["Wait"]?.(what, ...rest);
 const context = rest[1];
 const run = ref["uid"] ? ref : mustRefer(await raw["Get"]?.({ ref }, context), "runtime.Wait");
 const answer = await raw["Wait"]?.({ ref: run }, context);
 return isWorkload(what) && shapeOf(what).subsystem === "runtime" ? answer[shapeOf(what).kind] : answer;
}
async function* allPages(raw, filter = {}, context) {
 let pageToken = filter["pageToken"];
 do {
  const page = await raw["List"]?.({
   ...filter,
   pageToken
  }, context);
  yield* page["objects"];
  pageToken = page["nextPageToken"];
 } while (typeof pageToken === "string" && pageToken !== "");
}
const LONGEST = 1048576;
function linesOf(raw, stream, what, options = {}, context) {
 const targets = Array.isArray(what) ? what : [what];
 const refs = targets.map((item) => mustRefer(item, "observe"));
 const request = {
  follow: true,
  ...options,
  refs,
  streams: [stream]
 };
 return {
  withContext: (limit) => linesOf(raw, stream, what, options, {
   ...context,
   ...limit
  }),
  [Symbol.asyncIterator]: () => {
   return decodeLines(raw["Logs"]?.(request, context));
  }
 };
}
async function* decodeLines(answers) {
 const open = new Map();
 const decoder = new TextDecoder();
 const text = (pieces) => decoder.decode(joinPieces(pieces));
 for await (const answer of answers) {
  const key = `${answer.ref?.tenant}/${answer.ref?.path} ${answer.ref?.uid}`;
  const pieces = open.get(key) ?? [];
  open.set(key, pieces);
  if (answer.data !== undefined) {
   for (const line of splitLines(answer.data.data, pieces)) yield text(line);
  } else if (pieces.length > 0) {
   yield text(pieces.splice(0));
  }
  if (answer.gap !== undefined) {
   yield `[${answer.gap.bytes} bytes were not kept: ${answer.gap.reason}]`;
  }
 }
 for (const pieces of open.values()) if (pieces.length > 0) yield text(pieces);
}
function* splitLines(data, pieces) {
 let from = 0;
 let held = pieces.reduce((sum, piece) => sum + piece.length, 0);
 while (from < data.length) {
  const end = data.indexOf(10, from);
  const most = from + LONGEST - held;
  const cut = end >= 0 && end <= most ? end : Math.min(data.length, most);
  pieces.push(data.subarray(from, cut));
  if (cut === end || cut === most) yield pieces.splice(0);
  else break;
  from = cut === end ? cut + 1 : cut;
  held = 0;
 }
}
function joinPieces(pieces) {
 const [only] = pieces;
 if (only !== undefined && pieces.length === 1) return only;
 const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
 let at = 0;
 for (const piece of pieces) {
  whole.set(piece, at);
  at += piece.length;
 }
 return whole;
}
function userHandle(raw, name, options = {}) {
 if (typeof name !== "string") throw new TypeError("identity.User: expected a name");
 const { tenant } = options;
 const whose = tenant === undefined ? {} : { tenant };
 const ask = (method, request, context) => raw[method]?.(request, context);
 const decide = (method) => (what, scope, context) => {
  const one = (action) => ask(method, {
   ...whose,
   user: name,
   ...scope,
   action
  }, context);
  const { actions } = what;
  return actions === undefined ? one(actionOf(what)) : Promise.all(actions.map(one));
 };
 const handle = {
  name,
  tenant,
  Create: (context) => ask("CreateUser", {
   ...whose,
   name
  }, context),
  Get: (context) => findUser(raw, whose, name, context),
  Disable: (context) => ask("DisableUser", {
   ...whose,
   name
  }, context),
  Allow: decide("Allow"),
  Deny: decide("Deny"),
  Explain: decide("Explain"),
  async Withdraw(grants, context) {
   for (const grant of [grants].flat()) {
    await ask("Withdraw", { id: grant.id }, context);
   }
  }
 };
 return Object.freeze(handle);
}
function actionOf(what) {
 if (typeof what === "string") return what;
 const { action } = what ?? {};
 if (typeof action === "string") return action;
 const got = isPlain(what) ? "an object" : typeof what;
 throw new TypeError(`expected an action, such as runtime.Stop or "runtime.Stop", got ${got}`);
}
async function findUser(raw, whose, name, context) {
 const answer = await raw["ListUsers"]?.(whose, context);
 const { users } = answer;
 const found = users.find((one) => one.name === name);
 if (found !== undefined) return found;
 const failure = {
  code: "NOT_FOUND",
  message: `there is no user ${name}`,
  object: name
 };
 throw new AuraeError(failure);
}
function scheduling(declare, declaring) {
 const keep = (to, called, what, when, rest) => {
  const [options = {}, context] = rest;
  known(options);
  if (!isPlain(options)) throw new TypeError(`schedule.${called}: expected options, an object`);
  const { given, ...spec } = options;
  const { first, work } = taken(called, what);
  if (given !== undefined) work["given"] = given;
  const name = first.name.split("/")[0];
  const whose = first.tenant === undefined ? {} : { tenant: first.tenant };
  return to({
   ...whose,
   name,
   spec: {
    ...spec,
    when,
    work
   }
  }, context);
 };
 return {
  Now: (what, ...rest) => keep(declare, "Now", what, { now: {} }, rest),
  Cron: (what, pattern, ...rest) => {
   const cron = typeof known(pattern) === "string" ? { pattern } : pattern;
   if (!isPlain(cron)) {
    throw new TypeError("schedule.Cron: expected a pattern, such as \"0 4 * * *\"");
   }
   return keep(declare, "Cron", what, { cron }, rest);
  },
  Lax: (what, lax = {}, ...rest) => keep(declare, "Lax", what, { lax }, rest),
  Pin: (what, where, ...rest) => keep(declaring(where), "Pin", what, { now: {} }, rest)
 };
}
function taken(called, what) {
 known(what);
 const all = Array.isArray(what) ? what : [what];
 const [first, ...within] = all;
 if (!isWorkload(first) || !within.every(isWorkload)) {
  const such = "such as new Executable({ name: \"nightly\", argv: [\"/usr/bin/backup\"] })";
  throw new TypeError(`schedule.${called}: expected a workload, ${such}`);
 }
 const { kind, name } = shapeOf(first);
 if (kind === "cell") {
  if (within.length === 0) {
   throw new TypeError(`schedule.${called}: a cell runs nothing: give it as [cell, executable]`);
  }
  const executables = within.map((one) => ({ [shapeOf(one).kind]: message(one) }));
  return {
   first,
   work: { cell: {
    cell: { cell: message(first) },
    executables
   } }
  };
 }
 if (within.length > 0) {
  throw new TypeError(`schedule.${called}: of several the first is a cell, this is a ${name}`);
 }
 const sent = message(first);
 if (kind === "executable" && !first.name.includes("/")) {
  sent["ref"] = {
   ...sent["ref"],
   path: `${first.name}/main`
  };
 }
 return {
  first,
  work: { [kind]: { [kind]: sent } }
 };
}
const contexts = __aurae;
const FRIENDLY = {
 runtime: (raw, node) => {
  const run = runners(node);
  return {
   Run: (what, options, context) => runAny(run, what, options, context),
   Wait: (what, ...rest) => waitFor(raw, what, ...rest),
   All: (filter, context) => allPages(raw, filter, context)
  };
 },
 observe: (raw) => ({
  Stdout: (what, options) => linesOf(raw, "stdout", what, options),
  Stderr: (what, options) => linesOf(raw, "stderr", what, options)
 }),
 identity: (raw) => ({ User: (name, options) => userHandle(raw, name, options) }),
 schedule: (raw) => {
  const { Declare } = raw;
  return Declare === undefined ? {} : scheduling(Declare, declaringOn);
 }
};
const places = new WeakMap();
function declaringOn(where) {
 known(where);
 const isOne = typeof where === "object" || typeof where === "function";
 if (isOne && where !== null && places.has(where)) return declareOf(places.get(where));
 if (typeof where === "string" && where !== "") return declareOf(where);
 throw new TypeError("schedule.Pin: expected a node, such as node(\"alice\")");
}
function declareOf(node) {
 return subsystems(node).schedule.Declare;
}
const called = new WeakMap();
function nameOf(value) {
 return typeof value === "object" && value !== null ? called.get(value) : undefined;
}
const made = new Map();
function subsystems(node) {
 const before = made.get(node);
 if (before !== undefined) return before;
 const entries = table.subsystems.map((shape) => [shape.name, subsystem(node, shape)]);
 const all = Object.fromEntries(entries);
 if (node !== undefined) {
  Object.defineProperty(all, "toJSON", { value: () => node });
  Object.defineProperty(all, "toString", { value: () => node });
 }
 Object.freeze(all);
 places.set(all, node);
 made.set(node, all);
 return all;
}
function subsystem(node, shape) {
 const raw = {};
 for (const one of shape.methods) {
  raw[one.name] = named(bind(node, shape.name, one), `${shape.name}.${one.name}`);
 }
 const friendly = FRIENDLY[shape.name]?.(raw, node) ?? {};
 for (const [name, call] of Object.entries(friendly)) {
  friendly[name] = name in raw ? named(call, `${shape.name}.${name}`) : call;
 }
 if (friendly["Run"] !== undefined) friendly["Run"] = runsAll(friendly["Run"], shape);
 const methods = {
  ...raw,
  ...friendly
 };
 const object = shape.name === "node" ? nodeByName() : {};
 Object.setPrototypeOf(object, whatIsOffered(object, shape));
 for (const [name, value] of Object.entries(methods)) {
  Object.defineProperty(object, name, {
   value,
   enumerable: true
  });
 }
 Object.defineProperty(object, "action", { value: shape.name });
 called.set(object, shape.name);
 if (shape.name === "node") places.set(object, node);
 return Object.freeze(object);
}
function running() {
 return table.subsystems.flatMap(({ name, methods }) => methods.flatMap((method) => {
  const taken = method.workload;
  return taken?.runs ? [{
   subsystem: name,
   method,
   kind: taken.kind
  }] : [];
 }));
}
function runners(node) {
 const all = running();
 return new Map(all.map(({ subsystem, method, kind }) => [kind, bind(node, subsystem, method)]));
}
function nodeByName() {
 return (context) => {
  if (typeof context === "string" && context !== "") return subsystems(context);
  throw new TypeError("node: expected the name of a context, such as node(\"alice\")");
 };
}
function nodesBySelector(selector) {
 known(selector);
 if (typeof selector === "string") return contexts.nodes(selector).map(subsystems);
 throw new TypeError("nodes: expected a selector of labels, such as nodes(\"role=web\")");
}
function capital(name) {
 return name.charAt(0).toUpperCase() + name.slice(1);
}
function named(call, action) {
 Object.defineProperty(call, "name", { value: action });
 Object.defineProperty(call, "action", { value: action });
 return Object.freeze(call);
}
function runsAll(call, shape) {
 const all = running().map(({ subsystem, method }) => `${subsystem}.${method.name}`);
 const actions = Object.freeze(all);
 Object.defineProperty(call, "name", { value: `${shape.name}.Run` });
 Object.defineProperty(call, "actions", { value: actions });
 return Object.freeze(call);
}
function whatIsOffered(object, shape) {
 return new Proxy(Object.getPrototypeOf(object), { get(behind, key, asked) {
  if (typeof key === "string" && (/^[A-Z]/.test(key) || Object.hasOwn(object, capital(key)))) {
   const names = Object.keys(object);
   const meant = didYouMean(key, names) || `; ${shape.name} has ${names.join(", ")}`;
   throw new TypeError(`${shape.name}.${key} isn't offered${meant}`);
  }
  return Reflect.get(behind, key, asked);
 } });
}
function global(name, value) {
 Object.defineProperty(globalThis, name, {
  value,
  enumerable: false
 });
}
for (const [name, subsystem] of Object.entries(subsystems(undefined))) global(name, subsystem);
for (const [name, made] of workloadClasses()) global(name, made);
global("nodes", nodesBySelector);
global("Image", Image);
global("Workload", Workload);
global("AuraeError", AuraeError);
for (const name of table.notOffered) {
 Object.defineProperty(globalThis, name, { get() {
  throw new ReferenceError(`${name} isn't offered yet: this API has nothing of that name`);
 } });
}
__aurae.AuraeError = AuraeError;
__aurae.inspect = (value) => {
 const name = nameOf(value);
 if (name !== undefined) return {
  name,
  value: { ...value }
 };
 if (value instanceof Image) return {
  name: "Image",
  value: { ...value }
 };
 if (!isWorkload(value)) return undefined;
 const { kind: _, ...fields } = describe(value);
 return {
  name: shapeOf(value).name,
  value: fields
 };
};
