# Programs of `./dev bench mpi` and `./dev bench mpi scale`, with the first MPI that was found. Peers are built
# where Debian's packages for Open MPI are there: ScaLAPACK, StarPU-MPI.

list(GET PTO_MPIS 0 name)
pto_mpi_flags("${PTO_MPICC_${name}}")

# pto_mpi_bench(target library...): bench/mpi/<target without its first word>.c
function(pto_mpi_bench target)
    string(REGEX REPLACE "^mpi_" "" file ${target})
    pto_program(${target} "${PROJECT_SOURCE_DIR}/bench/mpi/${file}.c" bench/mpi ${ARGN} ${mpi_link})
    target_include_directories(${target} SYSTEM PRIVATE ${mpi_includes})
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    add_dependencies(pto_mpi_benches ${target})
endfunction()

add_custom_target(pto_mpi_benches)
foreach(program bench_mpi halo scale)
    pto_mpi_bench(mpi_${program} pto_mpi_${name} pto_static)
endforeach()
if(PTO_OPENBLAS_FOUND)
    pto_mpi_bench(mpi_cholesky_pto pto_mpi_${name} pto_static ${PTO_OPENBLAS_LIBRARY})
    find_library(PTO_SCALAPACK_LIBRARY scalapack-openmpi)
    find_library(PTO_STARPUMPI_LIBRARY starpumpi-1.3)
    find_library(PTO_STARPU_LIBRARY starpu-1.3)
    mark_as_advanced(PTO_SCALAPACK_LIBRARY PTO_STARPUMPI_LIBRARY PTO_STARPU_LIBRARY)
    if(PTO_SCALAPACK_LIBRARY AND name STREQUAL "openmpi")
        pto_mpi_bench(mpi_cholesky_scalapack ${PTO_SCALAPACK_LIBRARY} ${PTO_OPENBLAS_LIBRARY})
    endif()
    if(PTO_STARPUMPI_LIBRARY AND name STREQUAL "openmpi")
        pto_mpi_bench(mpi_cholesky_starpu ${PTO_STARPUMPI_LIBRARY} ${PTO_STARPU_LIBRARY}
            ${PTO_OPENBLAS_LIBRARY})
        target_include_directories(mpi_cholesky_starpu SYSTEM PRIVATE /usr/include/starpu/1.3)
    endif()
endif()
