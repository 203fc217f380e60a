#include <cstdio>

#include "cli/greta_infer/probe.h"
#include "engine/forward/fault.h"
#include "engine/probe/suite.h"
#include "engine/session/session.h"

namespace greta {
namespace {

void entry(std::string_view name, const std::string& text) {
  std::printf("  %-20.*s %s\n", static_cast<int>(name.size()), name.data(), text.c_str());
}

void print_suites() {
  std::printf("suites\n");
  for (const Suite& suite : suites()) {
    std::string prompts;
    for (const SuitePrompt& prompt : suite.prompts) {
      prompts.append(prompts.empty() ? "" : ", ").append(prompt.name);
    }
    entry(suite.name, std::string(suite.description) + "; prompts " + prompts);
  }
}

void print_routes() {
  std::printf(
      "\nroutes of the CPU, OP=ROUTE[@prefill|@decode]; usual: the first in prefill, the last "
      "in decode\n");
  const std::unique_ptr<Backend> backend = make_backend("cpu", 1);
  for (int i = 0; i < kOps; ++i) {
    const auto op = static_cast<Op>(i);
    std::string routes;
    for (const Route route : backend->routes(op)) {
      routes.append(routes.empty() ? "" : ", ").append(route_name(route));
    }
    entry(op_name(op), routes);
  }
}

void print_faults() {
  std::printf(
      "\nfaults, %s; from position pos, decode step step (1: decode0) and prompts of length tokens "
      "on\n",
      kFaultGrammar.data());
  for (const FaultInfo& fault : fault_catalogue()) {
    char usual[64];
    std::snprintf(usual, sizeof usual, "; default %g, shows at ", fault.default_magnitude);
    entry(fault.name,
          std::string(fault.description) + usual + std::string(trace_point_name(fault.shows_at)));
  }
}

}  // namespace

void print_probe_lists() {
  print_suites();
  std::printf("\nmodes\n");
  entry(mode_name(Mode::kAsDesigned),
        "each phase takes its own routes; decode uses its own K and V: equal but for rounding");
  entry(mode_name(Mode::kKvAligned),
        "decode attends over the K and V that prefill wrote: equal but for rounding");
  entry(mode_name(Mode::kBatchInvariant), "one order of summation for both phases: bitwise equal");
  std::printf("\nphases\n ");
  for (int i = 0; i <= static_cast<int>(Phase::kDecode); ++i) {
    std::printf(" %s", phase_name(static_cast<Phase>(i)).data());
  }
  std::printf("\n\ntensors, in forward order\n ");
  for (int i = 0; i < kTracePoints; ++i) {
    std::printf(i % 6 == 0 && i > 0 ? "\n  %s" : " %s",
                trace_point_name(static_cast<TracePoint>(i)).data());
  }
  std::printf("\n");
  print_routes();
  print_faults();
}

}  // namespace greta
