#!/usr/bin/env bash
# The developer's one script: installs what is missing, configures, builds, runs. `./do help` says what it can.
set -euo pipefail

# Debian packages by what needs them. A command installs only its own, and says which.
needed_to_build=(
    g++ cmake ninja-build ccache
    libbenchmark-dev libfmt-dev libgit2-dev libgtest-dev libpoco-dev librapidcheck-dev libsqlite3-dev libsqlitecpp-dev libssl-dev
    libtomlplusplus-dev libzstd-dev nlohmann-json3-dev zlib1g-dev
)
# clang is for the fuzzer, python3 for the second verifier of the audit log, git to be held against and cloned; the others
# make and mount the disks that the power-cut tests break and that projects lie on, give a user a session, copy the whole
# system for an ordinary user who installs a package in it, set the clock, and are what people run in a sandbox: an editor,
# a server.
needed_to_test=(btrfs-progs clang-14 curl dbus-user-session dpkg e2fsprogs faketime fuse-overlayfs git iproute2
    libclang-rt-14-dev make mount nodejs passwd python3 redis-tools systemd tzdata uidmap vim-tiny xfsprogs)
# A machine that the isolation suites are run in, emulated; its kernel is fetched and unpacked, never installed.
needed_to_vm=(busybox-static cpio qemu-system-x86)
# What the benchmarks stand beside; without one of them its rows say so.
wished_to_bench=(bubblewrap busybox-static docker.io git podman runc runsc)
# One version of clang's tools everywhere: another one formats and warns differently.
needed_to_lint=(clang-14 clang-format-14 clang-tidy-14 git shellcheck)

usage() {
    cat <<'END'
./do demo [ARG...]       build gradus and let it show what it can
./do test [FILTER]       build everything and run the tests; FILTER is a regular expression over their names
     --long              the long forms of the randomised and crash tests too
     --vm                only the isolation suites, in a virtual machine with Debian's kernel and control groups v2
     --debug             in the debug build; --asan, --tsan: under the address or thread sanitizer
./do build [PRESET]      build one of: release (default), debug, asan, tsan, tidy, fuzz
./do bench [ARG...]      build and run the benchmarks
./do lint [--changed]    formatting, clang-tidy and shellcheck; --changed: clang-tidy only what differs from main
./do install [--prefix P]   install the programs (default: /usr/local for root, ~/.local otherwise)
./do help                this page

Missing Debian packages are installed on the way. GRADUS_INSTALL=no never installs: the tools are there by other means.
END
}

say() { printf 'do: %s\n' "$*" >&2; }

fail() {
    say "$@"
    exit 2
}

# need PACKAGE...: one dpkg-query (some 10 ms) when nothing is missing; the network is touched only when something is.
need() {
    if [[ ${GRADUS_INSTALL:-yes} == no ]]; then return; fi
    if ! command -v dpkg-query apt-get >/dev/null; then
        say "this is not Debian or Ubuntu, so nothing can be installed from here. What is needed, by Debian's names:"
        say "  $*"
        fail "install these by your own means, then call again with GRADUS_INSTALL=no"
    fi
    local installed package missing=()
    # shellcheck disable=SC2016  # the ${…} are dpkg-query's
    installed=$'\n'$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)$'\n'
    for package in "$@"; do
        if [[ $installed != *$'\n'"installed $package"$'\n'* ]]; then missing+=("$package"); fi
    done
    if ((${#missing[@]} == 0)); then return; fi
    installPackages "${missing[@]}"
}

# wish PACKAGE...: each by itself, and whatever cannot be had is done without.
wish() {
    local package
    for package in "$@"; do
        (need "$package") || say "doing without $package"
    done
}

installPackages() {
    local as_root=(env DEBIAN_FRONTEND=noninteractive)
    if ((EUID != 0)); then
        command -v sudo >/dev/null || fail "missing packages: $*; as root, run: apt-get install $*"
        as_root=(sudo "${as_root[@]}")
    fi
    say "installing missing packages: $*"
    # A source that does not answer is not yet a reason to stop: the others may have all of these.
    "${as_root[@]}" apt-get update -qq >&2 || say "apt-get update failed; trying with the lists that are there"
    "${as_root[@]}" apt-get install -qq -y --no-install-recommends \
        -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" >&2 ||
        fail "could not install: $*; see apt-get's words above"
}

# configure PRESET: only when never done, or when the presets changed; ninja itself sees every other change.
configure() {
    local directory=build/$1
    if [[ -f $directory/build.ninja && ! CMakePresets.json -nt $directory/build.ninja ]]; then return; fi
    # From scratch: a cache made by other presets would keep their compiler and flags.
    cmake --fresh --preset "$1" >&2
}

# build PRESET [TARGET...]: words go to stderr, so that what a command shows is alone on stdout.
build() {
    local preset=$1
    shift
    configure "$preset"
    runNinja "$preset" "$@"
}

# A terminal sees one line of progress; a log sees only what went wrong.
runNinja() {
    local preset=$1
    shift
    if [[ -t 2 ]]; then
        ninja -C "build/$preset" "$@" >&2
    else
        ninja -C "build/$preset" --quiet "$@" | { grep -v '^ninja: no work to do' >&2 || true; }
    fi
}

doDemo() {
    need "${needed_to_build[@]}"
    build release gradus gradus-jail gradus-merge
    exec build/release/pipeline/gradus demo "$@"
}

doBuild() {
    local preset=${1:-release}
    if (($# > 1)); then fail "build takes one preset"; fi
    case $preset in
        debug | release | asan | tsan) need "${needed_to_build[@]}" ;;
        fuzz) need "${needed_to_build[@]}" "${needed_to_test[@]}" ;;
        tidy) need "${needed_to_build[@]}" "${needed_to_lint[@]}" ;;
        *) fail "there is no preset '$preset'; presets: release debug asan tsan tidy fuzz" ;;
    esac
    build "$preset"
}

