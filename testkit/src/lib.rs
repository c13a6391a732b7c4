// SPDX-License-Identifier: Apache-2.0
//! Real kernels for tests: a node in QEMU, fixtures, fakes.
