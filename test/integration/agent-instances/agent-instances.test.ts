import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import * as errors from "../../../control-plane/agent-instances/errors.ts";
import { wantOf } from "../../../control-plane/deployments/choose-hosts.ts";
import { whyNot } from "../../../control-plane/deployments/place-reasons.ts";
import { createGpuTimeStore } from "../../../control-plane/store/money/gpu-time-store.ts";
import { gpuMinuteId } from "../../../proto/gpu-minute.ts";
import type { HostId, InstanceId, RequestId } from "../../../proto/ids.ts";
import { workspace } from "../../fakes/agent-instance-ports.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { act, ada, bob, hostView, ip, made, openWorld, request, saved, type World } from "./world.ts";

const byAda = { by: ada.account, ip, note: "" };
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

test("a missing dashboard is reported to the owner of the instance, and to others as an unknown instance", async () => {
  const id = await world.instances.create(ada, request, act);
  const by = { ip, port: 8080, key: undefined, login: undefined };
  await expect(world.instances.launchToken(ada, id, by)).rejects.toThrow(/Workspace has no dashboard/);
  await expect(world.instances.launchToken(bob, id, by)).rejects.toMatchObject({ code: "agent_not_found" });
});

describe("creating an agent instance", () => {
  test("stores the record; no other account sees it", async () => {
    const id = await world.instances.create(ada, request, act);
    expect(await world.instances.get(ada, id)).toMatchObject({
      type: "workspace",
      plan: "standard",
      host: null,
      deployment: { kind: "agent_instance", modelName: "mine", status: "initializing", numGpus: 0 },
    });
    await expect(world.instances.get(bob, id)).rejects.toMatchObject({ code: "agent_not_found" });
    expect(await world.instances.list(bob)).toEqual([]);
  });

  test("is placed by its image and plan; a host that does not allow it, or has no volumes, gives a reason", async () => {
    const id = await world.instances.create(ada, request, act);
    const { deployment } = await world.instances.get(ada, id);
    const rules = { unavailable: "", images: { own: [], allowed: [workspace.image] }, volumesUnavailable: "" };
    const why = (over: Partial<typeof rules>) => {
      const inventory = { ...hostView.inventory, containers: { ...rules, ...over } };
      return whyNot(wantOf(deployment), { ...hostView, inventory });
    };
    expect(why({})).toBeUndefined();
    expect(why({ images: { own: [], allowed: [] } })).toContain(`does not allow the image ${workspace.image}`);
    expect(why({ volumesUnavailable: "it keeps no volumes" })).toBe("it keeps no volumes");
  });

  test("is refused with the reason: type, plan, name, count, funds, capacity", async () => {
    const { create } = world.instances;
    await expect(create(ada, { ...request, type: "none" }, act)).rejects.toThrow(/no agent type none/);
    await expect(create(ada, { ...request, plan: "huge" }, act)).rejects.toThrow(/it has standard/);
    for (const name of ["a", "b"]) await create(ada, { ...request, name }, act);
    await expect(create(ada, { ...request, name: "a" }, act)).rejects.toMatchObject({ code: "name_taken" });
    await create(ada, { ...request, name: "c" }, act);
    await expect(create(ada, { ...request, name: "d" }, act)).rejects.toMatchObject({ code: "agent_limit_reached" });
    expect(await create(bob, { ...request, name: "a" }, act)).toMatch(/^agent-/);
    world.given.funds = 5n;
    world.given.needed = 6n;
    await expect(create(bob, request, act)).rejects.toMatchObject({ code: "insufficient_quota" });
    world.given.funds = null;
    world.given.hosts = [{ ...hostView, inventory: { ...hostView.inventory, memoryBytes: 1024 } }];
    await expect(create(bob, request, act)).rejects.toThrow(/host-1: 0 of its 0 MiB of memory are free/);
    world.given.hosts = [{ ...hostView, inventory: { ...hostView.inventory, drivers: ["process"] } }];
    const never = create(bob, request, act);
    await expect(never).rejects.toThrow(/host-1: it has no container engine.* needs a host with the Docker driver/);
    await expect(never).rejects.not.toThrow(/again later/i);
    world.given.hosts = [...world.given.hosts, { ...hostView, id: "host-2" as HostId, state: "lost" }];
    await expect(create(bob, request, act)).rejects.toThrow(/again later/i);
    world.given.hosts = [];
    await expect(create(bob, request, act)).rejects.toMatchObject({ code: "no_capacity" });
    await expect(create({ ...bob, suspendReason: "balance" }, request, act)).rejects.toThrow(/suspended/i);
  });

  test("is audited with the address of the caller, as is its deletion", async () => {
    const id = await made(world);
    await world.instances.remove(ada, id, { by: ada.account, ip: "203.0.113.10", note: "" });
    const rows = await world.db
      .selectFrom("audit")
      .select(["actor", "action", "ip", "accountId", "before", "after"])
      .where("subject", "=", id)
      .orderBy("auditId")
      .execute();
    const common = { actor: ada.account, accountId: ada.account };
    expect(rows).toMatchObject([
      { ...common, action: "agent_instance.create", actor: act.by, ip, before: null, after: { name: "mine" } },
      { ...common, action: "agent_instance.delete", ip: "203.0.113.10", before: { name: "mine" }, after: null },
    ]);
  });

  test("creates one for two concurrent requests of one name", async () => {
    const both = await Promise.allSettled([
      world.instances.create(ada, request, act),
      world.instances.create(ada, request, act),
    ]);
    expect(both.filter((one) => one.status === "fulfilled")).toHaveLength(1);
  });
});

