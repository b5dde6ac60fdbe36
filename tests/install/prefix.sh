#!/bin/sh
# prefix.sh CMAKE BUILD SOURCE STAGE
#
# Installs into a fresh folder through DESTDIR, checks the files, and moves them to STAGE/prefix.
# Later tests use it there, so an installation with absolute paths would fail.
set -eu

cmake=$1
build=$2
source=$3
stage=$4

rm -rf "$stage"
mkdir -p "$stage"
DESTDIR=$stage/destdir "$cmake" --install "$build" --prefix /opt/pto >"$stage/install.log"
mv "$stage/destdir/opt/pto" "$stage/prefix"
left=$(find "$stage/destdir" -type f)
if [ -n "$left" ]; then
    echo "installed outside of the prefix: $left"
    exit 1
fi

cd "$stage/prefix"
find . -type f -o -type l | sort
for header in "$source"/include/pto/*.h; do
    cmp "$header" "include/pto/$(basename "$header")"
done
libs=$(dirname "$(find . -name libpto.a)")
for file in libpto.so pkgconfig/pto.pc cmake/pto/pto-config.cmake \
    cmake/pto/pto-config-version.cmake cmake/pto/pto-targets.cmake; do
    [ -e "$libs/$file" ] || { echo "missing: $file"; exit 1; }
done
if grep -rlF -e "$source" -e "$build" -e "$stage" -e /opt/pto "$libs/pkgconfig" "$libs/cmake"; then
    echo "these files name the place where they were built or installed"
    exit 1
fi

# The guide, with what it links to: every link of an installed page leads to a file or a page.
[ -s share/doc/pto/guide.md ]
for page in "$source"/docs/*.md; do
    [ -s "share/doc/pto/$(basename "$page")" ] || { echo "missing: $page"; exit 1; }
done
cd share/doc/pto
grep -o '](\([A-Za-z.][^):#]*\)[^):]*)' ./*.md | sed 's/:](/ /; s/[#)].*$//' | sort -u >"$stage/links"
[ "$(wc -l <"$stage/links")" -gt 10 ]
while read -r page link; do
    [ -e "$link" ] || { echo "share/doc/pto/$page links to $link, which is not installed"; exit 1; }
done <"$stage/links"
