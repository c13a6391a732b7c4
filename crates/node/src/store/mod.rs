// SPDX-License-Identifier: Apache-2.0
//! The node's SQLite database: one writer, migrations forward. The only place with SQL.
