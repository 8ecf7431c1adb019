// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0
//
// node run.mjs duckdb|clickhouse FILE runs the SQL statements in a JSON array on standard
// input, and writes a line of JSON for each to FILE: its rows, as objects.
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const statements = JSON.parse(readFileSync(0, 'utf8'));

async function duckdb() {
  const { DuckDBInstance } = require('@duckdb/node-api');
  const c = await (await DuckDBInstance.create(':memory:')).connect();
  return async (sql) => (await c.runAndReadAll(sql)).getRowObjectsJson();
}

async function clickhouse() {
  const { Session } = require('chdb');
  const s = new Session();
  return async (sql) => {
    const text = s.query(sql, 'JSONEachRow') || '';
    return text.split('\n').filter(Boolean).map((line) => JSON.parse(line));
  };
}

const run = await (process.argv[2] === 'duckdb' ? duckdb : clickhouse)();
const lines = [];
for (const sql of statements) {
  try {
    lines.push(JSON.stringify(await run(sql)) + '\n');
  } catch (err) {
    console.error(`${err}\nin\n${sql}`);
    process.exit(1);
  }
}
writeFileSync(process.argv[3], lines.join(''));
process.exit(0); // chdb's threads keep node alive
