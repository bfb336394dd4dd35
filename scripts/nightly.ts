// The tests that take too long for every change, at the sizes and clocks of real life, and their result as a table for
// docs/NIGHTLY.md. Usage: npm run test:nightly [FILE ...]
import { cpus, totalmem } from "node:os";
import { join } from "node:path";
import { nightlyFiles } from "./suites/nightly-files.ts";
import { root, runNode } from "./suites/run-tool.ts";
import { installTestNpm } from "./suites/test-npm.ts";

const vitest = join(root, "node_modules/vitest/vitest.mjs");
const chosen = process.argv.length > 2 ? process.argv.slice(2) : nightlyFiles(root);
await installTestNpm();
const rows: string[] = [];
let failed = 0;
for (const file of chosen) {
  const startedMs = performance.now();
  const code = await runNode([vitest, "run", file], 60 * 60_000, { STOKER_NIGHTLY: "1" });
  if (code !== 0) failed += 1;
  rows.push(
    `| \`${file}\` | ${code === 0 ? "passed" : "FAILED"} | ${((performance.now() - startedMs) / 1000).toFixed(0)} |`,
  );
}
const memory = (totalmem() / 1024 ** 3).toFixed(0);
console.log(`\n${new Date().toISOString().slice(0, 10)}, ${cpus().length} cores, ${memory} GiB\n`);
console.log(["| file | result | seconds |", "| --- | --- | --- |", ...rows].join("\n"));
process.exit(failed > 0 ? 1 : 0);
