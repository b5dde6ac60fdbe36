#!/bin/sh
# sites.sh NM LIBRARY NAME...
#
# Every call of the library that the system could refuse is among the names, so that the fault tests
# make it fail (cmake/tests.cmake). A new kind of call cannot be missed.
set -u

nm=$1
library=$2
shift 2

could_fail='alloc|memalign|strdup|asprintf|memstream|open|dup|pipe|socket|eventfd|timerfd|epoll'
could_fail="$could_fail|memfd|truncate|mmap|mremap|mlock|shm_|brk|fork|clone|spawn|_create"
could_fail="$could_fail|sem_init|setspecific|tss_|thrd_|mtx_|atfork|atexit|qsort_r|getline|setaffinity"

calls=$("$nm" -u "$library" | awk '{ sub(/@.*/, "", $NF); print $NF }' | sort -u |
    grep -E "$could_fail" | grep -v -E '^(pto_|ptoi_)')
bad=0
count=0
for call in $calls; do
    count=$((count + 1))
    known=no
    for name in "$@"; do
        [ "$name" = "$call" ] && known=yes
    done
    if [ $known = no ]; then
        echo "$call is called, and no test lets it fail: see fault_sites in cmake/tests.cmake"
        bad=1
    fi
done
if [ $count -lt 10 ]; then
    echo "only $count calls found that could fail: is $library the library?"
    bad=1
fi
exit $bad
