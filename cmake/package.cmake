# Debian packages, through CPack: `./dev package`.
#
#     libpto0.1    libpto.so.0.1: what programs need to run
#     libpto-dev   headers, libpto.a, pkg-config, CMake package, manual pages of the functions
#     pto-tools    the pto command, its manual pages, completion
#
# Built by the preset of that name, for /usr. Names and places are those that Debian's policy asks for.

option(PTO_PACKAGE "Install what a Debian package needs besides" OFF)
set(PTO_MAINTAINER "PTO Runtime maintainers <maintainers@pto-runtime.example>"
    CACHE STRING "Name and address that the packages carry")
mark_as_advanced(PTO_MAINTAINER)
if(NOT PTO_PACKAGE)
    return()
endif()

set(release 1)
set(runtime_package libpto${soversion})
set(packages runtime ${runtime_package} dev libpto-dev tools pto-tools)

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
files for pkg-config and CMake, and manual pages of all functions.")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "${about}
.
This package has the pto command, which runs workloads and looks into programs.")

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
