# Libraries of the `pto` command: OpenBLAS for products of matrices, jansson to read JSON. libpto
# itself uses neither. Each is optional and has an option: AUTO uses it if it is there, ON requires it,
# OFF does without. What is used is printed in any case.

# pto_library(NAME description library symbol): sets PTO_NAME_FOUND and PTO_NAME_LIBRARY. A header
# proves nothing, since several packages provide the same one: a program must link.
function(pto_library name description library symbol)
    set(PTO_${name} AUTO CACHE STRING "${description}: AUTO, ON or OFF")
    set_property(CACHE PTO_${name} PROPERTY STRINGS AUTO ON OFF)
    if(NOT PTO_${name} MATCHES "^(AUTO|ON|OFF)$")
        message(FATAL_ERROR "PTO_${name} is \"${PTO_${name}}\"; it can be AUTO, ON or OFF")
    endif()
    set(PTO_${name}_FOUND FALSE PARENT_SCOPE)
    if(NOT PTO_${name})
        return() # the caller says so
    endif()
    find_library(PTO_${name}_LIBRARY ${library})
    mark_as_advanced(PTO_${name}_LIBRARY)
    unset(links CACHE) # try_compile sets it there
    if(PTO_${name}_LIBRARY)
        set(probe "${PROJECT_BINARY_DIR}/probe")
        file(WRITE "${probe}/${library}.c"
            "void *${symbol}(void);\nint main(void)\n{\n    return !${symbol}();\n}\n")
        # Runs at every configure: a library that was installed meanwhile is found.
        try_compile(links "${probe}" SOURCES "${probe}/${library}.c"
            CMAKE_FLAGS "-DCMAKE_C_FLAGS=-fno-builtin" # a symbol of that name, of whatever type
            LINK_LIBRARIES "${PTO_${name}_LIBRARY}")
    endif()
    if(links)
        set(PTO_${name}_FOUND TRUE PARENT_SCOPE)
        unset(links CACHE)
    elseif(NOT PTO_${name} STREQUAL AUTO)
        message(FATAL_ERROR "PTO_${name} is ${PTO_${name}}, and no program links with ${library} "
            "(Debian: lib${library}-dev)")
    endif()
endfunction()

# The sanitizers do not cover OpenBLAS, so simple loops replace it.
pto_library(OPENBLAS "OpenBLAS for the workloads of the pto command" openblas openblas_get_config)
if(PTO_SANITIZE)
    set(PTO_OPENBLAS_FOUND FALSE)
    message(STATUS "BLAS: simple loops, because of the sanitizers")
elseif(PTO_OPENBLAS_FOUND)
    message(STATUS "BLAS: OpenBLAS, ${PTO_OPENBLAS_LIBRARY}")
elseif(NOT PTO_OPENBLAS)
    message(STATUS "BLAS: simple loops, SLOW: PTO_OPENBLAS is OFF")
else()
    message(STATUS "BLAS: simple loops, SLOW: no OpenBLAS (Debian: libopenblas-dev)")
    message(WARNING "No program links with -lopenblas, so the workloads of `pto run` work, but are "
        "slow. Install libopenblas-dev, or set PTO_OPENBLAS=OFF if that is intended.")
endif()

pto_library(JANSSON "jansson, to read weights for pto run decode" jansson json_loadb)
find_path(PTO_JANSSON_INCLUDE_DIR jansson.h)
mark_as_advanced(PTO_JANSSON_INCLUDE_DIR)
if(PTO_JANSSON_FOUND AND NOT PTO_JANSSON_INCLUDE_DIR)
    set(PTO_JANSSON_FOUND FALSE)
endif()
if(PTO_JANSSON_FOUND)
    message(STATUS "JSON: jansson, ${PTO_JANSSON_LIBRARY}")
elseif(PTO_BUILD_TESTS AND NOT CMAKE_CROSSCOMPILING)
    message(FATAL_ERROR "the tests need jansson (Debian: libjansson-dev)")
else()
    message(STATUS "JSON: none, no jansson (Debian: libjansson-dev); "
        "`pto run decode --weights` refuses files")
endif()
