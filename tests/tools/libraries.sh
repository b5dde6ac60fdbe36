#!/bin/sh
# libraries.sh ROOT CMAKE CC PTO
#
# What the pto command is built with is found out by linking, and said. Several packages provide
# cblas.h; that header alone is no OpenBLAS.
set -u

root=$1
cmake=$2
cc=$3
pto=$4
bad=0
. "$root/tests/support/expect.sh"

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# ---- configure ----

mkdir -p "$work/include" "$work/empty" "$work/another" "$work/bin"
echo "void cblas_dgemm(void);" >"$work/include/cblas.h"
echo "void cblas_dgemm(void) {}" |
    "$cc" -x c - -shared -fPIC -o "$work/another/libopenblas.so" || exit 1

# says STATUS TEXT LIBRARIES OPTION...: configures with that header, the libraries in that folder and
# no others.
says() {
    status=$1
    text=$2
    libraries=$3
    shift 3
    machine=$(uname -m)-linux-gnu
    system="/usr/lib/$machine;/lib/$machine;/usr/lib64;/lib64;/usr/lib;/lib;/usr/local/lib"
    rm -rf "$work/build"
    expect "$status" "$text" "$cmake" -S "$root" -B "$work/build" -DPTO_BUILD_TOOLS=ON \
        "-DCMAKE_C_COMPILER=$cc" "-DCMAKE_INCLUDE_PATH=$work/include" \
        "-DCMAKE_LIBRARY_PATH=$libraries" "-DCMAKE_IGNORE_PATH=$system" "$@"
}

missing="BLAS: simple loops, SLOW: no OpenBLAS (Debian: libopenblas-dev)"
says 0 "$missing" "$work/empty"
says 0 "$missing" "$work/another" # a library of that name with other functions
says 0 "JSON: none, no jansson (Debian: libjansson-dev)" "$work/empty"
says 0 "BLAS: simple loops, SLOW: PTO_OPENBLAS is OFF" "$work/empty" -DPTO_OPENBLAS=OFF
says 1 "libopenblas-dev)" "$work/another" -DPTO_OPENBLAS=ON
says 1 'PTO_OPENBLAS is "maybe"; it can be AUTO, ON or OFF' "$work/empty" -DPTO_OPENBLAS=maybe
says 1 'PTO_JANSSON is ""; it can be' "$work/empty" -DPTO_OPENBLAS=OFF -DPTO_JANSSON=
says 1 "libjansson-dev)" "$work/empty" -DPTO_OPENBLAS=OFF -DPTO_JANSSON=ON

# ---- ./dev ----

# A machine on which nothing links with OpenBLAS, whatever headers it has, and nothing can be installed.
real=$(command -v gcc)
cat >"$work/bin/gcc" <<END
#!/bin/sh
case " \$* " in *" -lopenblas "*) exit 1 ;; esac
exec $real "\$@"
END
for name in apt-get sudo; do
    printf '#!/bin/sh\necho "%s $*" >>"%s/asked"\nexit 1\n' $name "$work" >"$work/bin/$name"
done
printf '#!/bin/sh\nexit 1\n' >"$work/bin/dpkg-query"
chmod +x "$work/bin/"*
expect 1 "libopenblas-dev" env "PATH=$work/bin:$PATH" "$root/dev" run hello
grep -q . "$work/asked" 2>/dev/null || {
    echo "./dev did not try to install libopenblas-dev"
    bad=1
}

# ---- pto ----

uses="simple loops, SLOW"
if ldd "$pto" | grep -q libopenblas; then
    uses="OpenBLAS "
fi
expect 0 "  BLAS           $uses" "$pto" info
expect 0 "  JSON           jansson " "$pto" info
expect 0 "BLAS      $uses" "$pto" run cholesky --small
expect 0 "BLAS      $uses" "$pto" run decode --small
[ $bad -eq 0 ] && echo "libraries are found by linking, and named"
exit $bad
