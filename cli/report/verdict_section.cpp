#include "cli/report/verdict_section.h"

namespace greta {

using std::to_string;

void VerdictSection::write(const FirstFailure* failure) {
  std::string text = words_("verdict") + ": " + headline("**" + head_.verdict + "**");
  const bool open = failure && failure->is_open();
  if (!head_.fail.root_cause.empty() && !open) {
    text += " + ROOT_CAUSE: **" + escaped(head_.fail.root_cause) + "**";
  }
  out_.heading(level_, text);
  lead(failure);
  remarks();
}

void VerdictSection::lead(const FirstFailure* failure) {
  const bool open = failure && failure->is_open();
  out_.paragraph(reason());
  if (open && !head_.fail.cause.empty()) {
    out_.paragraph({"reason.open",
                    {in_code(failure->tensor), failure->layer, in_code(failure->origin.probe())}});
  }
}

void VerdictSection::remarks() {
  if (numeric_leads() && head_.disputed()) strictly();
  if (compared() > 0) out_.paragraph(coverage());
}

void VerdictSection::strictly() {
  const FailPlace& f = head_.other_fail;
  const std::string mode = verdict_.text("mode");
  const bool rounding = verdict_.number("unmeasured") == 0;
  out_.paragraph({!rounding                 ? TextId("strictly.fails")
                  : head_.verdict == "FAIL" ? TextId("strictly.before")
                  : mode.empty()            ? TextId("strictly.rounding")
                                            : TextId("strictly.expected"),
                  {show_tensor(f), show(f.layer), in_code(f.prompt), show(f.pos), in_code(mode)}});
}

Sentence VerdictSection::reason() const {
  const RunVerdict& v = verdict_;
  const std::string& name = head_.verdict;
  if (within_rounding()) return {"reason.within", {v.show("pairs"), v.show("rounding")}};
  if (name == "FAIL" && numeric_leads() && v.number("missing") == 0 && v.number("rounding") > 0) {
    return {"reason.beyond",
            {to_string(v.number("fail") - v.number("rounding") - v.number("unmeasured")),
             v.show("pairs"), v.show("rounding")}};
  }
  if (name == "PASS") return {"reason.pass", {v.show("pairs")}};
  if (name == "FAIL" && v.number("missing") > 0) {
    return {v.number("pairs") == 0 ? TextId("reason.unpaired") : TextId("reason.fail_missing"),
            {v.show("missing")}};
  }
  if (name == "FAIL" && v.number("unmeasured") > 0 && v.number("unmeasured") == v.number("fail")) {
    return {"reason.unmeasured", {v.show("fail"), v.show("pairs")}};
  }
  if (name == "FAIL") return {"reason.fail", {v.show("fail"), v.show("pairs")}};
  if (name == "INCOMPLETE" && v.number("unmet") > 0) return {"reason.unmet", {v.show("unmet")}};
  if (name == "INCOMPLETE" && v.number("ingest_open") > 0) return {"reason.ingest_open"};
  if (name == "INCOMPLETE" && v.number("rejected") > 0)
    return {"reason.rejected", {v.show("rejected"), v.show("rejected_why")}};
  if (name == "INCOMPLETE") return {"reason.unfinished", {v.show("status")}};
  if (name == "NO_EVIDENCE" && v.number("claimed") > 0)
    return {"reason.claimed", {v.show("claimed")}};
  if (name == "INCOMPARABLE" && v.number("incomparable") == 0) return {"reason.doubt"};
  if (name == "INCOMPARABLE")
    return {"reason.incomparable", {v.show("incomparable"), v.show("pairs")}};
  if (v.text("evidence") == "none") return {"reason.none"};
  if (v.number("decode_only") > 0) return {"reason.decode_only", {v.show("decode_only")}};
  return {"reason.one_side"};
}

Sentence VerdictSection::coverage() const {
  std::string name = verdict_.text("coverage");
  if (name == "complete") return {"coverage.complete"};
  if (name == "sampled") return {"coverage.sampled"};
  if (name == "unmet") return {"coverage.unmet"};
  if (name == "partial") return {"coverage.partial"};
  return {"coverage.undeclared"};
}

}  // namespace greta
