# The `pto` command, with the workloads that it runs (examples/workloads).

# A file there that defines workload_<name> is a workload; the other files are shared code. The list
# begins with these, in this order; a new workload needs no line here.
set(order vector bgemm cholesky lu attention decode stencil reduce)

file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/workloads/*.c")
set(names)
foreach(file ${files})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    file(STRINGS "${file}" line LIMIT_COUNT 1 REGEX "^const workload workload_[a-z0-9_]+ =")
    if(line MATCHES "workload_([a-z0-9_]+) =")
        list(APPEND names ${CMAKE_MATCH_1})
    endif()
endforeach()
set(list "")
foreach(name ${order} ${names})
    if(name IN_LIST names)
        string(APPEND list "WORKLOAD(${name})\n")
        list(REMOVE_ITEM names ${name})
    endif()
endforeach()
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/tools/workloads.inc" CONTENT "${list}")

# Everything but main.c, for the tests as well.
file(GLOB parts CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/pto/*.c")
list(REMOVE_ITEM parts "${PROJECT_SOURCE_DIR}/tools/pto/main.c")
# `pto top` and `pto doctor` read the window of another process: they need its layout and the function
# that checks it. `pto replay` needs the reader of traces, the heap and the layout descriptors. The
# tools use nothing else of the internals.
add_library(pto_tool_parts STATIC ${parts} ${files} "${PROJECT_SOURCE_DIR}/src/window/attach.c"
    "${PROJECT_SOURCE_DIR}/src/observe/ptrace_read.c" "${PROJECT_SOURCE_DIR}/src/orchestrator/ring/heap.c"
    "${PROJECT_SOURCE_DIR}/src/tensor/desc.c")
target_link_libraries(pto_tool_parts PRIVATE pto_compiler)
target_include_directories(pto_tool_parts
    PUBLIC "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/mpi/include" "${PROJECT_SOURCE_DIR}/tools/pto"
           "${PROJECT_SOURCE_DIR}/examples/workloads" "${PROJECT_SOURCE_DIR}/src"
    PRIVATE "${PROJECT_BINARY_DIR}/tools")
# Kernel and reference agree bit for bit only if the compiler fuses no multiply and add.
set_property(SOURCE "${PROJECT_SOURCE_DIR}/examples/workloads/stencil.c"
    APPEND PROPERTY COMPILE_OPTIONS -ffp-contract=off)

# For `pto info`.
set_property(SOURCE "${PROJECT_SOURCE_DIR}/tools/pto/info.c" APPEND PROPERTY COMPILE_DEFINITIONS
    "TOOL_BUILD=\"$<CONFIG>\"" "TOOL_SANITIZE=\"${PTO_SANITIZE}\"")

if(PTO_SANITIZE)
    target_compile_definitions(pto_tool_parts PRIVATE WORKLOADS_SANITIZED=1)
endif()
if(PTO_OPENBLAS_FOUND)
    target_compile_definitions(pto_tool_parts PRIVATE WORKLOADS_OPENBLAS=1)
    target_link_libraries(pto_tool_parts PUBLIC "${PTO_OPENBLAS_LIBRARY}")
endif()
if(PTO_JANSSON_FOUND)
    target_compile_definitions(pto_tool_parts PRIVATE WORKLOADS_JANSSON=1)
    target_include_directories(pto_tool_parts SYSTEM PRIVATE "${PTO_JANSSON_INCLUDE_DIR}")
    target_link_libraries(pto_tool_parts PUBLIC "${PTO_JANSSON_LIBRARY}")
endif()

pto_program(pto_tool "${PROJECT_SOURCE_DIR}/tools/pto/main.c" tools pto_tool_parts pto_static)
# libpto-mpi, which `pto run --mpi` loads, uses the functions of libpto that the command has.
set_target_properties(pto_tool PROPERTIES OUTPUT_NAME pto ENABLE_EXPORTS ON)
