// Use of LoRA adapters: waiting requests, and the time of last use.
import type { AccountId, AdapterId, DeploymentId } from "../../proto/ids.ts";
import type { ServedAdapter } from "../catalog/served-model.ts";
import { maxHeld } from "./adapter.ts";
import type { AdapterStore } from "./store.ts";
import type { RequestInstance, StartState } from "./wake.ts";

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
