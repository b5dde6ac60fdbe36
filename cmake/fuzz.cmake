# Fuzz targets, tests/fuzz/fuzz_<name>.c, and the soak test. With PTO_FUZZ (the preset `fuzz`, clang)
# libFuzzer drives the targets; otherwise replay.c does, and each target is a test of its kept corpus.
# Included by cmake/tests.cmake.

set(fuzz_folder "${PROJECT_SOURCE_DIR}/tests/fuzz")

if(PTO_FUZZ)
    # Coverage for libFuzzer, in every file.
    target_compile_options(pto_compiler INTERFACE -fsanitize=fuzzer-no-link)
endif()

file(GLOB fuzz_files CONFIGURE_DEPENDS "${fuzz_folder}/fuzz_*.c")
foreach(file ${fuzz_files})
    cmake_path(GET file STEM target)
    string(REGEX REPLACE "^fuzz_" "" name ${target})
    pto_inner_program(${target} "${file}" tests/fuzz ${CMOCKA_LIBRARIES})
    target_include_directories(${target} PRIVATE ${CMOCKA_INCLUDE_DIRS})
    if(name STREQUAL "safetensors")
        set(workloads "${PROJECT_SOURCE_DIR}/examples/workloads")
        target_sources(${target} PRIVATE "${workloads}/safetensors.c")
        target_compile_definitions(${target} PRIVATE WORKLOADS_JANSSON=1)
        target_include_directories(${target} PRIVATE "${workloads}")
        target_include_directories(${target} SYSTEM PRIVATE "${PTO_JANSSON_INCLUDE_DIR}")
        target_link_libraries(${target} PRIVATE "${PTO_JANSSON_LIBRARY}")
    endif()
    if(name STREQUAL "fast_path") # see tests/runtime/program_twice.h
        target_link_options(${target} PRIVATE "LINKER:--wrap=ptoi_fast_room,--wrap=ptoi_many_submit,--wrap=ptoi_slow_link")
    endif()
    if(name STREQUAL "trace") # with the commands that read one
        foreach(part arguments explain json_write replay replay_plan replay_rings replay_room
                replay_run rings shared_bytes trace trace_advice trace_failures trace_ranges trace_stats
                trace_words words)
            target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tools/pto/${part}.c")
        endforeach()
        target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tools/pto")
    endif()
    if(PTO_FUZZ)
        target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    else()
        target_sources(${target} PRIVATE "${fuzz_folder}/replay.c")
        pto_test(fuzz.${name} $<TARGET_FILE:${target}> "${fuzz_folder}/corpus/${name}")
    endif()
endforeach()

pto_inner_program(soak "${PROJECT_SOURCE_DIR}/tests/soak/soak.c" tests/soak)
pto_inner_program(soak_grid "${PROJECT_SOURCE_DIR}/tests/soak/soak_grid.c" tests/soak ${CMAKE_DL_LIBS})
if(NOT PTO_FUZZ)
    pto_test(soak.grid "${PROJECT_SOURCE_DIR}/tests/soak/soak_grid.sh" $<TARGET_FILE:soak_grid> sim:0 40)
endif()
