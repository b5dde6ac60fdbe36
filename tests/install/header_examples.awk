# header_examples.awk - collects the examples in the comments of a header, for header_examples.sh.
#
#     awk -v out=FOLDER -v name=include/pto/work.h -f header_examples.awk HEADER
#
# An example is a block of a comment that is indented by four or more columns and has a line that ends
# like C: with a semicolon or an opening brace, a // comment aside. All examples of a comment make one
# program, FOLDER/1.c, FOLDER/2.c and so on: functions and types at its top level, statements in a
# function `example`. Prints the number of programs. Errors of the compiler name the line of the header.

function text_of(line) {
    sub(/^(\/\*| \*)/, "", line)
    sub(/ *\*\/ *$/, "", line)
    return line
}

# without_comment LINE: what the compiler sees of it
function code_of(line) {
    sub(/[ \t]*\/\/.*$/, "", line)
    sub(/[ \t]+$/, "", line)
    return line
}

# A directive must not stand inside the arguments of a macro: only where the numbering breaks.
function add(to, n, line) {
    if (to != added_to || n != added + 1)
        line = "#line " n " \"" name "\"\n" line
    added_to = to
    added = n
    if (to == "top")
        top = top line "\n"
    else
        body = body line "\n"
}

# One block: lines first .. last of text[]. Definitions go to the top level, from `static`, `struct`,
# `enum`, `typedef` or `#` at the left margin to a closing brace, or a semicolon, there.
function end_block(    i, base, is_code, line, where) {
    if (!first)
        return
    base = 99
    is_code = 0
    for (i = first; i <= last; i++) {
        if (text[i] ~ /^ *$/)
            continue
        match(text[i], /^ */)
        base = RLENGTH < base ? RLENGTH : base
        is_code = is_code || code_of(text[i]) ~ /[;{]$/
    }
    for (i = first; is_code && i <= last; i++) {
        line = substr(text[i], base + 1)
        if (where == "" && line ~ /^(static|struct [a-z_]+ \{|enum|typedef|#)/)
            where = "top"
        add(where == "top" ? "top" : "body", i, line)
        if (where == "top" && (line ~ /^}/ || line ~ /^#/ || \
            (code_of(line) ~ /[;}]$/ && code_of(line) !~ /^ /)))
            where = ""
    }
    first = 0
}

function end_comment(    file) {
    end_block()
    if (top body == "")
        return
    file = out "/" ++programs ".c"
    added = 0
    print "#include \"header_examples.h\"\n" top > file
    print "pto_status example(void);\npto_status example(void)\n{\n" body > file
    print "    return PTO_OK;\n}" > file
    close(file)
    top = body = ""
}

/^\/\*/ { inside = 1 }
inside {
    text[FNR] = text_of($0)
    if (text[FNR] ~ /^     /) {
        first = first ? first : FNR
        last = FNR
    } else if (text[FNR] !~ /^ *$/) {
        end_block()
    }
}
inside && /\*\// {
    inside = 0
    end_comment()
}
END { print programs + 0 }
