-- Temporary tables of a merge, made before its transaction begins: its first statement is then a write, which
-- waits for other writers instead of failing. Each maps ids of the attached database `other` to ours.
DROP TABLE IF EXISTS temp.merge_run;
DROP TABLE IF EXISTS temp.merge_prompt;
DROP TABLE IF EXISTS temp.merge_phase;
DROP TABLE IF EXISTS temp.merge_name;
DROP TABLE IF EXISTS temp.merge_tensor;
DROP TABLE IF EXISTS temp.merge_source;
DROP TABLE IF EXISTS temp.merge_fields;
DROP TABLE IF EXISTS temp.merge_context;
DROP TABLE IF EXISTS temp.merge_readout;
DROP TABLE IF EXISTS temp.merge_changed;
CREATE TEMP TABLE merge_run(
  other_id INTEGER PRIMARY KEY,
  id       INTEGER,
  is_new   INTEGER,                               -- 1: added by this merge
  has_new  INTEGER DEFAULT 0,                     -- 1: has sources with rows that are not here
  overlaps INTEGER DEFAULT 0                      -- 1: has sources that are here
);
CREATE TEMP TABLE merge_prompt(other_id INTEGER PRIMARY KEY, id INTEGER);
CREATE TEMP TABLE merge_phase(other_id INTEGER PRIMARY KEY, id INTEGER, side INTEGER);
CREATE TEMP TABLE merge_name(other_id INTEGER PRIMARY KEY, id INTEGER, tensor_id INTEGER);
CREATE TEMP TABLE merge_tensor(other_id INTEGER PRIMARY KEY, id INTEGER);
CREATE TEMP TABLE merge_source(
  other_id  INTEGER PRIMARY KEY,
  id        INTEGER,
  is_new    INTEGER,                              -- 1: has rows that are not here
  from_line INTEGER                               -- rows up to this line are here
);
CREATE TEMP TABLE merge_fields(fields TEXT PRIMARY KEY, id INTEGER) WITHOUT ROWID;
CREATE TEMP TABLE merge_context(other_id INTEGER PRIMARY KEY, id INTEGER);
