#!/usr/bin/env aurae
// SPDX-License-Identifier: Apache-2.0
// Brings the shop's services about. What they are is the shop team's file; what a service is, the
// platform team's.
//
//   aurae plan shop.ts
//   aurae apply shop.ts

import { cart, catalog } from "./shop/services.ts";

await Promise.all([catalog, cart].map((service) => runtime.Run(service.workloads)));
