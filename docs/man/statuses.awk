# statuses.awk - writes a C file that watches what public functions return, for the test programs.
#
#     awk -v errors="errors.txt ..." -v wraps=FILE -f text.awk -f headers.awk -f errors.awk -f statuses.awk \
#         HEADER... >statuses.c
#
# With -v only=pto_mpi_, only functions whose names begin like that. (A library that is loaded beside libpto.a
# finds the functions of the program by their own names, so those cannot be wrapped.)
#
# Linked with the options in FILE, a program calls each function that returns a status through a wrapper.
# The wrapper ends the program if the function returns a code that its manual page does not name.

# Splits the arguments of a prototype at the commas between them.
function split_parameters(text, list,    i, c, level, n, part) {
    n = level = 0
    part = ""
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        level += (c == "(") - (c == ")")
        if (c == "," && level == 0) {
            list[++n] = trim(part)
            part = ""
        } else {
            part = part c
        }
    }
    list[++n] = trim(part)
    return n
}

function name_of(parameter) {
    if (match(parameter, /\(\*[a-z0-9_]+\)/))
        return substr(parameter, RSTART + 2, RLENGTH - 3)
    sub(/\[\]$/, "", parameter)
    sub(/^.*[ *]/, "", parameter)
    return parameter
}

function print_wrapper(name,    text, arguments, n, list, i, passed, codes, m, each, all) {
    text = prototype[name]
    arguments = substr(text, index(text, "(") + 1)
    sub(/\)$/, "", arguments)
    passed = ""
    n = arguments == "void" ? 0 : split_parameters(arguments, list)
    for (i = 1; i <= n; i++)
        passed = passed (i > 1 ? ", " : "") name_of(list[i])
    all = 0
    add_page(group_of[name])
    printf "static const pto_status codes_of_%s[] = {PTO_OK", name
    for (i = 1; i <= n_codes; i++) {
        all = all || codes_of[i] == "other codes"
        m = split(codes_of[i], each, /, */)
        for (codes = 1; codes <= m && codes_of[i] != "other codes"; codes++)
            printf ", %s", each[codes]
    }
    print "};"
    printf "pto_status __real_%s(%s);\npto_status __wrap_%s(%s);\n", name, arguments, name, arguments
    printf "pto_status __wrap_%s(%s)\n{\n", name, arguments
    printf "    const pto_status got = __real_%s(%s);\n", name, passed
    if (!all)
        printf "    watch(\"%s\", got, codes_of_%s, sizeof codes_of_%s / sizeof *codes_of_%s);\n", \
            name, name, name, name
    else
        printf "    (void)codes_of_%s;\n", name
    print "    return got;\n}\n"
    print "-Wl,--wrap=" name > wraps
}

END {
    read_errors(errors)
    print "/* Made by docs/man/statuses.awk. */"
    print "#include <stdio.h>\n#include <stdlib.h>\n"
    for (h = 1; h <= headers; h++)
        print "#include <" header[h] ">"
    print "\nstatic void watch(const char *name, pto_status status, const pto_status *codes, size_t n)\n{"
    print "    for (size_t i = 0; i < n; i++) {\n        if (codes[i] == status) {\n            return;\n        }\n    }"
    print "    fprintf(stderr,\n            \"%s returned %s, which its manual page does not name: add it, and when it occurs, to \""
    print "            \"docs/man/errors.txt\\n\",\n            name, pto_status_name(status));\n    abort();\n}\n"
    for (i = 1; i <= names; i++)
        if (kind[order[i]] == "function" && is_fallible(order[i]) && prototype[order[i]] !~ /\.\.\./ &&
            index(order[i], only) == 1)
            print_wrapper(order[i])
    exit failed
}
