# The grid of place gpu (pto/gpu.h): modules of kernels for tests and benches. Included by cuda.cmake.

# pto_gpu_module(output source): a library with modules, for tests and benches.
function(pto_gpu_module output source)
    cmake_path(GET output PARENT_PATH folder)
    add_custom_command(OUTPUT "${output}"
        COMMAND "${CMAKE_COMMAND}" -E make_directory "${folder}"
        COMMAND "${PTO_NVCC}" ${cuda_flags} "-I${PROJECT_BINARY_DIR}/include" -shared -cudart static
                -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90
                -o "${output}" "${source}"
        DEPENDS "${source}" "${grid_header}" "${PROJECT_SOURCE_DIR}/include/pto/cuda.cuh"
                "${PROJECT_SOURCE_DIR}/tests/device/cuda/grid_kernels.h"
        COMMENT "Building ${output}" VERBATIM)
endfunction()
pto_gpu_module("${PROJECT_BINARY_DIR}/gpu/libpto-gpu-grid.so"
    "${PROJECT_SOURCE_DIR}/tests/device/cuda/grid_kernels.cu")

# What is measured beside it.
add_custom_command(OUTPUT "${PROJECT_BINARY_DIR}/gpu/libpto-gpu-resident.so"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/gpu"
    COMMAND "${PTO_NVCC}" ${cuda_flags} -shared -cudart static
            -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90
            -o "${PROJECT_BINARY_DIR}/gpu/libpto-gpu-resident.so"
            "${PROJECT_SOURCE_DIR}/bench/peers/resident.cu"
    DEPENDS "${PROJECT_SOURCE_DIR}/bench/peers/resident.cu"
            "${PROJECT_SOURCE_DIR}/bench/peers/resident.h"
    COMMENT "Building gpu/libpto-gpu-resident.so" VERBATIM)
