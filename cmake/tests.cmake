# The tests. Their folders are those of src: tests/<module>/test_<name>.c becomes the CTest test
# <module>.<name>, and tests/<module>/<part>/test_<name>.c is <module>.<part>.<name>. tests/runtime
# tests the whole runtime, the scripts in tests/install the installed library, and those in tests/tools
# the pto command.

find_package(cmocka REQUIRED)
if(NOT PTO_BUILD_EXAMPLES)
    message(FATAL_ERROR "the tests run the examples: PTO_BUILD_TESTS needs PTO_BUILD_EXAMPLES")
endif()

set(results "${PROJECT_BINARY_DIR}/results")

# Wrappers that end a test if a public function returns an error that its manual page does not name.
set(statuses "${PROJECT_BINARY_DIR}/statuses")
file(GLOB public_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/pto/*.h")
set(awk_folder "${PROJECT_SOURCE_DIR}/docs/man")
set(awk_files)
foreach(name text headers errors statuses)
    list(APPEND awk_files "${awk_folder}/${name}.awk")
endforeach()
find_program(AWK NAMES awk REQUIRED)
# pto_statuses(target made only headers errors): the wrappers are made.c and its linker options made.wraps
function(pto_statuses target made only headers errors)
    list(JOIN errors " " list)
    add_custom_command(OUTPUT "${made}.c" "${made}.wraps"
        COMMAND "${AWK}" -v "errors=${list}" -v "wraps=${made}.wraps" -v "only=${only}"
                "-f$<JOIN:${awk_files},;-f>" ${headers} > "${made}.c"
        DEPENDS ${awk_files} ${errors} ${headers}
        COMMENT "Writing wrappers that watch statuses"
        COMMAND_EXPAND_LISTS VERBATIM)
    add_library(${target} OBJECT "${made}.c")
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/include")
endfunction()
pto_statuses(pto_statuses "${statuses}" pto_ "${public_headers}" "${awk_folder}/errors.txt")

# pto_test(name command...): runs it through a script that records which single tests passed, so that
# `./dev test` can count them.
function(pto_test name)
    add_test(NAME ${name}
        COMMAND "${PROJECT_SOURCE_DIR}/cmake/run-test.sh" "${results}" ${name} ${ARGN})
    set_tests_properties(${name} PROPERTIES TIMEOUT 300)
endfunction()

# Calls of the library that the system could refuse, and those that release what they gave. In programs
# named test_fault*.c they go through tests/support/fault.h, which makes them fail. base.sites checks
# that none is missing here.
set(fault_sites mprotect malloc calloc realloc aligned_alloc posix_memalign free mmap munmap memfd_create
    ftruncate close open fopen fdopen fclose pthread_create pthread_join pthread_key_create pthread_setspecific
    pthread_atfork atexit __sched_cpualloc fork eventfd socketpair socket dlopen pidfd_open pipe2)

file(GLOB files CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/tests/*/*.c" "${PROJECT_SOURCE_DIR}/tests/*/*/*.c")
foreach(file ${files})
    cmake_path(GET file STEM stem)
    cmake_path(GET file PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/tests")
    if(folder MATCHES "^(explore|fuzz|mpi|soak|install/consumer|observe/page|worker/kernels)$") # see below
        continue()
    endif()
    string(REPLACE "/" "." module ${folder})
    if(NOT stem MATCHES "^test_(.+)$")
        # A test with a wrong name must not be skipped silently.
        message(FATAL_ERROR "${file}: test programs are named test_<name>.c")
    endif()
    set(name ${CMAKE_MATCH_1})
    string(REPLACE "." "_" target test_${module}_${name})
    if(module STREQUAL "mutants")
        # Mutants break the library on purpose; a sanitizer would end the program. Whether a test detects
        # them does not depend on the build, so the release build is enough.
        if(PTO_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
            continue()
        endif()
        pto_program(${target} "${file}" tests/${folder} pto_mutants ${CMOCKA_LIBRARIES})
        target_include_directories(${target} PRIVATE
            "${PROJECT_SOURCE_DIR}/tests/support" "${PROJECT_SOURCE_DIR}/tests/runtime")
    elseif(module STREQUAL "tools")
        pto_program(${target} "${file}" tests/${folder} pto_tool_parts pto_static
            ${CMOCKA_LIBRARIES})
        target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support")
    else()
        pto_inner_program(${target} "${file}" tests/${folder} ${CMOCKA_LIBRARIES})
        target_sources(${target} PRIVATE $<TARGET_OBJECTS:pto_statuses>)
        # For the compiler, not for the linker: clang reads such files itself.
        target_link_options(${target} PRIVATE "@${statuses}.wraps")
        set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${statuses}.wraps")
    endif()
    if("${module}.${name}" STREQUAL "worker.attach") # kernels for it, in shared objects
        foreach(kernels attach_kernels attach_kernels_lacking)
            add_library(${kernels} MODULE EXCLUDE_FROM_ALL
                "${PROJECT_SOURCE_DIR}/tests/worker/kernels/attach.c")
            target_link_libraries(${kernels} PRIVATE pto_compiler)
            target_include_directories(${kernels} PRIVATE "${PROJECT_SOURCE_DIR}/include")
            add_dependencies(${target} ${kernels})
        endforeach()
        target_compile_definitions(attach_kernels_lacking PRIVATE LACKING)
        target_link_options(${target} PRIVATE
            "LINKER:--wrap=ptoi_channel_send,--wrap=ptoi_rebuild_lines")
        target_compile_definitions(${target} PRIVATE
            PTO_TEST_KERNELS="$<TARGET_FILE:attach_kernels>"
            PTO_TEST_KERNELS_LACKING="$<TARGET_FILE:attach_kernels_lacking>")
    endif()
    if(name MATCHES "^fault")
        foreach(site ${fault_sites})
            target_link_options(${target} PRIVATE "LINKER:--wrap=${site}")
        endforeach()
    endif()
    if("${module}.${name}" STREQUAL "runtime.fast_path") # see tests/runtime/program_twice.h
        target_link_options(${target} PRIVATE
            "LINKER:--wrap=ptoi_fast_room,--wrap=ptoi_many_submit,--wrap=ptoi_slow_link")
    endif()
    if("${module}.${name}" STREQUAL "runtime.device")
        target_link_options(${target} PRIVATE "LINKER:--wrap=ptoi_slow_link")
    endif()
    target_include_directories(${target} PRIVATE ${CMOCKA_INCLUDE_DIRS})
    pto_test(${module}.${name} $<TARGET_FILE:${target}>)
    # Most kernels of the tests are short, and the tests are about tasks of several threads. So all
    # tasks are offloaded, unless a test sets inline_ns itself.
    set_tests_properties(${module}.${name} PROPERTIES ENVIRONMENT "PTO_INLINE_NS=none")
endforeach()

# The loops that replace OpenBLAS where it is not there.
pto_program(test_tools_blas_loops "${PROJECT_SOURCE_DIR}/tests/tools/test_blas.c" tests/tools/loops
    ${CMOCKA_LIBRARIES})
target_sources(test_tools_blas_loops PRIVATE "${PROJECT_SOURCE_DIR}/examples/workloads/blas.c"
    "${PROJECT_SOURCE_DIR}/examples/workloads/blas_blocks.c"
    "${PROJECT_SOURCE_DIR}/examples/workloads/blas_small.c")
target_include_directories(test_tools_blas_loops PRIVATE ${CMOCKA_INCLUDE_DIRS}
    "${PROJECT_SOURCE_DIR}/examples/workloads" "${PROJECT_SOURCE_DIR}/tests/support")
if(PTO_SANITIZE)
    target_compile_definitions(test_tools_blas_loops PRIVATE WORKLOADS_SANITIZED=1)
endif()
pto_test(tools.blas_loops $<TARGET_FILE:test_tools_blas_loops>)

include("${PROJECT_SOURCE_DIR}/tests/explore/explore.cmake" OPTIONAL)
include(cmake/fuzz.cmake)
include(cmake/mpi_tests.cmake)

# For the tests of the timeline page, which need a browser: `./dev browser` runs them.
pto_program(make_ptrace "${PROJECT_SOURCE_DIR}/tests/observe/page/make_ptrace.c"
    tests/observe/page)
set_target_properties(make_ptrace PROPERTIES EXCLUDE_FROM_ALL TRUE)

pto_test(base.counting "${PROJECT_SOURCE_DIR}/tests/base/counting.sh" "${PROJECT_SOURCE_DIR}")
pto_test(base.includes "${PROJECT_SOURCE_DIR}/tests/base/includes.sh" "${PROJECT_SOURCE_DIR}")
pto_test(scheduler.step_cuda "${PROJECT_SOURCE_DIR}/tests/scheduler/step_cuda.sh"
    "${PROJECT_SOURCE_DIR}")
if(PTO_HAVE_CUDA)
    pto_test(device.cuda.example "${PROJECT_SOURCE_DIR}/tests/device/cuda/example.sh" "${PTO_NVCC}"
        "${PROJECT_SOURCE_DIR}")
    pto_test(device.cuda.own "${PROJECT_SOURCE_DIR}/tests/device/cuda/own.sh" "${PTO_NVCC}"
        "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
    pto_test(device.cuda.grid_compiles "${PROJECT_SOURCE_DIR}/tests/device/cuda/grid_compiles.sh"
        "${PTO_NVCC}" "${PROJECT_SOURCE_DIR}")
endif()
pto_test(support.environment "${PROJECT_SOURCE_DIR}/tests/support/environment.sh"
    "${PROJECT_SOURCE_DIR}" $<TARGET_FILE:test_tensor_reshape>)
pto_test(install.examples "${PROJECT_SOURCE_DIR}/tests/install/examples.sh"
    $<TARGET_FILE_DIR:example_hello>)
pto_test(tools.run "${PROJECT_SOURCE_DIR}/tests/tools/run.sh" $<TARGET_FILE:pto_tool>
    ${PTO_SANITIZE})
pto_test(tools.devices "${PROJECT_SOURCE_DIR}/tests/tools/devices.sh" $<TARGET_FILE:pto_tool>
    ${PTO_SANITIZE})
# The kernels for place gpu, compiled for the CPU, where there is a C++ compiler, always with optimization.
find_program(PTO_CXX NAMES g++ c++)
mark_as_advanced(PTO_CXX)
if(PTO_CXX AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT CMAKE_CROSSCOMPILING)
    set(workloads "${PROJECT_SOURCE_DIR}/examples/workloads")
    set(emulated "${PROJECT_SOURCE_DIR}/tests/tools/emulated")
    file(GLOB headers CONFIGURE_DEPENDS "${workloads}/*.h" "${PROJECT_SOURCE_DIR}/include/pto/*.h")
    foreach(module gpu decode)
        add_custom_command(OUTPUT "${PROJECT_BINARY_DIR}/tests/tools/emulated/${module}.o"
            COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/tests/tools/emulated"
            COMMAND "${PTO_CXX}" -x c++ -std=c++17 -O2 -Wall -Wextra -Wno-unknown-pragmas -ffp-contract=off
                    "-I${emulated}" "-I${PROJECT_SOURCE_DIR}/include" -c "${workloads}/${module}.cu"
                    -o "${PROJECT_BINARY_DIR}/tests/tools/emulated/${module}.o"
            DEPENDS "${workloads}/${module}.cu" "${emulated}/pto/cuda.cuh" ${headers}
            COMMENT "Building examples/workloads/${module}.cu for the CPU" VERBATIM)
    endforeach()
    pto_program(pto_emulated "${PROJECT_SOURCE_DIR}/tools/pto/main.c" tests/tools/emulated)
    target_sources(pto_emulated PRIVATE "${workloads}/where.c"
        "${PROJECT_BINARY_DIR}/tests/tools/emulated/gpu.o"
        "${PROJECT_BINARY_DIR}/tests/tools/emulated/decode.o")
    target_compile_definitions(pto_emulated PRIVATE WORKLOADS_EMULATED=1)
    target_link_libraries(pto_emulated PRIVATE pto_tool_parts pto_static stdc++)
    set_target_properties(pto_emulated PROPERTIES OUTPUT_NAME pto)
    pto_test(tools.emulated "${PROJECT_SOURCE_DIR}/tests/tools/emulated.sh" $<TARGET_FILE:pto_emulated>)
endif()
# What nvcc compiles of the grid, with 32 lanes in a warp, on threads and fibers of the CPU.
if(PTO_CXX AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT CMAKE_CROSSCOMPILING)
    set(lanes "${PROJECT_SOURCE_DIR}/tests/worker/lanes")
    set(lanes_out "${PROJECT_BINARY_DIR}/tests/worker/lanes")
    set(lanes_cxx "${PTO_CXX}" -std=c++17 -O2 -Wall -fno-strict-aliasing -Wno-unknown-pragmas -Wno-unused-function
        "-I${lanes_out}" "-I${lanes}" "-I${PROJECT_SOURCE_DIR}/tests/device/cuda"
        "-I${PROJECT_SOURCE_DIR}/include")
    file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/pto/*.h")
    add_custom_command(OUTPUT "${lanes_out}/kernels.o" "${lanes_out}/fibers.o"
        COMMAND "${lanes}/emulate.sh" "${grid_header}"
                "${PROJECT_SOURCE_DIR}/tests/device/cuda/grid_kernels.cu" "${lanes_out}"
        COMMAND ${lanes_cxx} -D__CUDA_ARCH__=900 -c "${lanes_out}/grid_kernels.cc" -o "${lanes_out}/kernels.o"
        COMMAND ${lanes_cxx} -c "${lanes}/fibers.cc" -o "${lanes_out}/fibers.o"
        DEPENDS "${grid_header}" "${lanes}/emulate.sh" "${lanes}/cuda_runtime.h" "${lanes}/fibers.cc"
                "${lanes}/lanes.h" "${PROJECT_SOURCE_DIR}/tests/device/cuda/grid_kernels.cu"
                "${PROJECT_SOURCE_DIR}/include/pto/cuda.cuh" ${headers}
        COMMENT "Building the grid for the CPU" VERBATIM)
    pto_inner_program(soak_lanes "${PROJECT_SOURCE_DIR}/tests/soak/soak_grid.c" tests/worker/lanes)
    target_sources(soak_lanes PRIVATE "${lanes_out}/kernels.o" "${lanes_out}/fibers.o")
    target_compile_definitions(soak_lanes PRIVATE SOAK_LANES=1)
    target_link_libraries(soak_lanes PRIVATE stdc++)
    set_target_properties(soak_lanes PROPERTIES OUTPUT_NAME soak_lanes)
    pto_test(soak.lanes "${PROJECT_SOURCE_DIR}/tests/soak/soak_grid.sh" $<TARGET_FILE:soak_lanes> qy:0 8)
endif()
pto_test(tools.top "${PROJECT_SOURCE_DIR}/tests/tools/top.sh" $<TARGET_FILE:pto_tool>)
pto_test(tools.trace "${PROJECT_SOURCE_DIR}/tests/tools/trace.sh" $<TARGET_FILE:pto_tool>
    "${PROJECT_SOURCE_DIR}/tests/data" $<TARGET_FILE:test_observe_trace_file>
    $<TARGET_FILE:test_orchestrator_label>)
pto_test(tools.perfetto "${PROJECT_SOURCE_DIR}/tests/tools/perfetto.sh" $<TARGET_FILE:pto_tool>
    $<TARGET_FILE:test_observe_trace_file> "${PROJECT_SOURCE_DIR}/tests/data")
pto_test(tools.replay_command "${PROJECT_SOURCE_DIR}/tests/tools/replay.sh" $<TARGET_FILE:pto_tool>
    "${PROJECT_SOURCE_DIR}/tests/data")
pto_test(tools.errors "${PROJECT_SOURCE_DIR}/tests/tools/errors.sh" $<TARGET_FILE:pto_tool>)

# The Python module. (The thread sanitizer does not know the locks of an interpreter that is built without
# it.)
if(NOT PTO_SANITIZE MATCHES "thread")
    pto_test(python.suite "${PROJECT_SOURCE_DIR}/tests/python/run.sh" "${PROJECT_SOURCE_DIR}"
        "${PROJECT_BINARY_DIR}" "${CMAKE_BUILD_TYPE}" ${PTO_SANITIZE})
    set_tests_properties(python.suite PROPERTIES TIMEOUT 900) # many processes, each of which loads NumPy
endif()

# Sanitizers add calls that the library does not make, and are built without OpenBLAS.
if(NOT PTO_SANITIZE)
    if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug") # it configures builds of its own
        pto_test(tools.libraries "${PROJECT_SOURCE_DIR}/tests/tools/libraries.sh" "${PROJECT_SOURCE_DIR}"
            "${CMAKE_COMMAND}" "${CMAKE_C_COMPILER}" $<TARGET_FILE:pto_tool>)
    endif()
    pto_test(base.sites "${PROJECT_SOURCE_DIR}/tests/base/sites.sh" "${CMAKE_NM}"
        $<TARGET_FILE:pto_static> ${fault_sites})
endif()

# What is installed does not depend on how the library was built, so a release build is enough. (And a program
# without a sanitizer cannot load a library with one.)
if(NOT PTO_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(scripts "${PROJECT_SOURCE_DIR}/tests/install")
    set(stage "${PROJECT_BINARY_DIR}/tests/install")
    pto_test(install.headers "${scripts}/headers.sh"
        "${PROJECT_SOURCE_DIR}" "${CMAKE_C_COMPILER}")
    pto_test(install.header_examples "${scripts}/header_examples.sh"
        "${PROJECT_SOURCE_DIR}" "${CMAKE_C_COMPILER}")
    pto_test(install.must_check "${scripts}/must_check.sh"
        "${PROJECT_SOURCE_DIR}" "${CMAKE_C_COMPILER}")
    pto_test(install.symbols "${scripts}/symbols.sh"
        "${PROJECT_SOURCE_DIR}" $<TARGET_FILE:pto_shared> $<TARGET_FILE:pto_static>)
    if(PTO_HAVE_PROBES AND CMAKE_READELF)
        pto_test(install.probes "${scripts}/probes.sh" "${CMAKE_READELF}" $<TARGET_FILE:pto_shared>)
    endif()
    pto_test(install.prefix "${scripts}/prefix.sh"
        "${CMAKE_COMMAND}" "${PROJECT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}" "${stage}")
    pto_test(install.find_package "${scripts}/find_package.sh"
        "${CMAKE_COMMAND}" "${stage}" "${scripts}/consumer" "${CMAKE_C_COMPILER}")
    pto_test(install.pkg_config "${scripts}/pkg_config.sh"
        "${stage}" "${scripts}/consumer" "${CMAKE_C_COMPILER}")
    pto_test(install.readme "${scripts}/readme.sh"
        "${stage}" "${PROJECT_SOURCE_DIR}" "${CMAKE_C_COMPILER}" $<TARGET_FILE:pto_tool>)
    pto_test(install.guide "${scripts}/guide.sh"
        "${stage}" "${PROJECT_SOURCE_DIR}" "${CMAKE_C_COMPILER}" $<TARGET_FILE_DIR:example_hello>)
    pto_test(install.coming_from "${scripts}/coming_from.sh"
        "${stage}" "${PROJECT_SOURCE_DIR}" "${CMAKE_C_COMPILER}")
    pto_test(install.man_examples "${scripts}/man_examples.sh"
        "${stage}" "${PROJECT_SOURCE_DIR}" "${CMAKE_C_COMPILER}")
    pto_test(install.elsewhere "${scripts}/elsewhere.sh" "${CMAKE_COMMAND}"
        "${PROJECT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}" "${stage}" "${CMAKE_C_COMPILER}")
    pto_test(install.remove "${scripts}/remove.sh"
        "${CMAKE_COMMAND}" "${PROJECT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}" "${stage}")
    pto_test(install.man "${scripts}/man.sh"
        "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/man" $<TARGET_FILE:pto_tool>)
    pto_test(install.completion "${scripts}/completion.sh"
        "${PROJECT_SOURCE_DIR}" $<TARGET_FILE:pto_tool>)
    pto_test(install.errors "${scripts}/errors.sh"
        "${PROJECT_SOURCE_DIR}" "${CMAKE_C_COMPILER}" $<TARGET_FILE:test_base_provoke>)
    pto_test(tools.installed "${PROJECT_SOURCE_DIR}/tests/tools/installed.sh" "${stage}")
    set_tests_properties(install.prefix PROPERTIES FIXTURES_SETUP installation)
    set_tests_properties(install.find_package install.pkg_config install.readme install.guide
        install.man_examples install.coming_from install.elsewhere
        tools.installed PROPERTIES FIXTURES_REQUIRED installation)
    # CMake writes a single install manifest for the whole build.
    set_tests_properties(install.elsewhere install.remove install.prefix PROPERTIES
        RESOURCE_LOCK install_manifest)
endif()
