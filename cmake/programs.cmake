# Examples, tools, benches and tests: each file is one program, except for the tools. Examples and
# tools use the public headers and link with libpto.a; the others may use internals of the library.

if(PTO_BUILD_TESTS OR PTO_BUILD_BENCH OR PTO_BUILD_EXAMPLES OR PTO_BUILD_TOOLS)
    find_package(Threads REQUIRED)
endif()

# pto_program(target file folder library...): build/<preset>/<folder>/<name of the file>
function(pto_program target file folder)
    cmake_path(GET file STEM name)
    add_executable(${target} "${file}")
    target_link_libraries(${target} PRIVATE pto_compiler ${ARGN} Threads::Threads m)
    set_target_properties(${target} PROPERTIES
        OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${folder}")
endfunction()

# pto_inner_program(target file folder library...): the same for a program that uses internals
function(pto_inner_program target file folder)
    pto_program(${target} "${file}" ${folder} pto_internal ${ARGN})
    target_include_directories(${target} PRIVATE
        "${PROJECT_SOURCE_DIR}/tests/support" "${PROJECT_SOURCE_DIR}/bench")
endfunction()

if(PTO_BUILD_EXAMPLES)
    file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.c")
    foreach(file ${files})
        cmake_path(GET file STEM name)
        pto_program(example_${name} "${file}" examples pto_static)
    endforeach()
endif()

if(PTO_BUILD_TOOLS OR PTO_BUILD_TESTS) # the tests run it
    include(cmake/tools.cmake)
endif()

if(PTO_BUILD_BENCH)
    file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/bench_*.c")
    foreach(file ${files})
        cmake_path(GET file STEM name)
        if(NOT name STREQUAL bench_workloads)
            pto_inner_program(${name} "${file}" bench ${CMAKE_DL_LIBS}) # peers are loaded if there
        elseif(PTO_BUILD_TOOLS) # it runs what `pto run` runs
            pto_program(${name} "${file}" bench pto_tool_parts pto_static)
        endif()
    endforeach()
endif()

if(PTO_BUILD_TESTS)
    enable_testing()
    include(cmake/tests.cmake)
endif()
