// Backups of agent instances: begun here, carried out by the host that holds the volume, settled from what it tells. All of
// it stands in tables; a job only says when to look.
import type { Logger } from "pino";
import { type DeploymentId, randomId } from "../../proto/ids.ts";
import type { AgentOwner } from "./agent-instances.ts";
import type { AgentCatalog } from "./catalog.ts";
import { AgentBusy, AgentInstanceNotFound, AgentWrongState, BackupNotFound, TooManyBackups } from "./errors.ts";
import type { Backup, BackupStore, Begun } from "./store.ts";

export interface AgentBackups {
  /** Ready ones and those under way, the newest first. Throws AgentInstanceNotFound. */
  list(owner: AgentOwner, id: DeploymentId): Promise<readonly Backup[]>;
  /** Begins one; its id. Throws AgentInstanceNotFound, AgentBusy, AgentWrongState, TooManyBackups. */
  backup(owner: AgentOwner, id: DeploymentId, ip: string): Promise<string>;
  /** Begins it: the old data stays until the backup was checked, and for good when it fails. Throws BackupNotFound, too. */
  restore(owner: AgentOwner, id: DeploymentId, backup: string, ip: string): Promise<void>;
  /** Begins a check that the backup could be restored; changes nothing. */
  tryRestore(owner: AgentOwner, id: DeploymentId, backup: string, ip: string): Promise<void>;
  /** It is listed no longer, and its bytes go soon. Throws AgentInstanceNotFound, BackupNotFound, AgentBusy. */
  remove(owner: AgentOwner, id: DeploymentId, backup: string, ip: string): Promise<void>;
  /** What hosts told. */
  settle(): Promise<void>;
  /** What a deleted instance leaves on its host is told to go, without waiting for the next `tend`. Costs one look else. */
  sweepDeleted(): Promise<void>;
  /** Schedule and retention; idempotent. */
  tend(): Promise<void>;
}

export function createAgentBackups(deps: {
  readonly store: BackupStore;
  readonly instanceExists: (owner: AgentOwner, id: DeploymentId) => Promise<boolean>;
  readonly catalog: AgentCatalog;
  readonly unixMs: () => number;
  readonly log: Logger;
}): AgentBackups {
  const { store, catalog, log } = deps;
  const newId = () => `bk-${randomId(12)}`;

  return {
    async list(owner, id) {
      const found = await store.list(id, owner.account);
      if (found.length === 0 && !(await deps.instanceExists(owner, id))) throw new AgentInstanceNotFound();
      return found.filter((one) => one.state !== "deleting");
    },
    async backup({ account }, id, ip) {
      const of = { id, account, backup: newId(), isScheduled: false };
      return begun(await store.begin("backup", of, { account, ip }));
    },
    async restore({ account }, id, backup, ip) {
      begun(await store.begin("restore", { id, account, backup, isScheduled: false }, { account, ip }));
    },
    async tryRestore({ account }, id, backup, ip) {
      begun(await store.begin("try_restore", { id, account, backup, isScheduled: false }, { account, ip }));
    },
    async remove({ account }, id, backup, ip) {
      const outcome = await store.remove({ id, account, backup }, { account, ip });
      if (outcome !== "removed") begun({ kind: outcome });
      // What is not told now is told by the next look.
      await store.retire(catalog.types, deps.unixMs());
    },
    async settle() {
      const ended = await store.settle();
      if (ended > 0) log.info({ ended }, "operations on volumes ended");
    },
    async sweepDeleted() {
      if (!(await store.hasLeftOvers())) return;
      const retired = await store.retire(catalog.types, deps.unixMs());
      if (retired > 0) log.info({ retired }, "volumes and backups of deleted instances to be removed");
    },
    async tend() {
      await store.settle();
      const due = await store.due(catalog.types, deps.unixMs());
      for (const { id, account } of due) {
        const by = { account: "system", ip: "" } as const;
        const outcome = await store.begin("backup", { id, account, backup: newId(), isScheduled: true }, by);
        log.info({ instance: id, outcome: outcome.kind }, "scheduled backup");
      }
      const retired = await store.retire(catalog.types, deps.unixMs());
      if (retired > 0) log.info({ retired }, "backups and volumes to be removed");
    },
  };
}

function begun(outcome: Begun): string {
  switch (outcome.kind) {
    case "begun":
      return outcome.backup;
    case "busy":
      throw new AgentBusy();
    case "wrong_state":
      throw new AgentWrongState(
        `An agent instance that is ${outcome.status} cannot be backed up or restored. Wait until it is running, stopped or failed.`,
      );
    case "no_volume":
      throw new AgentWrongState(
        "The agent instance has no volume yet: it was never started. Wait until it is running.",
      );
    case "too_many":
      throw new TooManyBackups(outcome.limit);
    case "no_instance":
      throw new AgentInstanceNotFound();
    case "no_backup":
      throw new BackupNotFound();
  }
}