describe("an agent instance's price", () => {
  test("is the billed one, also after the catalogue changed", async () => {
    const id = await made(world);
    await sql`insert into price (kind, subject, hour_rate) select 'container', price_subject, 123 from deployment
      where deploy_id = ${id}`.execute(world.db);
    expect((await world.instances.get(ada, id)).hourRate).toBe(123n);
  });
});

describe("an agent instance's life", () => {
  test("stops, starts, is updated to the catalogue's version, renamed and deleted, each from the permitted states", async () => {
    const id = await made(world);
    const { instances } = world;
    const status = async () => (await instances.get(ada, id)).deployment.status;
    await expect(instances.start(ada, id, byAda)).rejects.toThrow(errors.AgentWrongState);
    await instances.stop(ada, id, byAda);
    expect(await status()).toBe("stopping");
    await expect(instances.stop(ada, id, byAda)).rejects.toThrow(errors.AgentWrongState);
    await world.runs(id, "stopped");
    await instances.start(ada, id, byAda);
    expect(await instances.get(ada, id)).toMatchObject({ wasStopped: true, deployment: { status: "initializing" } });
    await world.runs(id);
    const before = (await instances.get(ada, id)).deployment.generation;
    world.types.set("workspace", { ...(world.types.get("workspace") as never as object), version: "2" } as never);
    await instances.update(ada, id);
    expect(await instances.get(ada, id)).toMatchObject({ version: "2", deployment: { generation: before + 1 } });
    expect((await instances.rename(ada, id, "other")).deployment.modelName).toBe("other");
    await instances.remove(ada, id, byAda);
    expect(await status()).toBe("deleted");
    await expect(instances.remove(ada, id, byAda)).rejects.toMatchObject({ code: "agent_not_found" });
    await expect(instances.remove(bob, id, byAda)).rejects.toMatchObject({ code: "agent_not_found" });
  });

  test("costs its plan's price per minute, whatever its GPUs", async () => {
    const id = await made(world);
    await sql`insert into instance (instance_id, deploy_id, account_id, host_id, generation, gpu_uuids)
      values ('i1', ${id}, ${ada.account}, 'host-1', 1, '{}')`.execute(world.db);
    const startMs = Math.floor(Date.now() / 60_000) * 60_000;
    // Newer than every price of a test before that is in force at the start of this minute.
    await sql`insert into price (kind, subject, hour_rate, effective_from)
      values ('container', 'agent:workspace/standard', 60000000, ${new Date(startMs)})`.execute(world.db);
    const minute = {
      id: gpuMinuteId("i1" as InstanceId, startMs) as RequestId,
      instance: "i1" as InstanceId,
      deployId: id,
      nodeEpoch: 1n,
      startMs,
      readyMs: 60_000,
      isAsleep: false,
      endedAtMs: startMs + 60_000,
    };
    const [known] = await createGpuTimeStore(world.db).lookUp([minute], hostView.id);
    expect(known).toMatchObject({ account: ada.account, gpus: 1, tariff: { prices: [{ hourRate: 60_000_000n }] } });
  });
});

