# libpto.a and libpto.so from the same objects, and what an installation needs to find them.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.c")
add_library(pto_objects OBJECT ${sources})
target_link_libraries(pto_objects PRIVATE pto_compiler)
target_include_directories(pto_objects
    PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
target_compile_options(pto_objects PRIVATE -Wmissing-prototypes -fno-semantic-interposition)
set_target_properties(pto_objects PROPERTIES
    POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)

add_library(pto_static STATIC $<TARGET_OBJECTS:pto_objects>)
add_library(pto_shared SHARED $<TARGET_OBJECTS:pto_objects>)
foreach(kind static shared)
    add_library(pto::${kind} ALIAS pto_${kind})
    set_target_properties(pto_${kind} PROPERTIES
        OUTPUT_NAME pto EXPORT_NAME ${kind} LINKER_LANGUAGE C)
    target_include_directories(pto_${kind} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
add_library(pto::pto ALIAS pto_shared)

# As long as the major version is 0, a new minor one may change the binary interface.
set(soversion ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(soversion 0.${PROJECT_VERSION_MINOR})
endif()
set(exports "${PROJECT_SOURCE_DIR}/src/pto.map")
set_target_properties(pto_shared PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${soversion} LINK_DEPENDS "${exports}")
# Calls between our own functions need no detour through the procedure linkage table.
target_link_options(pto_shared PRIVATE
    "LINKER:--version-script=${exports}" LINKER:-Bsymbolic-functions)
if(PTO_SANITIZE)
    target_link_libraries(pto_shared PRIVATE pto_compiler)
else()
    target_link_options(pto_shared PRIVATE LINKER:--no-undefined)
endif()

# ---- install ------------------------------------------------------------------------------------

set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/pto")
install(TARGETS pto_static pto_shared EXPORT pto-targets)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/pto" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h")
install(EXPORT pto-targets NAMESPACE pto:: DESTINATION "${config_dir}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/pto-config.cmake.in"
    "${PROJECT_BINARY_DIR}/pto-config.cmake" INSTALL_DESTINATION "${config_dir}")
# Compatible like the shared library: within a minor version while the major one is 0.
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(compatibility SameMinorVersion)
else()
    set(compatibility SameMajorVersion)
endif()
write_basic_package_version_file("${PROJECT_BINARY_DIR}/pto-config-version.cmake"
    COMPATIBILITY ${compatibility})
install(FILES "${PROJECT_BINARY_DIR}/pto-config.cmake"
              "${PROJECT_BINARY_DIR}/pto-config-version.cmake"
        DESTINATION "${config_dir}")

# pkg-config finds everything from where its own file lies, so the installation can be moved, and
# the prefix may be chosen as late as `cmake --install --prefix`.
file(RELATIVE_PATH pc_to_prefix "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/pto.pc.in" "${PROJECT_BINARY_DIR}/pto.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/pto.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
