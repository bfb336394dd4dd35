// The cost of a check depends on active deployments, not on ended ones.
import { sql } from "kysely";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createContainerStore } from "../../../control-plane/store/deployments/containers-store.ts";
import { readSpecs } from "../../../control-plane/store/deployments/deployment-specs.ts";
import { createDeploymentStore } from "../../../control-plane/store/deployments/deployments-store.ts";
import { createCatalogStore } from "../../../control-plane/store/models/catalog-store.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { ada, type Replica, startReplica } from "../fleet/replica.ts";

const ended = 5_000;
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

it("finds active and served deployments without reading thousands of ended ones; lists the latest of those", async () => {
  const wanted = await replica.deploy();
  const found = await replica.db.transaction().execute(async (trx) => {
    const { rows: columns } = await sql<{ name: string }>`
      select column_name as name from information_schema.columns where table_name = 'deployment'`.execute(trx);
    const names = columns.map(({ name }) => name);
    const values = names.map((name) => {
      if (name === "deploy_id" || name === "model_name") return sql`d.deploy_id || n`;
      if (name === "deleted_at") return sql`now() - n * interval '1 minute'`;
      return name === "status" ? sql`'deleted'` : sql.ref(`d.${name}`);
    });
    await sql`insert into deployment (${sql.join(names.map((name) => sql.ref(name)))})
      select ${sql.join(values)} from deployment d, generate_series(1, ${ended}) n`.execute(trx);
    await sql`analyze deployment`.execute(trx);
    const read = async () => {
      const { rows } = await sql<{ tuples: string }>`
        select seq_tup_read as tuples from pg_stat_xact_user_tables where relname = 'deployment'`.execute(trx);
      return Number(rows[0]?.tuples);
    };
    const store = createDeploymentStore(trx);
    const before = await read();
    const active = await store.active(undefined);
    const served = await createCatalogStore(trx).deployed();
    const tuples = (await read()) - before;
    const listed = await store.list(ada.account, "model", undefined);
    await sql`update deployment set kind = 'container'`.execute(trx);
    const containers = await createContainerStore(trx).list(ada.account);
    return { active: active.map(({ deployment }) => deployment.id), served, tuples, listed, containers };
  });
  expect(found.active).toEqual([wanted.id]);
  expect(found.served.map(({ deployId }) => deployId)).toEqual([wanted.id]);
  expect(found.tuples).toBeLessThan(ended / 10);
  const lastDeleted = Array.from({ length: 1_000 }, (_, n) => `${wanted.id}${n + 1}`);
  for (const list of [found.listed, found.containers])
    expect(list.map(({ id }) => id as string).toSorted()).toEqual([wanted.id, ...lastDeleted].toSorted());
});

it("reads the current settings of instances, whatever their deployment ran before", async () => {
  const { id } = await replica.deploy({ modelName: "ada/often" });
  const found = await replica.db.transaction().execute(async (trx) => {
    await sql`insert into deployment_spec (deploy_id, spec, extra_args, context_length)
      select ${id}, n, array['--seed=' || n], 0 from generate_series(2, ${ended}) n`.execute(trx);
    await sql`analyze deployment_spec`.execute(trx);
    const specs = await readSpecs(trx, [{ deployId: id, spec: 17 }]);
    const { rows } = await sql<{
      tuples: string;
    }>`select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) as tuples
      from pg_stat_xact_user_tables where relname = 'deployment_spec'`.execute(trx);
    return { specs, tuples: Number(rows[0]?.tuples) };
  });
  expect([...found.specs]).toMatchObject([[`${id}/17`, { extraArgs: ["--seed=17"] }]]);
  expect(found.tuples).toBeLessThan(ended / 10);
});
