#!/bin/sh
# packaged_sources.sh DIRECTORY: the sources of two Debian packages, as released by their authors, unpacked below it.
# `./do test --long` calls it; what is there already is not fetched again.
set -eu
directory=$1
mkdir -p "$directory/lists/partial" "$directory/parts"
cd "$directory"
# From where this machine takes its programs, their sources: lists and a cache of our own, so that its settings stay as
# they are.
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    if [ -f "$list" ]; then sed -n 's/^deb /deb-src /p' "$list" >"parts/$(basename "$list" .list).list"; fi
done
for list in /etc/apt/sources.list.d/*.sources; do
    if [ -f "$list" ]; then sed 's/^Types:.*/Types: deb-src/' "$list" >"parts/$(basename "$list")"; fi
done
apt() {
    apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$PWD/parts" \
        -o Dir::State::lists="$PWD/lists" -o APT::Sandbox::User=root "$@"
}
fetch() {
    if [ -d "$1" ]; then return; fi
    ls lists/*Sources* >/dev/null 2>&1 || apt update
    apt source --download-only "$1"
    mkdir "$1.new"
    for archive in "$1"_*.orig.tar.*[a-z2]; do tar -xf "$archive" -C "$1.new" --strip-components=1; done
    mv "$1.new" "$1"
}
fetch zlib
fetch bzip2
