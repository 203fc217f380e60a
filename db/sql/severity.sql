-- Meanings of the words of verdicts, comparisons, changes and of K and V, the worst first: how bad each is, and the first letter of its square in page.css.
SELECT column1 AS word, column2 AS severity, column3 AS rank, column4 AS look
FROM (VALUES
  ('BROKEN', 'bad', 90, 'f'), ('NONFINITE', 'bad', 90, 'n'), ('REFUTED', 'bad', 90, 'f'),
  ('REAL_MISMATCH', 'bad', 90, 'f'), ('KV_MISALIGNMENT', 'bad', 90, 'f'),
  ('FAIL', 'bad', 80, 'f'), ('CHANGED', 'bad', 80, 'f'), ('Q_MISMATCH', 'bad', 80, 'f'),
  ('MISSING', 'bad', 80, 'x'), ('ALONE', 'bad', 80, 'x'), ('ONLY_A', 'bad', 80, 'x'), ('ONLY_B', 'bad', 80, 'x'),
  ('AMBIGUOUS', 'bad', 70, 'c'), ('CONFLICT', 'bad', 70, 'c'),
  ('DIVERGENT', 'bad', 60, 'f'), ('DRIFT DIVERGENT', 'bad', 60, 'f'), ('DRIFT', 'bad', 60, 'u'),
  ('UNKNOWN', 'open', 50, 'u'), ('DRIFT UNKNOWN', 'open', 50, 'u'),
  ('INCOMPLETE', 'open', 50, 'u'), ('NO_EVIDENCE', 'open', 50, 'u'), ('UNJUDGED', 'open', 50, 'u'),
  ('INCOMPARABLE', 'open', 40, 'i'),
  ('EXPLAINED', 'rounding', 34, 'r'), ('DRIFT EXPLAINED', 'rounding', 34, 'r'),
  ('FIXED', 'good', 36, 'm'), ('ROUNDING', 'rounding', 33, 'r'), ('DRIFT ROUNDING', 'rounding', 33, 'r'),
  ('PASS ROUNDING', 'rounding', 33, 'r'), ('STRUCTURAL_DRIFT', 'rounding', 33, 'r'),
  ('PASS', 'good', 20, 'm'), ('MATCH', 'good', 20, 'm'), ('SAME', 'good', 20, 'm'), ('ALIGNED', 'good', 20, 'm'),
  ('DECODE_ONLY', 'context', 10, 'o'), ('PREFILL_ONLY', 'context', 10, 'o'), ('INJECTED', 'context', 10, 'o'))
ORDER BY rank DESC, word;
