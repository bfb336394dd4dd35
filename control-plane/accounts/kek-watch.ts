import type { SecretFiles } from "./secret-files.ts";
import type { KekStore } from "./store.ts";

/** Reads new key-encryption keys and records the newest version of this control plane, for which a rotation waits. */
export function createKekWatch(deps: {
  readonly store: Pick<KekStore, "hold">;
  readonly secrets: SecretFiles;
  readonly replica: string;
}): { refresh(): Promise<void> } {
  let recorded = 0;
  return {
    async refresh() {
      deps.secrets.reread();
      const newest = deps.secrets.keks[0]?.version ?? 0;
      if (newest === recorded) return;
      await deps.store.hold(deps.replica, newest);
      recorded = newest;
    },
  };
}
