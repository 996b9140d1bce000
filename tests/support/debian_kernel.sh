#!/bin/sh
# debian_kernel.sh DIRECTORY: Debian's kernel for cloud machines, as DIRECTORY/vmlinuz, with a few of its modules beside it
# and its release in DIRECTORY/release. The package is fetched and unpacked, never installed: this machine's own way to start
# stays as it is. What is there already is not fetched again.
set -eu
directory=$1
[ ! -e "$directory/release" ] || exit 0
rm -rf "$directory.new"
mkdir -p "$directory.new"
cd "$directory.new"

# The package without a version in its name stands for whichever is the newest.
package=$(apt-cache depends --important linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
[ -n "$package" ] || { echo "apt knows no linux-image-cloud-amd64" >&2 && exit 1; }
apt-get -qq -o APT::Sandbox::User=root download "$package" >&2
dpkg-deb --fsys-tarfile "$package"_*.deb |
    tar -x --wildcards './boot/vmlinuz-*' '*/fs/overlayfs/overlay.ko' '*/drivers/block/loop.ko'
mv boot/vmlinuz-* vmlinuz
find lib -name '*.ko' -exec mv {} . \;
rm -r boot lib "$package"_*.deb
echo "${package#linux-image-}" >release
rm -rf "$directory"
mv "$directory.new" "$directory"
