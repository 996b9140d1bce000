#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>

#include "pipeline/cli/output.h"
#include "plugins/api/isolation.h"
#include "store/boot_id.h"
#include "store/model/clock.h"

namespace gradus {

struct Terminal {
    bool outIsTerminal = false;
    bool errIsTerminal = false;
    std::size_t width = 80;  ///< of standard output; meaningful on a terminal only
};

/// The world that one run of the command line sees: the process's own, or a test's.
class Host {
  public:
    virtual ~Host() = default;
    virtual Sink& out() = 0;
    /// For messages; never throws for what cannot be written.
    virtual Sink& err() = 0;
    virtual Terminal terminal() const = 0;
    /// What a command run for the caller reads; nothing where that is a terminal, which is not handed over.
    virtual std::optional<int> input() const { return std::nullopt; }
    /// The terminal that the caller types at and reads from; nothing where it does not do both.
    virtual std::optional<TerminalLink> person() const { return std::nullopt; }
    /// Asks the person at the terminal; nothing where there is none to ask.
    /// A request to stop is no answer either.
    virtual std::optional<std::string> ask(const std::string& question, const std::stop_token& stop = {}) = 0;
    virtual const Clock& clock() const = 0;
    /// An environment variable; nothing if it is not set.
    virtual std::optional<std::string> variable(const std::string& name) const = 0;
    /// Where the caller stands, absolute. Throws Error if that directory is gone.
    virtual std::filesystem::path directory() const = 0;
    /// Throws Error (usage) if it is not a directory that can be entered.
    virtual void enterDirectory(const std::filesystem::path& directory) = 0;
};

/// The real one. Make it after prepareProcess().
class ProcessHost final : public Host {
  public:
    ProcessHost();
    Sink& out() override { return out_; }
    Sink& err() override { return err_; }
    Terminal terminal() const override { return terminal_; }
    std::optional<int> input() const override;
    std::optional<TerminalLink> person() const override;
    std::optional<std::string> ask(const std::string& question, const std::stop_token& stop) override;
    const Clock& clock() const override { return clock_; }
    std::optional<std::string> variable(const std::string& name) const override;
    std::filesystem::path directory() const override;
    void enterDirectory(const std::filesystem::path& directory) override;

  private:
    Terminal terminal_;
    SystemClock clock_{bootId()};
    DescriptorSink out_;
    MessageSink err_;
};

/// Done once, before anything is opened: descriptors 0 to 2 exist, and a reader who leaves is an answer of write(2)
/// rather than a signal.
void prepareProcess();

}  // namespace gradus
