# Debian packages, through CPack: `./dev package`.
#
#     libpto0.1    libpto.so.0.1: what programs need to run
#     libpto-dev   headers, libpto.a, pkg-config, CMake package, manual pages of the functions, guide,
#                  examples
#     pto-tools    the pto command, its manual pages, completion
#     libpto-cuda  libpto-cuda.so, if nvcc is there: NVIDIA GPUs as devices. Needs no package of CUDA,
#                  only the driver.
#     libpto-mpi-openmpi, libpto-mpi-mpich
#                  the library for each MPI that is there: programs on several ranks. Header and manual
#                  pages are in libpto-dev
#     python3-pto  the Python package pto
#
# Built by the preset of that name, for /usr. Names and places are those that Debian's policy asks for.

set(PTO_MAINTAINER "PTO Runtime maintainers <maintainers@pto-runtime.example>"
    CACHE STRING "Name and address that the packages carry")
mark_as_advanced(PTO_MAINTAINER)
if(NOT PTO_PACKAGE)
    return()
endif()

set(release 1)
set(runtime_package libpto${soversion})
set(packages runtime ${runtime_package} dev libpto-dev tools pto-tools python python3-pto)
if(PTO_HAVE_CUDA)
    list(APPEND packages cuda libpto-cuda)
endif()
foreach(name ${PTO_MPIS})
    list(APPEND packages mpi_${name} libpto-mpi-${name})
endforeach()

# ---- the Python package: built by its own setup.py, against the shared library -----------------------

set(python_build "${PROJECT_BINARY_DIR}/python")
file(GLOB python_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/python/setup.py"
     "${PROJECT_SOURCE_DIR}/python/src/*.[ch]" "${PROJECT_SOURCE_DIR}/python/pto/*.py*")
add_custom_command(OUTPUT "${python_build}/stamp"
    COMMAND "${CMAKE_COMMAND}" -E env "PTO_LIBRARY_DIR=${PROJECT_BINARY_DIR}" "CFLAGS=${CMAKE_C_FLAGS}"
            LDFLAGS=-s
            /usr/bin/python3 setup.py -q egg_info --egg-base "${PROJECT_BINARY_DIR}"
            build --build-base "${python_build}/base" --build-lib "${python_build}/lib"
    COMMAND "${CMAKE_COMMAND}" -E touch "${python_build}/stamp"
    DEPENDS pto_shared ${python_sources}
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}/python"
    COMMENT "Building the Python package" VERBATIM)
add_custom_target(pto_python ALL DEPENDS "${python_build}/stamp")
install(DIRECTORY "${python_build}/lib/pto" DESTINATION lib/python3/dist-packages COMPONENT python
        PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples/python/" DESTINATION share/doc/python3-pto/examples
        COMPONENT python FILES_MATCHING PATTERN "*.py")
install(FILES "${PROJECT_SOURCE_DIR}/docs/python.md" "${PROJECT_SOURCE_DIR}/docs/python-coming-from.md"
        DESTINATION share/doc/python3-pto COMPONENT python)

# ---- what every package also has --------------------------------------------------------------------

