#include "pipeline/cli/command_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "pipeline/cli/sandbox_views.h"
#include "policies/language/duration.h"
#include "policies/language/size.h"
#include "store/model/destination.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr int kShellsSignalBase = 128;
constexpr Milliseconds kGrace{2000};
constexpr std::int64_t kMostTasks = 4'194'304;

struct LimitOption {
    std::string_view name;  ///< the option's, and the key's in `limits`
    ValueType type;
    std::string_view doc;
};
constexpr std::array kLimitOptions{
    LimitOption{"memory", ValueType::kSize, "memory of all processes together"},
    LimitOption{"cpu-time", ValueType::kDuration, "processor time of all processes together"},
    LimitOption{"wall-time", ValueType::kDuration, "time on the clock"},
    LimitOption{"tasks", ValueType::kCount, "processes and threads at one time"},
    LimitOption{"disk", ValueType::kSize, "bytes written to the clone"},
};

std::string_view unitOf(ValueType type) {
    if (type == ValueType::kSize) return "SIZE";
    return type == ValueType::kDuration ? "DURATION" : "N";
}

Value askedFor(ValueType type) {
    Value value;
    value.type = type;
    value.origin.kind = Origin::Kind::kCaller;
    return value;
}

template <typename T>
T taken(std::string_view verb, std::string_view option, const std::string& text, const Parsed<T>& parsed) {
    if (!parsed) throw usageError(verb, fmt::format("--{} '{}' {}", option, printable(text), parsed.problem));
    return *parsed.value;
}

Value limitValue(const Context& context, std::string_view verb, const LimitOption& option, const std::string& text) {
    Value value = askedFor(option.type);
    if (option.type == ValueType::kSize) value.number = taken(verb, option.name, text, parseSize(text));
    if (option.type == ValueType::kDuration) value.number = taken(verb, option.name, text, parseDuration(text)).count();
    if (option.type == ValueType::kCount) value.number = *context.arguments.number(option.name, 1, kMostTasks);
    if (value.number <= 0) throw usageError(verb, fmt::format("--{} must be more than nothing", option.name));
    return value;
}

void takeLimits(const Context& context, std::string_view verb, Settings& asked) {
    Value limits = askedFor(ValueType::kTable);
    for (const LimitOption& option : kLimitOptions)
        if (const auto text = context.arguments.value(option.name))
            limits.fields.emplace(option.name, limitValue(context, verb, option, *text));
    if (!limits.fields.empty()) asked.set("limits", std::move(limits));
}

Value listOf(ValueType type, const std::vector<std::string>& texts) {
    Value list = askedFor(type);
    for (const std::string& text : texts) {
        Value item = askedFor(ValueType::kText);
        item.text = text;
        list.items.push_back(std::move(item));
    }
    return list;
}

// "none", "host", or "allow:" and destinations with commas between.
Value networkValue(std::string_view verb, const std::string& text) {
    constexpr std::string_view kAllow = "allow:";
    if (text == "none" || text == "host") {
        Value value = askedFor(ValueType::kNetwork);
        value.text = text;
        return value;
    }
    if (!text.starts_with(kAllow))
        throw usageError(verb, fmt::format("--network '{}' is neither none nor host nor allow:HOST[:PORT][=ADDRESS],…",
                                           printable(text)));
    std::vector<std::string> names;
    for (std::string_view rest = std::string_view(text).substr(kAllow.size()); !rest.empty();) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        const std::string_view one = rest.substr(0, comma);
        if (const std::string problem = destinationProblem(one); !problem.empty())
            throw usageError(verb, fmt::format("--network: '{}' {}", printable(std::string(one)), problem));
        names.push_back(formatDestination(parseDestination(one)));
        rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    std::sort(names.begin(), names.end());
    Value value = listOf(ValueType::kNetwork, names);
    value.text = "allow";
    return value;
}

}  // namespace

SandboxWish sandboxWishOf(const Context& context, std::string_view verb) {
    SandboxWish wish;
    wish.policy = context.arguments.value("policy");
    takeLimits(context, verb, wish.asked);
    if (const auto network = context.arguments.value("network")) {
        wish.asked.set("network", networkValue(verb, *network));
    }
    if (const auto names = context.arguments.values("env"); !names.empty())
        wish.asked.set("env", listOf(ValueType::kEnvironment, names));
    if (const auto names = context.arguments.values("require"); !names.empty())
        wish.asked.set("requires", listOf(ValueType::kChoiceList, names));
    return wish;
}

Option systemOption() {
    return {
        .name = "system",
        .doc = "copy the whole system, not only the project; the command is root inside, and has no network by name"};
}

