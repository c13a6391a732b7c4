# SPDX-License-Identifier: Apache-2.0
# Nix looks for this file in the repository's root. What it gives is in dist/nix.
{
  description = "Aurae: a node daemon that runs cells, containers, pods and systemd's units";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }: import ./dist/nix { inherit nixpkgs; };
}
