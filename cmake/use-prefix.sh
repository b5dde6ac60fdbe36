#!/bin/sh
# use-prefix.sh PREFIX MANIFEST
#
# Prints shell commands that make the installation in PREFIX visible to the shell, pkg-config, the
# loader and CMake. The folders come from MANIFEST, which CMake wrote when it installed.
set -eu

prefix=$1
manifest=$2

# add VARIABLE FOLDER: a line that puts FOLDER before what VARIABLE holds
add() {
    folder=$(printf '%s' "$2" | sed 's/[\\"$`]/\\&/g')
    # shellcheck disable=SC2016 # for the shell of the user
    printf 'export %s="%s${%s:+:$%s}"\n' "$1" "$folder" "$1" "$1"
}

# folder_of FILE
folder_of() {
    path=$(grep -m 1 "/$1\$" "$manifest") || {
        echo "use-prefix: $manifest names no $1" >&2
        exit 1
    }
    dirname -- "$path"
}

commands=$(folder_of bin/pto)
packages=$(folder_of pto.pc)
libraries=$(folder_of libpto.so)
add PATH "$commands"
add PKG_CONFIG_PATH "$packages"
add LD_LIBRARY_PATH "$libraries"
add CMAKE_PREFIX_PATH "$prefix"
