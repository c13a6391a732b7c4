# SPDX-License-Identifier: Apache-2.0
# Run on a node by `./x judge podman`: podman with auraed as its only runtime. Each check is one
# line, "ok NAME" or "not ok NAME", with what was said in front of the latter.
# $1: the cgroup manager, systemd or cgroupfs.
manager=$1
export XDG_RUNTIME_DIR=/run HOME=/root TERM=dumb
cd /root || exit 1

# For the scripts: a command that has to end with this code.
ends='ends() { local code=0; "${@:2}" || code=$?; [ "$code" = "$1" ]; }'
# A check's script is given 300 s, and stops at its first failure.
check() {
    if said=$(timeout 300 bash -ec "$ends; $2" 2>&1); then
        echo "ok $1"
    else
        printf '%s\n' "$said" | tail -n 12 | sed 's/^/    /'
        echo "not ok $1"
    fi
}

# No other runtime is there that podman could take instead.
rm -f /usr/bin/crun /usr/bin/runc /usr/sbin/runc
ln -sf /usr/sbin/auraed /usr/local/bin/aurae-oci
mkdir -p /etc/containers /srv/box/bin /srv/box/etc /srv/box/tmp
cat >/etc/containers/containers.conf <<TABLE
[engine]
runtime = "aurae-oci"
cgroup_manager = "$manager"
events_logger = "file"
runtime_supports_json = ["aurae-oci"]
runtime_supports_nocgroup = ["aurae-oci"]
[engine.runtimes]
aurae-oci = ["/usr/local/bin/aurae-oci"]
[containers]
log_driver = "k8s-file"
TABLE
cp /bin/busybox /srv/box/bin/
for applet in $(busybox --list); do
    [ "$applet" = busybox ] || ln -sf busybox "/srv/box/bin/$applet"
done
echo root:x:0:0:root:/root:/bin/sh >/srv/box/etc/passwd
chmod 1777 /srv/box/tmp

check "an image is imported" '
    tar -C /srv/box -c . | podman import --change CMD=sh - box >/dev/null
    podman image exists box'
check "podman knows its runtime" '
    [ "$(podman info -f "{{.Host.OCIRuntime.Name}}")" = aurae-oci ]
    podman info -f "{{.Host.OCIRuntime.Version}}" | grep -q "^aurae-oci version "'
check "run prints, and exits as its program does" '
    [ "$(podman run --rm --network none box echo hello)" = hello ]
    ends 7 podman run --rm --network none box sh -c "exit 7"
    ends 127 podman run --rm --network none box no-such-program
    ends 126 podman run --rm --network none box /etc/passwd'
check "input and a terminal" '
    [ "$(echo in | podman run --rm -i --network none box cat)" = in ]
    podman run --rm -t --network none box tty | grep -q /dev/pts/0'
check "exec runs beside, with its own user and exit" '
    podman run -d --name beside --network none box sleep 1000 >/dev/null
    [ "$(podman exec beside cat /proc/1/comm)" = sleep ]
    [ "$(podman exec -u 5:6 -e A=b beside sh -c "id -u; id -g; echo \$A" | xargs)" = "5 6 b" ]
    ends 9 podman exec beside sh -c "exit 9"
    podman exec -d beside touch /tmp/there
    until podman exec beside test -e /tmp/there; do sleep 0.2; done
    podman rm -f -t 0 beside >/dev/null'
check "logs have both streams" '
    podman run --name talks --network none box sh -c "echo out; echo err >&2"
    [ "$(podman logs talks 2>/dev/null)" = out ]
    [ "$(podman logs talks 2>&1 >/dev/null)" = err ]
    podman rm talks >/dev/null'
check "stop asks, waits for its grace, and kills" '
    podman run -d --name polite --network none box \
        sh -c "trap \"exit 3\" TERM; echo there; while :; do sleep 0.1; done" >/dev/null
    until podman logs polite | grep -q there; do sleep 0.2; done
    podman stop -t 60 polite >/dev/null
    [ "$(podman inspect -f "{{.State.ExitCode}}" polite)" = 3 ]
    podman run -d --name stubborn --network none box \
        sh -c "trap : TERM; echo there; while :; do sleep 0.1; done" >/dev/null
    until podman logs stubborn | grep -q there; do sleep 0.2; done
    podman stop -t 1 stubborn >/dev/null
    [ "$(podman inspect -f "{{.State.ExitCode}}" stubborn)" = 137 ]
    podman rm polite stubborn >/dev/null'
check "a stopped container starts again" '
    podman run -d --name again --network none box sh -c "echo once >> /tmp/n; sleep 1000" >/dev/null
    podman stop -t 0 again >/dev/null
    podman start again >/dev/null
    until [ "$(podman exec again cat /tmp/n 2>/dev/null | wc -l)" = 2 ]; do sleep 0.2; done
    podman restart -t 0 again >/dev/null
    podman kill again >/dev/null
    [ "$(podman wait again)" = 137 ]
    podman rm again >/dev/null'
