# SPDX-License-Identifier: Apache-2.0
# auraed and aurae. Both are static, as `./x dist` makes them: auraed is executed in cells, whose
# roots need not have Nix's store.
{ lib, stdenv, rustPlatform, rustc, glibc, installShellFiles }:
let
  root = ../..;
  manifest = (builtins.fromTOML (builtins.readFile (root + "/Cargo.toml"))).workspace.package;
  needed = manifest.rust-version;
  # What it prints fits its version; a client for another machine can't be run here.
  runs = stdenv.buildPlatform == stdenv.hostPlatform;
in
if lib.versionOlder rustc.version needed then
  throw "aurae ${manifest.version} needs Rust ${needed} or newer; this nixpkgs has ${rustc.version}"
else
  rustPlatform.buildRustPackage {
    pname = "aurae";
    inherit (manifest) version;

    src = lib.cleanSourceWith {
      src = root;
      filter = path: _: !(lib.elem (baseNameOf path) [ ".git" "target" ]);
    };
    cargoLock.lockFile = root + "/Cargo.lock";

    nativeBuildInputs = [ installShellFiles ];
    # libc.a.
    buildInputs = [ glibc.static ];

    # As in .cargo/config.toml, beside which Nix writes a file of its own.
    RUSTFLAGS = "-C target-feature=+crt-static -C relocation-model=static";
    buildType = "dist";
    cargoBuildFlags = [ "-p" "auraed" "-p" "aurae" ];

    # The tests need root, cgroups and booted machines: `./x test`.
    doCheck = false;

    postInstall = ''
      ln -s auraed "$out/bin/aurae-oci"
      installManPage dist/auraed.8
    '' + lib.optionalString runs ''
      mkdir -p "$out/share/man/man1"
      "$out/bin/aurae" man "$out/share/man/man1"
      for shell in bash zsh fish; do
        "$out/bin/aurae" completion "$shell" > "aurae.$shell"
      done
      installShellCompletion --cmd aurae aurae.bash aurae.fish --zsh aurae.zsh
    '';

    meta = {
      description = "Node daemon that runs cells, containers, pods and systemd's units";
      homepage = manifest.repository;
      license = lib.licenses.asl20;
      platforms = [ "x86_64-linux" "aarch64-linux" ];
      mainProgram = "aurae";
    };
  }
