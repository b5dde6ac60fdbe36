#!/bin/sh
# probes.sh READELF LIBRARY
#
# The library has the static probes that the guide names, each with three arguments.
set -u

readelf=$1
library=$2
bad=0

notes=$("$readelf" -n "$library" 2>/dev/null)
for probe in submit kernel_start kernel_end; do
    arguments=$(printf '%s\n' "$notes" | grep -A 3 "Provider: pto\$" | grep -A 2 "Name: $probe\$" |
        sed -n 's/.*Arguments: //p' | head -n 1)
    # shellcheck disable=SC2086 # one word for each argument
    set -- $arguments
    if [ $# -ne 3 ]; then
        echo "probe pto:$probe has $# arguments ($arguments), not 3"
        bad=1
    fi
done
[ $bad -eq 0 ] && echo "submit, kernel_start and kernel_end are there"
exit $bad
