// SPDX-License-Identifier: Apache-2.0
//! What workloads print and use: the log store and its mover, usage from cgroups.
