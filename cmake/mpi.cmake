# libpto-mpi-openmpi.so and libpto-mpi-mpich.so: the same program on several ranks (docs/mpi.md). One
# library for each MPI that is found; nothing else depends on them. They leave the functions of libpto
# undefined: the program that links them, or loads them, has these.

option(PTO_MPI "Build a library for each MPI that is found: Open MPI, MPICH" OFF)

add_custom_target(pto_mpi_all ALL) # nothing, where there is no MPI
set(PTO_MPIS)
if(NOT PTO_MPI OR PTO_SANITIZE OR CMAKE_CROSSCOMPILING)
    return()
endif()

file(GLOB mpi_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/mpi/*.c")

# pto_mpi_flags(name): sets mpi_includes and mpi_link from what the compiler wrapper of that MPI prints.
function(pto_mpi_flags wrapper)
    execute_process(COMMAND "${wrapper}" -show OUTPUT_VARIABLE shown ERROR_QUIET
        OUTPUT_STRIP_TRAILING_WHITESPACE)
    separate_arguments(words UNIX_COMMAND "${shown}")
    set(includes)
    set(link)
    foreach(word ${words})
        if(word MATCHES "^-I(.+)")
            list(APPEND includes "${CMAKE_MATCH_1}")
        elseif(word MATCHES "^-[lL]")
            list(APPEND link "${word}")
        endif()
    endforeach()
    set(mpi_includes "${includes}" PARENT_SCOPE)
    set(mpi_link "${link}" PARENT_SCOPE)
endfunction()

foreach(name openmpi mpich)
    find_program(PTO_MPICC_${name} mpicc.${name})
    find_program(PTO_MPIRUN_${name} mpirun.${name})
    mark_as_advanced(PTO_MPICC_${name} PTO_MPIRUN_${name})
    if(NOT PTO_MPICC_${name})
        continue()
    endif()
    pto_mpi_flags("${PTO_MPICC_${name}}")
    add_library(pto_mpi_${name} SHARED ${mpi_sources})
    target_link_libraries(pto_mpi_${name} PRIVATE pto_compiler)
    target_include_directories(pto_mpi_${name}
        PUBLIC "${PROJECT_SOURCE_DIR}/mpi/include" "${PROJECT_SOURCE_DIR}/include")
    target_include_directories(pto_mpi_${name} SYSTEM PRIVATE ${mpi_includes})
    target_link_libraries(pto_mpi_${name} PRIVATE ${mpi_link})
    target_compile_options(pto_mpi_${name} PRIVATE -Wmissing-prototypes)
    set_target_properties(pto_mpi_${name} PROPERTIES OUTPUT_NAME pto-mpi-${name}
        C_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
    add_dependencies(pto_mpi_all pto_mpi_${name})
    list(APPEND PTO_MPIS ${name})
endforeach()
if(PTO_MPIS)
    list(JOIN PTO_MPIS ", " found)
    message(STATUS "MPI: ${found}")
else()
    message(STATUS "MPI: none (Debian: libopenmpi-dev openmpi-bin, or libmpich-dev mpich)")
endif()
