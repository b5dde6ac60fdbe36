#!/bin/sh
# readme.sh STAGE SOURCE CC PTO
#
# The README is correct: its C program is examples/hello.c; built by its commands against the
# installation in STAGE/prefix it prints the text that follows; the output of the pto command
# that it shows has the right lines; and its recorded run has the right edges. PTO is the command.
set -eu

stage=$1
source=$2
cc=$3
pto=$4

readme=$source/README.md
PKG_CONFIG_PATH=$(dirname "$(find "$stage/prefix" -name pto.pc)")
export PKG_CONFIG_PATH
out=$stage/readme
rm -rf "$out"
mkdir -p "$out/examples"

# block LANGUAGE NUMBER: the lines of one fenced block
block() {
    awk -v fence="\`\`\`$1" -v number="$2" '
        $0 == fence { inside = ++count == number; next }
        $0 == "```" { inside = 0 }
        inside' "$readme"
}

# labels: what each line is about; figures are different in every run, and so are single waits
labels() {
    cut -c 1-10 | grep '[a-z]'
}

block text 1 >"$out/shown"
[ "$(wc -l <"$out/shown")" -gt 4 ]
"$pto" run vector >"$out/ran"
labels <"$out/shown" >"$out/shown.labels"
labels <"$out/ran" | diff -u "$out/shown.labels" -

block c 1 >"$out/examples/hello.c"
diff -u "$source/examples/hello.c" "$out/examples/hello.c"
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

# What it shows of a recorded run: the same graph, at other places and times.
graph() {
    sed -n '/^task /,/^Timing:/p' "$1" | sed 's/0x[0-9a-f]*/0x/'
}
{
    printf 'PATH="%s:$PATH"\n' "$(dirname "$pto")"
    block sh 3
} >"$out/commands"
block text 3 >"$out/shown"
(cd "$out" && sh -eu commands) >"$out/printed"
[ -s "$out/run.html" ]
graph "$out/shown" >"$out/shown.graph"
[ "$(wc -l <"$out/shown.graph")" -gt 4 ]
graph "$out/printed" | diff -u "$out/shown.graph" -

# The stall that it shows, which makes a program fail; without folders.
{
    printf 'PATH="%s:$PATH"\n' "$(dirname "$pto")"
    block sh 4
} >"$out/commands"
block text 4 >"$out/shown"
[ "$(wc -l <"$out/shown")" -gt 4 ]
if (cd "$out" && sh -eu commands) >"$out/printed" 2>&1; then
    echo "there is no stall"
    exit 1
fi
sed 's# /[^ ]*/# #g' "$out/printed" | diff -u "$out/shown" -

# Every linked file exists.
cat "$readme" "$source/CONTRIBUTING.md" "$source/CHANGELOG.md" |
    grep -o '](\([A-Za-z][^):]*\))' | sed 's/^](//; s/)$//' >"$out/links"
[ -s "$out/links" ]
while read -r link; do
    [ -e "$source/$link" ] || { echo "README.md, CONTRIBUTING.md or CHANGELOG.md names $link, which is not there"; exit 1; }
done <"$out/links"
echo "the README is true"
