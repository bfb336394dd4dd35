// Somebody waits for a LoRA adapter: an instance of its base is asked for as always, and the adapter for a place on those that
// run.
import type { AccountId, AdapterId, DeploymentId } from "../../proto/ids.ts";
import { mostHeld } from "./adapter.ts";
import type { AdapterStore } from "./store.ts";
import type { AskForInstance, StartState } from "./wake.ts";

/** Throws when the database is away. Called again and again while somebody waits. */
export function createAdapterWaker(deps: {
  readonly store: Pick<AdapterStore, "want">;
  readonly askForInstance: AskForInstance;
  /** Whether an instance of the base serves now. */
  readonly isBaseReady: (id: DeploymentId) => boolean;
}) {
  return async (
    id: DeploymentId,
    owner: AccountId,
    adapter: { readonly id: AdapterId; readonly account: AccountId } | undefined,
  ): Promise<StartState> => {
    // Also of a base that serves: whoever waits counts as use of it.
    const ofBase = await deps.askForInstance(id, owner);
    if (!adapter) return ofBase;
    const standing = await deps.store.want(adapter.id, adapter.account, mostHeld);
    switch (standing) {
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
