// SPDX-License-Identifier: Apache-2.0
// The shop team's services. It only defines: nothing happens until a program runs them.

import { Service } from "../platform/service.ts";

const serve = "echo ready; while sleep 5; do echo served; done";

export const catalog = new Service({
  name: "catalog",
  team: "shop",
  argv: ["/bin/sh", "-c", serve],
});

export const cart = new Service({
  name: "cart",
  team: "shop",
  size: "medium",
  argv: ["/bin/sh", "-c", serve],
  env: { CURRENCY: "EUR" },
});