doTest() {
    local preset=release filter='' long=no vm=no
    while (($# > 0)); do
        case $1 in
            --long) long=yes ;;
            --vm) vm=yes ;;
            --debug | --asan | --tsan) preset=${1#--} ;;
            -*) fail "test has no option '$1'; options: --long --vm --debug --asan --tsan" ;;
            *) filter=${filter:+$filter|}$1 ;;
        esac
        shift
    done
    need "${needed_to_build[@]}" "${needed_to_test[@]}"
    if [[ $vm == yes ]]; then testInVirtualMachine "$preset"; fi
    build "$preset"
    # The fuzzers are a build of their own, made by clang; a filter means someone is in a hurry.
    if [[ -z $filter || $filter == *fuzz* ]]; then build fuzz fuzzers; fi
    fetchSources "$long"
    if [[ $long == yes ]]; then fetchMachine || say "there is no kernel for a virtual machine: its test is skipped"; fi
    runTests "$preset" "$filter" "$long"
}

# Released sources for tests to work on. Without them those tests are skipped; asked for once, unless --long insists.
fetchSources() {
    local wanted=(bzip2 toolz npm:ms@2.1.3) tried=build/sources/tried
    if [[ ${GRADUS_INSTALL:-yes} == no || ($1 == no && -e $tried) ]]; then return; fi
    if [[ $1 == yes ]]; then wanted+=(zlib); fi
    timeout 180 tests/support/packaged_sources.sh "$PWD/build/sources" "${wanted[@]}" >&2 ||
        say "some released sources cannot be had here: the tests that need them are skipped"
    touch "$tried"
}

# What a virtual machine is made of.
fetchMachine() {
    need "${needed_to_vm[@]}"
    if [[ ${GRADUS_INSTALL:-yes} == no ]]; then return; fi
    timeout 180 tests/support/debian_kernel.sh "$PWD/build/kernel" >&2
}

testInVirtualMachine() {
    fetchMachine || fail "Debian's kernel cannot be had; see above"
    build "$1" isolation_tests sandboxes_tests
    # Asked for by name, it may not be skipped.
    GRADUS_VM=1 exec ctest --test-dir "build/$1" --output-on-failure --no-tests=error --verbose \
        --tests-regex '^isolation_tests_in_a_virtual_machine$'
}

