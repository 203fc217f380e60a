-- Distance of any two sketches that may be compared: same length, same origin. Filter on a and b.
-- diff_sq is the mean over the two maps of the squared distance between their buckets.
CREATE VIEW sketch_pair AS
SELECT
  a.id AS a, b.id AS b, a.n AS n, a.derived AS derived,
  a.sum_sq = b.sum_sq AS sum_sq_equal,
  max(a.sum_sq, b.sum_sq) AS norm_sq,
  0.5 * (
        (a.s0-b.s0)*(a.s0-b.s0) + (a.s1-b.s1)*(a.s1-b.s1) + (a.s2-b.s2)*(a.s2-b.s2) + (a.s3-b.s3)*(a.s3-b.s3)
      + (a.s4-b.s4)*(a.s4-b.s4) + (a.s5-b.s5)*(a.s5-b.s5) + (a.s6-b.s6)*(a.s6-b.s6) + (a.s7-b.s7)*(a.s7-b.s7)
      + (a.s8-b.s8)*(a.s8-b.s8) + (a.s9-b.s9)*(a.s9-b.s9) + (a.s10-b.s10)*(a.s10-b.s10) + (a.s11-b.s11)*(a.s11-b.s11)
      + (a.s12-b.s12)*(a.s12-b.s12) + (a.s13-b.s13)*(a.s13-b.s13) + (a.s14-b.s14)*(a.s14-b.s14) + (a.s15-b.s15)*(a.s15-b.s15)
      + (a.s16-b.s16)*(a.s16-b.s16) + (a.s17-b.s17)*(a.s17-b.s17) + (a.s18-b.s18)*(a.s18-b.s18) + (a.s19-b.s19)*(a.s19-b.s19)
      + (a.s20-b.s20)*(a.s20-b.s20) + (a.s21-b.s21)*(a.s21-b.s21) + (a.s22-b.s22)*(a.s22-b.s22) + (a.s23-b.s23)*(a.s23-b.s23)
      + (a.s24-b.s24)*(a.s24-b.s24) + (a.s25-b.s25)*(a.s25-b.s25) + (a.s26-b.s26)*(a.s26-b.s26) + (a.s27-b.s27)*(a.s27-b.s27)
      + (a.s28-b.s28)*(a.s28-b.s28) + (a.s29-b.s29)*(a.s29-b.s29) + (a.s30-b.s30)*(a.s30-b.s30) + (a.s31-b.s31)*(a.s31-b.s31)
  ) AS diff_sq
FROM sketch a JOIN sketch b ON b.n = a.n AND b.derived = a.derived;
