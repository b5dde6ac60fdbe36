#!/bin/sh
# readme.sh STAGE SOURCE CC EXAMPLE
#
# What the README shows is true: its C program, built by its commands against the installation in
# STAGE/prefix, prints the text that follows it, and the drawing is part of what EXAMPLE prints.
set -eu

stage=$1
readme=$2/README.md
cc=$3
example=$4

PKG_CONFIG_PATH=$(dirname "$(find "$stage/prefix" -name pto.pc)")
export PKG_CONFIG_PATH
out=$stage/readme
rm -rf "$out"
mkdir -p "$out"

# block LANGUAGE NUMBER: the lines of one fenced block
block() {
    awk -v fence="\`\`\`$1" -v number="$2" '
        $0 == fence { inside = ++count == number; next }
        $0 == "```" { inside = 0 }
        inside' "$readme"
}

block c 1 >"$out/first.c"
# All but the installation, which is there already; cc is the compiler under test.
{
    printf 'cc() {\n    "%s" "$@"\n}\n' "$cc"
    block sh 2 | grep -v '^\./dev install '
} >"$out/commands"
block text 2 >"$out/expected"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir pto)
export LD_LIBRARY_PATH
(cd "$out" && sh -eu commands) >"$out/printed"
diff -u "$out/expected" "$out/printed"

block text 1 >"$out/drawing"
"$example" >"$out/tour"
lines=$(wc -l <"$out/drawing")
[ "$lines" -gt 5 ]
grep -n -xF "$(head -n 1 "$out/drawing")" "$out/tour" | cut -d: -f1 | {
    read -r at
    tail -n "+$at" "$out/tour" | head -n "$lines" | diff -u "$out/drawing" -
}
echo "the README is true"
