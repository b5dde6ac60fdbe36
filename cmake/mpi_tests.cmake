# Tests on several ranks, once for each MPI that is here: mpi.<name of the MPI>.<part>. Included by cmake/tests.cmake.

# The same program for one process; and what checks traces of all ranks.
if(PTO_MPIS)
    pto_program(test_mpi_names "${PROJECT_SOURCE_DIR}/tests/mpi/names.c" tests/mpi pto_static)
    pto_inner_program(test_mpi_merged "${PROJECT_SOURCE_DIR}/tests/mpi/merged.c" tests/mpi)
endif()

# Wrappers as for the other tests, for the functions of pto/mpi.h.
if(PTO_MPIS)
    pto_statuses(pto_statuses_mpi "${statuses}_mpi" pto_mpi_
        "${public_headers};${PROJECT_SOURCE_DIR}/mpi/include/pto/mpi.h"
        "${awk_folder}/errors.txt;${awk_folder}/errors_mpi.txt")
    target_include_directories(pto_statuses_mpi PRIVATE "${PROJECT_SOURCE_DIR}/mpi/include")
endif()

foreach(name ${PTO_MPIS})
    pto_mpi_flags("${PTO_MPICC_${name}}")
    foreach(program programs cases names)
        set(target test_mpi_${name}_${program})
        pto_program(${target} "${PROJECT_SOURCE_DIR}/tests/mpi/${program}.c" tests/mpi/${name}
            pto_mpi_${name} pto_static)
        target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support")
        target_include_directories(${target} SYSTEM PRIVATE ${mpi_includes})
        target_link_libraries(${target} PRIVATE ${mpi_link})
        target_sources(${target} PRIVATE $<TARGET_OBJECTS:pto_statuses_mpi>)
        target_link_options(${target} PRIVATE "@${statuses}_mpi.wraps")
        set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${statuses}_mpi.wraps")
    endforeach()
    target_compile_definitions(test_mpi_${name}_names PRIVATE RANKS=1)
    # In a debug build only random programs: the other parts are about messages and launchers.
    set(parts programs cases runs traces guide)
    if(CMAKE_BUILD_TYPE STREQUAL "Debug")
        set(parts programs)
    endif()
    foreach(part ${parts})
        if(PTO_MPIRUN_${name})
            pto_test(mpi.${name}.${part} "${PROJECT_SOURCE_DIR}/tests/mpi/ranks.sh" ${name}
                "${PTO_MPIRUN_${name}}" "${PROJECT_BINARY_DIR}/tests/mpi/${name}"
                $<TARGET_FILE:pto_tool> ${part})
            # Ranks that poll disturb each other.
            set_tests_properties(mpi.${name}.${part} PROPERTIES RESOURCE_LOCK mpi)
        endif()
    endforeach()
endforeach()
