# A toolchain file: builds for aarch64 with Debian's cross compiler, and runs programs under qemu. For
# the preset of that name.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
find_program(PTO_QEMU NAMES qemu-aarch64 qemu-aarch64-static REQUIRED)
set(CMAKE_CROSSCOMPILING_EMULATOR "${PTO_QEMU};-L;/usr/aarch64-linux-gnu")
