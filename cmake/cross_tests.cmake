# The tests of a cross build: a part of the others, run by an emulator. The part is what depends on the
# processor and the compiler: random programs against the serial oracle, with real threads; copies
# between layouts in every instruction set; kept fuzz inputs; and a program that uses the library as its
# users do. Without worker processes (PTO_TEST_EMULATED): each would be a copy of the emulator, which takes
# minutes. Their names begin with that of the processor. (An emulator on x86-64 does not reorder as a
# real aarch64 does. The explorer tests memory orders.) Included instead of cmake/tests.cmake.

set(results "${PROJECT_BINARY_DIR}/results")

# cross_test(test target argument...): as pto_test of cmake/tests.cmake
function(cross_test test target)
    set(name ${CMAKE_SYSTEM_PROCESSOR}.${test})
    add_test(NAME ${name} COMMAND "${PROJECT_SOURCE_DIR}/cmake/run-test.sh" "${results}" ${name}
        ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${target}> ${ARGN})
    set_tests_properties(${name} PROPERTIES TIMEOUT 300
        ENVIRONMENT "PTO_INLINE_NS=none;PTO_TEST_EMULATED=1")
endfunction()

# cross_program(target file): a test program, with our own cmocka.h
function(cross_program target file)
    pto_inner_program(${target} "${PROJECT_SOURCE_DIR}/${file}" tests)
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support/cross")
endfunction()

foreach(test runtime/differential runtime/fast_path op/plan op/rearrange worker/pending scheduler/ready window/window)
    string(REGEX REPLACE "/" "." name ${test})
    string(REGEX REPLACE "/" "_" target test_${test})
    string(REGEX REPLACE "/" "/test_" file ${test})
    if(NOT EXISTS "${PROJECT_SOURCE_DIR}/tests/${file}.c")
        message(FATAL_ERROR "cross tests: tests/${file}.c is not there")
    endif()
    cross_program(${target} "tests/${file}.c")
    cross_test(${name} ${target})
endforeach()
target_link_options(test_runtime_fast_path PRIVATE "LINKER:--wrap=ptoi_fast_room,--wrap=ptoi_many_submit,--wrap=ptoi_slow_link")

foreach(name program rearrange overlap)
    cross_program(fuzz_${name} "tests/fuzz/fuzz_${name}.c")
    target_sources(fuzz_${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/fuzz/replay.c")
    cross_test(fuzz.${name} fuzz_${name} "${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name}")
endforeach()

cross_test(examples.hello example_hello)
set_tests_properties(${CMAKE_SYSTEM_PROCESSOR}.examples.hello PROPERTIES PASS_REGULAR_EXPRESSION "twice twice 10.5 is 42")
