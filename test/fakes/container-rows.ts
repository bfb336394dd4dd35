// A rented container as a row, for tests without a host that offers containers.
import pino from "pino";
import { openDatabase } from "../../control-plane/store/core/database.ts";
import { type AccountId, type DeploymentId, randomId } from "../../proto/ids.ts";

export async function makeContainer(databaseUrl: string, account: string, name: string): Promise<string> {
  const { db, close } = openDatabase(databaseUrl, { maxConnections: 1, log: pino({ level: "silent" }) });
  const deployId = `container-${randomId(8)}` as DeploymentId;
  await db
    .insertInto("deployment")
    .values({
      deployId,
      accountId: account as AccountId,
      kind: "container",
      modelName: name,
      version: "",
      task: "rent-container",
      type: "legacy",
      engine: "container",
      status: "initializing",
      gpu: "H100-80GB",
      numGpus: 1,
      maxBatchSize: 1,
      minInstances: 1,
      maxInstances: 1,
      weights: "{}",
      weightsToken: null,
      container: JSON.stringify({ image: "torch", sshKeys: [] }),
      extraArgs: [],
      externalUrl: null,
      contextLength: 0,
      memoryBytes: 0n,
      pendingReasons: "[]",
    })
    .execute();
  await close();
  return deployId;
}
