#!/bin/sh
# installed.sh STAGE
#
# The pto command works from where it was installed and moved to, STAGE/prefix.
set -u

pto=$1/prefix/bin/pto
cd / || exit 1
said=$("$pto" run vector --small --workers 2 2>&1) || {
    echo "$pto: $said"
    exit 1
}
printf '%s\n' "$said" | grep "^result  *right: "
