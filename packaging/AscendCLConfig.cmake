# find_package(AscendCL) gives the target AscendCL::ascendcl: the library and its headers.
#
# Relocatable: everything hangs on the folder that this file is found in. Links in the path are resolved first, because
# the prefix may have been reached through lib64, or through a /lib that is /usr/lib.
get_filename_component(_ascendcl_folder "${CMAKE_CURRENT_LIST_DIR}" REALPATH)
get_filename_component(_ascendcl_prefix "${_ascendcl_folder}/../../.." ABSOLUTE)

if(NOT TARGET AscendCL::ascendcl)
    add_library(AscendCL::ascendcl SHARED IMPORTED)
    set_target_properties(AscendCL::ascendcl PROPERTIES
        IMPORTED_LOCATION "${_ascendcl_prefix}/lib/libascendcl.so"
        IMPORTED_SONAME "libascendcl.so"
        INTERFACE_INCLUDE_DIRECTORIES "${_ascendcl_prefix}/include")
endif()

unset(_ascendcl_folder)
unset(_ascendcl_prefix)
