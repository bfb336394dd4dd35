// Backups of agent instances: started here, run by the host that holds the volume, completed from its reports. All state is
// in tables; a job only triggers the next poll.

import type { Logger } from "pino";
import { type DeploymentId, randomId } from "../../proto/ids.ts";
import { type Act, bySystem } from "../act.ts";
import type { AgentOwner } from "./agent-instances.ts";
import type { AgentCatalog } from "./catalog.ts";
import { AgentWrongState, agentBusy, agentInstanceNotFound, backupNotFound, tooManyBackups } from "./errors.ts";
import type { Backup, BackupStore, Begun } from "./store.ts";

export function createAgentBackups(deps: {
  readonly store: BackupStore;
  readonly instanceExists: (owner: AgentOwner, id: DeploymentId) => Promise<boolean>;
  readonly catalog: AgentCatalog;
  readonly unixMs: () => number;
  readonly log: Logger;
}) {
  const { store, catalog, log } = deps;
  const newId = () => `bk-${randomId(12)}`;

  return {
    /** Ready and running ones, newest first. Throws agentInstanceNotFound. */
    async list(owner: AgentOwner, id: DeploymentId): Promise<readonly Backup[]> {
      const found = await store.list(id, owner.account);
      if (found.length === 0 && !(await deps.instanceExists(owner, id))) throw agentInstanceNotFound();
      return found.filter((one) => one.state !== "deleting");
    },
    /** Starts a backup and returns its id. Throws agentInstanceNotFound, agentBusy, AgentWrongState, tooManyBackups. */
    async backup({ account }: AgentOwner, id: DeploymentId, act: Act): Promise<string> {
      const of = { id, account, backup: newId(), isScheduled: false };
      return begun(await store.begin("backup", of, act));
    },
    /**
     * Starts a restore: the old data stays until the backup was verified, and permanently when it fails. Also throws
     * backupNotFound.
     */
    async restore({ account }: AgentOwner, id: DeploymentId, backup: string, act: Act): Promise<void> {
      begun(await store.begin("restore", { id, account, backup, isScheduled: false }, act));
    },
    /** Starts a check that the backup can be restored; changes nothing. */
    async tryRestore({ account }: AgentOwner, id: DeploymentId, backup: string, act: Act): Promise<void> {
      begun(await store.begin("try_restore", { id, account, backup, isScheduled: false }, act));
    },
    /**
     * Removes the backup from the list; its bytes are deleted later. Throws agentInstanceNotFound, backupNotFound, agentBusy.
     */
    async remove({ account }: AgentOwner, id: DeploymentId, backup: string, act: Act): Promise<void> {
      const outcome = await store.remove({ id, account, backup }, act);
      if (outcome !== "removed") begun({ kind: outcome });
      // The next poll covers what fails now.
      await store.retire(catalog.types, deps.unixMs());
    },
    /** Applies the reports of hosts. */
    async settle(): Promise<void> {
      const ended = await store.settle();
      if (ended > 0) log.info({ ended }, "volume operations ended");
    },
    /**
     * Removes what deleted instances left on hosts, without waiting for the next `maintain`. Costs one query when there is
     * nothing.
     */
    async sweepDeleted(): Promise<void> {
      if (!(await store.hasLeftOvers())) return;
      const retired = await store.retire(catalog.types, deps.unixMs());
      if (retired > 0) log.info({ retired }, "removing volumes and backups of deleted instances");
    },
    /** Runs the schedule and retention; idempotent. */
    async maintain(): Promise<void> {
      await store.settle();
      const due = await store.due(catalog.types, deps.unixMs());
      for (const { id, account } of due) {
        const outcome = await store.begin("backup", { id, account, backup: newId(), isScheduled: true }, bySystem(""));
        log.info({ instance: id, outcome: outcome.kind }, "scheduled backup");
      }
      const retired = await store.retire(catalog.types, deps.unixMs());
      if (retired > 0) log.info({ retired }, "removing backups and volumes");
    },
  };
}

export type AgentBackups = ReturnType<typeof createAgentBackups>;

function begun(outcome: Begun): string {
  switch (outcome.kind) {
    case "begun":
      return outcome.backup;
    case "busy":
      throw agentBusy();
    case "wrong_state":
      throw new AgentWrongState(
        `An agent instance that is ${outcome.status} cannot be backed up or restored. Wait until it is running, stopped or failed.`,
      );
    case "no_volume":
      throw new AgentWrongState(
        "The agent instance has no volume yet: it was never started. Wait until it is running.",
      );
    case "too_many":
      throw tooManyBackups(outcome.limit);
    case "no_instance":
      throw agentInstanceNotFound();
    case "no_backup":
      throw backupNotFound();
  }
}