check "pause stops it for now" '
    podman run -d --name paused --network none box sleep 1000 >/dev/null
    podman pause paused >/dev/null
    [ "$(podman inspect -f "{{.State.Status}}" paused)" = paused ]
    podman unpause paused >/dev/null
    [ "$(podman exec paused echo goes on)" = "goes on" ]
    podman rm -f -t 0 paused >/dev/null'
check "limits are the group's" '
    [ "$(podman run --rm --network none -m 64m --pids-limit 20 --cpus 0.5 box sh -c \
        "cd /sys/fs/cgroup; cat memory.max pids.max cpu.max" | xargs)" = "67108864 20 50000 100000" ]'
check "memory that runs out ends it" '
    ends 137 podman run --name eats --network none -m 16m --memory-swap 16m box tail /dev/zero
    [ "$(podman inspect -f "{{.State.OOMKilled}}" eats)" = true ]
    podman rm eats >/dev/null'
check "stats and top look into it" '
    podman run -d --name seen --network none box sleep 1000 >/dev/null
    podman stats --no-stream --format "{{.Name}}" | grep -qx seen
    podman top seen comm | grep -qx sleep
    podman rm -f -t 0 seen >/dev/null'
check "volumes, a read-only root, a tmpfs" '
    mkdir -p /srv/shared && echo of the node > /srv/shared/file
    podman volume create kept >/dev/null
    podman run --rm --network none -v kept:/kept -v /srv/shared:/shared:ro --read-only \
        --tmpfs /scratch:size=1m box sh -ec "cat /shared/file; echo x > /kept/file; echo x > /scratch/x
        for wrong in /x /shared/x; do if touch \$wrong 2>/dev/null; then exit 1; fi; done" | grep -qx "of the node"
    [ "$(podman run --rm --network none -v kept:/kept box cat /kept/file)" = x ]
    podman volume rm kept >/dev/null'
check "users, capabilities, limits of processes" '
    podman run --rm --network none --user 1000:2000 --cap-drop all --ulimit nofile=99:99 \
        --security-opt no-new-privileges box sh -c "id -u; id -g; grep CapEff /proc/self/status
        grep NoNewPrivs /proc/self/status; ulimit -n" | xargs |
        grep -qx "1000 2000 CapEff: 0000000000000000 NoNewPrivs: 1 99"'
check "a user namespace of its own" '
    podman run --rm --network none --uidmap 0:100000:5000 --gidmap 0:100000:5000 box \
        cat /proc/self/uid_map | xargs | grep -qx "0 100000 5000"'
check "podman's own init is PID 1" '
    podman run --rm --init --network none box cat /proc/1/comm | grep -qx "catatonit\|podman-init"'
check "namespaces of another container, and of the node" '
    podman run -d --name one --network none --ipc shareable box sleep 1000 >/dev/null
    podman run --rm --pid container:one --ipc container:one --network container:one box \
        ps | grep -q "sleep 1000"
    [ "$(podman run --rm --uts host --network none box hostname)" = "$(hostname)" ]
    podman rm -f -t 0 one >/dev/null'
check "the bridge, and a published port" '
    podman run -d --name web -p 8088:80 box \
        sh -c "echo from a container > /index.html; httpd -f -p 80 -h /" >/dev/null
    for i in $(seq 50); do curl -fsS -m 2 http://127.0.0.1:8088/ && break; sleep 0.2; done |
        grep -qx "from a container"
    podman rm -f -t 0 web >/dev/null'
check "copies in and out, commit, diff" '
    podman run -d --name copies --network none box sleep 1000 >/dev/null
    echo text > /srv/text
    podman cp /srv/text copies:/text
    podman diff copies | grep -qx "A /text"
    podman commit -q copies copied >/dev/null
    podman cp copies:/text /srv/back && cmp /srv/text /srv/back
    [ "$(podman run --rm --network none copied cat /text)" = text ]
    podman rm -f -t 0 copies >/dev/null'
check "a health check by hand" '
    podman run -d --name well --network none --health-cmd "test -e /tmp/well" \
        --health-interval disable box sleep 1000 >/dev/null
    ends 1 podman healthcheck run well
    podman exec well touch /tmp/well
    podman healthcheck run well
    podman rm -f -t 0 well >/dev/null'
[ "$manager" = systemd ] && check "a health check by systemd's timer" '
    podman run -d --name timed --network none --health-cmd "touch /tmp/asked" \
        --health-interval 1s box sleep 1000 >/dev/null
    until podman exec timed test -e /tmp/asked; do sleep 0.5; done
    until [ "$(podman inspect -f "{{.State.Health.Status}}" timed)" = healthy ]; do sleep 0.5; done
    podman rm -f -t 0 timed >/dev/null'
