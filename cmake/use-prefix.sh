#!/bin/sh
# use-prefix.sh PREFIX MANIFEST
#
# Prints the shell lines after which the shell, pkg-config, the loader and CMake find the installation
# in PREFIX. The folders are those that CMake wrote down in MANIFEST when it installed.
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
