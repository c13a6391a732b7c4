// SPDX-License-Identifier: Apache-2.0
//! Connecting to a node: contexts, credentials, transport.
