# The grid of place gpu (pto/gpu.h): <pto/grid.cuh>, which pto/cuda.cuh includes, and modules of kernels for
# tests and benches. Included by cuda.cmake.

# One header, so that programs compile the grid with an installed package.
set(grid_header "${PROJECT_BINARY_DIR}/include/pto/grid.cuh")
file(GLOB grid_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*/*.cuh")
add_custom_command(OUTPUT "${grid_header}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/include/pto"
    COMMAND "${PROJECT_SOURCE_DIR}/cmake/one-header.sh" "${PROJECT_SOURCE_DIR}/src" scheduler/grid.cuh
            > "${grid_header}"
    DEPENDS "${PROJECT_SOURCE_DIR}/cmake/one-header.sh" ${cuda_headers} ${grid_sources}
    COMMENT "Writing pto/grid.cuh" VERBATIM)
add_custom_target(pto_grid_header DEPENDS "${grid_header}")
add_dependencies(pto_cuda_all pto_grid_header)

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
