-- Two sketches that are one and the same. Filter on both.
CREATE VIEW same_sketch AS
SELECT k.id AS id, l.id AS other_id
FROM sketch k
JOIN sketch l ON (
  l.n, l.derived, l.sum_sq, l.s0, l.s1, l.s2, l.s3, l.s4, l.s5, l.s6, l.s7, l.s8, l.s9, l.s10, l.s11, l.s12,
  l.s13, l.s14, l.s15, l.s16, l.s17, l.s18, l.s19, l.s20, l.s21, l.s22, l.s23, l.s24, l.s25, l.s26, l.s27,
  l.s28, l.s29, l.s30, l.s31) = (
  k.n, k.derived, k.sum_sq, k.s0, k.s1, k.s2, k.s3, k.s4, k.s5, k.s6, k.s7, k.s8, k.s9, k.s10, k.s11, k.s12,
  k.s13, k.s14, k.s15, k.s16, k.s17, k.s18, k.s19, k.s20, k.s21, k.s22, k.s23, k.s24, k.s25, k.s26, k.s27,
  k.s28, k.s29, k.s30, k.s31);