string(TIMESTAMP year "%Y" UTC)
file(WRITE "${PROJECT_BINARY_DIR}/copyright"
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: PTO Runtime

Files: *
Copyright: ${year} the authors of PTO Runtime
License: Apache-2.0
 On Debian systems, the complete text of the Apache License, version 2.0,
 is in the file /usr/share/common-licenses/Apache-2.0.
")
execute_process(COMMAND date -R -u -d "${pto_date}" OUTPUT_VARIABLE day OUTPUT_STRIP_TRAILING_WHITESPACE)
file(WRITE "${PROJECT_BINARY_DIR}/changelog"
"pto (${PROJECT_VERSION}-${release}) unstable; urgency=medium

  * Version ${PROJECT_VERSION} of PTO Runtime.

 -- ${PTO_MAINTAINER}  ${day}
")
execute_process(COMMAND gzip -9nkf "${PROJECT_BINARY_DIR}/changelog" COMMAND_ERROR_IS_FATAL ANY)

# Debian compresses manual pages. (Links name the uncompressed page, and man still finds it.)
foreach(component dev tools)
    install(CODE [[
        file(GLOB_RECURSE pages "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/share/man/*.[137]")
        if(pages)
            execute_process(COMMAND gzip -9nf ${pages} COMMAND_ERROR_IS_FATAL ANY)
        endif()
    ]] COMPONENT ${component})
endforeach()

set(CPACK_COMPONENTS_ALL)
while(packages)
    list(POP_FRONT packages component name)
    list(APPEND CPACK_COMPONENTS_ALL ${component})
    install(FILES "${PROJECT_BINARY_DIR}/copyright" DESTINATION share/doc/${name}
            COMPONENT ${component})
    install(FILES "${PROJECT_BINARY_DIR}/changelog.gz" DESTINATION share/doc/${name}
            RENAME changelog.Debian.gz COMPONENT ${component})
    string(TOUPPER ${component} upper)
    set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
endwhile()

# ---- CPack ------------------------------------------------------------------------------------------

set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGE_NAME pto)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "${PTO_MAINTAINER}")
set(CPACK_PACKAGE_VENDOR "PTO Runtime")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${release})
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${PTO_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# The first line is that of the project; CPack indents the lines of the rest.
set(about "PTO Runtime is a C library that runs ordinary sequential C programs over
tensors as a parallel dataflow graph. It finds the dependencies between tasks
from the memory that each of them reads and writes, and leaves exactly the
memory that the serial program would have left.")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "${about}
.
This package has the shared library that programs need to run.")
set(CPACK_COMPONENT_DEV_DESCRIPTION "${about}
.
This package has what programs are compiled with: headers, the static library,
files for pkg-config and CMake, manual pages of all functions, the guide and
examples.")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "${about}
.
This package has the pto command, which runs workloads and looks into programs.")

set(CPACK_COMPONENT_CUDA_DESCRIPTION "${about}
.
This package has the library that makes NVIDIA GPUs devices of a program. The
driver is all that it needs besides.")

set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "${runtime_package} (= ${PROJECT_VERSION}-${release})")

# Which packages a program needs to be started: those of the launcher.
set(mpi_title_OPENMPI "Open MPI")
set(mpi_launcher_OPENMPI openmpi-bin)
set(mpi_title_MPICH MPICH)
set(mpi_launcher_MPICH mpich)
foreach(name ${PTO_MPIS})
    string(TOUPPER ${name} name)
    set(CPACK_COMPONENT_MPI_${name}_DESCRIPTION "${about}
.
This package has the library that runs a program on several ranks of ${mpi_title_${name}}.")
    set(CPACK_DEBIAN_MPI_${name}_PACKAGE_SECTION libs)
    set(CPACK_DEBIAN_MPI_${name}_PACKAGE_DEPENDS "${runtime_package} (= ${PROJECT_VERSION}-${release})")
    set(CPACK_DEBIAN_MPI_${name}_PACKAGE_RECOMMENDS ${mpi_launcher_${name}})
    set(CPACK_DEBIAN_MPI_${name}_PACKAGE_SUGGESTS libpto-dev)
endforeach()

set(CPACK_COMPONENT_PYTHON_DESCRIPTION "${about}
.
This package has the Python package pto: slices of NumPy arrays, run as a graph.")

set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
# The library is one of ours, so dpkg-shlibdeps cannot find the package that has it.
set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
    "${runtime_package} (= ${PROJECT_VERSION}-${release}), python3 (>= 3.11), libc6")
set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS "python3-numpy, libopenblas0")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
# Dependencies of programs that link with the library, and the trigger that rebuilds the loader cache.
set(control "${PROJECT_BINARY_DIR}/control")
file(WRITE "${control}/shlibs"
     "libpto ${soversion} ${runtime_package} (>= ${PROJECT_VERSION})\n")
file(WRITE "${control}/triggers" "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA "${control}/shlibs;${control}/triggers")
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${runtime_package} (= ${PROJECT_VERSION}-${release})")
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION devel)

include(CPack)
