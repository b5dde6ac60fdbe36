#!/bin/sh
# own.sh NVCC SOURCE BUILD: the program of docs/gpu.md compiles with its commands against the public headers and
# the library of BUILD, and prints what the page says on a simulated device. On nvidia:0 it does the same, or
# says why it cannot.
set -u

nvcc=$1
source=$2
build=$3
page=$source/docs/gpu.md
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

fail() {
    echo "docs/gpu.md: $1" >&2
    exit 1
}

# block LANGUAGE: the first one on the page
block() {
    awk -v begin="\`\`\`$1" '$0 == begin && !done { on = 1; next } on && $0 == "```" { on = 0; done = 1 } on' "$page"
}
block cuda >"$work/kernels.cu"
block c >"$work/main.c"
block sh >"$work/commands"
awk '/^\.\/main/ { seen = 1 } seen && $0 == "```text" { on = 1; next } on && $0 == "```" { exit } on' "$page" >"$work/want"
for file in kernels.cu main.c commands want; do
    [ -s "$work/$file" ] || fail "no block for $file"
done

mkdir -p "$work/include/pto" "$work/bin"
cp "$source"/include/pto/*.h "$source"/include/pto/*.cuh "$build/include/pto/grid.cuh" "$work/include/pto/"
cat >"$work/bin/pkg-config" <<END
#!/bin/sh
case \$1 in
--cflags) echo "-I$work/include" ;;
--libs) echo "-L$build -lpto" ;;
esac
END
printf '#!/bin/sh\nexec "%s" "$@"\n' "$nvcc" >"$work/bin/nvcc" # a link would not find its headers
chmod +x "$work/bin/pkg-config" "$work/bin/nvcc"
cd "$work" || exit 1
export PATH="$work/bin:$PATH" LD_LIBRARY_PATH="$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
grep -v '^\./main' commands | sh -eu >log 2>&1 || {
    cat log >&2
    fail "a command fails"
}
[ ! -s log ] || {
    cat log >&2
    fail "a command warns"
}
./main sim:0 >got 2>&1
cmp got want || fail "on sim:0 it prints: $(cat got)"
if ./main >got 2>&1; then
    cmp got want || fail "on nvidia:0 it prints: $(cat got)"
else
    grep -q "nvidia:0" got || fail "without a GPU it says: $(cat got)"
fi
echo "the program of docs/gpu.md works: $(tail -n 1 got)"
