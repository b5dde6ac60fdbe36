# The timeline page in one file, from its parts in src/observe/page: build/<preset>/page.html, also
# known as ${page}. What is left in it for a trace is the mark @PTRACE_BASE64@.

function(pto_join_page parts out)
    set(script "")
    set(files "${parts}/page.html" "${parts}/style.css")
    foreach(part read model paint panel view lanes timeline graph main)
        file(READ "${parts}/${part}.js" text)
        string(APPEND script "${text}\n")
        list(APPEND files "${parts}/${part}.js")
    endforeach()
    file(READ "${parts}/style.css" style)
    file(READ "${parts}/page.html" text)
    string(REPLACE "@PAGE_STYLE@" "${style}" text "${text}")
    string(REPLACE "@PAGE_SCRIPT@" "${script}" text "${text}")
    # Written only when it differs, so that nothing is built again for nothing.
    set(was "")
    if(EXISTS "${out}")
        file(READ "${out}" was)
    endif()
    if(NOT was STREQUAL text)
        file(WRITE "${out}" "${text}")
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
endfunction()

set(page "${PROJECT_BINARY_DIR}/page.html")
pto_join_page("${PROJECT_SOURCE_DIR}/src/observe/page" "${page}")
