// Requests an instance for a waiting caller if none is desired and funds suffice, and reports its progress.
import type { AccountId, AdapterId, DeploymentId } from "../../proto/ids.ts";
import { sleepingPhases } from "../../proto/instance-phase.ts";
import type { ServedAdapter } from "../catalog/served-model.ts";
import { maxHeld } from "./adapter.ts";
import { affords, type FundsDeps } from "./dedicated-money.ts";
import { isWanted, targetOf } from "./lifecycle.ts";
import type { AdapterStore, ColdStart, DeploymentStore } from "./store.ts";

type StartState =
  /** An instance is starting. `phase`: initializing, downloading, deploying or waking. */
  | { readonly kind: "coming"; readonly phase: string; readonly etaSeconds: number }
  /** No instance is starting, which may be temporary: no capacity, or its host is silent. */
  | { readonly kind: "stuck"; readonly phase: string; readonly etaSeconds: number }
  /** Funds do not cover the first minutes of an instance. */
  | { readonly kind: "unpaid" }
  /** No instance will start without an action. `phase`: its status. */
  | { readonly kind: "ended"; readonly phase: string };

type RequestInstance = (id: DeploymentId, account: AccountId) => Promise<StartState>;

/** Throws when the database is unavailable. Called repeatedly while a request waits. */
export function createWaker(
  deps: FundsDeps & { readonly store: Pick<DeploymentStore, "coldStart" | "wake"> },
): RequestInstance {
  return async (id, account) => {
    const start = await deps.store.coldStart(id, account);
    if (!start) return { kind: "ended", phase: "deleted" };
    const { deployment } = start;
    if (!isWanted(deployment.status)) return { kind: "ended", phase: deployment.status };
    if (targetOf(deployment) === 0 && !(await affords(deps, deployment, 1))) return { kind: "unpaid" };
    await deps.store.wake(id, account);
    return stateOf(start);
  };
}

/** Estimate for a start without earlier measurements. */
const defaultStartMs = 30_000;
/** Capacity may become free at any time. */
const noCapacitySeconds = 60;

export function stateOf({ deployment, phases, elapsedMs, startMs }: ColdStart): StartState {
  const { progress, pendingReasons } = deployment;
  const isAny = (...wanted: readonly string[]) => phases.some((phase) => wanted.includes(phase));
  // When a start takes longer than before, assume it is nearly done.
  const etaSeconds = Math.max(2, Math.ceil(((startMs || defaultStartMs) - elapsedMs) / 1000));
  // An external server is not started here: it returns on its own.
  if (deployment.externalUrl !== null && isAny("loading"))
    return { kind: "stuck", phase: "unreachable", etaSeconds: 10 };
  if (isAny(...sleepingPhases)) return { kind: "coming", phase: "waking", etaSeconds: 2 };
  if (isAny("creating", "loading", "draining")) return { kind: "coming", phase: "deploying", etaSeconds };
  if (isAny("downloading")) {
    const rest = progress && progress.doneBytes > 0 ? progress.totalBytes / progress.doneBytes - 1 : 0;
    const downloadSeconds = Math.ceil((rest * elapsedMs) / 1000);
    return { kind: "coming", phase: "downloading", etaSeconds: Math.max(etaSeconds, downloadSeconds) };
  }
  if (isAny("pending")) return { kind: "coming", phase: "initializing", etaSeconds };
  if (phases.length > 0) return { kind: "stuck", phase: "unreachable", etaSeconds: 10 };
  return pendingReasons.length > 0
    ? { kind: "stuck", phase: "no_capacity", etaSeconds: noCapacitySeconds }
    : { kind: "coming", phase: "initializing", etaSeconds };
}

/** Throws when the database is unavailable. Called repeatedly while a request waits. */
export function createAdapterWaker(deps: {
  readonly store: Pick<AdapterStore, "want">;
  readonly requestInstance: RequestInstance;
  /** True when an instance of the base is serving. */
  readonly isBaseReady: (id: DeploymentId) => boolean;
}) {
  return async (
    id: DeploymentId,
    owner: AccountId,
    adapter: { readonly id: AdapterId; readonly account: AccountId } | undefined,
  ): Promise<StartState> => {
    // Also for a running base: a waiting caller counts as use.
    const ofBase = await deps.requestInstance(id, owner);
    if (!adapter) return ofBase;
    switch (await deps.store.want(adapter.id, adapter.account, maxHeld)) {
      case "gone":
        return { kind: "ended", phase: "deleted" };
      case "failed":
        return { kind: "ended", phase: "failed" };
      case "full":
        return { kind: "stuck", phase: "no_capacity", etaSeconds: 20 };
      case "trouble":
        return deps.isBaseReady(id) ? { kind: "stuck", phase: "downloading", etaSeconds: 30 } : ofBase;
      case "wanted":
        return deps.isBaseReady(id) ? { kind: "coming", phase: "deploying", etaSeconds: 5 } : ofBase;
    }
  };
}

/** Uses of one adapter within this interval are recorded once. */
const noteEveryMs = 30_000;
const maxNoted = 10_000;

/** Records uses in the background. A use that could not be recorded is recorded with the next one. */
export function createNoteUse({ used }: Pick<AdapterStore, "used">) {
  const noted = new Map<AdapterId, number>();
  return ({ id, account }: ServedAdapter): void => {
    const nowMs = performance.now();
    if (nowMs - (noted.get(id) ?? Number.NEGATIVE_INFINITY) < noteEveryMs) return;
    if (noted.size >= maxNoted) noted.clear();
    noted.set(id, nowMs);
    used(id, account).catch(() => noted.delete(id));
  };
}
