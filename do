#!/usr/bin/env bash
# The developer's one script: installs what is missing, configures, builds, runs. `./do help` says what it can.
set -euo pipefail

# Debian packages by what needs them. A command installs only its own, and says which.
needed_to_build=(
    clang-14 g++ cmake ninja-build ccache mold
    libbenchmark-dev libfmt-dev libgit2-dev libgtest-dev libpoco-dev librapidcheck-dev libsqlite3-dev libsqlitecpp-dev libssl-dev
    libtomlplusplus-dev libzstd-dev nlohmann-json3-dev zlib1g-dev
)
# python3 is for the second verifier of the audit log, git to be held against and cloned; the others make and mount the
# disks that the power-cut tests break and that projects lie on, give a user a session, copy the whole system for an
# ordinary user who installs a package in it, set the clock, and are what people run in a sandbox: an editor, a server.
needed_to_test=(btrfs-progs curl dbus-user-session dpkg e2fsprogs faketime fuse-overlayfs git iproute2
    make mount nodejs passwd python3 redis-tools systemd tzdata uidmap vim-tiny xfsprogs)
needed_to_fuzz=(libclang-rt-14-dev)
# A machine that the isolation suites are run in, emulated; its kernel is fetched and unpacked, never installed.
needed_to_vm=(busybox-static cpio qemu-system-x86)
# What the benchmarks stand beside; without one of them its rows say so.
wished_to_bench=(bubblewrap busybox-static docker.io git podman runc runsc)
# Reads what a coverage build counted.
needed_to_cover=(gcovr)
# One version of clang's tools everywhere: another one formats and warns differently.
needed_to_lint=(clang-14 clang-format-14 clang-tidy-14 git shellcheck)

usage() {
    cat <<'END'
./do demo [ARG...]       build gradus and let it show what it can
./do test [FILTER]       build and run the tests; FILTER is a regular expression over their names, and only what it
                         needs is built
     --mutants           only the mutants: programs with one promise broken, which the tests must catch
     --mutants --changed only the mutants of sources that differ from main
     --long              all of it: the long forms of the randomised and crash tests, and the mutants
     --vm                only the isolation suites, in a virtual machine with Debian's kernel and control groups v2
     --debug             in the debug build; --asan, --tsan: under the address or thread sanitizer
./do build [PRESET]      build one of: release (default), debug, asan, tsan, mutants, coverage, tidy, fuzz
./do bench [ARG...]      build and run the benchmarks
./do coverage [FILTER]   run the tests in a build that counts; print line and branch coverage per folder
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
        debug | release | asan | tsan | mutants | coverage) need "${needed_to_build[@]}" ;;
        fuzz) need "${needed_to_build[@]}" "${needed_to_fuzz[@]}" ;;
        tidy) need "${needed_to_build[@]}" "${needed_to_lint[@]}" ;;
        *) fail "there is no preset '$preset'; presets: release debug asan tsan mutants coverage tidy fuzz" ;;
    esac
    build "$preset"
}

doTest() {
    local preset=release filter='' long=no vm=no mutants=no changed=no
    while (($# > 0)); do
        case $1 in
            --long) long=yes ;;
            --mutants) mutants=yes ;;
            --changed) changed=yes ;;
            --vm) vm=yes ;;
            --debug | --asan | --tsan) preset=${1#--} ;;
            -*) fail "test has no option '$1'; options: --mutants --changed --long --vm --debug --asan --tsan" ;;
            *) filter=${filter:+$filter|}$1 ;;
        esac
        shift
    done
    if [[ $changed == yes && $mutants == no ]]; then fail "--changed goes with --mutants"; fi
    need "${needed_to_build[@]}" "${needed_to_test[@]}"
    if [[ $vm == yes ]]; then testInVirtualMachine "$preset"; fi
    if [[ $mutants == yes && $long == no ]]; then
        if [[ $preset != release ]]; then fail "mutants have a build of their own: --mutants goes without --$preset"; fi
        testMutants "$filter" "$changed"
        return
    fi
    if [[ -n $filter && $long == no ]]; then
        buildFor "$preset" "$filter"
    else
        build "$preset"
        if [[ $long == yes ]]; then build "$preset" gradus_bench; fi
    fi
    # The fuzzers are a build of their own.
    if [[ $long == yes && (-z $filter || fuzzers =~ $filter) ]]; then
        need "${needed_to_fuzz[@]}"
        build fuzz fuzzers
    fi
    if [[ -z $filter ]]; then fetchSources "$long"; fi
    if [[ $long == yes ]]; then fetchMachine || say "there is no kernel for a virtual machine: its test is skipped"; fi
    local status=0
    runTests "$preset" "$filter" "$long" || status=$?
    if [[ $long == yes && -z $filter && $preset == release ]]; then testMutants '' no || status=$?; fi
    return "$status"
}

