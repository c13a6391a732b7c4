// SYNTAX TEST "source.ts" "durations are numbers, whatever else is a string isn't"

await runtime.Stop(web, { grace: "1m30s" });
//                                ^^^^^ constant.numeric.duration.aurae

const path = "web/10s";
//            ^^^^^^^ - constant.numeric.duration.aurae

const half = '0.5s';
//            ^^^^ constant.numeric.duration.aurae
