// The prose of greta-infer's manual: what options and their descriptions do not say.
#include <string>

#include "cli/greta_infer/commands.h"
#include "cli/greta_infer/environment.h"

namespace greta {
namespace {

constexpr const char* kManualBegin = R"(
DESCRIPTION
greta-infer runs GGUF models of the architectures llama (Llama, Mistral), qwen2 and qwen3 and
writes fingerprints of the tensors it computes straight into a SQLite file, whose views say
whether prefill and decode computed the same values for the same token at the same position, and
where they first did not. greta-db(1) asks these views; so does plain sqlite3(1).

MODELS
GGUF versions 2 and 3 are read, with weights in F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0,
IQ4_NL, Q2_K, Q3_K, Q4_K, Q5_K and Q6_K. RoPE may be scaled, linearly or by YaRN, and attention may
go over a sliding window (on a CPU). Vocabularies are SentencePiece (llama) or byte-level BPE
(gpt2); token ids are those of llama.cpp. Whatever else a file asks for is refused by name.
Templates of chats are not applied: a prompt is what the model gets.

A run says the root of its model (model_root), a hash of its tensors and of the metadata that
results follow from, which is kept in ~/.cache/greta/models for as long as the file stays as it
is.

RECORDING
A run is named DATE/EXPERIMENT/MODE, as 2026-02-07/b3_66_v2/kv_aligned, with #2, #3, ... when
that exists; nothing is overwritten. Several engines may write one file.
)";

constexpr const char* kManualEnd = R"(
EXIT STATUS
0: done; of probe and sweep, PASS. 1: FAIL; of info, a file that greta cannot run; of replay, the
operation makes the difference. 2: a usage error, or a model or database that cannot be used. 3:
no verdict (NO_EVIDENCE, INCOMPLETE or INCOMPARABLE); of replay, the run came out otherwise.

SIGINT and SIGTERM end a probe with 130 and 143: what was computed is in the database, as a run
that failed. A second one ends it at once. A probe that is killed leaves a run whose verdict is
INCOMPLETE, never PASS.

SEE ALSO
greta-db(1), sqlite3(1)
)";

std::string program_text() {
  std::string text = kManualBegin;
  text +=
      "\nENVIRONMENT\nA flag wins over its variable. Those that are set are recorded with the run, "
      "as env.NAME.\n";
  for (const EnvironmentVariable& variable : environment_variables()) {
    text.append("\n").append(variable.name).append(": ").append(variable.description).append("\n");
  }
  return text + "\nXDG_CACHE_HOME: where the roots of models are kept, instead of ~/.cache\n" +
         kManualEnd;
}

}  // namespace

