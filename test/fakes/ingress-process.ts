// The data path in a process of its own, so that a test can tell its memory and event loop from its own load.
//   fork("ingress-process.ts", [engineOrigin, batch]) -> {port}; send "measure" -> {lagP99Ms, rssMiB, runs: [ms, ...]}
// `measure` begins the figures anew. `runs`: what admitted requests took from their admission on.

import { readFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { startDataPath } from "./data-path.ts";
import { pendingRecords } from "./usage-record.ts";

const [origin = "", batch = "8"] = process.argv.slice(2);
// A short queue: a storm must pass it with callers that one test can be.
const path = await startDataPath(origin, { limits: { queueLimit: 4 * Number(batch) } });
path.target({ maxBatchSize: Number(batch) });
const lag = monitorEventLoopDelay({ resolution: 5 });
lag.enable();
let known = 0;

process.on("message", async () => {
  const records = (await pendingRecords(path.spool, 1_000_000)).slice(known);
  known += records.length;
  const served = records.filter((record) => record.endReason === "stop");
  process.send?.({
    lagP99Ms: lag.percentile(99) / 1e6 - 5,
    rssMiB: Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? 0) / 1024,
    runs: served.map((record) => Number(record.totalMs) - Number(record.queueMs)),
  });
  lag.reset();
});
process.on("disconnect", () => process.exit(0));
process.send?.({ port: path.port });
