#!/bin/sh
# packaged_sources.sh DIRECTORY NAME…: released sources, unpacked below it: "bzip2" is that package of Debian, "npm:ms@2.1.3" that
# version of a package of npm, in a directory "ms". What is there already is not fetched again; one that cannot be had does
# not keep the others from being fetched, but the exit code says so.
set -u
directory=$1
shift
mkdir -p "$directory/lists/partial" "$directory/parts"
cd "$directory" || exit 1

# From where this machine takes its programs, their sources: lists and a cache of our own, so that its settings stay as
# they are.
apt() {
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        if [ -f "$list" ]; then sed -n 's/^deb /deb-src /p' "$list" >"parts/$(basename "$list" .list).list"; fi
    done
    for list in /etc/apt/sources.list.d/*.sources; do
        if [ -f "$list" ]; then sed 's/^Types:.*/Types: deb-src/' "$list" >"parts/$(basename "$list")"; fi
    done
    apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$PWD/parts" \
        -o Dir::State::lists="$PWD/lists" -o APT::Sandbox::User=root "$@"
}

# unpack NAME ARCHIVE…: whole or not at all.
unpack() {
    into=$1
    shift
    rm -rf "$into.new"
    mkdir "$into.new"
    for archive in "$@"; do tar -xf "$archive" -C "$into.new" --strip-components=1 || return 1; done
    mv "$into.new" "$into"
}

fetchFromDebian() {
    if [ -d "$1" ]; then return; fi
    ls lists/*Sources* >/dev/null 2>&1 || apt update || return 1
    apt source --download-only "$1" || return 1
    unpack "$1" "$1"_*.orig.tar.*[a-z2]
}

fetchFromNpm() {
    name=${1%@*}
    if [ -d "$name" ]; then return; fi
    npm pack --silent "$1" || return 1
    unpack "$name" "$name-${1##*@}.tgz"
}

failed=0
for source in "$@"; do
    case $source in
    npm:*) fetchFromNpm "${source#npm:}" || failed=1 ;;
    *) fetchFromDebian "$source" || failed=1 ;;
    esac
done
exit $failed
