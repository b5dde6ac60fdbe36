# libpto-cuda.so: NVIDIA GPUs as devices. Built where nvcc is found; nothing else needs it. The library
# links nothing of CUDA but its static runtime, which loads the driver when it is first used.

option(PTO_CUDA "Build libpto-cuda.so if nvcc (CUDA 12 or newer) is found" ON)
set(PTO_CUDA_ARCHITECTURES "80;90" CACHE STRING
    "Compute capabilities to compile for; of the last one also PTX, for newer GPUs")

# The grid of place gpu as one header, <pto/grid.cuh>, which pto/cuda.cuh includes: programs compile it
# with an installed package. It is installed without nvcc as well, like every header.
set(grid_header "${PROJECT_BINARY_DIR}/include/pto/grid.cuh")
file(GLOB cuda_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*/*.h"
     "${PROJECT_SOURCE_DIR}/src/*/*/*.h" "${PROJECT_SOURCE_DIR}/src/*/*/*.cuh"
     "${PROJECT_SOURCE_DIR}/include/pto/*.h" "${PROJECT_SOURCE_DIR}/include/pto/*.cuh"
     "${PROJECT_SOURCE_DIR}/examples/workloads/decode_*.h")
file(GLOB grid_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*/*.cuh")
add_custom_command(OUTPUT "${grid_header}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/include/pto"
    COMMAND "${PROJECT_SOURCE_DIR}/cmake/one-header.sh" "${PROJECT_SOURCE_DIR}/src" scheduler/grid.cuh
            > "${grid_header}"
    DEPENDS "${PROJECT_SOURCE_DIR}/cmake/one-header.sh" ${cuda_headers} ${grid_sources}
    COMMENT "Writing pto/grid.cuh" VERBATIM)
add_custom_target(pto_grid_header ALL DEPENDS "${grid_header}")

add_custom_target(pto_cuda_all ALL) # beside the header nothing, where there is no nvcc
add_dependencies(pto_cuda_all pto_grid_header)
set(PTO_HAVE_CUDA OFF)
if(NOT PTO_CUDA OR PTO_SANITIZE OR CMAKE_CROSSCOMPILING)
    return()
endif()
find_program(PTO_NVCC nvcc HINTS "$ENV{CUDA_HOME}/bin" /usr/local/cuda/bin)
mark_as_advanced(PTO_NVCC)
if(NOT PTO_NVCC)
    message(STATUS "CUDA: no nvcc, so no libpto-cuda.so")
    return()
endif()
execute_process(COMMAND "${PTO_NVCC}" --version OUTPUT_VARIABLE nvcc_version ERROR_QUIET)
string(REGEX MATCH "release ([0-9]+)[.]([0-9]+)" found "${nvcc_version}")
if(NOT found OR CMAKE_MATCH_1 LESS 12)
    message(STATUS "CUDA: ${PTO_NVCC} is older than CUDA 12, so no libpto-cuda.so")
    return()
endif()
find_program(PTO_CUDA_HOST_COMPILER NAMES g++ c++)
mark_as_advanced(PTO_CUDA_HOST_COMPILER)
if(NOT PTO_CUDA_HOST_COMPILER)
    message(STATUS "CUDA: nvcc needs g++, so no libpto-cuda.so")
    return()
endif()
set(PTO_HAVE_CUDA ON)
message(STATUS "CUDA: ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}, ${PTO_NVCC}")

# pto_cuda_library(target output architectures): the library for these compute capabilities.
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.cu")
list(APPEND cuda_sources "${PROJECT_SOURCE_DIR}/examples/workloads/nvidia.cu"
     "${PROJECT_SOURCE_DIR}/examples/workloads/gpu.cu"
     "${PROJECT_SOURCE_DIR}/examples/workloads/decode.cu")
set(cuda_flags -std=c++17 -O3 -ccbin "${PTO_CUDA_HOST_COMPILER}"
    -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra
    "-I${PROJECT_SOURCE_DIR}/include" "-I${PROJECT_SOURCE_DIR}/src")
if(PTO_WERROR)
    list(APPEND cuda_flags -Werror all-warnings -Xcompiler -Werror)
endif()
function(pto_cuda_library target output architectures)
    set(codes)
    foreach(architecture ${architectures})
        list(APPEND codes -gencode arch=compute_${architecture},code=sm_${architecture})
    endforeach()
    if(ARGN) # PTX as well
        list(GET architectures -1 newest)
        list(APPEND codes -gencode arch=compute_${newest},code=compute_${newest})
    endif()
    cmake_path(GET output PARENT_PATH folder)
    file(MAKE_DIRECTORY "${folder}")
    set(objects)
    foreach(source ${cuda_sources})
        cmake_path(GET source STEM stem)
        set(object "${PROJECT_BINARY_DIR}/cuda/${target}/${stem}.o")
        add_custom_command(OUTPUT "${object}"
            COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/cuda/${target}"
            COMMAND "${PTO_NVCC}" ${cuda_flags} "-I${PROJECT_BINARY_DIR}/include" ${codes} -c "${source}"
                    -o "${object}"
            DEPENDS "${source}" ${cuda_headers} "${PROJECT_BINARY_DIR}/include/pto/grid.cuh"
            COMMENT "Building CUDA object ${target}/${stem}.o" VERBATIM)
        list(APPEND objects "${object}")
    endforeach()
    add_custom_command(OUTPUT "${output}"
        COMMAND "${PTO_NVCC}" -shared -cudart static -ccbin "${PTO_CUDA_HOST_COMPILER}"
                -Xlinker --exclude-libs,ALL,--as-needed,-soname,libpto-cuda.so -Xcompiler -static-libstdc++
                -o "${output}" ${objects}
        DEPENDS ${objects}
        COMMENT "Linking ${output}" VERBATIM)
    add_custom_target(${target} DEPENDS "${output}")
endfunction()

pto_cuda_library(pto_cuda "${PROJECT_BINARY_DIR}/libpto-cuda.so" "${PTO_CUDA_ARCHITECTURES}" PTX)
add_dependencies(pto_cuda_all pto_cuda)

# What `./dev gpu` needs besides: CUDA called by hand, and a library for GPUs that are not there.
add_custom_command(OUTPUT "${PROJECT_BINARY_DIR}/gpu/libpto-gpu-peer.so"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/gpu"
    COMMAND "${PTO_NVCC}" -std=c++17 -O2 -ccbin "${PTO_CUDA_HOST_COMPILER}" -shared -cudart static
            -Xcompiler -fPIC -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90
            -o "${PROJECT_BINARY_DIR}/gpu/libpto-gpu-peer.so"
            "${PROJECT_SOURCE_DIR}/bench/peers/gpu.cu"
    DEPENDS "${PROJECT_SOURCE_DIR}/bench/peers/gpu.cu" "${PROJECT_SOURCE_DIR}/bench/peers/gpu.h"
    COMMENT "Building gpu/libpto-gpu-peer.so" VERBATIM)
# Kernels of tests and benches; and the same for GPUs that are not there.
function(pto_gpu_kernels output)
    set(codes)
    foreach(architecture ${ARGN})
        list(APPEND codes -gencode arch=compute_${architecture},code=sm_${architecture})
    endforeach()
    cmake_path(GET output PARENT_PATH folder)
    add_custom_command(OUTPUT "${output}"
        COMMAND "${CMAKE_COMMAND}" -E make_directory "${folder}"
        COMMAND "${PTO_NVCC}" ${cuda_flags} -shared -cudart static ${codes} -o "${output}"
                "${PROJECT_SOURCE_DIR}/tests/device/cuda/kernels.cu"
        DEPENDS "${PROJECT_SOURCE_DIR}/tests/device/cuda/kernels.cu"
                "${PROJECT_SOURCE_DIR}/tests/device/cuda/kernels.h" ${cuda_headers}
        COMMENT "Building ${output}" VERBATIM)
endfunction()
pto_gpu_kernels("${PROJECT_BINARY_DIR}/gpu/libpto-gpu-kernels.so" 80 90)
pto_gpu_kernels("${PROJECT_BINARY_DIR}/gpu/other/libpto-gpu-kernels.so" 89)

pto_cuda_library(pto_cuda_other "${PROJECT_BINARY_DIR}/gpu/other/libpto-cuda.so" 89)
include(cmake/grid.cmake)
add_custom_target(pto_gpu DEPENDS "${PROJECT_BINARY_DIR}/gpu/libpto-gpu-peer.so"
    "${PROJECT_BINARY_DIR}/gpu/libpto-gpu-grid.so"
    "${PROJECT_BINARY_DIR}/gpu/libpto-gpu-resident.so"
    "${PROJECT_BINARY_DIR}/gpu/libpto-gpu-kernels.so"
    "${PROJECT_BINARY_DIR}/gpu/other/libpto-gpu-kernels.so" pto_cuda pto_cuda_other)
