// The tests that take too long for every change, at the sizes and clocks of real life, and their result as a table for
// docs/NIGHTLY.md. Usage: npm run test:nightly [FILE ...]
import { cpus, totalmem } from "node:os";
import { join } from "node:path";
import { root, runNode } from "./suites/run-tool.ts";
import { installTestNpm } from "./suites/test-npm.ts";

/** Each reads test/fakes/nightly.ts, directly or by what it starts. */
const files = [
  "test/chaos/agent-stopped.test.ts",
  "test/chaos/batch-killed.test.ts",
  "test/chaos/control-plane-away.test.ts",
  "test/chaos/random-kills.test.ts",
  "test/chaos/webhooks.test.ts",
  "test/e2e/runtime/demo-lines.test.ts",
  "test/e2e/runtime/images.test.ts",
  "test/e2e/scaling/scaling.test.ts",
  "test/integration/agent-ingress/idle-connections.test.ts",
  "test/integration/billing/settle-plain.test.ts",
  "test/integration/clients/clients.test.ts",
  "test/integration/deployments/gpu-claims.test.ts",
  "test/integration/fleet/herd.test.ts",
  "test/integration/fleet/process.test.ts",
  "test/integration/webhooks/delivery.test.ts",
  "test/unit/runtime/audio/recording.test.ts",
];

const vitest = join(root, "node_modules/vitest/vitest.mjs");
const chosen = process.argv.length > 2 ? process.argv.slice(2) : files;
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
