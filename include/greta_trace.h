#ifndef GRETA_TRACE_H
#define GRETA_TRACE_H

#include <stddef.h>
#include <stdint.h>

/// greta_trace: any engine writes the rows that it computes where greta judges them.
///
/// A trace is a target: a greta database (SQLite) or a file of JSON lines (docs/traces.md). A run
/// is one execution of one configuration. A row is what one tensor was at one position: its
/// fingerprint (hash, statistics, sketch) is worked out from the values, which are not kept. Rows
/// of two runs, or of prefill and decode of one, are then compared by `greta-db`.
///
///     greta_trace* trace = NULL;
///     greta_run* run = NULL;
///     greta_run_info info = GRETA_RUN_INFO_INIT;
///     info.experiment = "rollout";
///     greta_row row = GRETA_ROW_INIT;
///     row.tensor = "attn_out";
///     row.phase = GRETA_PREFILL;
///     row.layer = 3;
///     row.pos_id = 17;
///     if (greta_trace_open("greta.db", GRETA_DATABASE, &trace) == GRETA_OK &&
///         greta_run_begin(trace, &info, &run) == GRETA_OK &&
///         greta_run_add_values(run, &row, GRETA_F32, values, n) == GRETA_OK &&
///         greta_run_end(run, GRETA_COMPLETE) == GRETA_OK) { ... all of it is on disk ... }
///     else puts(greta_error_text());
///     greta_trace_close(trace);
///
/// Errors. Functions that can fail return a greta_status; greta_error_text() has the reason in
/// words. What is refused as an argument changes nothing, and the run goes on; but a run that was
/// refused a row or a plan lacks it, so that it ends as failed, and greta_run_end says so
/// (GRETA_ERROR_REFUSED). Once a target cannot be written, the run has failed: every later call on
/// it returns the same error. So it does when its file was deleted, moved or replaced meanwhile.
/// Nothing aborts, prints, throws or leaves by a signal; no handler of signals is installed. A
/// handle that is gone is GRETA_ERROR_STATE, and one of the other kind, or what never was a handle,
/// GRETA_ERROR_ARGUMENT: no call touches freed memory.
///
/// Never drops. A row that was taken (GRETA_OK) is written in the order of one thread's calls, by a
/// thread of the library, and committed within about 200 ms while the disk keeps up. If it does
/// not, the calls that add wait: a run holds at most some 32 MiB. A run that was not ended as
/// complete, of a killed program too, is INCOMPLETE: what was committed is there, and never passes.
///
/// Threads. All functions may be called from any thread, those that take a greta_run also several
/// at once on the same run; fingerprints are worked out on the thread that adds. A call that comes
/// beside the end of its run is done or returns GRETA_ERROR_STATE. Handles are of the process that
/// made them: in a child after fork() they are gone. Where a database was open at the fork, the
/// child can open none, until it calls exec.
///
/// Memory. The library keeps no pointer that it is given: when a call returns, texts and values are
/// the caller's again. All texts are UTF-8, ending with 0, without control characters.
///
/// ABI. Every structure begins with its own size, which GRETA_..._INIT sets: later versions add
/// fields at the end, and a program that was built with this header goes on working with the
/// library's .so of the same GRETA_TRACE_ABI_VERSION.

#if defined(__GNUC__)
#define GRETA_API __attribute__((visibility("default")))
#else
#define GRETA_API
#endif

