#!/bin/sh
# packaged_sources.sh DIRECTORY: the sources of two Debian packages, as released by their authors, unpacked below it.
# `./do test --long` calls it; what is there already is not fetched again.
set -eu
directory=$1
# shellcheck disable=SC1091  # the machine's
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
mkdir -p "$directory/lists/partial"
cd "$directory"
echo "deb-src http://deb.debian.org/debian $release main" >source.list
# A list and a cache of our own: the machine's settings are neither used nor changed.
apt() {
    apt-get -qq -o Dir::Etc::sourcelist="$PWD/source.list" -o Dir::Etc::sourceparts=/dev/null \
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
