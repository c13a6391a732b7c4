// SPDX-License-Identifier: Apache-2.0
//! Packets: the messages of [`super`] as bytes and back, bounded in every field.
