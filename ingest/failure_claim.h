#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "ingest/failure_limit.h"

/// What texts of any writer claim to have failed, by one rule: a word that judges ("verdict",
/// "resultado", "exit code", "pass", "failed") and behind it what says that this failed ("FAIL",
/// "fallo", "not ok", "false", 1), whatever stands between them (": = | ->", a tab), in any case,
/// in English and the languages that its reports are written in. Pure functions of any bytes,
/// linear in what they read of them; a claim of success is none of their business.
namespace greta {

/// Whether `value`, as stated of `key`, says that something failed. "no failures" and "0 failed" do
/// not.
bool claims_failure(std::string_view key, std::string_view value);

/// Whether `value` says nothing but that whatever `key` names failed: "attn_out", "FAIL".
bool value_claims_failure(std::string_view key, std::string_view value);

/// Whether a line does: it has such a key and such a value, or says it in nothing but capitals
/// ("TEST FAILED"), as "not ok 1", or by an exit status ("exited with code 1").
bool line_claims_failure(std::string_view line);

/// What a file of no table claims by its name: "exit_code: 1" of exit_code.txt with 1 on its first
/// line, and FAILED, with nothing in it. "" if nothing.
std::string claim_of_name(const std::string& path, std::string_view text);

/// Calls `on_claim` with "key: value" of each claim of failure in `value`, which `key` holds, and
/// in all that it holds itself, objects by what their members say together too (claim_of_object).
/// `outer` are the limits that hold around it. Its nesting must be bounded.
void for_each_failure(std::string_view key, const nlohmann::json& value,
                      const std::function<void(const std::string& claim)>& on_claim,
                      std::span<const Quantity> outer = {});

}  // namespace greta
