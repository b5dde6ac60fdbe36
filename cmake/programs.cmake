# Examples, benches and tests: each file is one program. They may look inside the library, so they
# are linked with the static one.

if(PTO_BUILD_TESTS OR PTO_BUILD_BENCH OR PTO_BUILD_EXAMPLES)
    find_package(Threads REQUIRED)
endif()

# pto_program(target file folder): build/<preset>/<folder>/<name of the file>
function(pto_program target file folder)
    cmake_path(GET file STEM name)
    add_executable(${target} "${file}")
    target_link_libraries(${target} PRIVATE pto_compiler pto_static Threads::Threads m ${ARGN})
    target_include_directories(${target} PRIVATE
        "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests/support"
        "${PROJECT_SOURCE_DIR}/bench")
    set_target_properties(${target} PROPERTIES
        OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${folder}")
endfunction()

if(PTO_BUILD_EXAMPLES)
    file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.c")
    foreach(file ${files})
        cmake_path(GET file STEM name)
        pto_program(example_${name} "${file}" examples)
    endforeach()
endif()

if(PTO_BUILD_BENCH)
    file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/bench_*.c")
    foreach(file ${files})
        cmake_path(GET file STEM name)
        pto_program(${name} "${file}" bench)
    endforeach()
endif()

if(PTO_BUILD_TESTS)
    enable_testing()
    include(cmake/tests.cmake)
endif()
