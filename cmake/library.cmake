# libpto.a and libpto.so from the same objects.

include(GNUInstallDirs)

file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.c")
# The timeline page, as an array of bytes.
file(READ "${page}" bytes HEX)
string(REGEX REPLACE "................................" "\\0\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/page.c" @ONLY CONTENT
"#include \"observe/page.h\"\n\nconst unsigned char ptoi_page[] = {\n@bytes@0};\n")
list(APPEND sources "${PROJECT_BINARY_DIR}/page.c")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    # Only code that runs after a check of the CPU.
    set(folder "${PROJECT_SOURCE_DIR}/src/op/rearrange")
    set_source_files_properties("${folder}/avx2.c" PROPERTIES COMPILE_OPTIONS "-mavx2")
    set_source_files_properties("${folder}/avx512.c" PROPERTIES
        COMPILE_OPTIONS "-mavx512f;-mavx512bw")
endif()
# Static probes, where the header for them is (Debian: systemtap-sdt-dev). See src/base/probe.h.
set(PTO_HAVE_PROBES OFF)
if(PTO_PROBES)
    include(CheckIncludeFile)
    check_include_file(sys/sdt.h PTO_HAVE_SDT)
    if(PTO_HAVE_SDT)
        set(PTO_HAVE_PROBES ON)
    else()
        message(STATUS "PTO_PROBES: sys/sdt.h is missing (Debian: systemtap-sdt-dev), so no probes")
    endif()
endif()

add_library(pto_objects OBJECT ${sources})
target_compile_definitions(pto_objects PRIVATE $<$<BOOL:${PTO_HAVE_PROBES}>:PTO_SDT=1>)
target_link_libraries(pto_objects PRIVATE pto_compiler)
target_include_directories(pto_objects
    PRIVATE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
target_compile_options(pto_objects PRIVATE -Wmissing-prototypes -fno-semantic-interposition)
set_target_properties(pto_objects PROPERTIES
    POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden INTERPROCEDURAL_OPTIMIZATION OFF)

# In an archive of several objects, the symbols that they share are visible to everybody. So libpto.a
# has a single object, linked from all, in which symbols that the headers do not export are local.
# (objcopy cannot read objects for link-time optimization; so that is off above.)
if(NOT CMAKE_OBJCOPY)
    message(FATAL_ERROR "objcopy is missing: it hides the internal symbols of libpto.a")
endif()
set(single "${PROJECT_BINARY_DIR}/pto.$<CONFIG>.o")
separate_arguments(c_flags NATIVE_COMMAND "${CMAKE_C_FLAGS}")
add_custom_command(OUTPUT "${single}"
    COMMAND ${CMAKE_C_COMPILER} ${c_flags} -r -nostdlib -o "${single}.all"
            $<TARGET_OBJECTS:pto_objects>
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden "${single}.all" "${single}"
    DEPENDS pto_objects $<TARGET_OBJECTS:pto_objects>
    COMMENT "Linking one object, with internal symbols hidden"
    COMMAND_EXPAND_LISTS VERBATIM)

add_library(pto_static STATIC "${single}")
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

# For our own programs that use the internals. Never installed.
add_library(pto_internal STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:pto_objects>)
target_include_directories(pto_internal INTERFACE
    "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
set_target_properties(pto_internal PROPERTIES LINKER_LANGUAGE C)

# The same sources with the mutants of src/base/mutant.h, which test the tests. Never installed.
add_library(pto_mutants STATIC EXCLUDE_FROM_ALL ${sources})
target_link_libraries(pto_mutants PRIVATE pto_compiler)
target_compile_definitions(pto_mutants PUBLIC PTO_MUTANTS=1)
target_include_directories(pto_mutants PUBLIC
    "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")

# As long as the major version is 0, a new minor one may change the binary interface.
set(soversion ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(soversion 0.${PROJECT_VERSION_MINOR})
endif()
set(exports "${PROJECT_SOURCE_DIR}/src/pto.map")
set_target_properties(pto_shared PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${soversion} LINK_DEPENDS "${exports}")
# Calls between our own functions do not need the procedure linkage table.
target_link_options(pto_shared PRIVATE
    "LINKER:--version-script=${exports}" LINKER:-Bsymbolic-functions)
if(PTO_SANITIZE)
    target_link_libraries(pto_shared PRIVATE pto_compiler)
else()
    target_link_options(pto_shared PRIVATE LINKER:--no-undefined)
endif()
