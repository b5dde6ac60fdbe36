# Installs the library with its pkg-config and CMake files, the pto command, manual pages, the guide and
# its companions, and shell completion. Components are the packages of package.cmake: runtime, dev, tools ...

include(CMakePackageConfigHelpers)

# ---- the library --------------------------------------------------------------------------------

set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/pto")
install(TARGETS pto_static pto_shared EXPORT pto-targets
        LIBRARY COMPONENT runtime NAMELINK_COMPONENT dev
        ARCHIVE COMPONENT dev)
if(PTO_HAVE_CUDA)
    # Beside the library, which looks for it there.
    install(PROGRAMS "${PROJECT_BINARY_DIR}/libpto-cuda.so" DESTINATION "${CMAKE_INSTALL_LIBDIR}"
            COMPONENT cuda)
endif()
foreach(name ${PTO_MPIS})
    install(TARGETS pto_mpi_${name} LIBRARY COMPONENT mpi_${name})
endforeach()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/pto" "${PROJECT_SOURCE_DIR}/mpi/include/pto"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT dev FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh")
install(FILES "${PROJECT_BINARY_DIR}/include/pto/grid.cuh" # made of internal headers: see cuda.cmake
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/pto" COMPONENT dev)
install(EXPORT pto-targets NAMESPACE pto:: DESTINATION "${config_dir}" COMPONENT dev)
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
        DESTINATION "${config_dir}" COMPONENT dev)

# The pkg-config file uses paths relative to itself. So the installation can be moved, and the prefix
# may be chosen as late as `cmake --install --prefix`.
file(RELATIVE_PATH pc_to_prefix "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/pto.pc.in" "${PROJECT_BINARY_DIR}/pto.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/pto.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
        COMPONENT dev)

# ---- the command --------------------------------------------------------------------------------

if(TARGET pto_tool)
    install(TARGETS pto_tool RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT tools)
    set(completion "${PROJECT_SOURCE_DIR}/tools/completion")
    install(FILES "${completion}/pto.bash" RENAME pto COMPONENT tools
            DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
    install(FILES "${completion}/_pto" COMPONENT tools
            DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
    install(FILES "${completion}/pto.fish" COMPONENT tools
            DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
endif()

# ---- manual pages -------------------------------------------------------------------------------

# Generated with the library, from the headers and from the help of the command. Not if the command
# cannot run here, or is slow because of a sanitizer.
if(NOT PTO_SANITIZE AND PROJECT_IS_TOP_LEVEL)
    find_program(AWK NAMES awk REQUIRED)
    mark_as_advanced(AWK)
    # The date of the last commit, if there is one.
    execute_process(COMMAND git log -1 --format=%cs WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
        OUTPUT_VARIABLE pto_date ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT pto_date MATCHES "^[0-9-]+$")
        string(TIMESTAMP pto_date "%Y-%m-%d" UTC) # or that of SOURCE_DATE_EPOCH
    endif()

    set(man "${PROJECT_BINARY_DIR}/man")
    file(MAKE_DIRECTORY "${man}")
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/man/*.*"
         "${PROJECT_SOURCE_DIR}/docs/man/examples/*.c"
         "${PROJECT_SOURCE_DIR}/include/pto/*.h" "${PROJECT_SOURCE_DIR}/mpi/include/pto/*.h")
    set(tool)
    if(TARGET pto_tool AND NOT CMAKE_CROSSCOMPILING)
        set(tool $<TARGET_FILE:pto_tool>)
    endif()
    add_custom_command(OUTPUT "${man}/list"
        COMMAND "${PROJECT_SOURCE_DIR}/docs/man/make.sh" "${man}" ${PROJECT_VERSION} ${pto_date}
                ${tool}
        DEPENDS ${sources} ${tool}
        COMMENT "Writing manual pages"
        COMMAND_EXPAND_LISTS VERBATIM)
    add_custom_target(pto_man ALL DEPENDS "${man}/list")
    install(DIRECTORY "${man}/man3" DESTINATION "${CMAKE_INSTALL_MANDIR}" COMPONENT dev)
    if(tool)
        install(DIRECTORY "${man}/man1" "${man}/man7" DESTINATION "${CMAKE_INSTALL_MANDIR}"
                COMPONENT tools)
    endif()
endif()

# ---- guide and examples ---------------------------------------------------------------------------

# The pages of docs/ and what they link to. Here the pages are beside the examples and far from the
# headers, so links that leave docs/ are adapted.
if(PROJECT_IS_TOP_LEVEL)
    set(doc_dir "${CMAKE_INSTALL_DOCDIR}")
    set(doc_full "${CMAKE_INSTALL_FULL_DOCDIR}")
    if(PTO_PACKAGE) # Debian's policy: a folder with the name of the package
        set(doc_dir share/doc/libpto-dev)
        set(doc_full "${CMAKE_INSTALL_PREFIX}/${doc_dir}")
    endif()
    file(RELATIVE_PATH doc_to_headers "${doc_full}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}/pto")
    file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/doc")
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/*.md")
    set(pages)
    foreach(source ${sources})
        cmake_path(GET source FILENAME name)
        set(page "${PROJECT_BINARY_DIR}/doc/${name}")
        add_custom_command(OUTPUT "${page}"
            COMMAND sed -e "s,]([.][.]/include/pto,](${doc_to_headers},g" -e "s,]([.][.]/examples,](examples,g"
                        -e "s,]([.][.]/CHANGELOG,](CHANGELOG,g" "${source}" > "${page}"
            DEPENDS "${source}" VERBATIM)
        list(APPEND pages "${page}")
    endforeach()
    add_custom_target(pto_pages ALL DEPENDS ${pages})
    install(FILES ${pages} "${PROJECT_SOURCE_DIR}/CHANGELOG.md" DESTINATION "${doc_dir}" COMPONENT dev)
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/pictures" DESTINATION "${doc_dir}" COMPONENT dev
            FILES_MATCHING PATTERN "*.svg")
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples" DESTINATION "${doc_dir}" COMPONENT dev
            FILES_MATCHING PATTERN "*.[ch]" PATTERN "*.cu")
endif()
