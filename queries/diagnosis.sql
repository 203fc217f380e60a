-- One row per finding about the first pair of a run and prompt that is beyond rounding, or in a run whose
-- rows are to be equal the first that differs: what its rows look like, from what is stored alone. No
-- row: nothing of these kinds is seen.
CREATE VIEW diagnosis AS
SELECT
  d.run AS run,                                        -- run.name
  d.prompt AS prompt,                                  -- prompt of the run
  d.layer AS layer,                                    -- of the pair
  d.tensor AS tensor,                                  -- as the prefill row names it
  d.finding AS finding,                                -- UNSTABLE, ALL_NAN, SOME_NAN, ALL_ZERO, OTHER_POSITION, STALE_ROW, OTHER_LAYER, OTHER_TENSOR, EARLIER_ROW, OTHER_HEAD, SOME_HEADS, NOT_ONE, SCALED, PERMUTED, TURNED, FEWER_VALUES, TAIL, FEW_VALUES, ROUNDING, FEWER_BITS, UNRELATED, ONSET, REPEATED
  d.evidence AS evidence,                              -- in words
  d.meaning AS meaning,                                -- what such rows usually come from
  d.pos_id AS pos_id,                                  -- absolute 0-based position
  d.ord AS ord,                                        -- the most telling first
  d.run_id AS run_id,                                  -- run.id
  d.prompt_id AS prompt_id                             -- prompt.id
