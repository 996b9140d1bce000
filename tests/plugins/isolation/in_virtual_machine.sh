#!/usr/bin/env bash
# in_virtual_machine.sh BUILD KERNEL: the suites of the isolation backends on Debian's own kernel and a unified hierarchy of
# control groups, in a virtual machine that is made of this machine's programs and thrown away. Fails if a test fails, if
# tests are missing, or if the machine does not come up. BUILD/vm keeps what was said. Exit 77: it cannot be had here.
# GRADUS_VM=1: then that is a failure too. GRADUS_UPDATE=1 writes the figures into docs/isolation.md, unless
# GRADUS_VM_SUITES='user|trials' asks for some of the suites only.
set -euo pipefail

build=$(realpath "$1")
kernel=$2
source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../..")
place=$build/vm
user=41235
root_session=user.slice/user-0.slice/session-1.scope
session=user.slice/user-$user.slice/session-2.scope
delegated=user.slice/user-$user.slice/user@$user.service/init.scope

# Programs of this machine's that the tests call, by Debian's packages; one that is not installed is not in the machine.
packages=(
    base-files bash busybox-static coreutils curl dash dbus-bin dbus-daemon dbus-session-bus-common dbus-user-session diffutils e2fsprogs findutils git
    grep gzip hostname libc-bin libpython3.11-minimal libpython3.11-stdlib login mawk mount passwd perl-base procps python3-minimal
    python3.11-minimal sed systemd tar util-linux util-linux-extra
)

# Only what concerns limits and groups: the rest of an ordinary user's suite does not change with who holds its limits.
about_groups='Lifecycle.*:Limited.*:Mutants.*Group*:Probe.*:UnifiedMachine.AnOrdinary*:UnifiedMachine.Leaves*'
about_manager='AskingForAScope.*:Probe.*:RealUserManager.*:UnifiedMachine.AnOrdinary*'
about_pools='AheadOfItsSandbox.*:Isolation.*:Limited.*:Pooled.*:WorkspaceView.*'
about_process='Input.*:Output.*:BareProcess.*:Limited.*:FilterInside.*-Limited.*Disk*:Limited.*Scratch*:FilterInside.Everyday*'
about_trials='TrialTest.*:ChangeLayerTest.ShowsAnother*:ChangeLayerTest.Directories*-TrialTest.ADiskThatIsFull*'

# suites: name, user, group, seconds, a variable or "-", program, gtest's filter.
suites() {
    grep -E "^(${GRADUS_VM_SUITES:-[a-z]+}) " <<TABLE
root 0 $root_session 1200 - isolation_tests *
user $user $session 1200 - isolation_tests *
pooled 0 $root_session 600 GRADUS_TEST_POOL=3 isolation_tests $about_pools
delegated $user $delegated 600 - isolation_tests $about_groups
manager 0 $root_session 300 - with_user_manager $about_manager
process 0 $root_session 600 GRADUS_TEST_BACKEND=process isolation_tests $about_process
trials $user $session 600 - sandboxes_tests $about_trials
TABLE
}

# Where the program is that has these tests.
programOf() {
    case $1 in
        sandboxes_tests) echo "$build/tests/stages/sandboxes_tests" ;;
        *) echo "$build/tests/plugins/isolation_tests" ;;
    esac
}

say() { echo "in_virtual_machine: $*"; }

skip() {
    say "cannot be had here: $*"
    if [[ ${GRADUS_VM:-} == 1 ]]; then exit 1; fi
    exit 77
}

fail() {
    say "$*"
    say "all that was said: $place/said"
    exit 1
}

checkTools() {
    local tool
    for tool in qemu-system-x86_64 busybox cpio dpkg-query; do
        command -v "$tool" >/dev/null || skip "$tool is not installed (./do test --vm installs it)"
    done
    if [[ ! -e $kernel/release ]]; then skip "there is no kernel in $kernel (./do test --vm fetches one)"; fi
}

# Every file of the packages; some name theirs by links that lead into /usr.
packagedFiles() {
    dpkg-query --listfiles "${packages[@]}" 2>/dev/null |
        sed -nE 's#^/(bin|sbin|lib|lib64)/#/usr/\1/#; \#^/usr/share/(doc|info|lintian|locale|man)/#d; \#^/(usr|etc)(/|$)#p' || true
    find /etc/alternatives /usr/bin/awk
}

ownPrograms() { suites | while read -r _ _ _ _ _ program _; do programOf "$program"; done | sort -u; }

