# SPDX-License-Identifier: Apache-2.0
# The NixOS module: auraed as a service beside systemd, with the units of dist/. `./x judge nix`
# compares the two, and knows the lines that differ.
{ config, lib, pkgs, ... }:
let
  inherit (lib) mkEnableOption mkOption types;
  cfg = config.services.aurae;
  format = pkgs.formats.toml { };

  # The tables of config.toml: another one is refused before anything is built. Their keys are
  # auraed's to check, see `configFile`.
  tables = [
    "api"
    "boot"
    "cell_network"
    "identity"
    "images"
    "journal"
    "limits"
    "logs"
    "network"
    "node"
    "paths"
    "runtime"
    "sandboxes"
    "schedule"
    "shutdown"
    "units"
    "watchdog"
  ];
  table = _: mkOption {
    type = types.attrsOf format.type;
    default = { };
    description = "Keys and values of this table.";
  };

  written = format.generate "config.toml" (lib.filterAttrs (_: it: it != { }) cfg.settings);
  runs = pkgs.stdenv.buildPlatform == pkgs.stdenv.hostPlatform;
  # auraed itself reads the file while the system is built: a system whose daemon would refuse its
  # configuration isn't made.
  configFile =
    if !runs then written
    else pkgs.runCommand "aurae-config.toml" { } ''
      ${cfg.package}/bin/auraed --config ${written} config > /dev/null
      cp ${written} "$out"
    '';

  listen = cfg.settings.api.listen or [ ];
  port = address:
    let found = builtins.match ".*:([0-9]+)" address;
    in
    if found == null then
      throw "services.aurae.settings.api.listen: `${address}' has no port"
    else
      lib.toInt (lib.head found);

  # Init starts the next daemon from the file that lies where it was executed from, and a file of
  # Nix's store is never replaced. So it is executed from a copy, and a reload replaces that. -C:
  # a copy of the same file stays, and with it the daemon.
  daemon = "/run/aurae/auraed";
  install = "${pkgs.coreutils}/bin/install -C -m 0755 ${cfg.package}/bin/auraed ${daemon}";

  documentation = [ "https://github.com/aurae-runtime/aurae" ];
in
{
  options.services.aurae = {
    enable = mkEnableOption "the Aurae node daemon";

    package = mkOption {
      type = types.package;
      default = pkgs.callPackage ./package.nix { };
      defaultText = lib.literalExpression "pkgs.callPackage ./package.nix { }";
      description = "The package with auraed and aurae.";
    };

    settings = mkOption {
      type = types.submodule { options = lib.genAttrs tables table; };
      default = { };
      example = { api.listen = [ "[::]:7443" ]; limits.cells = 100; };
      description = "Tables of /etc/aurae/config.toml; the guide's configuration.md has every key.";
    };

    openFirewall = mkOption {
      type = types.bool;
      default = false;
      description = "Whether the firewall lets through the ports of settings.api.listen.";
    };
  };

  config = lib.mkIf cfg.enable {
    assertions = [
      {
        assertion = !(cfg.settings.paths ? cgroup);
        message = "services.aurae.settings.paths.cgroup can't be set: the cgroup is the unit's";
      }
      {
        assertion = !(cfg.settings.paths ? run);
        message = "services.aurae.settings.paths.run can't be set: the folder is the unit's";
      }
      {
        assertion = cfg.openFirewall -> listen != [ ];
        message = "services.aurae.openFirewall: settings.api.listen has no address";
      }
    ];

    # What programs of NixOS are made of; its /usr and /bin have two links.
    services.aurae.settings.runtime.root = lib.mkDefault [ "/usr" "/bin" "/etc" "/nix" ];

    environment.systemPackages = [ cfg.package ];
    environment.etc."aurae/config.toml".source = configFile;
    networking.firewall.allowedTCPPorts = lib.mkIf cfg.openFirewall (map port listen);

    systemd.services.aurae-cells = {
      description = "Aurae cells";
      inherit documentation;
      # Its end is the end of all workloads.
      restartIfChanged = false;
      serviceConfig = {
        Type = "oneshot";
        RemainAfterExit = "yes";
        ExecStart = "${pkgs.coreutils}/bin/true";
        Delegate = "yes";
        OOMPolicy = "continue";
        TasksMax = "infinity";
      };
    };

    systemd.services.auraed = {
      description = "Aurae node daemon";
      inherit documentation;
      requires = [ "aurae-cells.service" ];
      after = [ "aurae-cells.service" "network.target" "local-fs.target" ];
      wantedBy = [ "multi-user.target" ];
      # A restart would end all workloads.
      reloadIfChanged = true;
      restartTriggers = [ configFile ];
      serviceConfig = {
        Type = "notify";
        NotifyAccess = "main";
        ExecStartPre = install;
        ExecStart = "${daemon} --set paths.cgroup=system.slice/aurae-cells.service";
        ExecReload = [ install "${pkgs.coreutils}/bin/kill -HUP $MAINPID" ];
        Restart = "on-failure";
        RestartSec = "1s";
        KillMode = "mixed";
        TimeoutStopSec = "100s";
        OOMPolicy = "continue";
        OOMScoreAdjust = -900;
        LimitNOFILE = 1048576;
        LimitMEMLOCK = "infinity";
        StateDirectory = "aurae";
        StateDirectoryMode = "0700";
        RuntimeDirectory = "aurae";
        RuntimeDirectoryPreserve = "restart";
        ConfigurationDirectory = "aurae";
      };
    };
  };
}
