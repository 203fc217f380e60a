// The prose of greta-db's manual: what options and their descriptions do not say.

#include "cli/greta_db/commands.h"

namespace greta {

const std::vector<ManualText>& greta_db_manual() {
  static const std::vector<ManualText> texts{
      {"", R"(
DESCRIPTION
greta-db keeps fingerprints of the tensors that an inference engine traced in a SQLite file,
and asks the views of that file whether prefill and decode computed the same values for the
same token at the same position, and where they first did not. The views answer the same in
plain sqlite3(1).

OUTPUT
The options of the program may stand before or after the command. After -- every word is a
path or a name. The format is table, json, csv (RFC 4180), tsv (tab, line end and backslash as
\t, \n, \r, \\) or md; report, compare, history and gate also write html, a page for a browser.
JSON integers are exact, reals read back the same, hashes are strings, blobs are hex digits.
NULL is null in JSON, - in tables and Markdown, and nothing in CSV and TSV. Tables and Markdown
show the columns that fit a screen; the other formats show all.

Control characters, line ends, characters that turn the direction of text and invisible ones
are spelled out (\x1b, \u202e). CSV has no such spelling: there it is done on a terminal only.

NAMING RUNS
NAME is a run or an experiment, which means all of its runs, by its exact name, else a part of
exactly one run's name. Where a wrong run would be worse than an error (gate, baseline, waive,
forget) the name of a run is exact, and --experiment means an experiment. Case matters, and
nothing is a wildcard. A part of several names is an error that lists them; a name that no run
has is one that names the nearest. A run that finds its name taken is called NAME#2, NAME#3 and
so on: of these --latest takes only the last.

ENVIRONMENT
GRETA_DB is the database when --db is not given. GRETA_FLEET_PASSWORD, or the file that
GRETA_FLEET_PASSWORD_FILE names, is the password of a warehouse; GRETA_FLEET_CA names a file of
authorities for TLS. GRETA_BISECT_COMMIT and GRETA_BISECT_TREE are set for the command of
bisect. NO_COLOR, when not empty, leaves verdicts uncoloured. TMPDIR is where big sorts spill
and the work trees of bisect lie.

FILES
While greta.db is written, its write-ahead log greta.db-wal lies beside it and belongs to it. A
file that may not be written can be asked by every command that only reads, unless a log beside
it cannot be used there: then copy it with its -wal and -shm to where it can be written.

EXIT STATUS
0: PASS, or done. 1: FAIL; for ingest, some input was quarantined. 2: a usage error, a file
that cannot be read or written, or a damaged database. 3: no verdict (NO_EVIDENCE, INCOMPLETE,
INCOMPARABLE or UNJUDGED); nothing without a compared pair is ever PASS. Of several runs, the
worst: 1, then 3, then 0.

When the reader of standard output goes away, greta-db ends without a word, as by SIGPIPE.
SIGINT and SIGTERM end it with 130 and 143: what was committed stays, the file at hand is
undone, and the same command goes on from there. A second one ends it at once.

SEE ALSO
greta-infer(1), sqlite3(1)
)"},
      {"ingest", R"(
Known are plain files, .gz and .tgz, JSON lines of the row format of docs/traces.md, what
msprobe, SGLang, PyTorch (torch.save, DebugMode), NumPy and llama.cpp write, and .safetensors.
Which run a file belongs to follows from its path and content, or from --run. Lines that cannot
be taken are kept with file, line and reason: `greta-db query ingest_errors`. Input of which
nothing is taken fails, with a list of what is read.

A content that is already there under the same run changes nothing. A file is taken whole or
not at all: after a crash or a kill, run the same command again. Until an ingest has ended, the
runs that it has written to are INCOMPLETE; --resume finishes one that was interrupted, with
the paths and options that it was given. A file that changes while it is read is taken as it
was read, with a warning.

With - rows come from a pipe while they are written, and are committed as they come; a stream
that ends before its run_end leaves its run INCOMPLETE. FIFOs, sockets, devices and what lies in
/proc, /sys or /dev (but /dev/shm) are never read.

Example:
  greta-db ingest artifacts_remote/
)"},
      {"runs", R"(
In order of date. DATE may be a year or a month, and SHA the beginning of a commit. With
--attributes, what every source says about the runs, which value won and where sources
contradict each other.

Example:
  greta-db runs --experiment b3_66_v2 --verdict FAIL
)"},
      {"firstfail", R"(
The verdict is the one to act on: the numeric one, which reads a difference within the
tolerance of tensor and dtype as equal, for prefill and decode of a healthy engine differ by
rounding; the strict one, which asks for equal bits, where the mode promises them
(batch_invariant) or nothing measures the differences. The exit status follows it, and the
other one is shown next to it.

Where the origin of a failure was not traced (UNSAMPLED), the probe that would tell is named.
More than 12 runs show as one line each: those that fail first, then those without a verdict.
JSON is an array with one object per run; CSV, TSV and Markdown have one row per run.

Example:
  greta-db firstfail --run b3_66_v2 --format json
)"},
      {"watch", R"(
Follows the newest run, or that of --run, and what changed against the run before it. What
fails is said at once; what is not there yet makes it INCOMPLETE. A terminal is redrawn;
elsewhere, and as JSON, there is a line for each change. It looks again when something was
written, at most every --interval and never so often as to take a tenth of the time. It ends
with the run, with the exit status of firstfail, or without a verdict when the process that
wrote the run is gone.

Example:
  greta-db watch --run nightly --interval 5s
)"},
      {"pairs", R"(
STATUS is MATCH, DRIFT, NONFINITE, AMBIGUOUS, CONFLICT, INCOMPARABLE, MISSING, DECODE_ONLY or
PREFILL_ONLY; CLASS is ROUNDING, EXPLAINED, DIVERGENT or UNKNOWN.

Example:
  greta-db pairs --run b3_67/kv_aligned_0/seed_0 --status MISSING
)"},
      {"trace", R"(
--samples adds the stored values, 32-bit floats in little-endian order, in hex.

Example:
  greta-db trace --run b3_66_v2 --layer 0 --tensor attn_out --limit 10
)"},
      {"query", R"(
Values are bound to :NAME, as an integer or real when they are spelled so, else as text.
Parameters run, run_a and run_b of canned queries take any name that --run takes, as long as it
means one run.

Example:
  greta-db query worst_pairs --param run=b3_66 --param limit=5
)"},
      {"compare", R"(
Rows of the same prompt, phase, position, layer and tensor are compared; a row that only one
run has is a difference. The first line is the verdict, as of firstfail. Named are the first
row that differs by more than rounding and the first that differs. A prompt that only one run
has, or that has other tokens, is left out and named; the verdict is of the other prompts, and
INCOMPLETE where these are the same. A baseline is always compared as a whole (history, gate).

Example:
  greta-db compare nightly/2026-02-06 nightly/2026-02-07 --rows
)"},
      {"history", R"(
In order of time, with what changed against the run before it of the same lineage (experiment,
mode, backend, dtype, model, suite and type of the KV cache): SAME, ROUNDING, CHANGED (values of
both phases, which no verdict of a run shows), BROKEN and FIXED (a verdict turned),
INCOMPARABLE. DATE is YYYY-MM-DD, or a year or a month.

--with-runs writes DIR/history.html and beside it the pages of up to N runs: first bad runs, then
those that fail, each the newest first.

Example:
  greta-db history --mode kv_aligned --since 2026-02 --format html > history.html
)"},
      {"regressions", R"(
By their verdict or by their values: the first bad run, the last good one, the tensor, and the
run that mended it.

Example:
  greta-db regressions --experiment b3_66 --since 2026-02
)"},
      {"gate", R"(
The run's own verdict, and what changed since its baseline, or since the run that --baseline
names: BROKEN and CHANGED fail, SAME, FIXED and ROUNDING pass (ROUNDING fails with --strict),
INCOMPARABLE is no verdict. Without a baseline its own verdict alone counts; with
--require-baseline there is no PASS then. What is waived is left out, and said, as are
tolerances that are not as shipped and later runs of the name.

--commit gates all runs of a commit, which git finds in the current folder, without those that
a fault was injected into. With --recorded it answers git-bisect(1): 0 (good) or 1 (bad) by the
runs' own verdicts, or by what changed since --baseline; 125 when the commit has no run or no
verdict; 128 after an error.

Files appear whole or not at all; - is standard output. A file that is there is replaced where
an earlier gate wrote it, any other only with --force, and one of the database never.

Examples:
  greta-db gate --run "$RUN" --junit gate.xml --markdown gate.md
  git bisect run greta-db --db ~/greta.db gate --commit HEAD --recorded
)"},
      {"waive", R"(
Differences of a trace point are accepted in runs dated up to DATE, and as long as that day has
not passed. They do not fail the gate; verdicts stay, and show the waiver. What is not finite,
missing or contradictory is never waived.

Example:
  greta-db waive --tensor logits --until 2026-03-31 --reason "new GEMM, ticket K-12"
)"},
      {"baseline", R"(
Without one, each run is held against the last one of its lineage before it that it can be
compared with: by commits where they are known, along first parents, and never against one of
its own commit.

Example:
  greta-db baseline set 2026-02-07/b3_66_v2/kv_aligned
)"},
      {"commits", R"(
A branch is then held against what it began with. Of a shallow clone it says that commits are
missing.

Example:
  greta-db commits ~/engine
)"},
      {"bisect", R"(
Where the verdicts of the two ends differ, a commit is good when its run passes. Where they are
the same, it is good when it computes what the run of the good end computes. A commit's runs are
those of one lineage with its name, or its first seven or more digits, as their commit, and no
fault injected. A run without a verdict is no answer, and neither are runs of one commit that
disagree.

git-bisect(1) searches, in a work tree of its own below TMPDIR that is removed afterwards;
neither files nor index, HEAD, refs or hooks of the user's are touched. What is recorded answers
before anything is run; without --run the next commit to probe is named. COMMAND is given to
sh(1) in that work tree. It has to leave a run of the commit in the database, by
GRETA_BISECT_COMMIT, GRETA_BISECT_TREE and GRETA_DB (the full path). The verdict of the run
counts, not its exit status, but 125: the commit is passed over, as by --skip. With 126 or more,
or a signal, the search ends.

Where the good end is no ancestor of the bad one, the commit where their histories parted is
tested first. With --fix, --bad comes before --good. --log keeps the log of git bisect, which
`git bisect replay` reads; a later call with --log alone goes on. When only skipped commits are
left, all that may be the first are named. The exit status is 0 when the commit is found, 3 when
it is not yet, or cannot be.

Example:
  greta-db bisect --repo ~/engine --good v1.4 --bad main --log search.log \
    --run 'make -s || exit 125; ./probe --commit "$GRETA_BISECT_COMMIT"'
)"},
      {"tolerance", R"(
The most specific of tensor and dtype counts. Verdicts that are kept are worked out again.

Example:
  greta-db tolerance set --tensor attn_out --dtype f16 0.002
)"},
      {"names", R"(
The first rule whose pattern (PCRE2) fits the whole name decides, and its first group is the
layer. Own rules come before those that are shipped for Hugging Face, msprobe, SGLang and
llama.cpp. They act on what is ingested afterwards; a name that no rule knows keeps itself.

Example:
  greta-db names add 'blocks\.(\d+)\.mixer' attn_out
)"},
      {"report", R"(
One screen, as Markdown: the verdict, where it fails, why, since when, and the command that tells
more; of an experiment, the runs that fail one by one and the rest in a table. With --full, and
wherever --out writes, the final report with all its sections; with --format tsv its analysis
table, which ingest reads back; with --format html a page in one file, which loads nothing.
Files are never overwritten unless --force says so.

Example:
  greta-db report --run b3_66_v2 --format html --out report.html
)"},
      {"open", R"(
The page goes to a temporary file that only its owner can read, and xdg-open(1) is asked to show
it; without a display, and with --print, its path is printed. Without --run it is the worst of
the runs of the newest date: one that fails, else one without a verdict, else any.

Example:
  greta-db open --run b3_66_v2 --print
)"},
      {"schema", R"(
With NAME, its columns and what they mean. Needs no database.

Example:
  greta-db schema pair
)"},
      {"merge", R"(
Runs meet by name; a source that is already there is skipped with its rows, so that merging a
file again changes nothing. A run that another engine wrote under a name that is taken becomes
NAME#2, as the column `renamed` says. One transaction per file; of a damaged one nothing is
merged. Pinned baselines and waivers of the other files do not come along, which is said.

Example:
  greta-db --db all.db merge host1.db host2.db
)"},
      {"push", R"(
ADDRESS is clickhouse://USER@HOST:PORT/DATABASE, or clickhouses:// over TLS. A run that is there as
it is here is not sent again; one that has grown takes its place; one that has sources there that
the file lacks is refused without --replace. A name that another run has there becomes NAME#2.
What a push that ended early has sent is visible to nobody.

Example:
  greta-db push --to clickhouse://ci@db:8123/greta --run "$RUN"
)"},
      {"pull", R"(
As merge does, for pairs, trace and report.

Example:
  greta-db pull --from clickhouse://ci@db:8123/greta --run nightly
)"},
      {"fleet", R"(
With the warehouse's address as --db. check compares the rows and verdicts that are there with
what was sent, by sums that the servers work out, and judges one run in N again; a difference is
exit status 2, and both are printed. sweep removes what interrupted pushes left, and what runs
were before they were pushed again.

Example:
  greta-db --db clickhouse://ci@db:8123/greta fleet check --sample 10
)"},
      {"forget", R"(
With the runs go their rows, prompts, plans, kept verdicts, readouts, sources with their
locations and errors, and the samples, sketches and trace points that no other run uses, in one
transaction. Verdicts of other runs stay. Ingesting the same files again brings the runs back.

On a terminal it asks; elsewhere it does nothing without --yes. A run that is pinned as a
baseline is refused without --unpin. A run that has not ended is refused, for its engine might
write on; when that was killed, --running forgets it.

Example:
  greta-db forget --run try_7 --dry-run
)"},
      {"prune", R"(
Forgets runs whose date, or else the day on which they started, is longer ago than AGE: 90d, 12w
or 2y. Runs without either stay, and so do runs that have not ended and pinned baselines.

Example:
  greta-db prune --keep 90d --keep-failing --yes
)"},
      {"check", R"(
Checked are views, triggers, indexes and tables, integrity, dangling ids, values that no writer
writes, and rows that a source gave and the file no longer has. --deep also judges anew every run
whose verdict is kept. --repair restores views, triggers and indexes, and drops kept verdicts that
are wrong; tables that differ cannot be repaired.

Example:
  greta-db --db from_elsewhere.db check --deep
)"},
      {"upgrade", R"(
Judges the runs again and says what that changes for a reader. ingest and greta-infer upgrade the
file that they write to; commands that only read name this one.

Example:
  greta-db --db old.db upgrade
)"},
  };
  return texts;
}

}  // namespace greta