# Of programs and modules, the libraries: each by the name it is looked for and by the one it has.
librariesOf() {
    grep -E '^/usr/(s?bin/|lib/systemd/systemd$)|/lib-dynload/' | cat - <(ownPrograms) | { xargs -d '\n' ldd 2>/dev/null || true; } |
        sed -nE 's#.*(/lib[^ ]*/[^ ]*) \(0x.*#/usr\1#p' | sort -u | while read -r library; do
        printf '%s\n' "$library" "$(realpath "$library")"
    done
}

existing() {
    local name
    while read -r name; do
        if [[ -e /$name || -L /$name ]]; then echo "$name"; fi
    done
}

# Names below /, one a line.
hostFiles() {
    local files
    files=$(packagedFiles)
    { echo "$files" && librariesOf <<<"$files"; } | sed 's#^/##' | sort -u | existing
}

# The tests at the very paths they were built with, and what a machine needs to know of itself.
stageOwnFiles() {
    local stage=$1 directory name who group patience variable program filter command
    mkdir -p "$stage"/{dev,etc,gradus/modules,home,opt,proc,root,run,sbin,srv,sys,tmp,usr/lib64,var/tmp} "$stage$build"/{cases,libexec/gradus}
    for directory in bin sbin lib lib64; do
        rm -rf "${stage:?}/$directory"
        ln -s "usr/$directory" "$stage/$directory"
    done
    mkdir -p "$stage$build"/tests/{plugins,stages,mutants}
    cp -a "$build/libexec/gradus/gradus-jail" "$stage$build/libexec/gradus/"
    cp -a "$build"/tests/plugins/isolation_{guest,tests} "$stage$build/tests/plugins/"
    cp -a "$build"/tests/stages/sandbox{_owner,es_tests} "$stage$build/tests/stages/"
    cp -a "$build"/tests/mutants/jail_* "$stage$build/tests/mutants/"
    cp -a "$kernel"/*.ko "$stage/gradus/modules/"
    cp "$source/tests/plugins/isolation/virtual_machine_init.sh" "$stage/gradus/init"
    cp "$source/tests/plugins/isolation/with_user_manager.sh" "$stage/gradus/with_user_manager"
    chmod -R go+rX "$stage"
    chmod +x "$stage"/gradus/{init,with_user_manager}
    chmod 1777 "$stage/tmp" "$stage/var/tmp" "$stage$build/cases"
    chmod 700 "$stage/root"
    printf '%s\n' root:x:0:0:root:/root:/bin/sh "user:x:$user:$user::/home/user:/bin/sh" >"$stage/etc/passwd"
    printf '%s\n' root:x:0: "user:x:$user:" >"$stage/etc/group"
    printf 'root:*:19000:0:99999:7:::\n' | tee "$stage/etc/shadow" >"$stage/etc/gshadow"
    chmod 600 "$stage/etc/shadow" "$stage/etc/gshadow"
    echo '127.0.0.1 localhost' >"$stage/etc/hosts"
    echo gradus >"$stage/etc/hostname"
    echo 'hosts: files dns' >"$stage/etc/nsswitch.conf"
    suites | while read -r name who group patience variable program filter; do
        command="'$(programOf "$program")'"
        if [[ $program == with_user_manager ]]; then command="/gradus/with_user_manager $user $command"; fi
        echo "$name $who $group $patience $variable $command --gtest_color=no '--gtest_filter=$filter'"
    done >"$stage/gradus/plan"
}

archive() { cpio --create --format=newc --owner=0:0 --quiet; }

# The machine starts with what unpacks the rest: the file system that the kernel itself unpacks into can be nobody's new root.
pack() {
    local stage=$place/stage
    rm -rf "$stage"
    stageOwnFiles "$stage/root"
    mkdir "$stage/first"
    (cd / && hostFiles | archive) >"$stage/first/programs.cpio"
    (cd "$stage/root" && find . -mindepth 1 | sort | archive) >"$stage/first/tests.cpio"
    cp "$(command -v busybox)" "$stage/first/busybox"
    mkdir "$stage/first/root"
    cat >"$stage/first/init" <<'INIT'
#!/busybox sh
/busybox mount -t tmpfs -o mode=755 root /root
cd /root
for part in programs tests; do
    /busybox cpio -idmu </$part.cpio
    /busybox rm /$part.cpio
done
exec /busybox switch_root /root /gradus/init
INIT
    chmod +x "$stage/first/init"
    (cd "$stage/first" && find . | archive) >"$place/initramfs"
    rm -rf "$stage"
}

boot() {
    timeout "$1" qemu-system-x86_64 -accel "${GRADUS_VM_ACCELERATOR:-tcg,thread=multi}" -cpu max -smp 2 -m 2048 -display none \
        -nic none -monitor none -no-reboot -serial "file:$place/console" -kernel "$kernel/vmlinuz" -initrd "$place/initramfs" \
        -append 'console=ttyS0 loglevel=1 panic=-1' </dev/null
}

# listed PROGRAM FILTER: how many tests gtest knows of; so many must have run inside.
listed() { "$(programOf "$1")" --gtest_list_tests "--gtest_filter=$2" | grep -c '^  ' || true; }

# figures NAME: exit code, seconds, tests that ran, passed and were skipped; "-" for what was never said.
figures() {
    awk -v name="$1" '
        BEGIN { status = seconds = ran = "-"; passed = skipped = 0 }
        $1 == "@@" && $3 == name { inside = $2 == "begin"; if ($2 == "end") { status = $4; seconds = $5 } }
        !inside { next }
        /^\[==========\].* ran\. / { ran = $2 }
        /^\[  PASSED  \] [0-9]+ test/ { passed = $4 }
        /^\[  SKIPPED \] [0-9]+ test/ { skipped = $4 }
        END { print status, seconds, ran, passed, skipped }' "$place/said"
}

# reasons NAME: why tests were skipped, each reason once, with how many had it.
reasons() {
    awk -v name="$1" '
        $1 == "@@" && $3 == name { inside = $2 == "begin" }
        inside && /: Skipped$/ { reason = ""; reading = 1; next }
        inside && reading && /^\[  SKIPPED \]/ { count[reason]++; reading = 0 }
        reading { reason = reason (reason == "" ? "" : " ") $0 }
        END { for (reason in count) print count[reason] "\t" reason }' "$place/said" |
        sed -E 's/gradus-[0-9]+-[0-9]+-[0-9]+/gradus-…/' | sort -t "$(printf '\t')" -k1,1nr -k2
}

# judge NAME PROGRAM FILTER: all of its tests ran, none failed, and few were skipped; of a handful none.
judge() {
    local name=$1 expected status seconds ran passed skipped
    expected=$(listed "$2" "$3")
    read -r status seconds ran passed skipped < <(figures "$name")
    say "$name: exit code $status, $ran tests of $expected, $passed passed, $skipped skipped, $seconds s"
    if [[ $status == 0 && $ran == "$expected" ]] && ((passed + skipped == ran && passed > 0 && skipped <= ran / 8)); then return 0; fi
    awk -v name="$name" '$1 == "@@" && $3 == name { inside = $2 == "begin" } inside' "$place/said" |
        grep -vE '^\[ (RUN|      OK)|^\[---' | grep -B 30 '^\[  FAILED  \].* ms)$' || tail -n 20 "$place/said"
    return 1
}

words() {
    case $1 in
        root) echo root ;;
        user) echo 'an ordinary user' ;;
        pooled) echo 'root, jails that go from sandbox to sandbox' ;;
        delegated) echo 'one with a part of the hierarchy' ;;
        manager) echo 'one with a systemd of its own' ;;
        process) echo 'root, the process backend' ;;
        trials) echo 'an ordinary user, transient sandboxes' ;;
    esac
}

table() {
    local name group status seconds ran passed skipped
    printf 'Kernel %s, a unified hierarchy, two emulated processors.\n\n' "$(cat "$kernel/release")"
    printf '| as | control groups | tests | passed | skipped | seconds |\n|---|---|---|---|---|---|\n'
    while read -r name _ group _; do
        read -r status seconds ran passed skipped < <(figures "$name")
        # shellcheck disable=SC2016  # a backtick is the page's
        printf '| %s | `%s` | %s | %s | %s | %s |\n' "$(words "$name")" "$group" "$ran" "$passed" "$skipped" "$seconds"
    done < <(suites)
    printf '\nSkipped, and why:\n\n'
    while read -r name _; do
        reasons "$name" | sed -E "s/^([0-9]+)\t/- $(words "$name"), \1: /"
    done < <(suites)
}

# Between its two marks the page holds what the last run for it said.
update() {
    local page=$source/docs/isolation.md
    table >"$place/table"
    awk -v table="$place/table" '
        /^<!-- end of virtual machine -->$/ { while ((getline line < table) > 0) print line; print ""; skipping = 0 }
        !skipping
        /^<!-- virtual machine -->$/ { print ""; skipping = 1 }' "$page" >"$place/page"
    cat "$place/page" >"$page"
}

checkTools
mkdir -p "$place"
pack
boot "${GRADUS_VM_PATIENCE:-2400}" || say "the machine was stopped from outside"
tr -d '\r' <"$place/console" >"$place/said"
grep -q '^@@ up ' "$place/said" || fail "the machine did not come up"
failed=0
while read -r name _ _ _ _ program filter; do judge "$name" "$program" "$filter" || failed=1; done < <(suites)
if ((failed)); then fail "not all of it holds"; fi
if [[ -n ${GRADUS_UPDATE:-} && -z ${GRADUS_VM_SUITES:-} ]]; then update; fi
