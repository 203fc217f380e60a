-- Two sketches of rows of one length, x and y: the ratio of their norms, the factor that brings x nearest
-- to y, how far apart they still are then, relative to y, and how many of their 32 buckets are equal. A
-- sketch is linear in its row. Filter on both ids.
CREATE VIEW sketch_pair AS
SELECT
  g.x_id AS x_id, g.y_id AS y_id, g.norm_ratio AS norm_ratio, g.xy / g.xx AS factor,
  sqrt(max(0, 1 - g.xy * g.xy / (g.xx * g.yy))) AS apart,
  g.alike AS alike
FROM (
  SELECT
    k.id AS x_id, l.id AS y_id, sqrt(l.sum_sq / k.sum_sq) AS norm_ratio,
        k.s0*k.s0 + k.s1*k.s1 + k.s2*k.s2 + k.s3*k.s3 + k.s4*k.s4 + k.s5*k.s5 + k.s6*k.s6 + k.s7*k.s7
    + k.s8*k.s8 + k.s9*k.s9 + k.s10*k.s10 + k.s11*k.s11 + k.s12*k.s12 + k.s13*k.s13 + k.s14*k.s14
    + k.s15*k.s15 + k.s16*k.s16 + k.s17*k.s17 + k.s18*k.s18 + k.s19*k.s19 + k.s20*k.s20 + k.s21*k.s21
    + k.s22*k.s22 + k.s23*k.s23 + k.s24*k.s24 + k.s25*k.s25 + k.s26*k.s26 + k.s27*k.s27 + k.s28*k.s28
    + k.s29*k.s29 + k.s30*k.s30 + k.s31*k.s31 AS xx,
    k.s0*l.s0 + k.s1*l.s1 + k.s2*l.s2 + k.s3*l.s3 + k.s4*l.s4 + k.s5*l.s5 + k.s6*l.s6 + k.s7*l.s7
    + k.s8*l.s8 + k.s9*l.s9 + k.s10*l.s10 + k.s11*l.s11 + k.s12*l.s12 + k.s13*l.s13 + k.s14*l.s14
    + k.s15*l.s15 + k.s16*l.s16 + k.s17*l.s17 + k.s18*l.s18 + k.s19*l.s19 + k.s20*l.s20 + k.s21*l.s21
    + k.s22*l.s22 + k.s23*l.s23 + k.s24*l.s24 + k.s25*l.s25 + k.s26*l.s26 + k.s27*l.s27 + k.s28*l.s28
    + k.s29*l.s29 + k.s30*l.s30 + k.s31*l.s31 AS xy,
    l.s0*l.s0 + l.s1*l.s1 + l.s2*l.s2 + l.s3*l.s3 + l.s4*l.s4 + l.s5*l.s5 + l.s6*l.s6 + l.s7*l.s7
    + l.s8*l.s8 + l.s9*l.s9 + l.s10*l.s10 + l.s11*l.s11 + l.s12*l.s12 + l.s13*l.s13 + l.s14*l.s14
    + l.s15*l.s15 + l.s16*l.s16 + l.s17*l.s17 + l.s18*l.s18 + l.s19*l.s19 + l.s20*l.s20 + l.s21*l.s21
    + l.s22*l.s22 + l.s23*l.s23 + l.s24*l.s24 + l.s25*l.s25 + l.s26*l.s26 + l.s27*l.s27 + l.s28*l.s28
    + l.s29*l.s29 + l.s30*l.s30 + l.s31*l.s31 AS yy,
    (k.s0 = l.s0) + (k.s1 = l.s1) + (k.s2 = l.s2) + (k.s3 = l.s3) + (k.s4 = l.s4) + (k.s5 = l.s5)
    + (k.s6 = l.s6) + (k.s7 = l.s7) + (k.s8 = l.s8) + (k.s9 = l.s9) + (k.s10 = l.s10)
    + (k.s11 = l.s11) + (k.s12 = l.s12) + (k.s13 = l.s13) + (k.s14 = l.s14) + (k.s15 = l.s15)
    + (k.s16 = l.s16) + (k.s17 = l.s17) + (k.s18 = l.s18) + (k.s19 = l.s19) + (k.s20 = l.s20)
    + (k.s21 = l.s21) + (k.s22 = l.s22) + (k.s23 = l.s23) + (k.s24 = l.s24) + (k.s25 = l.s25)
    + (k.s26 = l.s26) + (k.s27 = l.s27) + (k.s28 = l.s28) + (k.s29 = l.s29) + (k.s30 = l.s30)
    + (k.s31 = l.s31) AS alike
  FROM sketch k
  JOIN sketch l ON l.n = k.n AND l.derived = k.derived
) g
WHERE g.xx > 0 AND g.yy > 0;
