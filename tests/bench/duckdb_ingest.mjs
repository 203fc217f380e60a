// Peer of script/bench: DuckDB reads FILE (JSON lines) into an unkeyed table of a fresh database.
// usage: node duckdb_ingest.mjs FILE DATABASE, in a folder where @duckdb/node-api is installed.
// Prints the seconds that CREATE TABLE ... AS and CHECKPOINT took.
import { createRequire } from 'node:module';
const { DuckDBInstance } = createRequire(process.cwd() + '/')('@duckdb/node-api');
const [file, database] = process.argv.slice(2);
const instance = await DuckDBInstance.create(database, { threads: '2' });
const connection = await instance.connect();
const start = process.hrtime.bigint();
await connection.run(`CREATE TABLE t AS SELECT * FROM read_json('${file.replaceAll("'", "''")}', format='newline_delimited')`);
await connection.run('CHECKPOINT');
console.log(Number(process.hrtime.bigint() - start) / 1e9);
