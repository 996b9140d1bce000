# gradus_mutate(NAME SOURCE RESULT old new [old new …]): makes a copy of SOURCE in which each `old` is replaced by its
# `new`, and puts its path into RESULT. Production code has no switches for this. Linked before the library, the copy's
# object keeps the linker from ever taking the original out of it. A text that is not there exactly once stops the
# configuration: a mutant that mutates nothing would prove nothing.
function(gradus_mutate name source result)
    set(original ${PROJECT_SOURCE_DIR}/${source})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${original})
    file(READ ${original} text)
    math(EXPR last "${ARGC} - 1")
    foreach(old RANGE 3 ${last} 2)
        math(EXPR new "${old} + 1")
        string(FIND "${text}" "${ARGV${old}}" first)
        string(FIND "${text}" "${ARGV${old}}" final REVERSE)
        if(first EQUAL -1 OR NOT first EQUAL final)
            message(FATAL_ERROR "mutant ${name}: ${source} does not contain exactly once: ${ARGV${old}}")
        endif()
        string(REPLACE "${ARGV${old}}" "${ARGV${new}}" text "${text}")
    endforeach()
    get_filename_component(file ${source} NAME)
    set(mutated ${CMAKE_CURRENT_BINARY_DIR}/${name}/${file})
    file(GENERATE OUTPUT ${mutated} CONTENT "${text}")
    set(${result} ${mutated} PARENT_SCOPE)
endfunction()

# gradus_writer_mutant(NAME SOURCE old new [old new …]): the program store_writer_NAME with a mutant of SOURCE.
function(gradus_writer_mutant name source)
    gradus_mutate(${name} ${source} mutated ${ARGN})
    add_executable(store_writer_${name} ${PROJECT_SOURCE_DIR}/tests/store/store_writer.cpp ${mutated})
    target_link_libraries(store_writer_${name} PRIVATE gradus::store SQLiteCpp SQLite::SQLite3 gradus::warnings)
endfunction()
