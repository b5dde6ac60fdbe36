#!/bin/sh
# run.sh SOURCE BUILD CONFIG [SANITIZE]
#
# Builds the Python module against the library of BUILD and runs its tests with pytest; under a sanitizer
# if SANITIZE names one. With CONFIG Debug it counts references in Debian's debug interpreter instead.
# Skipped, and counted as skipped, where the interpreter lacks what is needed. PTO_PYTHON: the interpreter.
set -eu

source=$1
build=$2
config=$3
sanitize=${4:-}
python=${PTO_PYTHON:-/usr/bin/python3}


skip() {
    echo "[==========] Running 1 test(s)."
    echo "[ RUN      ] python"
    echo "$1"
    echo "[  SKIPPED ] python"
    echo "[==========] 1 test(s) run."
    exit 0
}

modules="setuptools, wheel"
if [ -z "$sanitize" ] && [ "$config" = Debug ]; then
    python=${PTO_PYTHON_DEBUG:-/usr/bin/python3-dbg}
else
    modules="$modules, numpy, pytest"
fi
[ -x "$python" ] || skip "there is no $python"
"$python" -c "import $modules, sys, sysconfig, pathlib
sys.exit(sys.version_info < (3, 11) or not (pathlib.Path(sysconfig.get_path('include')) / 'Python.h').exists())" \
    2>/dev/null || skip "$python lacks one of $modules, or its headers"

folder=$build/python/$(basename "$python")
mkdir -p "$folder"
cd "$source/python"
PTO_LIBRARY_DIR=$build PTO_BUNDLE=1 PTO_SANITIZE=$sanitize "$python" setup.py -q build --build-base "$folder/base" \
    --build-lib "$folder/lib" egg_info --egg-base "$folder" bdist_wheel --dist-dir "$folder" \
    >"$folder/log" 2>&1 || {
    cat "$folder/log"
    exit 1
}
export PYTHONPATH="$folder/lib" PYTHONDONTWRITEBYTECODE=1 PTO_INCLUDE="$source/include" PTO_WHEEL="$folder"
cd "$source/tests/python"
if [ "$config" = Debug ] && [ -z "$sanitize" ]; then
    exec "$python" leaks.py
fi
case $sanitize in
*address*)
    LD_PRELOAD="$(gcc -print-file-name=libasan.so)"
    export LD_PRELOAD ASAN_OPTIONS=detect_leaks=0
    ;;
esac
exec "$python" -X faulthandler -m pytest -q -p no:cacheprovider --rootdir "$source" .
