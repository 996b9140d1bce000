#pragma once

#include <string>
#include <string_view>

namespace gradus {

/// Thrown when whoever reads our output has gone (`gradus … | head -1`). Not a fault, so not an Error: it ends the
/// verb without a word.
struct ReaderGone {};

/// Where bytes for a person or a script go. One thread at a time.
class Sink {
  public:
    virtual ~Sink() = default;
    /// Throws ReaderGone, or Error when the bytes cannot be kept (a closed descriptor, a full disk).
    virtual void write(std::string_view bytes) = 0;
    /// Sends what is still held back.
    virtual void flush() = 0;
};

/// A descriptor that someone else owns.
class DescriptorSink final : public Sink {
  public:
    enum class Buffering { kNone, kBlocks };
    /// `name` is for messages: "standard output".
    DescriptorSink(int descriptor, std::string_view name, Buffering buffering);
    void write(std::string_view bytes) override;
    void flush() override;

  private:
    int descriptor_;
    std::string_view name_;
    Buffering buffering_;
    std::string held_;
};

/// A descriptor for messages: what cannot be written is dropped. There is no better place left to say it, and the
/// exit code still does.
class MessageSink final : public Sink {
  public:
    MessageSink(int descriptor, std::string_view name) : sink_(descriptor, name, DescriptorSink::Buffering::kNone) {}
    void write(std::string_view bytes) override;
    void flush() override {}

  private:
    DescriptorSink sink_;
};

}  // namespace gradus
