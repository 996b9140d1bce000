#include "plugins/api/isolation.h"

#include <algorithm>

#include "store/model/canonical.h"

namespace gradus {

Network Network::byName(std::vector<Destination> destinations) { return {false, std::move(destinations)}; }

namespace {

constexpr std::string_view kProbeFormat = "gradus-probe 1";

// The commonest reasons why a machine says no, with the way out.
std::string cureFor(const SetupFailure& failure) {
    const bool refused = failure.error == EPERM || failure.error == EACCES;
    if (failure.step == "namespaces" && (failure.error == ENOSPC || failure.error == EUSERS))
        return "sudo sysctl -w user.max_user_namespaces=15000";
    if ((failure.step == "namespaces" || failure.step == "uid map" || failure.step == "gid map" ||
         failure.step.starts_with("mount ")) &&
        refused)
        return "if user namespaces are restricted here: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 "
               "(Ubuntu) or sudo sysctl -w kernel.unprivileged_userns_clone=1 (Debian, Arch); in a container, start it "
               "with --security-opt seccomp=unconfined --security-opt systempaths=unconfined";
    if (failure.step == "mount overlay" && failure.error == ENODEV) return "sudo modprobe overlay";
    if (failure.step == "limits")
        return "leave the limit out, or run as root, or inside a delegated group: systemd-run --user --scope -p "
               "Delegate=yes";
    return {};
}

// Newlines and backslashes cannot be told from the format's own.
std::string escaped(std::string_view text) {
    std::string safe;
    for (const char letter : text) {
        if (letter == '\n') {
            safe += "\\n";
        } else if (letter == '\\') {
            safe += "\\\\";
        } else {
            safe += letter;
        }
    }
    return safe;
}

std::string unescaped(std::string_view text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\\' || i + 1 == text.size()) {
            plain += text[i];
            continue;
        }
        plain += text[++i] == 'n' ? '\n' : text[i];
    }
    return plain;
}

std::optional<std::string> takeLine(std::string_view& text) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    std::string line(text.substr(0, end));
    text.remove_prefix(end + 1);
    return line;
}

std::optional<Proof> takeProof(std::string_view& text) {
    const auto name = takeLine(text);
    const auto holds = takeLine(text);
    const auto evidence = takeLine(text);
    const auto cure = takeLine(text);
    const auto guarantee = name ? guaranteeNamed(*name) : std::nullopt;
    if (!guarantee || !cure || (*holds != "yes" && *holds != "no")) return std::nullopt;
    return Proof{*guarantee, *holds == "yes", unescaped(*evidence), unescaped(*cure)};
}

}  // namespace

std::string CapturedStream::text() const {
    if (!truncated) return head + tail;
    const std::uint64_t dropped = bytes - head.size() - tail.size();
    return head + fmt::format("\n[... {} bytes left out ...]\n", dropped) + tail;
}

std::string SetupFailure::text() const {
    return fmt::format("{}: {}{}", step, detail, error != 0 ? " (" + errnoText(error) + ")" : std::string());
}

SetupError::SetupError(SetupFailure failure)
    : Error(ErrorCode::kInfrastructure, "the sandbox cannot be built: {}", failure.text()),
      failure_(std::move(failure)) {
    static_cast<void>(std::move(*this).hint(cureFor(failure_)));
}

bool ProbeResult::proves(Guarantee guarantee) const {
    const Proof* proof = find(guarantee);
    return proof != nullptr && proof->holds;
}

const Proof* ProbeResult::find(Guarantee guarantee) const {
    const auto found =
        std::find_if(proofs.begin(), proofs.end(), [&](const Proof& proof) { return proof.guarantee == guarantee; });
    return found == proofs.end() ? nullptr : &*found;
}

Digest ProbeKey::digest() const {
    return Canonical("gradus.probe-key.1").text(bootId).text(kernel).digest(program).number(uid).hash();
}

std::string formatProbe(const ProbeKey& key, const ProbeResult& result) {
    std::string text = fmt::format("{}\n{}\n{}\n{}\n", kProbeFormat, key.digest().hex(), escaped(result.backend),
                                   escaped(result.version));
    for (const Proof& proof : result.proofs)
        text += fmt::format("{}\n{}\n{}\n{}\n", guaranteeName(proof.guarantee), proof.holds ? "yes" : "no",
                            escaped(proof.evidence), escaped(proof.cure));
    return text;
}

std::optional<ProbeResult> parseProbe(const ProbeKey& key, std::string_view text) {
    if (takeLine(text) != kProbeFormat || takeLine(text) != key.digest().hex()) return std::nullopt;
    const auto backend = takeLine(text);
    const auto version = takeLine(text);
    if (!version) return std::nullopt;
    ProbeResult result{unescaped(*backend), unescaped(*version), {}};
    while (!text.empty()) {
        const auto proof = takeProof(text);
        if (!proof) return std::nullopt;
        result.proofs.push_back(*proof);
    }
    return result;
}

}  // namespace gradus