# buildFor PRESET FILTER: the programs whose tests the filter names. The sources say which those are; ctest then says it
# exactly, of the programs that are there (a name with a parameter, say).
buildFor() {
    local preset=$1 filter=$2 programs found
    configure "$preset"
    mapfile -t programs < <(programsNamedBy "$preset" "$filter")
    if ((${#programs[@]} == 0)); then
        say "no source names a test like '$filter': building everything"
        runNinja "$preset"
        return
    fi
    runNinja "$preset" "${programs[@]}"
    mapfile -t found < <(ctest --test-dir "build/$preset" --tests-regex "$filter" --show-only=json-v1 2>/dev/null |
        grep -oE "\"$PWD/build/$preset/tests/[^\"]*_tests\"" | sed -E 's|.*/([^/]*)"$|\1|' | sort -u)
    if ((${#found[@]} > 0)); then runNinja "$preset" "${found[@]}"; fi
}

# programsNamedBy PRESET FILTER: nothing if a part of the filter (between bars) names no test that the sources name.
programsNamedBy() {
    local names part rows programs=() parts=()
    names=$(testNames "build/$1/tests/programs.txt")
    IFS='|' read -ra parts <<<"$2"
    if [[ $2 == *[\(\)]* ]]; then parts=("$2"); fi
    for part in "${parts[@]}"; do
        rows=$(awk -F '\t' -v regex="$part" '$2 ~ regex { print $1 }' <<<"$names" | sort -u)
        if [[ -z $rows ]]; then return; fi
        mapfile -t -O "${#programs[@]}" programs <<<"$rows"
    done
    printf '%s\n' "${programs[@]}" | sort -u
}

# testNames TABLE: a line "program<TAB>test" for each test in the sources that the table lists; the parameter of one that
# has some is left open ("All/Suite.Name/").
testNames() {
    awk -F '\t' '
        $1 == "test" { print $2 "\t" $3; next }
        { scan($2, $3) }
        function scan(program, file,    line, more) {
            while ((getline line < file) > 0) {
                if (line !~ /^(TEST|TEST_F|TEST_P|TYPED_TEST|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP|INSTANTIATE_TEST_SUITE_P)\(/) continue
                while (line !~ /,[^,]*[,)]/ && (getline more < file) > 0) line = line more
                split(line, parts, /[(,) ]+/)
                if (parts[1] == "INSTANTIATE_TEST_SUITE_P") prefixes[program, parts[3]] = prefixes[program, parts[3]] " " parts[2]
                else if (parts[1] == "TEST_P") parameterised[program "\t" parts[2] "." parts[3]] = parts[2]
                else if (parts[1] == "TYPED_TEST") print program "\t" parts[2] "/0." parts[3]
                else print program "\t" parts[2] "." parts[3]
            }
            close(file)
        }
        END {
            for (row in parameterised) {
                split(row, parts, "\t")
                count = split(prefixes[parts[1], parameterised[row]], each, " ")
                for (i = 1; i <= count; i++) print parts[1] "\t" each[i] "/" parts[2] "/"
            }
        }' "$1"
}

# testMutants FILTER CHANGED: every mutant, or those of the sources that differ from main.
testMutants() {
    local filter=$1 source programs regex targets=() tests=()
    configure mutants
    if [[ $2 == yes ]]; then
        while IFS=$'\t' read -r source programs regex; do
            read -ra programs <<<"$programs"
            targets+=("${programs[@]}")
            tests+=("$regex")
        done < <(changedFiles | grep -xFf - <(cut -f1 build/mutants/tests/mutants.txt | sort -u) |
            while IFS= read -r source; do grep -F "$source"$'\t' build/mutants/tests/mutants.txt; done)
        if ((${#targets[@]} == 0)); then
            say "no mutant is made of a source that differs from main"
            return
        fi
        filter=$(IFS='|' && echo "${tests[*]}")
    else
        targets=(mutants)
    fi
    runNinja mutants "${targets[@]}"
    label='^mutant$' runTests mutants "$filter" no
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

# runTests PRESET FILTER LONG: ctest, then its ten slowest tests, then its closing lines once more.
runTests() {
    local preset=$1 filter=$2 long=$3 runner=() status=0 log=build/$1/tests.log
    # More places than cores: half of a test's time is waiting, for a disk or a deadline.
    local options=(--test-dir "build/$preset" --parallel "$(($(nproc) * 3))" --output-on-failure --no-tests=error)
    # Each run asks the isolation backends anew what they can prove.
    find "build/$preset/proofs" -mindepth 1 -delete 2>/dev/null || true
    # Without a filter every case must have been heard of (tests/cases_test.cpp).
    if [[ -n $filter ]]; then
        options+=(--tests-regex "$filter" --no-label-summary)
    elif [[ -z ${label:-} ]]; then
        export GRADUS_CASES_COMPLETE=1
    fi
    # The same random cases every time, unless someone asks for others.
    export RC_PARAMS=${RC_PARAMS:-seed=1}
    if [[ -n ${label:-} ]]; then
        options+=(--label-regex "$label")
    elif [[ $long == yes ]]; then
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
    if [[ -z $filter && $long == no ]] && canHaveOwnTmp; then
        say "the tests have a /tmp of their own, in memory"
        # shellcheck disable=SC2016  # the inner shell's
        runner=(unshare --mount sh -c 'mount -t tmpfs -o mode=1777 tmpfs /tmp && exec "$@"' sh "${runner[@]}")
    fi
    if ((EUID == 0)) && ! setpriv --reuid=41235 --regid=41235 --clear-groups test -x "$PWD/do"; then
        say "other users cannot reach $PWD: the tests as an ordinary user are skipped"
    fi
    "${runner[@]}" ctest "${options[@]}" 2>&1 | tee "$log" || status=$?
    tellSlowest "$log"
    return "$status"
}

# A third of the suite's time is a disk's, which has nothing to tell most tests; those that break disks make their own. Only
# root can mount, half of a small memory is too little, and a clone below /tmp would no longer be seen.
canHaveOwnTmp() {
    ((EUID == 0)) && [[ $PWD/ != /tmp/* ]] && (($(awk '/^MemAvailable/ { print $2 }' /proc/meminfo) >= 8 << 20)) &&
        unshare --mount true 2>/dev/null
}

# A budget is kept by looking at it: docs/contributing.md has the seconds.
tellSlowest() {
    local rows
    rows=$(sed -nE 's|^ *[0-9]+/[0-9]+ Test +#[0-9]+: (.*[^ .]) \.*.* ([0-9.]+) sec$|\2 s\t\1|p' "$1" |
        sort -rn | sed -n 1,10p) # sed reads to the end: head would end sort by a signal, and pipefail this script
    printf '\nThe slowest tests:\n%s\n\n' "$rows"
    grep -E '^[0-9]+% tests passed|^Total Test time' "$1" || true
}

doCoverage() {
    need "${needed_to_build[@]}" "${needed_to_test[@]}" "${needed_to_cover[@]}"
    build coverage
    find build/coverage -name '*.gcda' -delete
    # What a test says is not the question here; what an ordinary user runs is to be counted as well.
    find build/coverage -type d -exec chmod a+rwx {} +
    (runTests coverage "$(IFS='|' && echo "$*")" no) >&2 || say "some tests failed in this build; see above"
    gcovr --root . --gcov-ignore-parse-errors --csv build/coverage 2>/dev/null | awk -F , '
        NR > 1 && $1 ~ /^(store|policies|plugins|stages|pipeline)\// {
            count = split($1, parts, "/")
            folder = count > 2 ? parts[1] "/" parts[2] : parts[1]
            lines[folder] += $2; covered[folder] += $3; branches[folder] += $5; taken[folder] += $6
            lines["all"] += $2; covered["all"] += $3; branches["all"] += $5; taken["all"] += $6
        }
        function percent(part, whole) { return whole ? sprintf("%.1f %%", 100 * part / whole) : "-" }
        END {
            for (folder in lines) printf "%-22s %8d lines %8s %8d branches %8s\n", folder, lines[folder],
                percent(covered[folder], lines[folder]), branches[folder], percent(taken[folder], branches[folder])
        }' | sort
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

# Sources that differ from main, also those that git does not know yet.
changedFiles() {
    local base
    base=$(git merge-base HEAD main 2>/dev/null || git merge-base HEAD origin/main 2>/dev/null || echo HEAD)
    git diff --name-only --diff-filter=d "$base" -- '*.cpp' '*.h'
    git ls-files --others --exclude-standard -- '*.cpp' '*.h'
}

# Every source that changed since main or includes a header that did, as ninja's name for "what is made from it".
changedSources() {
    local file
    changedFiles | while IFS= read -r file; do
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
    coverage) doCoverage "$@" ;;
    lint) doLint "$@" ;;
    install) doInstall "$@" ;;
    help | --help | -h) usage ;;
    *)
        usage >&2
        fail "there is no command '$command'"
        ;;
esac
