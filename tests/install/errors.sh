#!/bin/sh
# errors.sh SOURCE CC PROVOKE [--update]
#
# docs/errors.md is correct: every code of PTO_STATUS_MAP has a section, in order, with number, text,
# hint and an example of its detail. PROVOKE is the test program that provokes each code. The first
# paragraphs of a section are written by hand; --update regenerates the rest.
set -eu

source=$1
cc=$2
provoke=$3
update=${4:-}

page=$source/docs/errors.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/rows.c" <<'END'
#include <stdio.h>
#include <pto/status.h>
int main(void)
{
#define ROW(name, value, text, hint) printf("PTO_%s\t%d\t%s\t%s\n", #name, value, text, hint);
    PTO_STATUS_MAP(ROW)
    return 0;
}
END
"$cc" -I"$source/include" "$work/rows.c" -o "$work/rows"
"$work/rows" >"$work/table"

# Addresses, places in the test and sizes of structures are not for the page.
"$provoke" 2>&1 | sed -n 's/^  \(PTO_[A-Z_]*\): "\(.*\)"$/\1\t\2/p' |
    sed -E 's,[^ ]*test_provoke\.c:[0-9]+,app.c:12,g; s/0x[0-9a-f]+/0x.../g; s/(worker process) [0-9]+/\1 4242/
        s/(memfd_create for) [0-9]+/\1 .../
        s/9223372036854775807/LARGEST/g; s/[0-9]{10,}/.../g; s/LARGEST/9223372036854775807/g' \
        >"$work/words"

awk -F '\t' -v table="$work/table" -v words="$work/words" '
    BEGIN {
        while ((getline < words) > 0)
            example[$1] = $2
        while ((getline < table) > 0) {
            code[++n] = $1
            value[$1] = $2
            text[$1] = $3
            hint[$1] = $4
        }
    }
    /^## PTO_/ {
        split($0, part, " ")
        name = part[2]
        if (!(name in value)) {
            printf "errors.md:%d: there is no %s\n", NR, name > "/dev/stderr"
            bad = 1
        }
        made = 0
        next
    }
    name == "" { top = top $0 "\n"; next }
    /^\*\*.*\*\*$/ { next }
    /^To do: / { made = 1 }
    made { next }
    { prose[name] = prose[name] $0 "\n" }
    END {
        printf "%s", top
        for (i = 1; i <= n; i++) {
            name = code[i]
            gsub(/^\n+|\n+$/, "", prose[name])
            if (prose[name] == "") {
                print "errors.md: not a word about " name > "/dev/stderr"
                bad = 1
            }
            printf "%s## %s (%d)\n\n**%s**\n\n%s\n\n", (i > 1 ? "\n" : ""), name, value[name],
                text[name], prose[name]
            printf "To do: %s.\n", hint[name]
            if (example[name] != "")
                printf "\n```text\n%s\n```\n", example[name]
        }
        exit bad
    }' "$page" >"$work/page"

if [ "$update" = --update ]; then
    cp "$work/page" "$page"
fi
diff -u "$page" "$work/page" || {
    echo "what it should say has a + above; errors.sh --update writes it"
    exit 1
}
echo "$(wc -l <"$work/table") codes, each with its section"
