# The hash of all sources and of what they are built with, which keys of programs on disk have in them (src/compile/source_revision.h). Included, it adds the rule that writes
# generated/source_revision.cpp whenever a source has changed; run by that rule (cmake -P), it writes the file.

if(DEFINED TOROID_REVISION_OUT)
  file(GLOB_RECURSE files "${TOROID_REVISION_ROOT}/src/*" "${TOROID_REVISION_ROOT}/include/*")
  list(SORT files)
  set(all "${TOROID_REVISION_BUILD}\n")
  foreach(file IN LISTS files)
    file(SHA256 "${file}" hash)
    file(RELATIVE_PATH name "${TOROID_REVISION_ROOT}" "${file}")
    string(APPEND all "${hash} ${name}\n")
  endforeach()
  string(SHA256 revision "${all}")
  file(WRITE "${TOROID_REVISION_OUT}"
       "// Made by cmake/source_revision.cmake.\n#include \"compile/source_revision.h\"\n\n"
       "const char* toroid::compiler::source_revision() { return \"${revision}\"; }\n")
  return()
endif()

file(GLOB_RECURSE files CONFIGURE_DEPENDS src/* include/*)
set(out "${TOROID_GENERATED}/source_revision.cpp")
add_custom_command(
  OUTPUT "${out}"
  COMMAND "${CMAKE_COMMAND}" -DTOROID_REVISION_OUT=${out} -DTOROID_REVISION_ROOT=${CMAKE_SOURCE_DIR}
          "-DTOROID_REVISION_BUILD=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, oneDNN ${TOROID_DNNL_STATE}, mutants ${TOROID_MUTANTS}" -P "${CMAKE_SOURCE_DIR}/cmake/source_revision.cmake"
  DEPENDS ${files} "${CMAKE_SOURCE_DIR}/cmake/source_revision.cmake"
  COMMENT "Hashing the sources"
  VERBATIM)
target_sources(toroid_core PRIVATE "${out}")
set_source_files_properties("${out}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