const std::vector<ManualText>& greta_infer_manual() {
  static const std::string program = program_text();
  static const std::vector<ManualText> texts{
      {"", program.c_str()},
      {"probe", R"(
Every prompt of a suite runs twice: prefill takes the whole prompt and its last position is
traced (phase prefill_last); then the last token alone runs by the decode path on the cache of
the others (phase decode0). Before that, every activation and every cache row that prefill must
not hand over is overwritten with NaN. Then tokens are decoded greedily (phase decode), and
prompt and tokens are prefilled once more, so that each of them has its other side. The exit
status follows the verdict: the strict one with batch_invariant and where no difference is
measured, else the numeric one.

Suites: default (16 prompts of 1 to 1,030 tokens, with fewer tokens decoded after the long ones;
those that the context has no room for are left out, with a line), b3_66_v2 and b3_66 (three
prompts), b3_13 (what follows the last block). A file has prompts of your own, one JSON
object a line; a line that cannot be taken is named, and nothing is run:
  {"name": "a", "text": "Hi"}
  {"name": "b", "tokens": [1, 15043], "decode_steps": 4}

Modes: as_designed (every phase takes its own routes, and decode attends over its own K and V),
kv_aligned (decode still computes and traces its own, but attends over the K and V that prefill
wrote), batch_invariant (one order of summation for both phases; the verdict must be PASS,
bitwise).

FAULT is NAME[@PHASE][:layer=N][:pos=N][:step=N][:length=N][:magnitude=X], by default in decode
and in every layer; from position pos, from decode step `step` (1 is decode0) and with prompts of
`length` tokens on. It is recorded with the run. One that would change nothing that is traced is
refused.

With --sequences prefill takes several prompts in one batch; with batch_invariant, where that
changes no bit, decode takes a token of each. In other modes what is beside a prompt may change
its rounding, and what was is recorded as prefilled_together.

Up to three short prompts of a suite run again after all others (ran_again). Rows that come out
otherwise fail the run as AMBIGUOUS: one prompt leaves something to the next, or there is a race.
--repeats keeps the first place that differs as phases repeat_prefill and repeat_decode. With 0
nothing runs again.

--layers takes 0,1,2,4,8 by default, as far as the model has them. --run-name is refused where a
run has that name. With --replace-failed a run that failed, or that a killed process left, makes
room.

Examples:
  greta-infer probe --suite b3_66_v2 --model tiny.gguf --db greta.db
  greta-infer probe --model tiny.gguf --mode batch_invariant \
    --inject rope_pos_off_by_one@decode:layer=2
)"},
      {"sweep", R"(
Each combination is a run of experiment sweep whose name says the combination. KEY is backend,
threads, mode, batch, sequences, seed, max-seq-len, decode-steps, suite, kv-cache or route.OP. The
model is loaded once. Whatever can be refused is refused before the first run; when a later one
fails or is stopped, those that ended stay and are printed. The exit status follows the worst
verdict.

Example:
  greta-infer sweep --model tiny.gguf --vary batch=1,7 --vary route.lm_head=dot,gemm
)"},
      {"calibrate", R"(
Clean probes run by every pair of routes, in several batches and on one thread, in temporary
files. The 99.9th percentile of the relative L2 distance of pairs that differ is stored per tensor
and layer in the table noise_floor, in place of an earlier measurement. Verdicts about runs of this
model, arithmetic, type of the KV cache and backend, earlier ones too, then take four times that
for the tolerance wherever it is less than the shipped one; DELETE FROM noise_floor in sqlite3(1)
undoes that. A row says what the tolerance was and is now (of the worst layer), and how many pairs
of clean probes were beyond that of table tolerance. Where any is, the measurement is stored and excuses
nothing, and the exit status is 1. Where a clean probe fails by more than distances (NaN), nothing
is stored (1). The exit status is 3 where nothing could be measured.

Example:
  greta-infer calibrate --model tiny.gguf --db greta.db
)"},
      {"replay", R"(
A prompt of a recorded probe runs again, and the operation of decode that makes this tensor runs
alone, on prefill's input and on decode's own. The difference arises in this one operation (exit
status 1), or in how the pass calls it (1: what is computed alone from decode's own input is not
decode's row, so it read another buffer or another residual, or ran too early), or it comes with
the input (0). NaN and inf are counted. A tensor that is a weight or a copy has no operation. The
run says how it was made: its mode, routes, faults, batch and tokens. The model must have the
root that the run says, or the SHA-256 of an older run.

Example:
  greta-infer replay --run b3_66_v2 --at 3:attn_out
)"},
      {"run", R"(
The text goes to standard output as it is made, whole characters at a time; tokens per second go
to standard error at the end. With --db or any option that says what to trace, the generation is
recorded as a run of experiment run: phase decode0 is the first generated token, decode every
later one. Nothing is paired with them, so the verdict of such a run is NO_EVIDENCE; it is there
to be compared with another one (greta-db compare). The token is the most likely one when the
temperature is 0, else random: by temperature first, then top-k, then top-p. The same seed gives
the same text on every machine that computes the same logits. --tensors are all but the rows of
the cache by default.

Example:
  greta-infer run --model M.gguf --prompt Hi --db greta.db --layers all
)"},
      {"synth", R"(
Its activations stay healthy through the stack, and its tokenizer works: the same bytes for the
same options everywhere. Sizes take the place of the preset's; q5_k_m and q4_k_m mix types as the
usual files do.

Example:
  greta-infer synth --preset tiny --type q4_k_m --out tiny.gguf
)"},
      {"tokenize", R"(
What it prints is what --tokens of run and probe takes.

Example:
  greta-infer tokenize --model tiny.gguf --prompt "Hello"
)"},
      {"info", R"(
With --root also the root of the model, which its runs state as model_root.

Example:
  greta-infer info --model tiny.gguf --tensors
)"},
  };
  return texts;
}

}  // namespace greta
