# The interleaving explorer: the real sources, with a call before each access to memory (see
# tests/explore/world.h), and scenarios over them. Included by cmake/tests.cmake.

if(PTO_SANITIZE) # it brings its own
    return()
endif()

set(explore_folder "${PROJECT_SOURCE_DIR}/tests/explore")

# The sources that two threads meet in are instrumented; the others are as ever. The operating
# system is the explorer's own. The runtime of the thread sanitizer is not linked: hooks.c stands in
# for it.
set(explore_plain ${sources})
list(FILTER explore_plain EXCLUDE REGEX "/src/base/os\\.c$")
set(explore_real ${explore_plain})
list(FILTER explore_real INCLUDE REGEX "/src/(window|orchestrator/[^/]*\\.c$|orchestrator/ring|scheduler|worker|observe)")
list(REMOVE_ITEM explore_plain ${explore_real})
file(GLOB explore_scenarios CONFIGURE_DEPENDS "${explore_folder}/scenario_*.c")
add_library(explore_real OBJECT EXCLUDE_FROM_ALL ${explore_real} ${explore_scenarios})
target_compile_options(explore_real PRIVATE -fsanitize=thread)
add_library(explore STATIC EXCLUDE_FROM_ALL ${explore_plain} $<TARGET_OBJECTS:explore_real>
    "${explore_folder}/hooks.c" "${explore_folder}/memory.c" "${explore_folder}/model.c"
    "${explore_folder}/mutation.c" "${explore_folder}/names.c" "${explore_folder}/search.c"
    "${explore_folder}/threads.c")
target_compile_options(explore PRIVATE -U_FORTIFY_SOURCE) # jumps between stacks are meant
foreach(target explore_real explore)
    target_link_libraries(${target} PRIVATE pto_compiler)
    target_compile_definitions(${target} PUBLIC PTO_MUTANTS=1 PTO_EXPLORE=1)
    target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}/include"
        "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests/support" "${explore_folder}")
endforeach()
foreach(name memcpy memmove memset malloc calloc realloc free
        pthread_mutex_lock pthread_mutex_unlock pthread_join)
    target_link_options(explore INTERFACE "LINKER:--wrap=${name}")
endforeach()

# Worker processes are threads of a world: tests/explore/scenario_death.c starts them.
foreach(name ptoi_process_create ptoi_process_lost ptoi_process_is_lost)
    target_link_options(explore INTERFACE "LINKER:--wrap=${name}")
endforeach()

pto_program(explore_main "${explore_folder}/explore.c" tests/explore explore)
foreach(name model scenarios mutants)
    pto_program(test_explore_${name} "${explore_folder}/test_${name}.c" tests/explore explore
        ${CMOCKA_LIBRARIES})
    target_include_directories(test_explore_${name} PRIVATE ${CMOCKA_INCLUDE_DIRS})
    if(NOT name STREQUAL "mutants" OR NOT CMAKE_BUILD_TYPE STREQUAL "Debug") # see cmake/tests.cmake
        pto_test(explore.${name} $<TARGET_FILE:test_explore_${name}>)
    endif()
endforeach()
