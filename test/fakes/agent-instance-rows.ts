// An agent instance with a backup as rows, for tests without a host to place it on.

import pino from "pino";
import { singleInstance } from "../../control-plane/deployments/store.ts";
import { openDatabase } from "../../control-plane/store/core/database.ts";
import { createAgentInstanceStore } from "../../control-plane/store/deployments/agent-instance-store.ts";
import type { AccountId, DeploymentId } from "../../proto/ids.ts";
import { workspace } from "./agent-instance-ports.ts";

/** `mark`: part of its id and name, for several instances in one database. */
export async function makeAgentInstance(databaseUrl: string, account: string, mark = "1") {
  const { db, close } = openDatabase(databaseUrl, { maxConnections: 1, log: pino({ level: "silent" }) });
  const [id, backup] = [`agent-of-ada-${mark}` as DeploymentId, `bk-of-ada-${mark}`];
  const plan = workspace.plans[0];
  if (!plan) throw new Error("the type has no plan");
  try {
    const deployment = {
      ...singleInstance,
      id,
      account: account as AccountId,
      kind: "agent_instance",
      modelName: mark === "1" ? "ada's agent" : `ada's agent ${mark}`,
      version: "1",
      task: "agent",
      engine: "agent_instance",
      gpu: "other",
    } as const;
    const made = await createAgentInstanceStore(db).insert({ deployment, type: workspace, plan }, 10);
    if (made !== "made") throw new Error(`no agent instance: ${made}`);
    await db
      .insertInto("instanceBackup")
      .values({
        backupId: backup,
        deployId: id,
        accountId: deployment.account,
        isScheduled: false,
        state: "ready",
        blobKey: `backups/${id}/${backup}.tar.zst`,
      })
      .execute();
  } finally {
    await close();
  }
  return { id, backup };
}
