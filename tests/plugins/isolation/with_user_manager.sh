#!/bin/sh
# with_user_manager.sh UID COMMAND…: runs the command as that user, in a session that is root's, beside a systemd of the
# user's own that may hand out control groups: what an ordinary login gives on a machine with a unified hierarchy. All of
# it lives in a mount namespace and in control groups of its own. Exit 77: it cannot be had here, and why.
set -eu

if [ "${1:-}" != --inside ]; then
    skip() { echo "skipped: $1" && exit 77; }
    [ "$(id -u)" = 0 ] || skip "only root can set up a user's session"
    setpriv --reuid="$1" --regid="$1" --clear-groups test -x "$2" || skip "only root can reach $2"
    [ -x /lib/systemd/systemd ] || skip "systemd is not installed"
    command -v dbus-daemon >/dev/null || skip "dbus-daemon is not installed"
    [ -e /sys/fs/cgroup/unified/cgroup.procs ] || [ -e /sys/fs/cgroup/cgroup.procs ] || skip "no unified hierarchy is mounted"
    exec unshare --mount --propagation private "$0" --inside "$@"
fi
shift
user=$1
shift

[ ! -e /sys/fs/cgroup/unified/cgroup.procs ] || mount --bind /sys/fs/cgroup/unified /sys/fs/cgroup
place=$(mktemp -d /tmp/gradus-manager-XXXXXX)
group=/sys/fs/cgroup/$(basename "$place")
mkdir "$group" "$group/session" "$group/manager"
# What this hierarchy has of these, the manager may hand on.
for controller in cpu memory pids; do echo "+$controller" >"$group/cgroup.subtree_control" || true; done 2>/dev/null
# Moving between the two takes the right to write here, which on a real machine systemd as root lends to the user's.
chown "$user" "$group/cgroup.procs" "$group/manager" "$group/manager/cgroup.procs" "$group/manager/cgroup.subtree_control"
manager=
clean() {
    [ -z "$manager" ] || kill "$manager" || true
    [ -z "$manager" ] || wait "$manager" || true
    echo $$ >/sys/fs/cgroup/cgroup.procs
    find "$group" -depth -type d -exec rmdir {} + || true
    rm -rf "$place"
}
trap clean EXIT

# The bus wants its user to have a name, and systemd wants to believe that it started the machine.
cp /etc/passwd "$place/passwd"
echo "gradus-test:x:$user:$user::$place:/bin/sh" >>"$place/passwd"
mount --bind "$place/passwd" /etc/passwd
mount -t tmpfs none /run
mkdir -p /run/systemd/system "/run/user/$user"
chown "$user" "/run/user/$user" "$place"
chmod 700 "/run/user/$user"

export XDG_RUNTIME_DIR="/run/user/$user" HOME="$place"
as_user="setpriv --reuid=$user --regid=$user --clear-groups"
sh -c "echo 0 >'$group/manager/cgroup.procs'; exec $as_user /lib/systemd/systemd --user" >"$place/log" 2>&1 &
manager=$!
tries=0
until $as_user systemctl --user show-environment >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || { cat "$place/log" && exit 1; }
    sleep 0.1
done
# A session has used its bus before: whoever is the first waits until the bus is started.
$as_user busctl --user list >/dev/null 2>&1 || true
sh -c "echo 0 >'$group/session/cgroup.procs'; exec $as_user \"\$@\"" sh "$@"