runTests() {
    local preset=$1 filter=$2 long=$3 runner=()
    local options=(--test-dir "build/$preset" --parallel "$(nproc)" --output-on-failure --no-tests=error
        --no-label-summary)
    # Without a filter every case must have been heard of (tests/cases_test.cpp).
    if [[ -n $filter ]]; then options+=(--tests-regex "$filter"); else export GRADUS_CASES_COMPLETE=1; fi
    # The same random cases every time, unless someone asks for others.
    export RC_PARAMS=${RC_PARAMS:-seed=1}
    if [[ $long == yes ]]; then
        export GRADUS_LONG=1 GRADUS_TEST_TIMEOUT=14400
    else
        options+=(--label-exclude '^long$')
    fi
    if [[ $preset == asan || $preset == tsan ]]; then
        export GRADUS_TEST_TIMEOUT=${GRADUS_TEST_TIMEOUT:-1200} UBSAN_OPTIONS=print_stacktrace=1
    fi
    # The thread sanitizer of g++ 12 cannot start where the kernel spreads addresses over 32 bits (6.6 and later).
    if [[ $preset == tsan ]] && setarch --addr-no-randomize true 2>/dev/null; then
        runner=(setarch --addr-no-randomize)
    fi
    exec "${runner[@]}" ctest "${options[@]}"
}

doBench() {
    need "${needed_to_build[@]}"
    wish "${wished_to_bench[@]}"
    build release gradus_bench
    exec build/release/tests/bench/gradus_bench "$@"
}

doLint() {
    local changed=no failed=0
    case ${1:-} in
        '') ;;
        --changed) changed=yes ;;
        *) fail "lint has no option '$1'; options: --changed" ;;
    esac
    need "${needed_to_build[@]}" "${needed_to_lint[@]}"
    shellcheck ./do .ci/run tests/support/*.sh tests/plugins/isolation/*.sh || failed=1
    sources '*.cpp' '*.h' | xargs -0 -r clang-format-14 --dry-run -Werror || failed=1
    tidy "$changed" || failed=1
    if ((failed)); then fail "lint found something; see above"; fi
    say "lint is clean"
}

# Files that git knows or would add, as long as they exist; NUL after each.
sources() { git ls-files -z --cached --others --exclude-standard --deduplicate -- "$@" | existing; }

existing() {
    local file
    while IFS= read -r -d '' file; do
        if [[ -f $file ]]; then printf '%s\0' "$file"; fi
    done
}

# clang-tidy runs as part of the tidy preset's build: in parallel, and again only for what changed since it was clean.
tidy() {
    local targets=()
    # What clang-tidy demands is no input that ninja knows of: when it changes, everything is looked at again.
    if ! cat .clang-tidy tests/.clang-tidy | cmp -s - build/tidy/demands; then
        rm -rf build/tidy
        configure tidy
        cat .clang-tidy tests/.clang-tidy >build/tidy/demands
    fi
    configure tidy
    if [[ $1 == yes ]]; then
        mapfile -t targets < <(changedSources)
        if ((${#targets[@]} == 0)); then return; fi
    fi
    runNinja tidy -k 0 "${targets[@]}"
}

# Every source that changed since main or includes a header that did, as ninja's name for "what is made from it".
changedSources() {
    local base file
    base=$(git merge-base HEAD main 2>/dev/null || git merge-base HEAD origin/main 2>/dev/null || echo HEAD)
    {
        git diff --name-only --diff-filter=d "$base" -- '*.cpp' '*.h'
        git ls-files --others --exclude-standard -- '*.cpp' '*.h'
    } | while IFS= read -r file; do
        if [[ $file == *.cpp ]]; then echo "$file"; fi
        if [[ $file == *.h ]]; then git grep --untracked -lF "#include \"$file\"" -- '*.cpp' || true; fi
    done | sort -u | while IFS= read -r file; do
        if grep -qF "\"$PWD/$file\"" build/tidy/compile_commands.json; then echo "$PWD/$file^"; fi
    done
}

doInstall() {
    local prefix=$HOME/.local
    if ((EUID == 0)); then prefix=/usr/local; fi
    case ${1:-} in
        '') ;;
        --prefix=?*) prefix=${1#--prefix=} ;;
        --prefix)
            prefix=${2:-}
            if [[ -z $prefix ]]; then fail "--prefix needs a directory"; fi
            ;;
        *) fail "install has no option '$1'; options: --prefix DIRECTORY" ;;
    esac
    need "${needed_to_build[@]}"
    build release gradus gradus-jail gradus-merge
    cmake --install build/release --prefix "$(cd "$caller" && realpath -m "$prefix")"
}

caller=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")"
command=${1:-help}
shift || true
case $command in
    demo) doDemo "$@" ;;
    test) doTest "$@" ;;
    build) doBuild "$@" ;;
    bench) doBench "$@" ;;
    lint) doLint "$@" ;;
    install) doInstall "$@" ;;
    help | --help | -h) usage ;;
    *)
        usage >&2
        fail "there is no command '$command'"
        ;;
esac
