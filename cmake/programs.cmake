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

if(PTO_BUILD_TOOLS OR (PTO_BUILD_TESTS AND NOT CMAKE_CROSSCOMPILING)) # the tests run it
    include(cmake/libraries.cmake)
    include(cmake/tools.cmake)
endif()

if(PTO_BUILD_BENCH)
    file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/bench_*.c")
    foreach(file ${files})
        cmake_path(GET file STEM name)
        if(NOT name MATCHES "^bench_(blas|workloads)$")
            pto_inner_program(${name} "${file}" bench ${CMAKE_DL_LIBS}) # peers are loaded if there
        elseif(PTO_BUILD_TOOLS) # they run what `pto run` runs
            pto_program(${name} "${file}" bench pto_tool_parts pto_static ${CMAKE_DL_LIBS})
        endif()
    endforeach()
endif()

# For `./dev bench mpi`.
if(PTO_BUILD_BENCH AND PTO_MPIS)
    include(cmake/mpi_bench.cmake)
endif()

# For `./dev gpu bench`.
if(PTO_BUILD_BENCH AND PTO_HAVE_CUDA)
    foreach(name bench_gpu bench_gpu_tasks bench_gpu_grid)
        pto_inner_program(${name} "${PROJECT_SOURCE_DIR}/bench/gpu/${name}.c" gpu ${CMAKE_DL_LIBS})
        add_dependencies(${name} pto_gpu)
        set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    endforeach()
endif()

if(PTO_BUILD_TESTS)
    enable_testing()
    if(CMAKE_CROSSCOMPILING)
        include(cmake/cross_tests.cmake)
    else()
        include(cmake/tests.cmake)
    endif()
endif()
