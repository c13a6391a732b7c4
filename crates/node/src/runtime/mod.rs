// SPDX-License-Identifier: Apache-2.0
//! Stateless, direct interaction with what runs: cells and executables, their lifecycles, adoption.
