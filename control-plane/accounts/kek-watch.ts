import type { SecretFiles } from "./secret-files.ts";
import type { KekStore } from "./store.ts";

/**
 * Reads key-encryption keys that a rotation made, and says which this control plane holds: the rotation re-wraps nothing
 * before every control plane can open it.
 */
export function createKekWatch(deps: {
  readonly store: Pick<KekStore, "hold">;
  readonly secrets: SecretFiles;
  readonly replica: string;
}): { refresh(): Promise<void> } {
  let said = 0;
  return {
    async refresh() {
      deps.secrets.reread();
      const newest = deps.secrets.keks[0]?.version ?? 0;
      if (newest === said) return;
      await deps.store.hold(deps.replica, newest);
      said = newest;
    },
  };
}
