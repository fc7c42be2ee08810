# find_package(AscendCL) gives the target AscendCL::ascendcl: the library and its headers.
#
# Relocatable: everything hangs on the real file behind this one, which is in lib64/cmake/AscendCL beside include; this one
# may have been reached through links.
get_filename_component(_ascendcl_file "${CMAKE_CURRENT_LIST_FILE}" REALPATH)
get_filename_component(_ascendcl_lib "${_ascendcl_file}/../../.." ABSOLUTE)
get_filename_component(_ascendcl_include "${_ascendcl_lib}/../include" ABSOLUTE)

if(NOT TARGET AscendCL::ascendcl)
    add_library(AscendCL::ascendcl SHARED IMPORTED)
    set_target_properties(AscendCL::ascendcl PROPERTIES
        IMPORTED_LOCATION "${_ascendcl_lib}/libascendcl.so"
        IMPORTED_SONAME "libascendcl.so"
        INTERFACE_INCLUDE_DIRECTORIES "${_ascendcl_include}")
endif()

unset(_ascendcl_file)
unset(_ascendcl_lib)
unset(_ascendcl_include)
