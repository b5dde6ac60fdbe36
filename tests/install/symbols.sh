#!/bin/sh
# symbols.sh SOURCE SHARED STATIC
#
# What the public headers declare is what the shared library exports and what is global in the
# static one: no more, no less. Exported symbols have the version of the soname.
set -eu

source=$1
shared=$2
static=$3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sed -n 's/^PTO_API .*[ *]\(pto_[a-z0-9_]*\)(.*/\1/p' "$source"/include/pto/*.h |
    sort -u >"$work/declared"
soname=$(readelf -d "$shared" | sed -n 's/.*(SONAME).*\[libpto\.so\.\(.*\)\]/\1/p')
[ -n "$soname" ]
nm -D --defined-only "$shared" | awk -v node="PTO_$soname" '$NF != node { print $NF }' |
    sort -u >"$work/versioned"
sed "s/@@PTO_$soname\$//" "$work/versioned" >"$work/exported"
nm -g --defined-only "$static" | awk 'NF == 3 { print $3 }' | sort -u >"$work/global"

bad=0
for list in declared exported global; do
    echo "$list: $(wc -l <"$work/$list") symbols"
    [ -s "$work/$list" ] || bad=1
done

# complain TEXT: reads names; each one is an error.
complain() {
    while read -r symbol; do
        echo "$symbol: $1"
        touch "$work/bad"
    done
}
declarations=$(grep -c '^PTO_API' "$source"/include/pto/*.h | awk -F: '{ n += $2 } END { print n }')
if [ "$declarations" -ne "$(wc -l <"$work/declared")" ]; then
    echo "$declarations lines begin with PTO_API, but not every one has its function beside it"
    bad=1
fi
for list in exported global; do
    comm -23 "$work/declared" "$work/$list" | complain "declared but not $list"
    comm -13 "$work/declared" "$work/$list" | complain "$list but declared in no public header"
    grep -v '^pto_' "$work/$list" | complain "$list without the prefix pto_"
done
[ $bad -eq 0 ] && [ ! -e "$work/bad" ]
