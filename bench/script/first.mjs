// SPDX-License-Identifier: Apache-2.0
// The same by node with @grpc/grpc-js: first.mjs SOCKET PKI PROTOS
import { readFileSync } from "node:fs";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const [socket, pki, protos] = process.argv.slice(2);
const definition = loader.loadSync("aurae/node/v0/node.proto", { includeDirs: [protos] });
const { aurae } = grpc.loadPackageDefinition(definition);
const file = (name) => readFileSync(`${pki}/${name}`);
const credentials = grpc.credentials.createSsl(file("ca.pem"), file("admin.key"), file("admin.pem"));
const options = { "grpc.ssl_target_name_override": "localhost", "grpc.default_authority": "localhost" };
const client = new aurae.node.v0.Node(`unix:${socket}`, credentials, options);
client.Get({}, (problem, answer) => {
  if (problem) {
    console.error(problem);
    process.exit(1);
  }
  console.log("answered", answer.name);
  client.close();
});
