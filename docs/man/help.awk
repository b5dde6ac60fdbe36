# help.awk - what a command says about itself, to the language of manual pages.
#
#     what=usage      the lines of usage
#     what=help       all after them
#     what=list       the names alone: lines of two blanks, a name, its help
#     what=variables  the table of `pto options`

# In lines that are not too long to read.
function fill(s,    n, list, i, line) {
    n = split(s, list, " ")
    line = ""
    for (i = 1; i <= n; i++) {
        if (line != "" && length(line) + 1 + length(list[i]) > 76) {
            print line
            line = ""
        }
        line = line (line == "" ? "" : " ") list[i]
    }
    if (line != "")
        print line
}

function flush() {
    if (term != "") {
        print ".TP\n" term
        fill(escape(text))
    } else if (text != "") {
        if (begun)
            print ".PP"
        fill(escape(text))
    }
    begun = begun || term text != ""
    term = text = ""
}

# A term in bold, what it takes in italics: --workers N
function bold(s,    at) {
    at = index(s, " ")
    if (!at)
        return ".B " escape(s)
    return ".BI " escape(substr(s, 1, at - 1)) " \" " escape(substr(s, at + 1)) "\""
}

# A line of an option or a name; the help after two blanks or more.
function item(line, plain,    at) {
    line = substr(line, 3)
    at = match(line, /  +/)
    flush()
    term = at ? substr(line, 1, at - 1) : line
    term = plain ? ".B " escape(term) : bold(term)
    text = at ? substr(line, RSTART + RLENGTH) : ""
}

/^usage:/ { usage = 1 }
usage && !/^(usage:| +[a-z])/ { usage = 0 }
usage && what == "usage" {
    line = $0
    sub(/^usage:/, "      ", line)
    sub(/^ +/, "", line)
    sub(/  +.*$/, "", line)
    if (line ~ /^pto/) {
        if (shown++)
            print ".br"
        print ".B " escape(line)
    }
}
# What a line of usage says besides is for the description.
usage && what == "help" && /pto .*[^ ]  +[^ ]/ {
    line = $0
    sub(/^(usage:)? +/, "", line)
    if (line ~ /:$/)
        sub(/:$/, "", line)
    item("  " line, 1)
}
usage { next }
what == "usage" { next }

what == "list" && /^  [a-z]/ { item($0) }
what == "list" { next }

what == "variables" && /^  [A-Z]/ {
    flush()
    match($0, /^  [A-Z_]+ +/)
    name = substr($0, 3, RLENGTH - 2)
    sub(/ +$/, "", name)
    rest = substr($0, RLENGTH + 1)
    value = rest
    sub(/  .*$/, "", value)
    sub(/^[^ ]+ +/, "", rest)
    term = ".BR " name " \" (" rest ")\""
    # How many cores there are is not the page's to know.
    text = (name == "PTO_WORKERS" ? "" : "Default " value ". ")
    next
}
what == "variables" && /^ +[^ ]/ && term != "" {
    line = $0
    sub(/^ +/, "", line)
    text = text (text == "" || text ~ / $/ ? "" : " ") line
    next
}
what == "variables" { next }

/^  [a-z-]/ { item($0); next }
/^ *$/ { flush(); next }
{
    line = $0
    sub(/^ +/, "", line)
    if ($0 !~ /^ / && term != "")
        flush()
    text = text (text == "" ? "" : " ") line
}

END { flush() }
