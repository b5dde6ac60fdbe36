# expect.sh - for scripts that run a command and check its output; they begin with bad=0.

# expect STATUS TEXT COMMAND...: the command ends with STATUS and its output contains TEXT
expect() {
    want=$1
    text=$2
    shift 2
    said=$(timeout 120 "$@" 2>&1 </dev/null)
    got=$?
    if [ $got -eq "$want" ] && printf '%s\n' "$said" | grep -qF -- "$text"; then
        return
    fi
    echo "$*: status $got, not $want; or does not say '$text':"
    printf '%s\n' "$said" | sed 's/^/    /'
    bad=1
}
