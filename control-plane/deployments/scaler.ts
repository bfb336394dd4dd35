// Loop around autoscale.ts: every few seconds the reported load becomes a sample of each scalable deployment (load-samples.ts), and
// a changed target is written, guarded by the revision it was decided on. The time of last use is in the deployment's row.
import type { Logger } from "pino";
import type { DeploymentId, HostId } from "../../proto/ids.ts";
import { isSleeping } from "../../proto/instance-phase.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import { type AgedLive, freshMs } from "../fleet/live.ts";
import { scaleTo } from "./autoscale.ts";
import { affords, type FundsDeps } from "./dedicated-money.ts";
import type { Deployment } from "./deployment.ts";
import { targetOf } from "./lifecycle.ts";
import { LoadSamples } from "./load-samples.ts";
import { minAt } from "./scaling.ts";
import { batchSizeOf } from "./standard-args.ts";
import type { DeploymentStore } from "./store.ts";

export interface Scaler {
  /** Returns the number of changed targets. Throws when the database is unavailable. */
  pass(): Promise<number>;
}

export function createScaler(deps: {
  readonly store: Pick<DeploymentStore, "active" | "change" | "noteUse" | "wake">;
  /** Returns every host's last report. */
  readonly live: () => Promise<ReadonlyMap<HostId, AgedLive>>;
  readonly funds: FundsDeps["funds"];
  readonly firstMinutes: FundsDeps["firstMinutes"];
  readonly log: Logger;
  /** 1 in production. Smaller in tests: all windows are shorter by this factor. */
  readonly clockScale?: number;
  /** Monotonic ms. */
  readonly clock?: () => number;
  /** Unix ms. */
  readonly unixMs?: () => number;
}): Scaler {
  const { store, log } = deps;
  const clock = deps.clock ?? (() => performance.now());
  const unixMs = deps.unixMs ?? steadyTime.nowMs;
  const scale = deps.clockScale ?? 1;
  const loads = new LoadSamples({ clock, unixMs, scale });

  async function move(deployment: Deployment, from: number, to: number): Promise<boolean> {
    if (to > from && !(await affords(deps, deployment, to - from))) {
      log.info({ deployment: deployment.id, from, to }, "funds do not cover more instances; not scaled up");
      return false;
    }
    // The row changed: the next pass retries.
    if (!(await store.change(deployment.id, deployment.account, deployment.revision, { target: to }))) return false;
    log.info({ deployment: deployment.id, from, to }, "deployment scaled");
    return true;
  }

  return {
    async pass() {
      const all = (await store.active(undefined)).filter(({ deployment }) => mayScale(deployment));
      const ids = new Set(all.map(({ deployment }) => deployment.id));
      loads.keep(ids);
      if (all.length === 0) return 0;
      const live = await deps.live();
      let moved = 0;
      const used: DeploymentId[] = [];
      for (const { deployment, instances } of all) {
        const here = instances.filter((one) => !one.isTombstoned);
        const { samples, idleSinceMs, heardSinceMs, notedMs, isUnheard } = loads.take(deployment, here, live);
        const atMs = samples.at(-1)?.atMs ?? 0;
        // Two passes may read one report: requests between reports appear in the next one.
        const isWatched = !isUnheard && heardSinceMs !== undefined && atMs - heardSinceMs >= freshMs * scale;
        if (notedMs === atMs) used.push(deployment.id);
        // During an update only add instances: those being replaced are neither idle nor excess.
        const isCalm = deployment.status === "deployed";
        const { maxInstances: max, startMs, scaling } = deployment;
        const min = minAt(deployment, unixMs());
        const targets = { ttftMs: scaling.targetTtftMs, queueMs: scaling.targetQueueMs };
        const maxBatchSize = batchSizeOf(deployment);
        const target = targetOf(deployment);
        const windows = loads.windowsOf(deployment);
        const idleForMs = isWatched ? atMs - idleSinceMs : 0;
        const question = { min, max, target, maxBatchSize, samples, windows, idleForMs, targets, startMs };
        const hasSleeper = here.some(({ phase }) => isSleeping(phase));
        const awake = here.filter(({ phase }) => phase === "ready").length;
        // Those asleep serve no load: wake one before any is added.
        if (hasSleeper && awake > 0 && scaleTo({ ...question, min: 0, target: awake }) > awake) {
          await store.wake(deployment.id, deployment.account);
          continue;
        }
        const to = scaleTo(question);
        if (to === target || (to < target && !isCalm)) continue;
        if (await move(deployment, target, to)) moved += 1;
      }
      if (used.length > 0) await store.noteUse(used);
      return moved;
    },
  };
}

const mayScale = ({ kind, status, minInstances, maxInstances }: Deployment) =>
  kind === "model" && (status === "deployed" || status === "updating") && minInstances < maxInstances;
