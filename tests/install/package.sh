#!/bin/sh
# package.sh SOURCE PACKAGES ROOT
#
# The packages work on a clean Debian, whose root folder is ROOT (debootstrap makes one): they
# install, `pto run` runs, programs compile by pkg-config and by CMake, `man` shows the pages, and a
# purge leaves nothing behind. Needs root and, for what the packages depend on, the network.
# `./dev package --try` calls it; the tests do not.
set -eu

source=$1
packages=$2
root=$3

inside() {
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive "$@"
}
say() {
    echo "---- $*"
}

cp /etc/resolv.conf "$root/etc/resolv.conf"
# Containers are often made without manual pages.
rm -f "$root"/etc/dpkg/dpkg.cfg.d/*
inside apt-get -q update >"$root/log" 2>&1
inside apt-get -q install -y --no-install-recommends gcc libc6-dev cmake make pkgconf man-db \
    openmpi-bin mpich \
    >"$root/log" 2>&1 || { cat "$root/log"; exit 1; }
# All but what changes by itself: logs, caches, lists of what is installed.
snapshot() {
    (cd "$root" && find etc usr opt var/lib srv -path var/lib/dpkg -prune -o -path var/lib/apt -prune \
        -o -path usr/share/info -prune -o -print | grep -v -e ld.so.cache -e alternatives | sort)
}
snapshot >"$root/before"
rm -rf "$root/packages"
mkdir "$root/packages"
cp "$packages"/*.deb "$root/packages"

say install
inside sh -c 'apt-get -q install -y --no-install-recommends /packages/*.deb' >"$root/log" 2>&1 ||
    { cat "$root/log"; exit 1; }
inside dpkg -l libpto0.1 libpto-dev pto-tools python3-pto libpto-mpi-openmpi libpto-mpi-mpich | tail -n 6

say the command
inside pto run vector --small | grep '^result  *right'
inside ldconfig -p | grep libpto.so.0

say pkg-config
cp "$source/examples/hello.c" "$root/home/hello.c"
# shellcheck disable=SC2016 # for the shell inside
inside sh -ec 'cd /home
    cc hello.c -o hello $(pkg-config --cflags --libs pto)
    ./hello
    readelf -d hello | grep "NEEDED.*libpto.so.0"'

say CMake
cat >"$root/home/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.21)
project(hello C)
find_package(pto REQUIRED)
add_executable(by_cmake hello.c)
target_link_libraries(by_cmake PRIVATE pto::pto)
END
inside sh -ec 'cd /home
    cmake -S . -B build >/dev/null
    cmake --build build >/dev/null
    build/by_cmake'

say manual
for page in '1 pto' '1 pto-run' '3 pto_submit' '3 pto_inout' '3 pto_mpi_submit' '7 pto'; do
    # shellcheck disable=SC2086 # words
    inside man $page | head -n 5 | sed -n 4,5p | grep pto
done

say guide
for page in guide.md errors.md CHANGELOG.md examples/hello.c; do
    [ -s "$root/usr/share/doc/libpto-dev/$page" ] || { echo "missing: $page"; exit 1; }
done

say Python
inside python3 -c 'import array, pto
@pto.kernel
def twice(a: pto.In, b: pto.Out):
    for i in range(len(a)):
        b[i] = 2 * a[i]
x, y = array.array("d", [1, 2]), array.array("d", [0, 0])
with pto.Runtime() as rt:
    rt.submit(twice, x, y)
assert list(y) == [2, 4]
print(pto.__file__, "works")'

say MPI
# The example of the manual, as one rank; and the command, which loads the library of its launcher.
cp "$source"/docs/man/examples/mpi.c "$source"/docs/man/examples/example.h "$root/home"
for mpi in openmpi mpich; do
    options=
    [ $mpi = mpich ] || options="--allow-run-as-root --oversubscribe --mca btl self,vader"
    # shellcheck disable=SC2016 # for the shell inside
    inside sh -ec 'cd /home
        cc -std=gnu11 mpi.c -o ranks -lpto-mpi-$1 $(pkg-config --cflags --libs pto)
        mpirun.$1 $2 -n 3 ./ranks | grep "rank 2 of 3"
        mpirun.$1 $2 -n 2 pto run cholesky --mpi --small --workers 1 | grep "2 ranks"' sh $mpi "$options"
done

say purge
inside apt-get -q purge -y libpto0.1 libpto-dev pto-tools python3-pto libpto-mpi-openmpi libpto-mpi-mpich \
    >"$root/log" 2>&1
inside apt-get -q autoremove --purge -y >"$root/log" 2>&1
snapshot | diff "$root/before" - || {
    echo "something stays"
    exit 1
}
inside sh -c 'dpkg -l | grep pto-tools' && exit 1
echo "the packages work, and leave nothing behind"