check "build runs its steps" '
    mkdir -p /srv/build && cd /srv/build && echo copied > file
    printf "FROM box\nCOPY file /file\nRUN echo \$(cat /file) and made > /made && id -u > /who\n" \
        > Containerfile
    podman build -q --network none -t built . >/dev/null
    [ "$(podman run --rm --network none built cat /made /who | xargs)" = "copied and made 0" ]'
# Podman 4.3 gives the group that it makes for a pod itself no device at all, /dev/null included, so
# that no runtime can make a container in it. By systemd the group is a slice.
[ "$manager" = systemd ] || apart=--share-parent=false
export apart
check "a pod's containers share, and end together" '
    podman pod create $apart --name pod --network none --hostname pod >/dev/null
    podman run -d --pod pod --name first box sleep 1000 >/dev/null
    podman run -d --pod pod --name second box sh -c "nc -l -p 99 -e echo told; sleep 1000" >/dev/null
    [ "$(podman exec first hostname) $(podman exec second hostname)" = "pod pod" ]
    [ "$(podman exec first readlink /proc/self/ns/net)" = "$(podman exec second readlink /proc/self/ns/net)" ]
    for i in $(seq 50); do podman exec first nc 127.0.0.1 99 && break; sleep 0.2; done | grep -qx told
    [ "$(podman pod inspect -f "{{.State}}" pod)" = Running ]
    podman pod stop -t 0 pod >/dev/null
    podman pod start pod >/dev/null
    [ "$(podman exec second hostname)" = pod ]
    podman pod rm -f -t 0 pod >/dev/null'
[ "$manager" = systemd ] && check "a manifest of Kubernetes is played" '
    printf "%s\n" "apiVersion: v1" "kind: Pod" "metadata: {name: played}" "spec:" \
        "  containers:" "  - {name: a, image: localhost/box, command: [sleep, \"1000\"]}" \
        "  - {name: b, image: localhost/box, command: [sleep, \"1000\"]}" > /srv/pod.yaml
    podman play kube --network none /srv/pod.yaml >/dev/null
    [ "$(podman exec played-a cat /proc/1/comm)" = sleep ]
    podman play kube --down /srv/pod.yaml >/dev/null'
check "what has ended leaves nothing" '
    podman pod rm -af -t 0 >/dev/null; podman rm -af -t 0 >/dev/null
    [ -z "$(ls /run/aurae/oci 2>/dev/null)" ]
    [ -z "$(find /sys/fs/cgroup -type d \( -name "libpod-*" -o -name "crun-*" \) \
        ! -name "libpod_*" | head -n 3)" ]'

# An ordinary user's.
useradd -m -s /bin/bash judge 2>/dev/null
grep -q ^judge: /etc/subuid || usermod --add-subuids 100000-165535 --add-subgids 100000-165535 judge
uid=$(id -u judge)
if [ "$manager" = systemd ]; then
    loginctl enable-linger judge
    for i in $(seq 100); do [ -S "/run/user/$uid/systemd/private" ] && break; sleep 0.3; done
else
    mkdir -p "/run/user/$uid" && chown judge "/run/user/$uid" && chmod 700 "/run/user/$uid"
fi
as() {
    check "an ordinary user: $1" "cd /home/judge; exec runuser -u judge -- env HOME=/home/judge \
        XDG_RUNTIME_DIR=/run/user/$uid DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/$uid/bus \
        bash -ec '$ends; $2'"
}
as "run, exec, stop" '
    tar -C /srv/box -c . | podman import --change CMD=sh - box >/dev/null
    podman info -f "{{.Host.OCIRuntime.Name}}" | grep -qx aurae-oci
    [ "$(podman run --rm --network none box sh -c "id -u; echo hello" | xargs)" = "0 hello" ]
    ends 7 podman run --rm --network none box sh -c "exit 7"
    podman run -d --name beside --network none box sleep 1000 >/dev/null
    [ "$(podman exec -u 5 beside id -u)" = 5 ]
    podman logs beside
    podman stop -t 0 beside >/dev/null
    podman rm beside >/dev/null'
as "a network by slirp4netns" '
    podman run --rm --network slirp4netns box ip -o addr show tap0 | grep -q 10.0.2.100'
as "build" '
    mkdir -p b && cd b
    printf "FROM box\nRUN echo made > /made\n" > Containerfile
    podman build -q --network none -t built . >/dev/null
    [ "$(podman run --rm --network none built cat /made)" = made ]'
as "a pod" '
    podman pod create --name pod --network none >/dev/null
    podman run -d --pod pod --name first box sleep 1000 >/dev/null
    [ "$(podman exec first cat /proc/1/comm)" = sleep ]
    podman pod rm -f -t 0 pod >/dev/null'
[ "$manager" = systemd ] && as "limits by the systemd of the user" '
    [ "$(podman run --rm --network none -m 64m --pids-limit 20 box sh -c \
        "cd /sys/fs/cgroup; cat memory.max pids.max" | xargs)" = "67108864 20" ]'
exit 0
