// Batches put together: their verbs, whoever runs them, and the spine as their lines take it.
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { AccountId, DeploymentId, KeyId } from "../../proto/ids.ts";
import { callerOf } from "../accounts/authenticate.ts";
import type { AccountStore } from "../accounts/store.ts";
import { batchDiscountBasisPoints, mostOutputBytes } from "../batches/batch.ts";
import { createBatches } from "../batches/batches.ts";
import type { RunLine } from "../batches/line.ts";
import { Pace } from "../batches/pace.ts";
import { createBatchRunner } from "../batches/runner.ts";
import type { Discounts } from "../billing/discounts.ts";
import type { ModelDirectory } from "../catalog/served-model.ts";
import type { Files } from "../files/files.ts";
import type { AgedLive } from "../fleet/live.ts";
import type { Routes } from "../fleet/routes.ts";
import type { Spine } from "../inference/complete.ts";
import type { JobsAddress } from "../jobs/backend.ts";
import { createBatchQueue } from "../jobs/batch-queue.ts";
import { RateMeters } from "../quotas/rate-limiter.ts";
import { createBatchStore } from "../store/batch-store.ts";
import type { OpenDatabase } from "../store/database.ts";

const lockMs = 15_000;
const firstPauseMs = 15_000;
const lookEveryMs = 5_000;
const mostBatches = 8;
const mostAtOnce = 32;
/** Reports of hosts come so often; older ones say nothing of now. */
const waitingEveryMs = 2_000;
const staleMs = 20_000;

export function openBatches(deps: {
  readonly db: OpenDatabase["db"];
  readonly jobs: JobsAddress;
  readonly files: Files;
  readonly models: ModelDirectory;
  readonly routes: Routes;
  readonly accountStore: Pick<AccountStore, "findOwnKey">;
  readonly live: () => Promise<ReadonlyMap<unknown, AgedLive>>;
  readonly changes: { on(topic: string, handler: (subject: string) => void): void };
  /** Memory for another answer. */
  readonly hasRoom: () => boolean;
  /** 1, or less in tests: locks live that much shorter. */
  readonly clockScale: number;
  readonly log: Logger;
  readonly registry: Registry;
}) {
  const store = createBatchStore(deps.db);
  const waiting = waitingRequests(deps.live);
  const pace = new Pace({ routes: deps.routes, waiting, mostPerModel: mostAtOnce, hasRoom: deps.hasRoom });
  let runLine: RunLine | undefined;
  const runner = createBatchRunner({
    ...deps,
    store,
    pace,
    queue: createBatchQueue({ address: deps.jobs, mostBatches, log: deps.log, registry: deps.registry }),
    runLine: () => runLine,
    lockMs: lockMs * deps.clockScale,
    firstPauseMs: firstPauseMs * deps.clockScale,
    lookEveryMs: lookEveryMs * deps.clockScale,
    mostAtOnce,
    mostOutputBytes,
    nowMs: Date.now,
    async callerOf(account: AccountId, key: KeyId) {
      const row = await deps.accountStore.findOwnKey(account, key);
      return row && callerOf(row);
    },
  });
  deps.changes.on("batch", runner.wake);
  return {
    start: runner.start,
    stop: runner.stop,
    verbs: {
      ...createBatches({ store, created: runner.wake }),
      runWith(run: RunLine) {
        runLine = run;
        runner.wake();
      },
    },
  };
}

/** Figures of hosts, asked for no more often than they come, and only while some batch asks. */
function waitingRequests(live: () => Promise<ReadonlyMap<unknown, AgedLive>>): (model: DeploymentId) => number {
  let known = new Map<DeploymentId, number>();
  let askedMs = Number.NEGATIVE_INFINITY;
  const ask = async () => {
    const counts = new Map<DeploymentId, number>();
    for (const { live: host, ageMs } of (await live()).values()) {
      if (ageMs > staleMs) continue;
      for (const { deployId, waiting } of host.instances) counts.set(deployId, (counts.get(deployId) ?? 0) + waiting);
    }
    known = counts;
  };
  return (model) => {
    if (performance.now() - askedMs >= waitingEveryMs) {
      askedMs = performance.now();
      // What is not known does not hold anybody up.
      ask().catch(() => {
        known = new Map();
      });
    }
    return known.get(model) ?? 0;
  };
}

const noRates = { concurrent: Number.MAX_SAFE_INTEGER, tokensPerMinute: Number.MAX_SAFE_INTEGER };
const whole = 10_000;

/**
 * The spine for lines: 20 % cheaper, beside any discount; and not counted against the limits that the account's other
 * requests have, which batches must not use up. How many lines run at a time is the pace's to say.
 */
export function spineOfLines<Deps extends Pick<Spine, "rates" | "discounts">>(spine: Deps): Deps {
  const find: Discounts["find"] = (use, atMs) => {
    const own = spine.discounts.find(use, atMs);
    const left = (whole - (own?.basisPoints ?? 0)) * (whole - batchDiscountBasisPoints);
    return { ...(own ?? ofBatches), basisPoints: whole - Math.round(left / whole) };
  };
  return { ...spine, rates: new RateMeters({ defaults: noRates }), discounts: { find } };
}

const ofBatches = {
  id: "batch",
  name: "Batch",
  text: "",
  account: null,
  model: null,
  surface: null,
  effectiveFromMs: 0,
  effectiveToMs: null,
};
