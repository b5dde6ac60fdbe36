# Compiler options of every file of the project. They belong to the target pto_compiler, which is
# only linked privately, so they do not reach the build of a user.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)

add_library(pto_compiler INTERFACE)
target_compile_definitions(pto_compiler INTERFACE
    $<$<BOOL:${PTO_DEBUG_CHECKS}>:PTO_DEBUG_CHECKS=1>)
target_compile_options(pto_compiler INTERFACE
    -Wall -Wextra -Wshadow -Wundef -Wconversion -Wstrict-prototypes
    $<$<BOOL:${PTO_WERROR}>:-Werror>)

if(PTO_SANITIZE)
    set(flags -fsanitize=${PTO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(pto_compiler INTERFACE ${flags})
    target_link_options(pto_compiler INTERFACE ${flags})
endif()