FROM (
  -- DISTINCT, as all rows are: else SQLite puts the whole of `evidence` where it is asked for NULL, too
  SELECT DISTINCT
    f.run AS run, q.name AS prompt, f.layer AS layer, m.name AS tensor, k.name AS finding,
    k.meaning AS meaning, k.ord AS ord, nullif(f.pos_id, -1) AS pos_id, f.run_id AS run_id,
    f.prompt_id AS prompt_id,
    CASE k.name
      WHEN 'ALL_NAN' THEN
        CASE
          WHEN f.y_n > 0 AND f.y_nan = f.y_n AND f.x_n > 0 AND f.x_nan = f.x_n THEN 'every value of both rows is NaN'
          WHEN f.y_n > 0 AND f.y_nan = f.y_n THEN 'every value of decode''s row is NaN'
          WHEN f.x_n > 0 AND f.x_nan = f.x_n THEN 'every value of prefill''s row is NaN' END
      WHEN 'SOME_NAN' THEN
        CASE
          WHEN f.y_nan + f.y_inf > 0 AND f.y_nan < f.y_n AND NOT f.x_nan + f.x_inf > 0
            THEN printf('%d of %d values of decode''s row are NaN or infinite', f.y_nan + f.y_inf, f.y_n)
          WHEN f.x_nan + f.x_inf > 0 AND f.x_nan < f.x_n AND NOT f.y_nan + f.y_inf > 0
            THEN printf('%d of %d values of prefill''s row are NaN or infinite', f.x_nan + f.x_inf, f.x_n) END
      WHEN 'ALL_ZERO' THEN
        CASE
          WHEN f.y_nz = 0 AND f.x_nz > 0 THEN 'every value of decode''s row is 0'
          WHEN f.x_nz = 0 AND f.y_nz > 0 THEN 'every value of prefill''s row is 0' END
      -- rows that are equal where they should not be: as they should not, one of the pair is neither
      WHEN 'OTHER_LAYER' THEN (
        SELECT printf('decode''s row of layer %d is prefill''s of layer %d', f.layer, o.layer)
        FROM trace_row o
        WHERE o.run_id = f.run_id AND o.prompt_id = f.prompt_id AND o.side = 0 AND o.pos_id = f.pos_id
          AND o.layer <> f.layer AND o.tensor_id = f.tensor_id
          AND o.hash = f.y_hash AND o.n = f.y_n AND o.hash IS NOT f.x_hash
          AND f.y_nan IS NOT f.y_n AND f.y_nz IS NOT 0
          AND NOT EXISTS (SELECT 1 FROM edge e WHERE e.from_id = f.tensor_id AND e.kind = 'weight')
        ORDER BY o.layer LIMIT 1)
      WHEN 'OTHER_TENSOR' THEN (
        SELECT printf('decode''s %s is %s''s %s of this layer', m.name,
          CASE o.side WHEN 0 THEN 'prefill' ELSE 'decode' END,
          (SELECT name FROM tensor_name WHERE id = o.name_id))
        FROM trace_row o
        WHERE o.run_id = f.run_id AND o.prompt_id = f.prompt_id AND o.side IN (0, 1) AND o.pos_id = f.pos_id
          AND o.layer = f.layer AND o.tensor_id <> f.tensor_id
          AND o.hash = f.y_hash AND o.n = f.y_n AND f.x_hash IS NOT f.y_hash
          AND f.y_nan IS NOT f.y_n AND f.y_nz IS NOT 0  -- a row of one value is that of many
          AND NOT EXISTS (SELECT 1 FROM edge e WHERE e.kind IN ('copy', 'alias')
            AND (e.to_id, e.from_id) IN (VALUES (f.tensor_id, o.tensor_id), (o.tensor_id, f.tensor_id)))
        ORDER BY o.side, o.tensor_id LIMIT 1)
      -- the cache's rows are what is beyond rounding first, so that its own row is not
      WHEN 'EARLIER_ROW' THEN (
        SELECT printf('%s of this position does not differ beyond rounding: a row before it does', c.name)
        FROM tensor r JOIN tensor c ON c.name = substr(r.name, 1, 7)
        WHERE r.id = f.tensor_id AND r.name IN ('k_cache_rows', 'v_cache_rows') AND f.pos_id > 0 AND 2 = (
          SELECT count(DISTINCT o.side) FROM trace_row o
          WHERE o.run_id = f.run_id AND o.prompt_id = f.prompt_id AND o.side IN (0, 1) AND o.pos_id = f.pos_id
            AND o.layer = f.layer AND o.tensor_id = c.id))
      -- of a live probe, which has held both rows against each other
      WHEN 'SOME_HEADS' THEN (
        SELECT printf('%d of %d heads differ, the others by rounding at most', h.differing * h.heads / h.segments, h.heads)
        FROM (
          SELECT d.heads AS heads, d.segments AS segments,
            ifnull(d.p0 > 1e-6, 0) + ifnull(d.p1 > 1e-6, 0) + ifnull(d.p2 > 1e-6, 0) + ifnull(d.p3 > 1e-6, 0)
            + ifnull(d.p4 > 1e-6, 0) + ifnull(d.p5 > 1e-6, 0) + ifnull(d.p6 > 1e-6, 0) + ifnull(d.p7 > 1e-6, 0)
            + ifnull(d.p8 > 1e-6, 0) + ifnull(d.p9 > 1e-6, 0) + ifnull(d.p10 > 1e-6, 0) + ifnull(d.p11 > 1e-6, 0)
            + ifnull(d.p12 > 1e-6, 0) + ifnull(d.p13 > 1e-6, 0) + ifnull(d.p14 > 1e-6, 0) + ifnull(d.p15 > 1e-6, 0)
            + ifnull(d.p16 > 1e-6, 0) + ifnull(d.p17 > 1e-6, 0) + ifnull(d.p18 > 1e-6, 0) + ifnull(d.p19 > 1e-6, 0)
            + ifnull(d.p20 > 1e-6, 0) + ifnull(d.p21 > 1e-6, 0) + ifnull(d.p22 > 1e-6, 0) + ifnull(d.p23 > 1e-6, 0)
            + ifnull(d.p24 > 1e-6, 0) + ifnull(d.p25 > 1e-6, 0) + ifnull(d.p26 > 1e-6, 0) + ifnull(d.p27 > 1e-6, 0)
            + ifnull(d.p28 > 1e-6, 0) + ifnull(d.p29 > 1e-6, 0) + ifnull(d.p30 > 1e-6, 0) + ifnull(d.p31 > 1e-6, 0) AS differing
          FROM difference d
          WHERE d.run_id = f.run_id AND d.prompt_id = f.prompt_id AND d.pos_id = f.pos_id AND d.layer = f.layer
            AND d.tensor_id = f.tensor_id AND d.prefill_hash = f.x_hash AND d.decode_hash = f.y_hash
            AND d.heads > 1 AND d.rel_l2 IS NOT NULL
          LIMIT 1) h
        WHERE h.differing BETWEEN 1 AND h.segments - 1)
      -- of samples that have whole heads
      WHEN 'OTHER_HEAD' THEN (
        WITH RECURSIVE head(h) AS (SELECT 0 UNION ALL SELECT h + 1 FROM head WHERE h < 255)
        SELECT printf('head %d of decode''s row is head %d of prefill''s', b.h, a.h)
        FROM (
          SELECT u.data AS x, v.data AS y, min(u.n, v.n) AS n, f.y_n / CAST(c.value AS INTEGER) AS width
          FROM attribute c
          JOIN sample u ON u.id = f.x_vector
          JOIN sample v ON v.id = f.y_vector
          WHERE c.run_id = f.run_id AND f.x_hash IS NOT f.y_hash AND f.x_n = f.y_n
            AND c.dim = (SELECT CASE WHEN t.name IN ('q_pre_rope', 'q_post_rope', 'attn_out') THEN 'n_heads'
                WHEN t.name IN ('k_pre_rope', 'k_post_rope', 'k_cache', 'v_proj', 'v_cache') THEN 'n_kv_heads' END
              FROM tensor t WHERE t.id = f.tensor_id)
            AND CAST(c.value AS INTEGER) BETWEEN 2 AND 256 AND f.y_n % CAST(c.value AS INTEGER) = 0
        ) s
        CROSS JOIN head b ON (b.h + 1) * s.width <= s.n
        CROSS JOIN head a ON a.h <> b.h AND (a.h + 1) * s.width <= s.n
        WHERE substr(s.y, 1 + 4 * s.width * b.h, 4 * s.width) = substr(s.x, 1 + 4 * s.width * a.h, 4 * s.width)
          AND substr(s.y, 1 + 4 * s.width * b.h, 4 * s.width) <> substr(s.x, 1 + 4 * s.width * b.h, 4 * s.width)
        ORDER BY b.h, a.h LIMIT 1)
      -- probabilities over all keys, head by head
      WHEN 'NOT_ONE' THEN
        CASE WHEN f.finite AND (SELECT t.name FROM tensor t WHERE t.id = f.tensor_id) = 'attn_probs'
            AND f.x_n = f.y_n AND f.y_n % (f.pos_id + 1) = 0 THEN
          CASE
            WHEN abs(f.y_abs / (f.y_n / (f.pos_id + 1)) - 1) > 1e-3 THEN printf(
              'the probabilities of decode''s %d heads add up to %.6g', f.y_n / (f.pos_id + 1), f.y_abs)
            WHEN abs(f.x_abs / (f.x_n / (f.pos_id + 1)) - 1) > 1e-3 THEN printf(
              'the probabilities of prefill''s %d heads add up to %.6g', f.x_n / (f.pos_id + 1), f.x_abs)
          END END
      WHEN 'FEWER_VALUES' THEN
        CASE WHEN ifnull(f.x_nan, 0) + ifnull(f.x_inf, 0) + ifnull(f.y_nan, 0) + ifnull(f.y_inf, 0) > 0 THEN NULL
          WHEN f.y_n = f.x_n AND f.y_nz BETWEEN 1 AND f.x_nz - 1
            THEN printf('decode''s row has %d zeros more than prefill''s, of %d values', f.x_nz - f.y_nz, f.y_n)
          WHEN f.y_n = f.x_n AND f.x_nz BETWEEN 1 AND f.y_nz - 1
            THEN printf('prefill''s row has %d zeros more than decode''s, of %d values', f.y_nz - f.x_nz, f.x_n) END
      WHEN 'TAIL' THEN (
        SELECT printf('the first %d of %d values are equal', min(u.n, v.n), f.y_n)
        FROM sample u JOIN sample v ON v.id = f.y_vector
        WHERE u.id = f.x_vector AND f.x_hash IS NOT f.y_hash AND min(u.n, v.n) BETWEEN 1 AND f.y_n - 1
          AND substr(u.data, 1, 4 * v.n) = substr(v.data, 1, 4 * u.n))
      WHEN 'UNSTABLE' THEN coalesce((
        SELECT printf('%s''s row came out otherwise in %d of %d repeats of the prompt',
          CASE p.name WHEN 'repeat_decode' THEN 'decode' ELSE 'prefill' END,
          sum(CASE p.name WHEN 'repeat_decode' THEN f.y_hash ELSE f.x_hash END IS NOT o.hash), count(*))
        FROM trace_row o JOIN phase p ON p.id = o.phase_id
        WHERE o.run_id = f.run_id AND o.prompt_id = f.prompt_id AND o.side = 2 AND o.pos_id = f.pos_id
          AND o.layer = f.layer AND o.tensor_id = f.tensor_id AND p.name IN ('repeat_prefill', 'repeat_decode')
        GROUP BY p.name
        HAVING sum(CASE p.name WHEN 'repeat_decode' THEN f.y_hash ELSE f.x_hash END IS NOT o.hash) > 0
        ORDER BY p.name LIMIT 1), (
        SELECT printf('%d different rows of %s at this place', count(DISTINCT o.hash),
          CASE o.side WHEN 0 THEN 'prefill' ELSE 'decode' END)
        FROM trace_row o
        WHERE o.run_id = f.run_id AND o.prompt_id = f.prompt_id AND o.side IN (0, 1) AND o.pos_id = f.pos_id
          AND o.layer = f.layer AND o.tensor_id = f.tensor_id AND o.token_id IS f.token_id
        GROUP BY o.side HAVING count(DISTINCT o.hash) > 1 ORDER BY o.side DESC LIMIT 1))
      WHEN 'REPEATED' THEN (
        SELECT printf('in %d repeats of the prompt both rows came out alike', count(DISTINCT o.step))
        FROM trace_row o JOIN phase p ON p.id = o.phase_id
        WHERE o.run_id = f.run_id AND o.prompt_id = f.prompt_id AND o.side = 2 AND o.pos_id = f.pos_id
          AND o.layer = f.layer AND o.tensor_id = f.tensor_id AND p.name IN ('repeat_prefill', 'repeat_decode')
        HAVING count(*) > 0
          AND sum(CASE p.name WHEN 'repeat_decode' THEN f.y_hash ELSE f.x_hash END IS NOT o.hash) = 0)
      WHEN 'ONSET' THEN (
        WITH block(size) AS (VALUES (256), (128), (96), (64), (32), (16))
        SELECT group_concat(printf(w.text, w.last_clean, w.first_bad) || coalesce(
          (SELECT ': a multiple of the batch, ' || a.value FROM attribute a
           WHERE a.run_id = f.run_id AND a.dim = 'batch' AND CAST(a.value AS INTEGER) > 1
             AND w.first_bad % CAST(a.value AS INTEGER) = 0 LIMIT 1),
          (SELECT ': a multiple of ' || b.size FROM block b WHERE w.first_bad % b.size = 0 ORDER BY b.size DESC LIMIT 1),
          (SELECT ': one after a multiple of ' || b.size FROM block b
           WHERE w.last_clean = w.first_bad - 1 AND w.last_clean % b.size = 0 AND w.last_clean > 0
           ORDER BY b.size DESC LIMIT 1), ''), '; ')
        FROM (
          SELECT
            CASE u.length WHEN 0 THEN 'positions up to %d are clean, none from %d on'
              ELSE 'prompts of up to %d tokens are clean, none of %d or more' END AS text,
            CASE u.length WHEN 0 THEN o.last_clean_pos ELSE o.last_clean_length END AS last_clean,
            CASE u.length WHEN 0 THEN o.first_bad_pos ELSE o.first_bad_length END AS first_bad,
            CASE u.length WHEN 0 THEN min(o.n_clean_pos, o.n_bad_pos) ELSE min(o.n_clean_length, o.n_bad_length) END AS n
          FROM (
            SELECT
              min(coalesce(g.bad OR g.clean, 0)) AS known,
              max(CASE WHEN NOT g.bad THEN g.pos_id END) AS last_clean_pos, min(CASE WHEN g.bad THEN g.pos_id END) AS first_bad_pos,
              count(DISTINCT CASE WHEN NOT g.bad THEN g.pos_id END) AS n_clean_pos,
              count(DISTINCT CASE WHEN g.bad THEN g.pos_id END) AS n_bad_pos,
              max(CASE WHEN NOT g.bad THEN g.n_tokens END) AS last_clean_length,
              min(CASE WHEN g.bad THEN g.n_tokens END) AS first_bad_length,
              count(DISTINCT CASE WHEN NOT g.bad THEN g.n_tokens END) AS n_clean_length,
              count(DISTINCT CASE WHEN g.bad THEN g.n_tokens END) AS n_bad_length
            FROM place_grade g
            WHERE g.run_id = f.run_id AND g.layer = f.layer AND g.tensor_id = f.tensor_id
          ) o
          JOIN (SELECT 0 AS length UNION ALL SELECT 1) u
          WHERE o.known
        ) w
        -- more than one on either side
        WHERE w.last_clean < w.first_bad AND w.n > 1)
      ELSE CASE WHEN k.name IN ('OTHER_POSITION', 'STALE_ROW') THEN (
        SELECT CASE k.name
          WHEN 'STALE_ROW' THEN printf('%s''s row of position %d is its own of position %d',
            CASE o.side WHEN 0 THEN 'prefill' ELSE 'decode' END, o.pos_id, o.of_pos_id)
          ELSE printf('%s''s row of position %d is %s''s %sof position %d',
            CASE o.side WHEN 0 THEN 'prefill' ELSE 'decode' END,
            o.pos_id, CASE o.of_side WHEN 0 THEN 'prefill' ELSE 'decode' END,
            CASE WHEN o.of_tensor_id = f.tensor_id THEN '' ELSE (SELECT t.name || ' ' FROM tensor t WHERE t.id = o.of_tensor_id) END,
            o.of_pos_id) END
        FROM moved_row o
        WHERE o.run_id = f.run_id AND o.prompt_id = f.prompt_id AND o.layer = f.layer AND o.tensor_id = f.tensor_id
          AND o.pos_id >= f.pos_id AND o.finding = k.name
        ORDER BY o.of_pos_id > o.pos_id, o.pos_id, o.side DESC, o.of_tensor_id DESC, o.of_side, o.of_pos_id LIMIT 1)
      -- what the sketches of both rows tell
      ELSE coalesce((
        SELECT CASE k.name
          WHEN 'SCALED' THEN
            -- the distance is known to some 1e-8
            CASE WHEN f.y_n > 3 AND abs(z.factor - 1) > 4 * max(z.apart, 1e-7) AND z.apart <= (
                SELECT t.rel_l2 FROM run_tolerance t WHERE t.run_id = f.run_id AND t.tensor_id = f.tensor_id)
              THEN printf('decode''s row is %.6g times prefill''s, but for a relative distance of %.2g', z.factor, z.apart) END
          WHEN 'PERMUTED' THEN
            CASE WHEN f.x_hash <> f.y_hash AND f.x_n > 2 AND f.x_nz = f.y_nz AND f.x_min = f.y_min AND f.x_max = f.y_max
                AND f.x_mean = f.y_mean AND f.x_abs = f.y_abs AND abs(z.norm_ratio - 1) < 1e-9
              THEN 'both rows have the same values, in another order' END
          WHEN 'TURNED' THEN
            -- norms are equal by their nature after a rotation, and after a norm
            CASE WHEN NOT f.equal AND abs(z.norm_ratio - 1) <= (
                  -- or as equal as the rounding of the arithmetic lets them be
                  SELECT max(min(1e-5, z.apart / 1000), CASE WHEN z.apart > 4 * t.rel_l2 THEN min(t.rel_l2, z.apart / 10) ELSE 0 END)
                  FROM run_tolerance t WHERE t.run_id = f.run_id AND t.tensor_id = f.tensor_id)
                AND (SELECT t.switch_on FROM tensor t WHERE t.id = f.tensor_id) IS NOT NULL
              THEN printf('both rows have the same norm and point elsewhere: a relative distance of %.2g', z.apart) END
          WHEN 'FEW_VALUES' THEN
            CASE WHEN f.y_n >= 128 AND z.alike BETWEEN 4 AND 31
              THEN printf('%d of the 32 sums of their sketches are equal', z.alike) END
          WHEN 'ROUNDING' THEN  -- where bits are to be equal
            CASE WHEN f.equal
              THEN printf('a relative distance of %.2g', sqrt((z.factor - 1) * (z.factor - 1) + z.apart * z.apart)) END
          WHEN 'FEWER_BITS' THEN
            CASE WHEN NOT f.equal AND f.y_n >= 32 AND z.apart <= 0.01 AND abs(z.factor - 1) <= z.apart
              THEN printf('a relative distance of %.2g and no factor', z.apart) END
          WHEN 'UNRELATED' THEN
            CASE WHEN f.y_n >= 32 AND z.apart > 0.5 AND z.alike < 4
              THEN printf('the rows have %s to do with each other: a relative distance of %.2g',
                CASE WHEN z.apart > 0.9 THEN 'nothing' ELSE 'little' END, z.apart) END
          END
        -- LIMIT: else SQLite works the sums out anew for every name of theirs
        FROM (SELECT g.* FROM sketch_pair g WHERE g.x_id = f.x_vector AND g.y_id = f.y_vector LIMIT 1) z
        WHERE f.finite), CASE WHEN k.name = 'ROUNDING' AND f.equal AND f.finite AND f.x_vector IS NULL THEN 'other bits' END) END
    END AS evidence
  FROM failing_place f
  JOIN prompt q ON q.id = f.prompt_id
  JOIN tensor_name m ON m.id = f.name_id
  CROSS JOIN finding k
) d
-- a sub-query: else SQLite copies the whole of `evidence` to where the rows are made
WHERE (SELECT d.evidence) IS NOT NULL;
