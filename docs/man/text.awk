# text.awk - for help.awk and pages.awk: escapes text so that roff prints it unchanged.

function escape(s) {
    gsub(/\\/, "\\e", s)
    gsub(/-/, "\\-", s)
    gsub(/'/, "\\(aq", s)
    gsub(/`/, "\\(ga", s)
    gsub(/\^/, "\\(ha", s)
    gsub(/~/, "\\(ti", s)
    if (s ~ /^\./)
        s = "\\&" s
    return s
}
