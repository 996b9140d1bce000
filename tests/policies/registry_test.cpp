#include "plugins/api/registry.h"

#include <gtest/gtest.h>

#include "plugins/checks/builtin.h"
#include "stages/drivers/builtin.h"
#include "store/model/error.h"

namespace gradus {
namespace {

KeyRow rowCalled(const char* name) { return {.name = name, .documentation = "", .example = ""}; }

TEST(Registry, RefusesANameThatIsTaken) {
    Registry registry;
    addBuiltinDrivers(registry);
    addBuiltinChecks(registry);
    EXPECT_THROW(registry.addDriver(worktreeDriverWords()), Error);
    EXPECT_THROW(registry.addCheckKind(httpCheckWords()), Error);
}

TEST(Registry, RefusesAKeyThatEveryStageOrCheckHas) {
    Registry registry;
    EXPECT_THROW(registry.addDriver({.name = "x", .documentation = "", .keys = {rowCalled("soak")}}), Error);
    EXPECT_THROW(registry.addCheckKind({.name = "x", .documentation = "", .keys = {rowCalled("timeout")}}), Error);
}

TEST(Registry, RefusesACheckKindThatCannotBeToldFromAnother) {
    Registry registry;
    registry.addCheckKind(commandCheckWords());
    EXPECT_THROW(registry.addCheckKind({.name = "x", .documentation = "", .keys = {rowCalled("run")}}), Error);
    EXPECT_THROW(registry.addCheckKind({.name = "y", .documentation = "", .keys = {}}), Error);
}

TEST(Registry, GivesAStageCalledLocalTheWorkTree) {
    Registry registry;
    addBuiltinDrivers(registry);
    EXPECT_EQ(registry.vocabulary().driverForStage("local")->name, "worktree");
    EXPECT_EQ(registry.vocabulary().driverForStage("sandbox")->name, "sandbox");
    EXPECT_EQ(registry.vocabulary().driverForStage("canary"), nullptr);
}

}  // namespace
}  // namespace gradus
