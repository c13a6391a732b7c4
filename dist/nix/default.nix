# SPDX-License-Identifier: Apache-2.0
# What the flake gives: the package, the overlay, the NixOS module, and the check of the module.
{ nixpkgs }:
let
  inherit (nixpkgs) lib;
  forEach = lib.genAttrs [ "x86_64-linux" "aarch64-linux" ];
in
{
  packages = forEach (system: {
    default = nixpkgs.legacyPackages.${system}.callPackage ./package.nix { };
  });

  overlays.default = final: prev: { aurae = final.callPackage ./package.nix { }; };

  nixosModules.default = import ./module.nix;

  # Evaluates the module; what is built is a file with the two units' text.
  checks = forEach (system: {
    module = nixpkgs.legacyPackages.${system}.writeText "aurae-units.json" (
      builtins.toJSON (import ./check.nix { inherit nixpkgs system; }).units
    );
  });
}
