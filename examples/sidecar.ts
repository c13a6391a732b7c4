#!/usr/bin/env aurae
// SPDX-License-Identifier: Apache-2.0
// An application and its sidecar in one cell: they share the cell's network and a folder in memory,
// and nothing with the rest of the node. The application writes a journal; the sidecar ships it.
//
//   aurae apply sidecar.ts

const MIB = 1024 * 1024;

const cell = new Cell({
  name: "orders",
  labels: { app: "orders" },
  resources: { memory: { max: 128 * MIB }, pidsMax: 64 },
  volumes: [{ path: "/var/spool", sizeBytes: 8 * MIB }],
});

const app = new Executable({
  name: "orders/app",
  labels: { app: "orders" },
  argv: ["/bin/sh", "-c", "while sleep 1; do date +order-%s >> /var/spool/journal; done"],
});

const sidecar = new Executable({
  name: "orders/shipper",
  labels: { app: "orders", role: "sidecar" },
  argv: ["/bin/sh", "-c", "touch /var/spool/journal; exec tail -f /var/spool/journal"],
  resources: { memory: { max: 32 * MIB } },
}).Env("SHIP_TO", args[0] ?? "stdout");

await runtime.Run([cell, app, sidecar]);
