// SYNTAX TEST "source.ts" "the API's names stand out, everybody else's don't"

await runtime.Run(web);
//    ^^^^^^^ support.variable.subsystem.aurae
//           ^ punctuation.accessor.ts
//            ^^^ support.function.method.aurae

const alice = node("alice").runtime;
//            ^^^^ support.variable.subsystem.aurae

const other = mine.runtime.Run;
//                 ^^^^^^^ - support.variable.subsystem.aurae

// runtime.Run in a comment
// <~~~ - support.variable.subsystem.aurae

const text = "runtime.Run";
//            ^^^^^^^ - support.variable.subsystem.aurae

const hello = `cell ${runtime.Get(name)}`;
//                    ^^^^^^^ support.variable.subsystem.aurae

const web = new Cell({ name: "web" });
//              ^^^^ support.class.workload.aurae
