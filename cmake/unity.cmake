# Neighbouring sources of a folder are compiled as one, so that what they share is parsed, instantiated and optimized once.
#
# Files whose own names (those of their anonymous namespaces) clash are of different sets of their folder, and only files of one set are
# compiled as one; some are alone. unity-apart.txt lists the files that are not of set 0; scripts/unity_apart.py finds the sets.

file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/unity-apart.txt" lines REGEX "^[^#]")
# What the command alone needs: neighbours would bring it into libtoroid_runtime.
list(APPEND lines "alone src/package/check_up.cpp" "alone src/package/difference.cpp")
foreach(line IN LISTS lines)
  string(REGEX MATCH "^([a-z0-9]+) (.+)$" matched "${line}")
  set("TOROID_SET_${CMAKE_MATCH_2}" ${CMAKE_MATCH_1})
endforeach()

# Groups the sources of a target: those of a set by their order, TOROID_UNITY_SIZE at a time.
function(toroid_unity target)
  if(NOT TOROID_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(SORT sources)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_SOURCE_DIR}")
    file(RELATIVE_PATH name "${CMAKE_SOURCE_DIR}" "${source}")
    get_source_file_property(options "${source}" COMPILE_OPTIONS)  # its own, which its neighbours must not have
    # Where a library is missing, and where it is not; and the functions of toroid/ops.h, which bring all of eager with them when linked.
    # What test_planted compiles again, without its neighbours. What libtoroid_runtime takes of folders that it has nothing else of.
    if(name MATCHES "/extern/(no_|onednn/)|^src/import/(json|zip|safetensors|tensor_record)\\.|^src/package/write\\.|^src/ops/(functions|derivative\\.|scalar_program|slopes|rows/(attention|convolution)_gradients)")
      set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      continue()
    endif()
    # What libtoroid_runtime takes a part of: packing without the texts of templates, recipes without those who write them.
    if(name MATCHES "^src/(graph/recipe|codegen/(packing|rearrange)|codegen/cpu/packings|codegen/cpu/templates/(conv_pack|conv_plan|gemm_pack)|package/recipes)\\.")
      set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON COMPILE_OPTIONS "-ffunction-sections;-fdata-sections")
      continue()
    endif()
    if(options OR "${TOROID_SET_${name}}" STREQUAL "alone")
      set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      continue()
    endif()
    cmake_path(GET name PARENT_PATH folder)
    string(REPLACE "/" "_" set "${folder}")
    if(DEFINED "TOROID_SET_${name}")
      string(APPEND set "_set${TOROID_SET_${name}}")
    endif()
    if(NOT DEFINED "count_${set}")
      set("count_${set}" 0)
    endif()
    math(EXPR number "${count_${set}} / ${TOROID_UNITY_SIZE}")
    math(EXPR "count_${set}" "${count_${set}} + 1")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${set}_${number}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
