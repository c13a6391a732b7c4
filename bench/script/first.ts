// SPDX-License-Identifier: Apache-2.0
// The shortest way to a node's answer.
const answer = await node.Get();
print("answered", answer.name);
