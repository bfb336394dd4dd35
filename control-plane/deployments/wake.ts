// Requests an instance for a waiting caller if none is desired and funds suffice, and reports its progress.
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import { affords, type FundsDeps } from "./dedicated-money.ts";
import { isWanted, targetOf } from "./lifecycle.ts";
import type { ColdStart, DeploymentStore } from "./store.ts";

export type StartState =
  /** An instance is starting. `phase`: initializing, downloading or deploying. */
  | { readonly kind: "coming"; readonly phase: string; readonly etaSeconds: number }
  /** No instance is starting, which may be temporary: no capacity, or its host is silent. */
  | { readonly kind: "stuck"; readonly phase: string; readonly etaSeconds: number }
  /** Funds do not cover the first minutes of an instance. */
  | { readonly kind: "unpaid" }
  /** No instance will start without an action. `phase`: its status. */
  | { readonly kind: "ended"; readonly phase: string };

export type RequestInstance = (id: DeploymentId, account: AccountId) => Promise<StartState>;

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