describe("an operation on its volume", () => {
  test("is sent to the host that has the volume, whose report becomes a backup", async () => {
    const id = await made(world);
    const backup = await world.backups.backup(ada, id, act);
    const [command] = await world.open();
    expect(command).toMatchObject({
      hostId: "host-1",
      kind: "volume.backup",
      arguments: { volume: id, key: `backups/${id}/${backup}.tar.zst` },
    });
    expect(await world.backups.list(ada, id)).toMatchObject([{ id: backup, state: "creating" }]);
    await world.told("volume.backup", "done", { sha256: "ab", sizeBytes: 1234 });
    // Two that settle at once: each operation ends once.
    const ended = await Promise.all([world.backupStore.settle(), world.backupStore.settle()]);
    expect(ended.reduce((a, b) => a + b, 0)).toBe(1);
    expect(await world.backups.list(ada, id)).toMatchObject([{ id: backup, state: "ready", sizeBytes: 1234 }]);
    expect(await world.instances.get(ada, id)).toMatchObject({ operation: null, lastFault: "" });
    await world.backups.restore(ada, id, backup, act);
    expect((await world.open())[0]?.arguments).toMatchObject({ sha256: "ab", size_bytes: 1234 });
    const { rows } = await sql<{ action: string; actor: string; ip: string }>`
      select action, actor, ip from audit where subject = ${id} order by audit_id`.execute(world.db);
    expect(rows).toEqual([
      { action: "agent_instance.create", actor: act.by, ip },
      { action: "volume.backup", actor: act.by, ip },
      { action: "volume.restore", actor: act.by, ip },
    ]);
  });

  test("runs alone: one of ten concurrent requests succeeds, and nothing else may change the instance meanwhile", async () => {
    const id = await made(world);
    const all = await Promise.allSettled(Array.from({ length: 10 }, () => world.backups.backup(ada, id, act)));
    const refused = all.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
    expect(refused).toHaveLength(9);
    for (const reason of refused) expect(reason).toMatchObject({ code: "operation_running" });
    const { instances } = world;
    for (const verb of [instances.stop, instances.update, instances.remove])
      await expect(verb(ada, id, byAda)).rejects.toMatchObject({ code: "operation_running" });
    expect(await world.open()).toHaveLength(1);
    // Its name is no part of the volume.
    await instances.rename(ada, id, "renamed");
  });

  test("is refused during a concurrent stop, or the stop is refused", async () => {
    for (let round = 0; round < 5; round++) {
      const id = await made(world, `round-${round}`);
      const [backup, stop] = await Promise.allSettled([
        world.backups.backup(ada, id, act),
        world.instances.stop(ada, id, byAda),
      ]);
      expect([backup.status, stop.status].sort()).toEqual(["fulfilled", "rejected"]);
      await world.told("volume.backup", "done");
      await world.backups.settle();
      await world.instances.remove(ada, id, byAda);
    }
  });

  test.each([
    ["interrupted", /restore_failed.*ended in the middle.*as it was/],
    ["expired", /restore_failed.*not begun/],
    ["failed", /^restore_failed: it failed on the host; your data is unchanged/],
    ["unknown_kind", /restore_failed.*refused it \(unknown_kind\)/],
  ])("that ends as %s frees the instance and says why", async (outcome, why) => {
    const id = await made(world);
    const backup = await saved(world, id);
    await world.backups.restore(ada, id, backup, act);
    await world.told("volume.restore", outcome, {}, "EACCES: open '/srv/agent/volumes/x'");
    await world.backups.settle();
    const after = await world.instances.get(ada, id);
    expect(after.operation).toBeNull();
    expect(after.lastFault).toMatch(why);
    expect(after.lastFault).not.toContain("/srv");
    const audited = await world.db
      .selectFrom("audit")
      .select(["accountId", "after"])
      .where("subject", "=", id)
      .execute();
    expect(audited).toContainEqual({ accountId: null, after: expect.objectContaining({ outcome }) });
    await world.backups.restore(ada, id, backup, act);
    expect((await world.instances.get(ada, id)).lastFault).toBe("");
  });

  test("that failed for a reason that its owner can fix reports that reason", async () => {
    const id = await made(world);
    await world.backups.backup(ada, id, act);
    await world.told("volume.backup", "failed", {}, "The host has no disk space left.");
    await sql`update host_command set error_code = 'no_space'`.execute(world.db);
    await world.backups.settle();
    expect((await world.instances.get(ada, id)).lastFault).toBe("backup_failed: The host has no disk space left.");
  });

  test("brings a failed instance back", async () => {
    const id = await made(world);
    const backup = await saved(world, id);
    await world.runs(id, "failed");
    await world.backups.restore(ada, id, backup, act);
    await world.told("volume.restore", "done");
    await world.backups.settle();
    expect(await world.instances.get(ada, id)).toMatchObject({ operation: null, lastFault: "" });
    await world.instances.start(ada, id, byAda);
  });

  test("is refused before the first start, for another's instance, an unknown backup, and one that failed", async () => {
    const id = await world.instances.create(ada, request, act);
    await expect(world.backups.backup(ada, id, act)).rejects.toThrow(errors.AgentWrongState);
    await sql`update deployment set status = 'stopped' where deploy_id = ${id}`.execute(world.db);
    await expect(world.backups.backup(ada, id, act)).rejects.toThrow(/never started/);
    await world.runs(id);
    await expect(world.backups.backup(bob, id, act)).rejects.toMatchObject({ code: "agent_not_found" });
    await expect(world.backups.list(bob, id)).rejects.toMatchObject({ code: "agent_not_found" });
    const backup = await world.backups.backup(ada, id, act);
    await world.told("volume.backup", "failed", {}, "no");
    await world.backups.settle();
    await expect(world.backups.restore(ada, id, backup, act)).rejects.toMatchObject({ code: "backup_not_found" });
    const good = await saved(world, id);
    await expect(world.backups.restore(bob, id, good, act)).rejects.toMatchObject({ code: "agent_not_found" });
    const other = await made(world, "other");
    await expect(world.backups.restore(ada, other, good, act)).rejects.toMatchObject({ code: "backup_not_found" });
  });

  test("of a host without reports for hours does not block the instance forever", async () => {
    const id = await made(world);
    await world.backups.backup(ada, id, act);
    await world.backups.settle();
    expect((await world.instances.get(ada, id)).operation).toBe("backup");
    await sql`update agent_instance set operation_at = now() - interval '3 hours'`.execute(world.db);
    await world.backups.settle();
    expect((await world.instances.get(ada, id)).lastFault).toMatch(/does not answer/);
    expect(await world.backups.list(ada, id)).toMatchObject([{ state: "failed" }]);
    // It had done it all the while.
    await world.told("volume.backup", "done", { sha256: "ab", sizeBytes: 1234 });
    await sql`update host_command set finished_at = now()`.execute(world.db);
    await world.backups.settle();
    expect(await world.backups.list(ada, id)).toMatchObject([{ state: "ready", sizeBytes: 1234, fault: "" }]);
    expect((await world.instances.get(ada, id)).lastBackupAtMs).not.toBeNull();
  });

  test("creates ten manual backups of one instance and gives the reason for refusing an eleventh", async () => {
    const id = await made(world);
    for (let n = 0; n < 10; n++) await saved(world, id);
    await expect(world.backups.backup(ada, id, act)).rejects.toMatchObject({ code: "backup_limit_reached" });
    expect(await world.open()).toEqual([]);
    expect(await world.backups.list(ada, id)).toHaveLength(10);
  });

  test("deletes a backup on its owner's request, which allows another; its host is told immediately", async () => {
    const id = await made(world);
    for (let n = 0; n < 10; n++) await saved(world, id);
    const [newest, next] = await world.backups.list(ada, id);
    const name = newest?.id ?? "";
    await expect(world.backups.remove(bob, id, name, act)).rejects.toMatchObject({ code: "agent_not_found" });
    await expect(world.backups.remove(ada, id, "bk-none", act)).rejects.toMatchObject({ code: "backup_not_found" });
    await world.backups.restore(ada, id, name, act);
    await expect(world.backups.remove(ada, id, name, act)).rejects.toMatchObject({ code: "operation_running" });
    await world.backups.remove(ada, id, next?.id ?? "", act);
    await world.told("volume.restore", "done");
    await world.backups.settle();
    await world.backups.remove(ada, id, name, act);
    expect(await world.backups.list(ada, id)).toHaveLength(8);
    await expect(world.backups.remove(ada, id, name, act)).rejects.toMatchObject({ code: "backup_not_found" });
    const asked = (await world.open()).map((one) => [one.kind, (one.arguments as { key: string }).key]);
    const keyOf = (backup: string) => `backups/${id}/${backup}.tar.zst`;
    const keys = [next?.id ?? "", name].map((one) => ["volume.remove_backup", keyOf(one)]);
    expect(asked).toEqual(keys);
    expect(await world.backups.backup(ada, id, act)).toMatch(/^bk-/);
    const audited = await world.db
      .selectFrom("audit")
      .select("before")
      .where("action", "=", "volume.remove_backup")
      .execute();
    expect(audited).toContainEqual({ before: { backup: name } });
  });
});
