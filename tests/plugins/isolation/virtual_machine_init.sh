#!/bin/sh
# The first process of the virtual machine that in_virtual_machine.sh starts: sets it up as systemd would, runs the suites of
# /gradus/plan as the plan says, and switches the machine off. Everything it says goes to the console, which the host reads.
set -u
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root GRADUS_TEST_EMULATED=1

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts -o ptmxmode=0666 devpts /dev/pts
for place in /dev/shm /tmp; do mount -t tmpfs -o mode=1777 tmpfs "$place"; done
mount -t tmpfs -o mode=755 tmpfs /run
ln -s /proc/self/fd /dev/fd
for stream in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${stream%:*}" "/dev/${stream#*:}"; done
busybox ifconfig lo 127.0.0.1 up
for module in /gradus/modules/*.ko; do busybox insmod "$module"; done

# A disk of the kind that projects lie on.
truncate -s 1G /gradus/disk
mkfs.ext4 -q -F /gradus/disk
mount -o loop /gradus/disk /var/tmp
chmod 1777 /var/tmp

# Control groups in the shape that systemd gives them: whoever logs in has a session that is root's, and beside it a part of
# the tree that is the user's own.
groups=/sys/fs/cgroup
mount -t cgroup2 -o nsdelegate,memory_recursiveprot cgroup2 $groups
mkdir "$groups/init.scope"
echo $$ >$groups/init.scope/cgroup.procs
handOn() { echo '+cpu +memory +pids' >"$groups/$1/cgroup.subtree_control"; }
handOn .
for slice in user.slice user.slice/user-0.slice user.slice/user-41235.slice; do mkdir "$groups/$slice" && handOn "$slice"; done
mkdir "$groups/user.slice/user-0.slice/session-1.scope" "$groups/user.slice/user-41235.slice/session-2.scope"
service=$groups/user.slice/user-41235.slice/user@41235.service
mkdir -p "$service"
handOn user.slice/user-41235.slice/user@41235.service
mkdir "$service/init.scope"
for place in "$service" "$service/init.scope"; do
    chown 41235:41235 "$place" "$place/cgroup.procs" "$place/cgroup.threads" "$place/cgroup.subtree_control"
done

seconds() { cut -d. -f1 /proc/uptime; }

# run NAME USER GROUP SECONDS VARIABLE COMMAND…: what it says between two marks, with its exit code and how long it took.
run() {
    name=$1 user=$2 group=$3 patience=$4 variable=$5
    shift 5
    as_user=
    [ "$variable" != - ] || variable=NOTHING=
    [ "$user" = 0 ] || as_user="setpriv --reuid=$user --regid=$user --clear-groups"
    echo "@@ begin $name"
    begin=$(seconds)
    (
        echo 0 >"$groups/$group/cgroup.procs"
        cd /tmp || exit
        # shellcheck disable=SC2086  # several words, or none
        exec timeout "$patience" $as_user env "$variable" "$@" </dev/null 2>&1
    )
    status=$?
    echo "@@ end $name $status $(($(seconds) - begin))"
}

echo "@@ up $(uname -r) $(seconds)"
while read -r name user group patience variable command; do
    eval "run $name $user $group $patience $variable $command"
done </gradus/plan
echo "@@ off $(seconds)"
busybox poweroff -f
