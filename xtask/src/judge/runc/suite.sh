# SPDX-License-Identifier: Apache-2.0
# Run on a node by `./x judge runc`: files of runc's suite, one after the other, with auraed as
# runc. What comes out is bats's, with a line "file NAME" in front of each file's.
# $1: root or rootless; the rest: names of files.
user=$1
shift
suite=/srv/runc
export HOME=/root TERM=dumb LANG=C.UTF-8
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# By runc's own name, which its tests find in messages. A copy that users may execute.
mkdir -p /srv/bin
install -m 755 /usr/sbin/auraed /srv/bin/runc
export RUNC=/srv/bin/runc
# The suite asks the Go compiler for the name of the architecture, and for nothing else.
[ -x /usr/local/bin/go ] ||
    { printf '#!/bin/sh\necho amd64\n' >/usr/local/bin/go && chmod 755 /usr/local/bin/go; }
# It waits for udev to be done with an interface. There is none here, and so nothing to wait for.
command -v udevadm >/dev/null ||
    { printf '#!/bin/sh\nexit 0\n' >/usr/local/bin/udevadm && chmod 755 /usr/local/bin/udevadm; }
# The module brings one of its own, by the name that the suite takes.
ip link delete dummy0 2>/dev/null
# Bundles lie in memory: the suite unpacks a root for each of its tests.
export TMPDIR=/srv/bundles
if ! mountpoint -q $TMPDIR; then
    mkdir -p $TMPDIR && mount -t tmpfs -o mode=1777,size=2g bundles $TMPDIR || exit 1
fi
chmod -R a+rX $suite
for module in $(ls $suite/modules | sort -n); do
    insmod "$suite/modules/$module" 2>/dev/null || echo "the kernel has $module already" >&2
done
cgroup=/sys/fs/cgroup
for controller in $(cat $cgroup/cgroup.controllers); do
    echo "+$controller" >$cgroup/cgroup.subtree_control ||
        echo "the node's root group has no $controller to give" >&2
done

# What the suite wants of an ordinary user: ranges of ids, a group of its own that it may fill, a
# folder that belongs to an id of the range.
prepare_rootless() {
    id rootless >/dev/null 2>&1 || useradd -m -s /bin/bash rootless || return
    echo rootless:100000:65536 >/etc/subuid
    echo rootless:200000:65536 >/etc/subgid
    export ROOTLESS_FEATURES=idmap+cgroup
    export ROOTLESS_UIDMAP_START=100000 ROOTLESS_UIDMAP_LENGTH=65536
    export ROOTLESS_GIDMAP_START=200000 ROOTLESS_GIDMAP_LENGTH=65536
    export ROOTLESS_AUX_UID=1024 ROOTLESS_AUX_DIR=/srv/bundles/aux
    # Nothing but its owner may enter it, whom the range has as 1024.
    mkdir -p -m 700 $ROOTLESS_AUX_DIR && chown 100024 $ROOTLESS_AUX_DIR
    local own=$cgroup/runc-cgroups-integration-test
    mkdir -p $own &&
        chown root:rootless $own $own/cgroup.subtree_control $own/cgroup.procs \
            $cgroup/cgroup.procs &&
        chmod g+rwx $own &&
        chmod g+rw $own/cgroup.subtree_control $own/cgroup.procs $cgroup/cgroup.procs
}

as=()
if [ "$user" = rootless ]; then
    prepare_rootless || exit 1
    as=(runuser -u rootless -- env HOME=/home/rootless)
fi
# The user moves processes between groups below the root's own, and so must be in it.
echo $$ >$cgroup/cgroup.procs || exit 1
cd $suite || exit 1
for file in "$@"; do
    echo "file $file"
    timeout 5400 "${as[@]}" bats -t "tests/integration/$file.bats" 2>&1
    echo "status $?" >&2
done
exit 0
