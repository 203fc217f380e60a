-- Two sketches x and y of rows of one length and origin. A sketch is linear in its row: norm_ratio is that of y to
-- x, sum_sq the greater sum of squares; xy, xx and yy, the products of the buckets, say which factor brings x nearest to y (xy / xx) and how far apart
-- they still are; alike counts the buckets that are equal, of 32. Name both ids.
CREATE VIEW sketch_pair AS
SELECT
  k.id AS x_id, l.id AS y_id,
  sqrt(l.sum_sq / k.sum_sq) AS norm_ratio, max(k.sum_sq, l.sum_sq) AS sum_sq,
  k.sum_bb * k.scale * k.scale AS xx,
  (k.b0 * l.b0 + k.b1 * l.b1 + k.b2 * l.b2 + k.b3 * l.b3 + k.b4 * l.b4 + k.b5 * l.b5 + k.b6 * l.b6 + k.b7 * l.b7
    + k.b8 * l.b8 + k.b9 * l.b9 + k.b10 * l.b10 + k.b11 * l.b11 + k.b12 * l.b12 + k.b13 * l.b13 + k.b14 * l.b14 + k.b15 * l.b15
    + k.b16 * l.b16 + k.b17 * l.b17 + k.b18 * l.b18 + k.b19 * l.b19 + k.b20 * l.b20 + k.b21 * l.b21 + k.b22 * l.b22 + k.b23 * l.b23
    + k.b24 * l.b24 + k.b25 * l.b25 + k.b26 * l.b26 + k.b27 * l.b27 + k.b28 * l.b28 + k.b29 * l.b29 + k.b30 * l.b30 + k.b31 * l.b31) * k.scale * l.scale AS xy,
  l.sum_bb * l.scale * l.scale AS yy,
  (k.b0*k.scale = l.b0*l.scale) + (k.b1*k.scale = l.b1*l.scale) + (k.b2*k.scale = l.b2*l.scale)
    + (k.b3*k.scale = l.b3*l.scale) + (k.b4*k.scale = l.b4*l.scale) + (k.b5*k.scale = l.b5*l.scale)
    + (k.b6*k.scale = l.b6*l.scale) + (k.b7*k.scale = l.b7*l.scale) + (k.b8*k.scale = l.b8*l.scale)
    + (k.b9*k.scale = l.b9*l.scale) + (k.b10*k.scale = l.b10*l.scale) + (k.b11*k.scale = l.b11*l.scale)
    + (k.b12*k.scale = l.b12*l.scale) + (k.b13*k.scale = l.b13*l.scale) + (k.b14*k.scale = l.b14*l.scale)
    + (k.b15*k.scale = l.b15*l.scale) + (k.b16*k.scale = l.b16*l.scale) + (k.b17*k.scale = l.b17*l.scale)
    + (k.b18*k.scale = l.b18*l.scale) + (k.b19*k.scale = l.b19*l.scale) + (k.b20*k.scale = l.b20*l.scale)
    + (k.b21*k.scale = l.b21*l.scale) + (k.b22*k.scale = l.b22*l.scale) + (k.b23*k.scale = l.b23*l.scale)
    + (k.b24*k.scale = l.b24*l.scale) + (k.b25*k.scale = l.b25*l.scale) + (k.b26*k.scale = l.b26*l.scale)
    + (k.b27*k.scale = l.b27*l.scale) + (k.b28*k.scale = l.b28*l.scale) + (k.b29*k.scale = l.b29*l.scale)
    + (k.b30*k.scale = l.b30*l.scale) + (k.b31*k.scale = l.b31*l.scale) AS alike
FROM sketch k
CROSS JOIN sketch l
WHERE l.n = k.n AND l.derived = k.derived AND k.n > 0;
