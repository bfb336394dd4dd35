// Only an operator shares a prefix cache between accounts, and the audit log says who did.
import { afterAll, beforeAll, expect, it } from "vitest";
import { createDeploymentStore } from "../../../control-plane/store/deployments/deployments-store.ts";
import type { DeploymentId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { ada, type Replica, startReplica } from "../fleet/replica.ts";

const act = { by: "u:operator", ip: "127.0.0.1", note: "one company" };
let postgres: TestDatabases;
let replica: Replica;

beforeAll(async () => {
  postgres = await sharedPostgres();
  replica = await startReplica(await postgres.migratedDatabase());
});
afterAll(async () => {
  await replica?.stop();
  await postgres?.stop();
});

it("is off until an operator enables it, and is audited", async () => {
  const store = createDeploymentStore(replica.db);
  const { id } = await replica.deploy();
  expect((await store.get(id, ada.account))?.sharesPrefixCache).toBeUndefined();
  expect(await store.sharePrefixCache({ id, isShared: true, act })).toBe(true);
  expect((await store.get(id, ada.account))?.sharesPrefixCache).toBe(true);
  const audit = await replica.db
    .selectFrom("audit")
    .select(["actor", "before", "after", "note"])
    .where("action", "=", "deployment.share_prefix_cache")
    .execute();
  expect(audit).toEqual([{ actor: act.by, before: { shared: false }, after: { shared: true }, note: act.note }]);
  expect(await store.sharePrefixCache({ id: "none" as DeploymentId, isShared: true, act })).toBe(false);
});