std::vector<Option> commandOptions() {
    std::vector<Option> options;
    for (const LimitOption& row : kLimitOptions)
        options.push_back({.name = row.name, .value = unitOf(row.type), .doc = row.doc});
    options.push_back(
        {.name = "env", .value = "NAME[=VALUE]", .doc = "pass a variable in, or set it", .repeatable = true});
    options.push_back({.name = "network",
                       .value = "WHICH",
                       .doc = "none; allow:HOST[:PORT][=ADDRESS],… by name, not with --system; or host, the host's own",
                       .fallback = "none"});
    std::vector<std::string_view> guarantees(kGuaranteeNames.begin(), kGuaranteeNames.end());
    options.push_back({.name = "require",
                       .value = "GUARANTEE",
                       .doc = "run only where this is proven to hold",
                       .repeatable = true,
                       .choices = std::move(guarantees)});
    options.push_back({.name = "policy", .value = "NAME", .doc = "under the demands of this policy, too"});
    options.push_back(
        {.name = "service", .value = "NAME", .doc = "start this [service.NAME] beside it, too", .repeatable = true});
    options.push_back({.name = "ci",
                       .value = "SERVICE",
                       .doc = "escape lines that the runner of this build service would obey",
                       .choices = {"github", "gitlab"}});
    options.push_back({.name = "raw", .doc = "show output as it is, even if it drives the terminal"});
    return options;
}

RunningCommand::RunningCommand(Context& context, std::string_view verb)
    : context_(context),
      wish_(sandboxWishOf(context, verb)),
      filterOut_((context.host.terminal().outIsTerminal && !context.arguments.flag("raw")) ||
                 context.arguments.value("ci").has_value()),
      filterErr_((context.host.terminal().errIsTerminal && !context.arguments.flag("raw")) ||
                 context.arguments.value("ci").has_value()),
      escapesCommands_(context.arguments.value("ci") == "github") {
    if (context.arguments.value("ci") && context.arguments.flag("raw"))
        throw usageError(verb, "--ci changes what could be a command, so --ci and --raw exclude each other");
}

void RunningCommand::askForSystem() {
    Value value = askedFor(ValueType::kChoice);
    value.text = "system";
    wish_.asked.set("base", std::move(value));
}

RunWords RunningCommand::words() {
    RunWords words{
        .command = context_.arguments.command(), .wish = wish_, .cancel = interrupt_.token(), .grace = kGrace};
    words.services = context_.arguments.values("service");
    words.inputFrom = context_.host.input();
    if (!context_.json) words.terminal = context_.host.person();
    if (words.terminal) words.terminal->raw = context_.arguments.flag("raw");
    if (!context_.json && !words.terminal)
        words.live = [this](Stream stream, std::string_view piece) { show(stream, piece); };
    return words;
}

void RunningCommand::show(Stream stream, std::string_view piece) {
    const bool out = stream == Stream::kOut;
    const bool filtered = out ? filterOut_ : filterErr_;
    write(stream, fitForCi(stream, filtered ? (out ? out_ : err_).pass(piece) : std::string(piece)));
}

std::string RunningCommand::fitForCi(Stream stream, std::string text) {
    if (!escapesCommands_) return text;
    return (stream == Stream::kOut ? outCi_ : errCi_).pass(text);
}

// A reader who goes away, or a disk that is full, is no reason to end a command half-way and to lose its work.
void RunningCommand::write(Stream stream, const std::string& text) {
    if (unshown_) return;
    try {
        Sink& sink = stream == Stream::kOut ? context_.host.out() : context_.host.err();
        sink.write(text);
        sink.flush();
    } catch (...) {
        unshown_ = std::current_exception();
    }
}

void RunningCommand::finish(const ExecutionReport& report) {
    if (context_.json) return;
    write(Stream::kOut, fitForCi(Stream::kOut, out_.finish()) + outCi_.finish());
    write(Stream::kErr, fitForCi(Stream::kErr, err_.finish()) + errCi_.finish());
    const bool isStopped = interrupt_.signal() != 0 && report.execution.verdict == Verdict::kKilled;
    const std::string how =
        isStopped ? fmt::format("interrupted after {}", formatDuration(Milliseconds(report.execution.wallMillis)))
                  : verdictText(report);
    if (!how.empty()) context_.progress.text("gradus: " + how);
    if (const std::string effects = sideEffectsText(report.execution.sideEffects); !effects.empty())
        context_.progress.text("gradus: it " + effects);
    for (const std::string& note : report.notes) context_.progress.text("note: " + note);
}

Result RunningCommand::interrupted(Result result) const {
    try {
        if (unshown_) std::rethrow_exception(unshown_);
    } catch (const Error& error) {
        // Not the exit code of a command that never ran: what it did is done.
        result.problem = Problem{"output-lost",
                                 fmt::format("the command ran (exit code {}), but its output cannot be shown: {}",
                                             static_cast<int>(result.exit), error.what()),
                                 "what it changed is safe; `gradus sandbox list` shows what is kept"};
        result.exit = Exit::kInfrastructure;
        return result;
    }
    if (interrupt_.signal() != 0) result.exit = passedThrough(kShellsSignalBase + interrupt_.signal());
    return result;
}

}  // namespace gradus
