// SPDX-License-Identifier: Apache-2.0
//! What the test bed's root disks are made of: packages of Debian, and what is done with them
//! before they become a disk. Read by [`crate::disk`], which makes them.

/// What the disk has beyond Debian's minimum: the demo's server, systemd and the container runtimes
/// as references to measure against, and what stories look at a node with.
pub(crate) const PACKAGES: &str = "apparmor,busybox-static,cron,crun,curl,dbus,e2fsprogs,iproute2,\
    iputils-ping,keyutils,kmod,libcap2-bin,nginx-light,openssh-server,procps,runc,secilc,\
    strace,systemd-sysv";
/// Runs as root in the new Debian, before it becomes a disk. `$1` is its folder, `$2` the disk's
/// file.
pub(crate) const FINISH: &str = r#"
set -e
echo node > "$1/etc/hostname"
: > "$1/etc/machine-id"
rm -f "$1/etc/resolv.conf"
rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin
chroot "$1" passwd -q -d root
mkdir -p "$1/etc/aurae" "$1/usr/local/lib/aurae-testbed"
# Without the file systems that are mounted inside while packages are set up.
mkdir -p "$1/mnt"
mount --bind "$1" "$1/mnt"
trap 'umount "$1/mnt"' EXIT
mke2fs -q -t ext4 -L aurae -E root_owner=0:0 -d "$1/mnt" "$2" "$3"
"#;

/// What a disk has that is booted with its services: well-known servers
/// that need no configuration, as their packages install them.
pub(crate) const SERVICES: &str = "bash,busybox-static,chrony,cron,curl,dbus,e2fsprogs,iproute2,kmod,\
    libnss-systemd,libpam-systemd,logrotate,mount,nginx-light,openssh-client,openssh-server,passwd,\
    procps,rsyslog,systemd-sysv,udev";

/// The same as [`FINISH`], with what an installer would leave: an fstab, a swap file, links of the
/// client's other names in front of the originals.
pub(crate) const FINISH_SERVICES: &str = r#"
set -e
echo debian > "$1/etc/hostname"
: > "$1/etc/machine-id"
# mmdebstrap keeps services from starting while it works.
rm -f "$1/usr/sbin/policy-rc.d"
rm -f "$1/etc/resolv.conf" "$1"/etc/ssh/ssh_host_ecdsa_key* "$1"/etc/ssh/ssh_host_rsa_key*
rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin
chroot "$1" passwd -q -d root
mkdir -p "$1/etc/aurae" "$1/usr/local/lib/aurae-testbed" "$1/srv/data" "$1/srv/bound"
echo bound > "$1/srv/data/file"
cat > "$1/etc/fstab" <<'TABLE'
LABEL=aurae  /             ext4   errors=remount-ro                             0 1
tmpfs        /srv/scratch  tmpfs  size=16m,mode=1777                            0 0
/srv/data    /srv/bound    none   bind                                          0 0
/dev/absent  /srv/absent   ext4   nofail,x-systemd.device-timeout=2s            0 2
/swap        none          swap   sw                                            0 0
TABLE
# A file for swapping has no holes.
head -c 33554432 /dev/urandom > "$1/swap"
chmod 600 "$1/swap"
mkswap -q "$1/swap"
for name in systemctl journalctl systemd-run systemd-analyze shutdown reboot poweroff halt; do
    ln -s aurae "$1/usr/local/bin/$name"
done
mkdir -p "$1/mnt"
mount --bind "$1" "$1/mnt"
trap 'umount "$1/mnt"' EXIT
mke2fs -q -t ext4 -L aurae -E root_owner=0:0 -d "$1/mnt" "$2" "$3"
"#;

/// What a disk has beyond [`PACKAGES`] where podman judges: itself, with what it needs for pods,
/// networks, builds and ordinary users.
pub(crate) const PODMAN: &str = "aardvark-dns,bash,catatonit,dbus-user-session,fuse-overlayfs,iptables,\
    libpam-systemd,netavark,passwd,podman,slirp4netns,uidmap";
/// What a disk has beyond [`PACKAGES`] where runc's own suite judges: its runner, what its helpers
/// read and write documents by, the compiler for the few programs that its tests bring as source,
/// and the maps of an ordinary user's containers.
pub(crate) const SUITE: &str = "bash,bats,gawk,gcc,jq,libc6-dev,passwd,uidmap,util-linux,xz-utils";
/// Whom `./x bench containers` measures beside that, and what makes its image.
pub(crate) const ENGINES: &str = "busybox-static,containerd,crun,runc,skopeo,umoci,util-linux";

/// What a machine has that packages are installed on, and what they are used by.
pub(crate) const BARE: &str =
    "bash,busybox-static,curl,dbus,e2fsprogs,iproute2,kmod,mount,procps,systemd-sysv,udev";

/// The same as [`FINISH`], with apt's lists, and the archives of `@PACKAGES@` and of what they
/// need.
pub(crate) const FINISH_ARCHIVE: &str = r#"
set -e
echo debian > "$1/etc/hostname"
: > "$1/etc/machine-id"
chroot "$1" passwd -q -d root
mkdir -p "$1/etc/aurae" "$1/usr/local/lib/aurae-testbed" "$1/mnt"
printf 'LABEL=aurae / ext4 errors=remount-ro 0 1\n' > "$1/etc/fstab"
rm -f "$1/usr/sbin/policy-rc.d"
# Each by itself: some can't be installed together.
for package in @PACKAGES@; do
    DEBIAN_FRONTEND=noninteractive chroot "$1" apt-get -q -y --no-install-recommends --download-only \
        install "$package"
done
mount --bind "$1" "$1/mnt"
trap 'umount "$1/mnt"' EXIT
mke2fs -q -t ext4 -L aurae -E root_owner=0:0 -d "$1/mnt" "$2" "$3"
"#;
