# The timeline page in one file, from its parts: cmake -DPARTS=src/observe/page -DOUT=FILE -P page.cmake
#
# What is left in it for a trace is the mark @PTRACE_BASE64@.
cmake_minimum_required(VERSION 3.21)

file(READ "${PARTS}/page.html" page)
file(READ "${PARTS}/style.css" style)
set(script "")
foreach(part read model paint panel timeline graph main)
    file(READ "${PARTS}/${part}.js" text)
    string(APPEND script "${text}\n")
endforeach()
string(REPLACE "@PAGE_STYLE@" "${style}" page "${page}")
string(REPLACE "@PAGE_SCRIPT@" "${script}" page "${page}")
file(WRITE "${OUT}" "${page}")
