// Somebody waits for an instance: one is asked for where none is wanted, if it can be paid, and how far it is is told.
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import type { FundsDeps } from "./dedicated-money.ts";
import { isWanted, targetOf } from "./lifecycle.ts";
import type { ColdStart, DeploymentStore } from "./store.ts";

export type StartState =
  /** One is on its way. `phase`: initializing, downloading or deploying. */
  | { readonly kind: "coming"; readonly phase: string; readonly etaSeconds: number }
  /** None is on its way, which may pass: no room, or its host is silent. */
  | { readonly kind: "stuck"; readonly phase: string; readonly etaSeconds: number }
  /** The first minutes of an instance are not paid for. */
  | { readonly kind: "unpaid" }
  /** None will come before somebody does something. `phase`: its status. */
  | { readonly kind: "ended"; readonly phase: string };

export type AskForInstance = (id: DeploymentId, account: AccountId) => Promise<StartState>;

/** Throws when the database is away. Called again and again while somebody waits. */
export function createWaker(
  deps: FundsDeps & { readonly store: Pick<DeploymentStore, "coldStart" | "wake"> },
): AskForInstance {
  return async (id, account) => {
    const start = await deps.store.coldStart(id, account);
    if (!start) return { kind: "ended", phase: "deleted" };
    const { deployment } = start;
    if (!isWanted(deployment.status)) return { kind: "ended", phase: deployment.status };
    if (targetOf(deployment) === 0 && !(await isPaid(deps, deployment))) return { kind: "unpaid" };
    await deps.store.wake(id, account);
    return stateOf(start);
  };
}

async function isPaid(
  { funds, firstMinutes }: FundsDeps,
  { account, modelName: model, gpu, numGpus, priceSubject }: ColdStart["deployment"],
): Promise<boolean> {
  const left = await funds(account);
  if (left === null) return true;
  const needed = await firstMinutes(priceSubject ?? gpu, numGpus, 1, { account, model });
  return needed === 0n || left >= needed;
}

/** Of a start whose length nobody knows yet. */
const guessedMs = 30_000;
/** Room may come free at any time, and nobody knows when. */
const noRoomSeconds = 60;

export function stateOf({ deployment, phases, elapsedMs, startMs }: ColdStart): StartState {
  const { progress, pendingReasons } = deployment;
  const isAny = (...wanted: readonly string[]) => phases.some((phase) => wanted.includes(phase));
  // What takes longer than it should is nearly there, for all we know.
  const etaSeconds = Math.max(2, Math.ceil(((startMs || guessedMs) - elapsedMs) / 1000));
  // Nobody starts a server that is not ours: it comes back when it does.
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
    ? { kind: "stuck", phase: "no_capacity", etaSeconds: noRoomSeconds }
    : { kind: "coming", phase: "initializing", etaSeconds };
}
