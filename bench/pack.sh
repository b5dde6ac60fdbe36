#!/bin/sh
# pack.sh FOLDER [REV]
#
# Puts bench_sweep and bench_cores into FOLDER, with the peers of the latter, for a machine without build
# tools and packages. With REV, both also with the library of commit REV: bench_cores --with
# old=FOLDER/bench_cores.old shows the two side by side. Called by `./dev bench pack`, which has built
# this tree and the peers.
#
# The benches are linked statically. The peers bring their libraries, and a script that starts each of them
# with these.
set -eu

root=$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")
to=$1
rev=${2:-}
rm -rf "$to"
mkdir -p "$to/peers/lib"
to=$(readlink -f -- "$to")

# link BENCH LIBRARY INCLUDE PROGRAM
link() {
    "${CC:-cc}" -std=gnu11 -O3 -DNDEBUG -I"$root/bench" -I"$3" "$root/bench/$1.c" -o "$4" -static "$2" \
        -lpthread -ldl -lm 2>"$to/link.log" || {
        cat "$to/link.log" >&2
        exit 1
    }
    rm "$to/link.log"
    strip "$4"
}

# both LIBRARY INCLUDE SUFFIX
both() {
    link bench_sweep "$1" "$2" "$to/bench_sweep$3"
    link bench_cores "$1" "$2" "$to/bench_cores$3"
}

both "$root/build/release/libpto_internal.a" "$root/include" ''
if [ -n "$rev" ]; then
    commit=$(git -C "$root" rev-parse --verify --short=10 "$rev^{commit}")
    tree=$root/build/pack/$commit
    if [ ! -e "$tree/.configured" ]; then
        mkdir -p "$tree"
        git -C "$root" archive "$commit" | tar -x -C "$tree"
        (cd "$tree" && cmake --preset release -DPTO_WERROR=OFF -DPTO_BUILD_TESTS=OFF -DPTO_CUDA=OFF) >&2
        touch "$tree/.configured"
    fi
    cmake --build "$tree/build/release" -j "$(nproc)" --target pto_internal >&2
    both "$tree/build/release/libpto_internal.a" "$tree/include" .old
fi

for name in tasks_libgomp tasks_libomp tasks_tbb; do
    program=$root/build/release/bench/peers/$name
    [ -x "$program" ] || continue
    cp "$program" "$to/peers/lib/$name"
    ldd "$program" | awk '$3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }' | while read -r library; do
        cp -L "$library" "$to/peers/lib/"
    done
    cat >"$to/peers/$name" <<END
#!/bin/sh
lib=\${0%/*}/lib
exec "\$lib"/ld-linux*.so.* --library-path "\$lib" "\$lib/$name" "\$@"
END
    chmod +x "$to/peers/$name"
done
rmdir "$to/peers/lib" 2>/dev/null || strip --strip-unneeded "$to"/peers/lib/* 2>/dev/null || :
du -sh "$to"
