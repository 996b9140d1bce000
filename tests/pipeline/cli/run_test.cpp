#include "pipeline/cli/run.h"

#include <gtest/gtest.h>

#include <new>

#include "tests/pipeline/cli/fake_host.h"
#include "tests/pipeline/cli/sample_verbs.h"

namespace gradus {

namespace {

using Words = std::vector<std::string>;

/// One call in a world of its own, of verbs that all do `handler`.
struct Call {
    explicit Call(const Words& words, const Handler& handler = answerNothing)
        : exit(runCommandLine(sampleVerbs(handler), words, host)) {}
    std::string out() const { return host.outText.text; }
    std::string err() const { return host.errText.text; }
    Json envelope() const { return Json::parse(out()); }

    FakeHost host;
    int exit;
};

Handler throwing(const Error& error) {
    return [error](Context&) -> Result { throw Error(error); };
}

TEST(Run, ShowsTextOnStandardOutputAndNextStepsOnStandardError) {
    const Call call({"audit", "verify"},
                    [](Context&) { return Result{.text = "whole\n", .next = {"gradus audit query"}}; });
    EXPECT_EQ(call.exit, 0);
    EXPECT_EQ(call.out(), "whole\n");
    EXPECT_EQ(call.err(), "  next: gradus audit query\n");
}

TEST(Run, AnswersWithOneEnvelopeWhenAskedForJson) {
    const Call call({"audit", "verify", "--json"}, [](Context&) {
        return Result{.data = {{"events", 3}}, .text = "whole\n", .next = {"gradus audit query"}};
    });
    EXPECT_EQ(call.out(),
              "{\"schema\":\"gradus.v1/audit-verify\",\"ok\":true,\"data\":{\"events\":3},\"next\":[\"gradus audit "
              "query\"]}\n");
    EXPECT_EQ(call.err(), "");
}

TEST(Run, GivesEveryEnvelopeDataAndNextEvenWhenThereAreNone) {
    EXPECT_EQ(Call({"audit", "verify", "--json"}).out(),
              "{\"schema\":\"gradus.v1/audit-verify\",\"ok\":true,\"data\":{},\"next\":[]}\n");
}

TEST(Run, WritesAFaultTheWayRustcDoes) {
    const Call call({"audit", "verify"},
                    throwing(Error(ErrorCode::kBusy, "the store is in use").hint("wait\ntry again")));
    EXPECT_EQ(call.exit, 7);
    EXPECT_EQ(call.out(), "");
    EXPECT_EQ(call.err(), "error: the store is in use\n  help: wait\n  help: try again\n");
}

TEST(Run, WritesAFaultAsAnEnvelopeOnStandardOutput) {
    const Call call({"audit", "verify", "--json"}, throwing(Error(ErrorCode::kBusy, "in use").hint("wait")));
    EXPECT_EQ(call.exit, 7);
    EXPECT_EQ(call.out(),
              "{\"schema\":\"gradus.v1/audit-verify\",\"ok\":false,"
              "\"error\":{\"code\":\"busy\",\"message\":\"in use\",\"hint\":\"wait\",\"retryable\":true}}\n");
    EXPECT_EQ(call.err(), "");
}

TEST(Run, AnswersAUsageErrorInTheFormThatWasAskedFor) {
    const Call call({"audti", "--json"});
    EXPECT_EQ(call.exit, 2);
    EXPECT_EQ(call.envelope()["schema"], "gradus.v1/usage");
    EXPECT_EQ(call.envelope()["ok"], false);
    EXPECT_EQ(call.envelope()["error"]["code"], "usage");
    const Call option({"--json", "audit", "query", "--nonsense"});
    EXPECT_EQ(option.envelope()["schema"], "gradus.v1/audit-query");
}

TEST(Run, DoesNotTakeACommandsJsonForItsOwn) {
    const Call call({"try", "--keep", "--", "--json"}, [](Context& context) {
        EXPECT_FALSE(context.json);
        return Result{.exit = passedThrough(42), .text = "ran\n"};
    });
    EXPECT_EQ(call.exit, 42);
    EXPECT_EQ(call.out(), "ran\n");
    EXPECT_EQ(call.err(), "");
}

TEST(Run, ShowsTheDataOfANoBesideTheProblem) {
    const Handler no = [](Context&) {
        return Result{.exit = Exit::kFailed,
                      .data = {{"kind", "altered"}},
                      .text = "event 7 was altered\n",
                      .problem = Problem{"altered", "the audit log was altered"}};
    };
    const Call text({"audit", "verify"}, no);
    EXPECT_EQ(text.exit, 1);
    EXPECT_EQ(text.out(), "event 7 was altered\n");
    EXPECT_EQ(text.err(), "error: the audit log was altered\n");
    const Call json({"audit", "verify", "--json"}, no);
    EXPECT_EQ(json.envelope()["ok"], false);
    EXPECT_EQ(json.envelope()["error"]["code"], "altered");
    EXPECT_EQ(json.envelope()["data"]["kind"], "altered");
}

TEST(Run, CallsAnUnexpectedExceptionABug) {
    const Call call({"audit", "verify"}, [](Context&) -> Result { throw std::out_of_range("index 9"); });
    EXPECT_EQ(call.exit, 6);
    EXPECT_NE(call.err().find("error: this is a bug in gradus: index 9"), std::string::npos);
    const Call json({"audit", "verify", "--json"}, [](Context&) -> Result { throw 7; });
    EXPECT_EQ(json.exit, 6);
    EXPECT_EQ(json.envelope()["error"]["code"], "bug");
}

TEST(Run, SurvivesRunningOutOfMemory) {
    const Call call({"audit", "verify"}, [](Context&) -> Result { throw std::bad_alloc(); });
    EXPECT_EQ(call.exit, 6);
    EXPECT_EQ(call.err(), "error: out of memory\n");
}

TEST(Run, KeepsJsonAsciiAndValidWhateverTheStringsHold) {
    const Call call({"audit", "verify", "--json"}, [](Context&) {
        return Result{.data = {{"title", "\x1b]0;\xff\u202e\u009bü\x7f"}}};
    });
    for (const char c : call.out()) EXPECT_TRUE((c >= ' ' && c < '\x7f') || c == '\n');
    EXPECT_EQ(call.envelope()["data"]["title"], "\x1b]0;\ufffd\u202e\u009bü\x7f");
}

TEST(Run, EscapesWhatAHandlerForgotToEscape) {
    const Call call({"audit", "verify", "--color=always"}, [](Context& context) {
        context.lines.text("line \x1b[2J");
        return Result{.text = context.paint(Style::kGreen, "ok") + " \x1b]52;c;x\a\n"};
    });
    EXPECT_EQ(call.out(), "line \\x1b[2J\n\x1b[32mok\x1b[0m \\x1b]52;c;x\\x07\n");
}

TEST(Run, EscapesTheCallersOwnWordsInMessages) { EXPECT_EQ(Call({"\x1b[2J"}).err().find('\x1b'), std::string::npos); }

TEST(Run, LetsAVerbStreamItsLines) {
    const Handler stream = [](Context& context) {
        context.lines.json({{"event", 1}});
        context.lines.json({{"event", 2}});
        context.progress.text("two events");
        return Result{.streamed = true};
    };
    const Call call({"audit", "query", "--json"}, stream);
    EXPECT_EQ(call.out(), "{\"event\":1}\n{\"event\":2}\n");
    EXPECT_EQ(call.err(), "two events\n");
}

TEST(Run, EntersTheDirectoryBeforeTheVerbRuns) {
    const Handler where = [](Context& context) { return Result{.text = context.host.directory().string() + "\n"}; };
    EXPECT_EQ(Call({"-C", "shop", "audit", "verify"}, where).out(), "/home/me/shop\n");
    EXPECT_EQ(Call({"-C", "/nowhere", "audit", "verify"}, where).exit, 2);
}

TEST(Run, ColoursOnlyWhereATerminalReads) {
    const auto text = [](bool outIsTerminal, const std::string& noColor) {
        FakeHost host;
        host.facts.outIsTerminal = outIsTerminal;
        host.variables["NO_COLOR"] = noColor;
        runCommandLine(sampleVerbs(), {"help"}, host);
        return host.outText.text;
    };
    EXPECT_NE(text(true, "").find('\x1b'), std::string::npos);
    EXPECT_EQ(text(true, "1").find('\x1b'), std::string::npos);
    EXPECT_EQ(text(false, "").find('\x1b'), std::string::npos);
}

TEST(Run, TellsTablesTheWidthOfATerminalOnly) {
    FakeHost host;
    std::size_t width = 1;
    const Handler look = [&](Context& context) {
        width = context.width;
        return Result{};
    };
    runCommandLine(sampleVerbs(look), {"audit", "verify"}, host);
    EXPECT_EQ(width, 0U);
    host.facts = {.outIsTerminal = true, .width = 120};
    runCommandLine(sampleVerbs(look), {"audit", "verify"}, host);
    EXPECT_EQ(width, 120U);
}

TEST(Run, ShowsHelpForNothingForAGroupAndForAVerb) {
    EXPECT_NE(Call({}).out().find("gradus moves a change"), std::string::npos);
    EXPECT_EQ(Call({}).exit, 0);
    EXPECT_NE(Call({"audit"}).out().find("gradus audit has these verbs"), std::string::npos);
    EXPECT_EQ(Call({"audit", "query", "--help"}).out(), Call({"help", "audit", "query"}).out());
    EXPECT_EQ(Call({"audit", "query", "--help", "--json"}).envelope()["data"]["name"], "audit query");
    EXPECT_EQ(Call({"help", "--json"}).envelope()["data"]["verbs"].size(), 7U);
}

TEST(Run, SuggestsForAnUnknownVerbInHelpToo) {
    const Call call({"help", "audit", "qurey"});
    EXPECT_EQ(call.exit, 2);
    EXPECT_NE(call.err().find("did you mean 'query'?"), std::string::npos);
    EXPECT_EQ(Call({"help", "audit", "query", "more"}).exit, 2);
}

TEST(Run, ShowsTheVersion) {
    EXPECT_EQ(Call({"--version"}).out(), Call({"version"}).out());
    EXPECT_TRUE(Call({"version", "--json"}).envelope()["data"]["version"].is_string());
}

}  // namespace

}  // namespace gradus