#ifdef __cplusplus
extern "C" {
#define GRETA_NOEXCEPT noexcept
#else
#define GRETA_NOEXCEPT
#endif

/// Of this header; changes when a program that was built with another no longer works.
#define GRETA_TRACE_ABI_VERSION 1

/// A layer or position that was not set; no function takes it.
#define GRETA_UNSET INT32_MIN
/// The layer of what lies after the stack: final_norm, logits.
#define GRETA_LAYER_AFTER_STACK (-1)
/// A step, position, token or index that is not known. A row without a position is paired with
/// none.
#define GRETA_UNKNOWN (-1)

typedef enum greta_status {
  GRETA_OK = 0,
  GRETA_ERROR_ARGUMENT = 1,  ///< what was given cannot be taken; nothing was changed
  GRETA_ERROR_STATE = 2,   ///< not now: a second run in a file of JSON lines, a handle that is gone
  GRETA_ERROR_EXISTS = 3,  ///< a run, or a file of JSON lines, of this name is there already
  GRETA_ERROR_FORMAT = 4,  ///< the file is no greta database, or of a newer version
  GRETA_ERROR_IO = 5,      ///< the file cannot be opened or written: permissions, full disk
  GRETA_ERROR_BUSY = 6,    ///< others hold the database for longer than a minute or so
  GRETA_ERROR_MEMORY = 7,  ///< no memory, or no further thread
  GRETA_ERROR_INTERNAL = 8,  ///< a mistake of the library
  GRETA_ERROR_REFUSED = 9    ///< the run lacks rows that were refused, and ended as failed
} greta_status;

/// What a trace is written to.
typedef enum greta_kind {
  GRETA_DATABASE = 1,  ///< created, or of an earlier version brought up to date; others may read
                       ///< and write it meanwhile
  GRETA_JSONL = 2      ///< JSON lines that `greta-db ingest` reads; one run in each
} greta_kind;

/// Which part of the sequence a row was computed with; prefill and decode are held against each
/// other.
typedef enum greta_phase {
  GRETA_PREFILL_LAST = 1,  ///< the last token of a prompt computed at once: decode must have it too
  GRETA_PREFILL = 2,       ///< any token of several computed together
  GRETA_DECODE0 = 3,       ///< the first token computed by the decode path
  GRETA_DECODE = 4         ///< any later one
} greta_phase;

typedef enum greta_side { GRETA_SIDE_PREFILL = 0, GRETA_SIDE_DECODE = 1 } greta_side;

/// How values lie in memory. 16-bit values are fingerprinted as the f32 values that they are
/// exactly.
typedef enum greta_dtype {
  GRETA_F32 = 1,  ///< IEEE 754 binary32
  GRETA_F16 = 2,  ///< IEEE 754 binary16
  GRETA_BF16 = 3  ///< upper half of an f32
} greta_dtype;

typedef enum greta_outcome {
  GRETA_COMPLETE = 1,  ///< all that the run had to do is done
  GRETA_FAILED = 2
} greta_outcome;

typedef struct greta_trace greta_trace;  ///< an open target
typedef struct greta_run greta_run;      ///< a run that is being written

/// What is known of a run when it begins. A text that is NULL or "" is not known.
typedef struct greta_run_info {
  size_t size;             ///< sizeof(greta_run_info)
  const char* run;         ///< unique name, of letters, digits, '_', '-', '.' and '/'. NULL:
                           ///< <date>/<experiment>[/<mode>], with #2, #3, ... when that is taken
  const char* experiment;  ///< required; what groups runs: letters, digits, '_', '-', '.'
  const char* date;        ///< YYYY-MM-DD; NULL: today, UTC
  const char* commit;      ///< of the engine
  const char* mode;  ///< letters, digits, '_', '-', '.'; of greta's own: as_designed, kv_aligned,
                     ///< batch_invariant (which must be equal bit for bit)
  const char* backend;       ///< cuda, cpu, ...; runs of one lineage have the same
  const char* dtype;         ///< of the arithmetic, which sets the tolerance: f32, f16, bf16, ...
  const char* model;         ///< name of the model
  const char* model_sha256;  ///< of the model's file, 64 hexadecimal digits: runs of different
                             ///< models are not compared
  const char* model_root;    ///< of docs/fingerprint.md, the same of its content
  int64_t seed;              ///< 0 unless sampling
  /// Further facts, of 8 KiB in all: name, value, name, value, ..., NULL. NULL: none.
  const char* const* attributes;
  uint32_t sample_values;  ///< how many leading values are kept of each row, at most 256; 0: none
} greta_run_info;

#define GRETA_RUN_INFO_INIT \
  { sizeof(greta_run_info), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0 }

/// A sequence that a run computes.
typedef struct greta_prompt {
  size_t size;               ///< sizeof(greta_prompt)
  const char* name;          ///< required, unique in the run; prompts of equal name are compared
  const int32_t* token_ids;  ///< [n_tokens], not negative; NULL: not known
  size_t n_tokens;           ///< at most 2^20
  const char* text_sha256;   ///< of the text, 64 hexadecimal digits; NULL: not known
} greta_prompt;

#define GRETA_PROMPT_INIT \
  { sizeof(greta_prompt), NULL, NULL, 0, NULL }

/// Rows that a run must have, at any position: without one it is INCOMPLETE.
typedef struct greta_planned {
  int32_t side;   ///< greta_side
  int32_t layer;  ///< 0 .. 8189, or GRETA_LAYER_AFTER_STACK
  const char* tensor;
} greta_planned;

/// Where a row belongs.
typedef struct greta_row {
  size_t size;  ///< sizeof(greta_row)
  /// Of greta_run_add_prompt. NULL: the run's only one; where it has none, one called "prompt" is
  /// added; where it has several, that is an error.
  const char* prompt;
  /// Required: attn_out, or any name of at most 256 bytes. Those that greta knows (docs/traces.md)
  /// stand in forward order.
  const char* tensor;
  int32_t phase;  ///< required: greta_phase
  int32_t layer;  ///< required: 0 .. 8189, or GRETA_LAYER_AFTER_STACK
  /// Required: 0-based position in the sequence, at most 2^21 - 2, or GRETA_UNKNOWN.
  int64_t pos_id;
  int64_t step;  ///< 0 for prefill, then one per decoded token; or GRETA_UNKNOWN
  /// Of the token at the position, below 2^31; or GRETA_UNKNOWN. Two rows pair where both say the
  /// same token, or neither says any.
  int64_t token_id;
  int64_t logical_tok_idx;  ///< index of the token in its sequence; GRETA_UNKNOWN: as pos_id
  const char* route;  ///< how it was computed, at most 64 bytes: MFMA, flash_attn; NULL: not known
  /// What else there is to say, a JSON object of at most 64 KiB and 64 levels, each name once;
  /// NULL: nothing.
  const char* extra;
} greta_row;

#define GRETA_ROW_INIT                                                                        \
  {                                                                                           \
    sizeof(greta_row), NULL, NULL, 0, GRETA_UNSET, GRETA_UNSET, GRETA_UNKNOWN, GRETA_UNKNOWN, \
        GRETA_UNKNOWN, NULL, NULL                                                             \
  }

/// What is kept of n values; docs/fingerprint.md defines every number, so that a GPU can compute
/// it. Without a finite value min, max and mean are NaN. All is equal on every host, to the bit.
typedef struct greta_fingerprint {
  size_t size;  ///< sizeof(greta_fingerprint)
  uint64_t n;   ///< at most 2^31
  uint64_t hash;
  float min, max;  ///< of the finite values
  double mean, abs_sum, sum_sq;
  uint64_t nan, inf, nz_count;
  double sketch[32];  ///< two maps of 16 buckets
} greta_fingerprint;

#define GRETA_FINGERPRINT_INIT                                     \
  {                                                                \
    sizeof(greta_fingerprint), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, { 0 } \
  }

// ---- The library

/// GRETA_TRACE_ABI_VERSION of the library.
GRETA_API uint32_t greta_abi_version(void) GRETA_NOEXCEPT;
/// Version of the library, "0.1.0"; static memory.
GRETA_API const char* greta_version(void) GRETA_NOEXCEPT;
/// What a status means in general, "the file cannot be opened or written"; static memory.
GRETA_API const char* greta_status_text(greta_status status) GRETA_NOEXCEPT;
/// Why the last call of this thread failed, in one line; "" when it did not. Valid until the next
/// call.
GRETA_API const char* greta_error_text(void) GRETA_NOEXCEPT;

// ---- A target

/// Opens a target at `path` and leaves its handle in *trace (NULL on an error). A database is
/// created when there is none; a file of JSON lines must not be there yet (GRETA_ERROR_EXISTS),
/// unless it is a pipe or a device; "-" is the standard output, from where `greta-db ingest -`
/// reads. The file system must be local.
GRETA_API greta_status greta_trace_open(const char* path, greta_kind kind,
                                        greta_trace** trace) GRETA_NOEXCEPT;
/// Ends the runs that have not ended as GRETA_FAILED (their handles are gone) and frees the handle,
/// whatever it returns. NULL: nothing happens.
GRETA_API greta_status greta_trace_close(greta_trace* trace) GRETA_NOEXCEPT;

// ---- A run

/// Begins a run and leaves its handle in *run (NULL on an error). It is on disk, as running, when
/// this returns. A database takes several at a time, each with a thread of its own.
GRETA_API greta_status greta_run_begin(greta_trace* trace, const greta_run_info* info,
                                       greta_run** run) GRETA_NOEXCEPT;
/// The run's name, unique in a database; valid as long as the run. "" for NULL.
GRETA_API const char* greta_run_name(const greta_run* run) GRETA_NOEXCEPT;
/// States a fact that was not known at the beginning. A name may have several values.
GRETA_API greta_status greta_run_add_attribute(greta_run* run, const char* name,
                                               const char* value) GRETA_NOEXCEPT;
/// Adds a prompt. A name that the run has already is GRETA_ERROR_ARGUMENT.
GRETA_API greta_status greta_run_add_prompt(greta_run* run,
                                            const greta_prompt* prompt) GRETA_NOEXCEPT;
/// Declares rows of a prompt (NULL: as greta_row.prompt); each counts once. All or none are taken.
GRETA_API greta_status greta_run_add_plan(greta_run* run, const char* prompt,
                                          const greta_planned* rows, size_t n_rows) GRETA_NOEXCEPT;

/// Adds a row of n values at `values`, of any alignment. Their fingerprint is worked out before
/// this returns. n = 0 is a row of no values; more than 2^31 are refused.
GRETA_API greta_status greta_run_add_values(greta_run* run, const greta_row* row, greta_dtype dtype,
                                            const void* values, size_t n) GRETA_NOEXCEPT;
/// Adds n_rows rows of n values each, of consecutive positions: row i begins stride_bytes · i
/// behind `values`, stands at first->pos_id + i (and first->logical_tok_idx + i, where known), and
/// is of token token_ids[i]; with token_ids NULL no row says its token. All are checked before the
/// first is taken.
GRETA_API greta_status greta_run_add_positions(greta_run* run, const greta_row* first,
                                               greta_dtype dtype, const void* values, size_t n_rows,
                                               size_t n, size_t stride_bytes,
                                               const int32_t* token_ids) GRETA_NOEXCEPT;
/// Adds a row whose fingerprint was computed elsewhere. One that no values have is refused.
GRETA_API greta_status greta_run_add_fingerprint(
    greta_run* run, const greta_row* row, const greta_fingerprint* fingerprint) GRETA_NOEXCEPT;
/// Waits until all that was added is committed: others see it, and a kill does not take it back.
GRETA_API greta_status greta_run_flush(greta_run* run) GRETA_NOEXCEPT;
/// Ends a run: when this returns GRETA_OK, all of it is synced to disk, and its verdict is kept
/// with it. A run that is to be complete, and of which a call that adds rows or a plan was refused,
/// is ended as GRETA_FAILED: all that was taken is on disk, and GRETA_ERROR_REFUSED names the first
/// refusal. The handle is gone whatever it returns. NULL: nothing happens.
GRETA_API greta_status greta_run_end(greta_run* run, greta_outcome outcome) GRETA_NOEXCEPT;

// ---- Values

/// Works out the fingerprint of n values, of any alignment, as greta_run_add_values() does.
GRETA_API greta_status greta_fingerprint_values(greta_dtype dtype, const void* values, size_t n,
                                                greta_fingerprint* fingerprint) GRETA_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
