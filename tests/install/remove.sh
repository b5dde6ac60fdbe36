#!/bin/sh
# remove.sh CMAKE BUILD SOURCE STAGE
#
# `--remove` removes exactly what `./dev install` installed: neither older nor newer files. An
# installation over an older one leaves nothing of the older one.
set -eu

cmake=$1
build=$2
source=$3
stage=$4

# install DESTDIR: as ./dev does it, into /opt/pto
install_into() {
    rm -rf "$out/plan" "$out/staged"
    DESTDIR=$out/staged "$cmake" --install "$build" --prefix /opt/pto >"$out/log"
    "$source/cmake/manifest.sh" plan "$out/staged" "$1" /opt/pto >"$out/plan"
    DESTDIR=$1 "$cmake" --install "$build" --prefix /opt/pto >"$out/log"
    "$source/cmake/manifest.sh" record "$1" /opt/pto "$out/plan"
}

out=$stage.remove
root=$out/root
rm -rf "$out"
mkdir -p "$root/opt/pto/share/man/man3" "$root/opt/pto/lib"
echo mine >"$root/opt/pto/lib/mine"
(cd "$root" && find . | sort) >"$out/before"

install_into "$root"
prefix=$root/opt/pto
for file in bin/pto include/pto/pto.h share/man/man1/pto.1 share/man/man1/pto-run.1 \
    share/man/man3/pto_submit.3 share/man/man7/pto.7 \
    share/doc/pto/guide.md share/doc/pto/CHANGELOG.md share/doc/pto/examples/hello.c \
    share/bash-completion/completions/pto share/zsh/site-functions/_pto \
    share/fish/vendor_completions.d/pto.fish; do
    [ -s "$prefix/$file" ] || { echo "missing: $file"; exit 1; }
done

# An older version had a file that this one does not have.
mkdir "$prefix/old"
touch "$prefix/old/file"
printf '%s\n' /opt/pto/old/ /opt/pto/old/file >>"$prefix/share/pto/manifest"
install_into "$root"
[ ! -e "$prefix/old/file" ] || { echo "an old file stays"; exit 1; }

touch "$prefix/include/later"
DESTDIR=$root "$source/dev" install --remove --prefix /opt/pto >"$out/log"
(cd "$root" && find . | sort) >"$out/after"
printf '%s\n' ./opt/pto/include ./opt/pto/include/later | sort - "$out/before" | diff -u - "$out/after"

if DESTDIR=$root "$source/dev" install --prefix=/opt/pto --remove >"$out/said" 2>&1; then
    echo "what is not there was removed"
    exit 1
fi
grep "no installation in $root/opt/pto" "$out/said"

# refuses WORDS...: the prefix is said once, and is no option
refuses() {
    if "$source/dev" install --remove "$@" >"$out/said" 2>&1; then
        echo "./dev install --remove $* was taken"
        exit 1
    fi
}
refuses --prefix
refuses --prefix=
refuses --prefix="$out/a" "$out/b"
refuses --prefx="$out/a"
rm -rf "$out"
