// Of a content: the rows, readouts, events and differences of its record lines.
#include <utility>

#include "ingest/known_claim.h"
#include "ingest/source_content.h"

namespace greta {

void SourceContent::add_batch(RecordBatch& batch) {
  for (const PromptSymbol& symbol : batch.prompts)
    prompts_.push_back(session_.runs.prompt_id(run_id_, symbol));
  for (const std::string& name : batch.phases) phases_.push_back(session_.writer.phase_id(name));
  for (const std::string& name : batch.names) {
    names_.push_back(session_.writer.tensor_id_of_run(run_id_, name));
    if (!names_.back()) refuse_name(name);
  }
  for (const RowContext& context : batch.contexts) {
    contexts_.push_back(session_.writer.add_context(context));
    if (context.extra) add_failures_of_line(*context.extra, 0);
  }
  for (const RunEvent& event : batch.events) {
    const std::string doubt = session_.runs.add_run_event(source_id_, run_id_, identity_, event);
    // of the run: which of the lines comes second is an accident
    if (!doubt.empty())
      session_.add_finding_about(identity_.run_name(), identity_.run_name(), doubt);
    for (const auto& [name, value] : event.attributes) {
      if (claims_failure(name, value)) add_failure(0, name + ": " + value);
    }
    if (!event.beside.empty()) add_failures_of_line(event.beside, 0);
  }
  const bool other_hash =
      !batch.hash_algo.empty() && !session_.runs.is_hash_algo(run_id_, batch.hash_algo);
  if (other_hash && !session_.runs.may_mix_hashes(run_id_, batch.hash_algo)) drop_hashes(batch);
  if (!batch.rows.empty() || !batch.readouts.empty() || !batch.events.empty() ||
      !batch.differences.empty()) {
    note_use(Use::kEvidence);
  }
  drop_unnamed(batch);
  for (TraceRow& row : batch.rows) {
    const PhaseId& phase = phases_[static_cast<size_t>(row.phase_id)];
    const TensorId& tensor = *names_[static_cast<size_t>(row.name_id)];
    row.run_id = run_id_;
    row.prompt_id = prompts_[static_cast<size_t>(row.prompt_id)];
    row.phase_id = phase.id;
    row.side = phase.side;
    row.name_id = tensor.name_id;
    row.tensor_id = tensor.tensor_id;
    if (row.context_id) {
      row.context_id = contexts_[static_cast<size_t>(*row.context_id - first_context_)];
    }
    row.source_id = source_id_;
    if (other_hash && row.hash) row.flags ^= kFlagOtherHash;
  }
  if (batch.contexts_from > first_context_) {
    contexts_.erase(contexts_.begin(), contexts_.begin() + (batch.contexts_from - first_context_));
    first_context_ = batch.contexts_from;
  }
  WriteCounts counts = session_.writer.write(batch.rows);
  for (const Readout& r : batch.readouts) {
    const std::optional<ReadoutRow> left_out =
        session_.facts.add_readout(source_id_, run_id_, prompts_[static_cast<size_t>(r.prompt_id)],
                                   phases_[static_cast<size_t>(r.phase_id)].side,
                                   names_[static_cast<size_t>(r.name_id)]->name_id, r);
    if (!left_out) continue;
    session_.add_finding(
        left_out->source_id == source_id_ ? file_ : session_.sources.path_of(left_out->source_id),
        left_out->line, false,
        "another readout of this step is there and is kept; this one is " + readout_text(*left_out),
        "", left_out->source_id);
  }
  for (LineDifference& d : batch.differences) add_difference(d);
  for (const LineFinding& f : batch.findings) {
    add_finding(f.line, f.is_error, f.reason, f.raw);
    // A line that gives no row: what it claims counts nevertheless.
    if (!is_document_) add_failures_of_line(f.raw, f.line);
  }
  for (int64_t line : counts.conflict_lines) {
    add_finding(line, false, "a row with this key but other content is there; both are kept");
  }
  int64_t conflicts = static_cast<int64_t>(counts.conflict_lines.size());
  rows_ += static_cast<int64_t>(batch.rows.size());
  duplicates_ += counts.duplicates - counts.taken_over;
  conflicts_ += conflicts;
  session_.summary.rows += counts.inserted;
  session_.summary.duplicates += counts.duplicates;
  session_.summary.conflicts += conflicts;
}

/// One finding names the first of them, and says of which run.
void SourceContent::refuse_name(const std::string& name) {
  if (std::exchange(refused_name_, true)) return;
  add_finding(0, false,
              "run " + identity_.run_name() + " brings more tensor names than a run may; " +
                  name.substr(0, 64) + " and the new ones behind it are not taken");
}

void SourceContent::add_difference(LineDifference& difference) {
  DifferenceRow& row = difference.row;
  row.run_id = run_id_;
  row.prompt_id = prompts_[static_cast<size_t>(row.prompt_id)];
  row.tensor_id = names_[static_cast<size_t>(row.tensor_id)]->tensor_id;
  session_.facts.add_difference(row);
}

/// Of hashes by three algorithms nobody could tell which two compare.
void SourceContent::drop_hashes(RecordBatch& batch) {
  for (TraceRow& row : batch.rows) row.hash.reset();
  if (std::exchange(refused_hash_, true)) return;
  add_finding(0, false,
              "its hashes (" + batch.hash_algo + ") are by another algorithm than those of run " +
                  identity_.run_name() + "; its rows are kept without them");
}

/// Rows of names that are not taken go, each with what it said.
void SourceContent::drop_unnamed(RecordBatch& batch) {
  if (!refused_name_) return;
  const auto is_unnamed = [this](int64_t name_id) { return !names_[static_cast<size_t>(name_id)]; };
  for (const TraceRow& row : batch.rows) {
    if (!is_unnamed(row.name_id)) continue;
    std::string said = "phase " + std::to_string(phases_[static_cast<size_t>(row.phase_id)].id) +
                       ", layer " + std::to_string(row.layer) + ", step " +
                       std::to_string(row.step) + ", position " + std::to_string(row.pos_id);
    if (row.hash) said += ", hash " + std::to_string(*row.hash);
    add_finding(row.line, true, "a row of a tensor name that is not taken", said);
  }
  std::erase_if(batch.rows, [&](const TraceRow& row) { return is_unnamed(row.name_id); });
  std::erase_if(batch.readouts, [&](const Readout& r) { return is_unnamed(r.name_id); });
  std::erase_if(batch.differences,
                [&](const LineDifference& d) { return is_unnamed(d.row.tensor_id); });
}

}  // namespace greta
