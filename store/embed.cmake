# gradus_embed_migrations(OUT): writes migrations.h, one array of every store/migrations/NNNN_what.sql in order, and what
# they make together (latest_schema.sql).
# The files are listed, not globbed at build time: adding one re-runs CMake through the directory dependency.
function(gradus_embed_migrations out)
    file(GLOB files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/migrations/*.sql)
    list(SORT files)
    set(expected 0)
    set(rows "")
    foreach(file IN LISTS files)
        get_filename_component(stem ${file} NAME_WE)
        if(NOT stem MATCHES "^([0-9][0-9][0-9][0-9])_([a-z0-9_]+)$")
            message(FATAL_ERROR "${file}: a migration is named NNNN_what.sql")
        endif()
        set(name ${CMAKE_MATCH_2})
        math(EXPR number "1${CMAKE_MATCH_1} - 10000")
        math(EXPR expected "${expected} + 1")
        if(NOT number EQUAL expected)
            message(FATAL_ERROR "${file}: migration ${expected} is missing or ${number} is given twice")
        endif()
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
        file(READ ${file} sql)
        string(APPEND rows "    Migration{${number}, \"${name}\", R\"sql(${sql})sql\"},\n")
    endforeach()
    set(latest ${CMAKE_CURRENT_SOURCE_DIR}/latest_schema.sql)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${latest})
    file(READ ${latest} latest)
    file(CONFIGURE OUTPUT ${out} @ONLY CONTENT [[
#pragma once
#include <array>
#include <string_view>

namespace gradus {
struct Migration {
    int number;
    std::string_view name;
    std::string_view sql;
};
inline constexpr auto kMigrations = std::to_array<Migration>({
@rows@});
inline constexpr std::string_view kLatestSchema = R"sql(@latest@)sql";
}  // namespace gradus
]])
endfunction()
