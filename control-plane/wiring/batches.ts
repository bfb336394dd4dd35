// Batches with their store and queue, and the runner of their lines.
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { AccountId, KeyId } from "../../proto/ids.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import { laterCallerOf } from "../accounts/authenticate.ts";
import type { AccountStore } from "../accounts/store.ts";
import { maxOutputBytes } from "../batches/batch.ts";
import { createBatches } from "../batches/batches.ts";
import type { RunLine } from "../batches/line.ts";
import { Pace, waitingRequests } from "../batches/pace.ts";
import { createBatchRunner } from "../batches/runner.ts";
import type { ModelDirectory } from "../catalog/served-model.ts";
import type { Files } from "../files/files.ts";
import type { AgedLive } from "../fleet/live.ts";
import type { Routes } from "../fleet/routes.ts";
import type { JobsAddress } from "../jobs/backend.ts";
import { createBatchQueue } from "../jobs/batch-queue.ts";
import type { OpenDatabase } from "../store/core/database.ts";
import { createBatchStore } from "../store/work/batch-store.ts";

const lockMs = 15_000;
const firstPauseMs = 15_000;
const pollEveryMs = 5_000;
const maxBatches = 8;
const maxConcurrent = 32;

export function openBatches(deps: {
  readonly db: OpenDatabase["db"];
  readonly jobs: JobsAddress;
  readonly files: Files;
  readonly models: ModelDirectory;
  readonly routes: Routes;
  readonly accountStore: Pick<AccountStore, "findOwnKey">;
  readonly live: () => Promise<ReadonlyMap<unknown, AgedLive>>;
  readonly changes: { on(topic: string, handler: (subject: string) => void): void };
  /** Returns true when there is memory for another response. */
  readonly hasCapacity: () => boolean;
  /** 1; less in tests shortens locks by this factor. */
  readonly clockScale: number;
  readonly log: Logger;
  readonly registry: Registry;
}) {
  const store = createBatchStore(deps.db);
  const waiting = waitingRequests(deps.live);
  const pace = new Pace({ routes: deps.routes, waiting, maxPerModel: maxConcurrent, hasCapacity: deps.hasCapacity });
  let runLine: RunLine | undefined;
  const runner = createBatchRunner({
    ...deps,
    store,
    pace,
    queue: createBatchQueue({ address: deps.jobs, maxBatches, log: deps.log, registry: deps.registry }),
    runLine: () => runLine,
    lockMs: lockMs * deps.clockScale,
    firstPauseMs: firstPauseMs * deps.clockScale,
    pollEveryMs: pollEveryMs * deps.clockScale,
    maxConcurrent,
    maxOutputBytes,
    nowMs: steadyTime.nowMs,
    async callerOf(account: AccountId, key: KeyId) {
      const row = await deps.accountStore.findOwnKey(account, key);
      return laterCallerOf(row, steadyTime.nowMs());
    },
  });
  deps.changes.on("batch", runner.wake);
  return {
    start: runner.start,
    stop: runner.stop,
    batches: {
      ...createBatches({ store, created: runner.wake }),
      runWith(run: RunLine) {
        runLine = run;
        runner.wake();
      },
    },
  };
}
