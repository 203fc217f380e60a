-- difference with where the rows differ, in words. A segment is a head, where the row has heads, else a slice.
CREATE VIEW located_difference AS
SELECT
  d.*,
  CASE
    WHEN d.differing = d.n THEN 'every value'
    -- heads that differ beside others that do not, unless the values say more
    WHEN d.heads > 0 AND d.rel_l2 IS NOT NULL AND d.in_segments < d.segments
      AND d.last_segment - d.first_segment = d.in_segments - 1
      AND d.differing > d.in_segments * (d.n / d.segments) / 2 THEN
      CASE WHEN d.in_segments * d.heads = d.segments THEN printf('head %d only', d.first_segment)
      ELSE printf('heads %d-%d', d.first_segment * d.heads / d.segments,
                  (d.last_segment + 1) * d.heads / d.segments - 1) END
    WHEN d.last_at - d.first_at = d.differing - 1 THEN
      CASE
        WHEN d.differing = 1 THEN
          CASE WHEN d.first_at = 0 THEN 'first value' WHEN d.last_at = d.n - 1 THEN 'last value'
          ELSE printf('value %d', d.first_at) END
        WHEN d.first_at = 0 THEN printf('first %d values', d.differing)
        WHEN d.last_at = d.n - 1 THEN printf('last %d values', d.differing)
        ELSE printf('values %d to %d', d.first_at, d.last_at)
      END
    ELSE printf('%d of %d values', d.differing, d.n)
  END
  -- where nearly all of the distance is, of which others have some
  || CASE WHEN d.rel_l2 IS NULL OR d.in_segments < 2 OR d.top_ppm < 900000 THEN ''
     WHEN d.heads > 0 THEN printf(', %d %% in head %d%s', min(d.top_ppm / 10000, 99),
       d.top_segment * d.heads / d.segments,
       CASE WHEN d.heads = d.segments THEN '' ELSE '-' || ((d.top_segment + 1) * d.heads / d.segments - 1) END)
     ELSE printf(', %d %% in values %d to %d', min(d.top_ppm / 10000, 99),
       (d.top_segment * d.n + d.segments - 1) / d.segments,
       ((d.top_segment + 1) * d.n + d.segments - 1) / d.segments - 1) END AS location
FROM (
  SELECT
    d.*,
    (SELECT count(*) FROM difference_part p WHERE p.difference_id = d.id) AS in_segments,
    (SELECT min(p.segment) FROM difference_part p WHERE p.difference_id = d.id) AS first_segment,
    (SELECT max(p.segment) FROM difference_part p WHERE p.difference_id = d.id) AS last_segment,
    (SELECT max(p.share_ppm) FROM difference_part p WHERE p.difference_id = d.id) AS top_ppm,
    (SELECT p.segment FROM difference_part p WHERE p.difference_id = d.id
     ORDER BY p.share_ppm DESC, p.segment LIMIT 1) AS top_segment
  FROM difference d) d;
