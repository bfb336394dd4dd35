// When backups of an agent instance are created automatically, and when they are removed.
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { act, ada, ip, made, openWorld, saved, type World } from "./world.ts";

let postgres: TestDatabases;
let world: World;
beforeAll(async () => {
  postgres = await sharedPostgres();
  world = await openWorld(await postgres.migratedDatabase());
});
afterAll(async () => {
  await world?.close();
  await postgres?.stop();
});
beforeEach(() => world.empty());

describe("schedule and retention", () => {
  const dayMs = 24 * 3_600_000;

  test("a running instance is backed up on schedule, a stopped one is not", async () => {
    const id = await made(world);
    await world.backups.maintain();
    expect(await world.open()).toEqual([]);
    world.given.nowMs += dayMs + 60_000;
    await world.backups.maintain();
    await world.backups.maintain();
    expect(await world.open()).toMatchObject([{ kind: "volume.backup" }]);
    await world.told("volume.backup", "done", { sha256: "ab", sizeBytes: 1 });
    await world.backups.settle();
    expect(await world.backups.list(ada, id)).toMatchObject([{ state: "ready" }]);
    await world.runs(id, "stopped");
    world.given.nowMs += 2 * dayMs;
    await world.backups.maintain();
    expect(await world.open()).toEqual([]);
  });

  test("the oldest scheduled ones beyond their limit are removed, manual ones stay; a failed removal is retried", async () => {
    const id = await made(world);
    const byHand = await saved(world, id);
    for (let n = 1; n <= 4; n++)
      await sql`insert into instance_backup (backup_id, deploy_id, account_id, is_scheduled, state, blob_key, created_at)
        values (${`bk-s${n}`}, ${id}, ${ada.account}, true, 'ready', ${`backups/${id}/bk-s${n}`}, now() + ${`${n} minutes`}::interval)`.execute(
        world.db,
      );
    await world.backups.maintain();
    expect((await world.backups.list(ada, id)).map((one) => one.id)).toEqual(["bk-s4", "bk-s3", byHand]);
    const removals = await world.open();
    expect(removals.map((one) => (one.arguments as { key: string }).key).sort()).toEqual([
      `backups/${id}/bk-s1`,
      `backups/${id}/bk-s2`,
    ]);
    await world.told("volume.remove_backup", "failed");
    await world.backups.maintain();
    expect(await world.open()).toHaveLength(2);
    await world.told("volume.remove_backup", "done");
    await world.backups.maintain();
    expect(await world.open()).toEqual([]);
    const { rows } = await sql`select from instance_backup where deploy_id = ${id}`.execute(world.db);
    expect(rows).toHaveLength(3);
  });

  test("a failed backup of a living instance is shown for a week and then removed from the store", async () => {
    const id = await made(world);
    await world.backups.backup(ada, id, act);
    await world.told("volume.backup", "failed");
    await world.backups.maintain();
    await sql`update instance_backup set finished_at = now() - interval '6 days'`.execute(world.db);
    await world.backups.maintain();
    expect(await world.backups.list(ada, id)).toMatchObject([{ state: "failed" }]);
    await sql`update instance_backup set finished_at = now() - interval '8 days'`.execute(world.db);
    await world.backups.maintain();
    expect(await world.backups.list(ada, id)).toEqual([]);
    expect(await world.open()).toMatchObject([{ kind: "volume.remove_backup" }]);
  });

  test("of a deleted instance everything is removed, its volume only after its container", async () => {
    const id = await made(world);
    await saved(world, id);
    await sql`insert into instance (instance_id, deploy_id, account_id, host_id, generation, gpu_uuids)
      values ('i2', ${id}, ${ada.account}, 'host-1', 1, '{}')`.execute(world.db);
    await world.instances.remove(ada, id, { by: ada.account, ip, note: "" });
    // As the change feed has it done, without the job that looks now and then.
    await world.backups.sweepDeleted();
    expect((await world.open()).map((one) => one.kind)).toEqual(["volume.remove_backup"]);
    await sql`delete from instance where instance_id = 'i2'`.execute(world.db);
    await world.backups.sweepDeleted();
    expect((await world.open()).map((one) => one.kind).sort()).toEqual(["volume.remove", "volume.remove_backup"]);
    await world.told("volume.remove", "done");
    await world.told("volume.remove_backup", "done");
    await world.backups.maintain();
    await world.backups.maintain();
    expect(await world.open()).toEqual([]);
  });
});
