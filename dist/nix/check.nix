# SPDX-License-Identifier: Apache-2.0
# The module in a small NixOS, evaluated: the text of its units, and settings that it must refuse.
{ nixpkgs ? <nixpkgs>, system ? builtins.currentSystem }:
let
  nixos = aurae: (import (nixpkgs + "/nixos") {
    inherit system;
    configuration = { config, lib, pkgs, ... }: {
      imports = [ ./module.nix ];
      # Neither a boot loader nor a root file system.
      boot.isContainer = true;
      system.stateVersion = lib.mkDefault config.system.nixos.release;
      # The module's evaluation needs no Rust: `package` is apart.
      services.aurae = { enable = true; package = pkgs.hello; } // aurae;
    };
  }).config;

  # As a system's build does it.
  judged = config:
    let failed = builtins.filter (it: !it.assertion) config.assertions;
    in
    if failed == [ ] then config
    else throw (builtins.concatStringsSep "\n" (map (it: it.message) failed));

  units = aurae:
    let config = judged (nixos aurae);
    in
    builtins.mapAttrs (_: unit: unit.text) {
      inherit (config.systemd.units) "auraed.service" "aurae-cells.service";
    };

  listening = { settings.api.listen = [ "[::]:7443" "127.0.0.1:80" ]; openFirewall = true; };
in
{
  units = units { };

  # The derivation, without building it.
  package = ((import nixpkgs { inherit system; }).callPackage ./package.nix { }).drvPath;

  ports = (judged (nixos listening)).networking.firewall.allowedTCPPorts;

  refused = {
    table = units { settings.colour.red = 1; };
    notATable = units { settings.node = "a"; };
    cgroup = units { settings.paths.cgroup = "other"; };
    run = units { settings.paths.run = "/run/other"; };
    firewall = units { openFirewall = true; };
    port = (judged (nixos (listening // { settings.api.listen = [ "[::]" ]; })))
      .networking.firewall.allowedTCPPorts;
  };
}
