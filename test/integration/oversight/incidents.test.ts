// Incidents on a real PostgreSQL: how they open, change, end and open again, and the facts that they are judged by.
import { sql } from "kysely";
import pino from "pino";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createIncidents, type FoundIncident } from "../../../control-plane/oversight/incidents.ts";
import type { IncidentStore } from "../../../control-plane/oversight/store.ts";
import { type OpenDatabase, openDatabase } from "../../../control-plane/store/core/database.ts";
import { createIncidentStore } from "../../../control-plane/store/deployments/incident-store.ts";
import { createOversightStore } from "../../../control-plane/store/deployments/oversight-store.ts";
import type { AccountId, DeploymentId, HostId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";

const log = pino({ level: "silent" });
const reopenMs = 600_000;
let postgres: TestDatabases;
let database: OpenDatabase;
let store: IncidentStore;

beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());
beforeEach(async () => {
  database = openDatabase(await postgres.migratedDatabase(), { maxConnections: 6, log });
  store = createIncidentStore(database.db);
  await run(
    `insert into account (account_id, email, display_name, wrapped_dek, kek_version) values ('u:ada', 'ada@example.com', 'ada', '', 1)`,
  );
  await run(`insert into host (host_id, hostname, advertise, inventory, node_epoch, ticket_key, agent_version)
    values ('h1', 'gpu-1', 'http://127.0.0.1:1', '{}', 1, '', '1')`);
  return () => database.close();
});

const run = (text: string) => sql.raw(text).execute(database.db);
const incident = (over: Partial<FoundIncident> = {}): FoundIncident => ({
  kind: "host_silent",
  subject: "h1",
  severity: "warning",
  summary: "gpu-1 does not report and gets no requests.",
  advice: "Check it.",
  host: "h1" as HostId,
  ...over,
});
const condition = (subject: string, severity: FoundIncident["severity"] = "warning") =>
  incident({ kind: "host_condition", subject, severity });
const listed = async (isOpen: boolean) =>
  (await store.list({ isOpen }, undefined, 50)).map(({ kind, subject, severity }) => `${kind} ${subject} ${severity}`);
const eventsOfHost = async () =>
  (await createOversightStore(database.db).events({ host: "h1" as HostId, kind: "host" }, undefined, 50))
    .map(({ kind }) => kind)
    .toReversed();

describe("an event", () => {
  const addEvent = (kind: string, ids: string) =>
    run(
      `insert into event (at, kind, account_id, deploy_id, host_id, state, reason) values (now(), '${kind}', ${ids}, '', '')`,
    );
  beforeEach(async () => {
    await run(`insert into deployment (deploy_id, account_id, model_name, version, task, type, engine, status, gpu, num_gpus,
        max_batch_size, min_instances, max_instances, weights, extra_args)
      values ('d1', 'u:ada', 'ada/llm', '1', 'text-generation', 'llm', 'stoker', 'deployed', 'other', 1, 1, 1, 1, '{}', '{}')`);
    await run("delete from event");
    await addEvent("instance.named", "'u:ada', 'd1', 'h1'");
    await addEvent("host.named", "null, null, 'h1'");
  });

  it("has the names of its account, deployment and host for operators", async () => {
    const events = await createOversightStore(database.db).namedEvents({}, undefined, 5);
    expect(events.map(({ atMs: _, id: __, ...event }) => event)).toEqual([
      {
        kind: "host.named",
        account: null,
        accountEmail: null,
        deployment: null,
        deploymentName: null,
        instance: null,
        host: "h1",
        hostname: "gpu-1",
        gpu: null,
        state: "",
        reason: "",
      },
      {
        kind: "instance.named",
        account: "u:ada",
        accountEmail: "ada@example.com",
        deployment: "d1",
        deploymentName: "ada/llm",
        instance: null,
        host: "h1",
        hostname: "gpu-1",
        gpu: null,
        state: "",
        reason: "",
      },
    ]);
  });

  it("is read without names for its owner", async () => {
    const filter = { account: "u:ada" as AccountId, deployment: "d1" as DeploymentId };
    const [event] = await createOversightStore(database.db).events(filter, undefined, 5);
    expect(Object.keys(event ?? {}).sort()).toEqual([
      "account",
      "atMs",
      "deployment",
      "gpu",
      "host",
      "id",
      "instance",
      "kind",
      "reason",
      "state",
    ]);
  });
});

describe("an incident", () => {
  it("opens once, changes, and ends when it is no longer found, whoever judges", async () => {
    await Promise.all(Array.from({ length: 4 }, () => store.sync([incident(), condition("h1")], reopenMs)));
    expect(await listed(true)).toEqual(["host_condition h1 warning", "host_silent h1 warning"]);
    await store.sync([incident({ severity: "critical", summary: "gpu-1 is lost." })], reopenMs);
    expect(await listed(true)).toEqual(["host_silent h1 critical"]);
    expect(await listed(false)).toEqual(["host_condition h1 warning"]);
    expect(await store.countOpen()).toEqual({ info: 0, warning: 0, critical: 1 });
    const [open] = await store.list({ isOpen: true }, undefined, 50);
    expect(open).toMatchObject({
      summary: "gpu-1 is lost.",
      host: { id: "h1", name: "gpu-1" },
      account: null,
      endedAtMs: null,
    });
  });

  it("opens again instead of once more when it returns soon", async () => {
    await store.sync([condition("h1")], reopenMs);
    const [first] = await store.list({ isOpen: true }, undefined, 50);
    await store.sync([], reopenMs);
    await store.sync([condition("h1")], reopenMs);
    expect(await store.list({ isOpen: true }, undefined, 50)).toMatchObject([{ id: first?.id }]);
    expect(await listed(false)).toEqual([]);
    await store.sync([], reopenMs);
    await run("update incident set ended_at = now() - interval '11 minutes'");
    await store.sync([condition("h1")], reopenMs);
    expect([await listed(true), await listed(false)].map(({ length }) => length)).toEqual([1, 1]);
  });

  it("is listed in pages, the most severe first", async () => {
    const all = [condition("a", "info"), condition("b", "critical"), condition("c"), condition("d", "critical")];
    await store.sync(all, reopenMs);
    const incidents = createIncidents({
      ...{ store, nodes: async () => [], restores: async () => [], backupSchedules: [], settledAfterMs: 0 },
    });
    for (const isOpen of [true, false]) {
      const subjects: string[] = [];
      let cursor: string | undefined;
      do {
        const { page, nextCursor } = await incidents.list({ isOpen }, cursor, 3);
        subjects.push(...page.map(({ subject }) => subject));
        cursor = nextCursor ?? undefined;
      } while (cursor !== undefined);
      expect(subjects).toEqual(isOpen ? ["d", "b", "c", "a"] : ["d", "c", "b", "a"]);
      await store.sync([], reopenMs);
    }
    await expect(incidents.list({ isOpen: true }, "first", 3)).rejects.toMatchObject({ code: "bad_cursor" });
  });

  it("puts the silence, loss and return of a host into its events", async () => {
    await store.sync([incident()], reopenMs);
    await store.sync([incident({ severity: "critical" })], reopenMs);
    await store.sync([incident({ severity: "critical" })], reopenMs);
    await store.sync([], reopenMs);
    expect(await eventsOfHost()).toEqual(["host.joined", "host.silent", "host.lost", "host.returned"]);
    await store.sync([incident()], reopenMs);
    expect(await eventsOfHost()).toContain("host.silent");
    await run("update host set seen_at = now() - interval '1 hour'");
    await store.sync([], reopenMs);
    expect((await eventsOfHost()).filter((kind) => kind === "host.returned")).toHaveLength(1);
  });

  it("is not judged before this process knows which hosts are silent", async () => {
    let nowMs = 0;
    const incidents = createIncidents({
      ...{ store, nodes: async () => [], restores: async () => [], backupSchedules: [] },
      settledAfterMs: 30_000,
      monotonicMs: () => nowMs,
    });
    await store.sync([incident()], reopenMs);
    await incidents.watch();
    expect(await listed(true)).toHaveLength(1);
    nowMs = 30_001;
    await incidents.watch();
    expect(await listed(true)).toHaveLength(0);
  });
});

describe("the facts", () => {
  const deploy = (id: string, status: string, more = "'[]'", kind = "model") =>
    run(`insert into deployment (deploy_id, account_id, kind, model_name, version, task, type, engine, status, fail_reason, gpu, num_gpus,
        max_batch_size, min_instances, max_instances, weights, extra_args, pending_reasons)
      values ('${id}', 'u:ada', '${kind}', 'ada/${id}', '1', 'text-generation', 'llm', 'stoker', '${status}', 'broken', 'other', 1, 1, 1, 1,
        '{}', '{}', ${more})`);
  const troubles = async () =>
    (await store.facts(50, [{ type: "desk", everyMs: 3_600_000 }])).deployments.map(
      ({ id, trouble, reason }) => `${id} ${trouble} ${reason}`,
    );

  it("are deployments that failed within a week", async () => {
    await deploy("f1", "deploying");
    await run("update deployment set status = 'failed'");
    expect(await troubles()).toEqual(["f1 failed broken"]);
    await run("update event set at = now() - interval '8 days'");
    expect(await troubles()).toEqual([]);
  });

  it("are instances that do not start, and deployments that have waited for a host for ten minutes", async () => {
    await deploy("c1", "deploying");
    await run(`insert into instance (instance_id, deploy_id, account_id, host_id, generation, gpu_uuids, phase, fail_code, fail_message)
      values ('i1', 'c1', 'u:ada', 'h1', 1, '{}', 'failed', 'oom', 'out of memory')`);
    await deploy("w1", "initializing", `'[{"host": "", "why": "No host has 8 free GPUs."}]'`);
    expect(await troubles()).toEqual(["c1 crashing oom: out of memory"]);
    await run("update event set at = now() - interval '11 minutes'");
    await run("update deployment set created_at = now() - interval '11 minutes'");
    expect(await troubles()).toEqual(["c1 crashing oom: out of memory", "w1 waiting No host has 8 free GPUs."]);
  });

  it("are agent instances that missed two scheduled backups", async () => {
    await deploy("a1", "deployed", "'[]'", "agent_instance");
    await run(`insert into agent_instance (deploy_id, account_id, agent_type, plan_id, version, image, port, volume_path, vcpu, ram_bytes,
        hour_rate, last_fault) values ('a1', 'u:ada', 'desk', 'p', '1', 'i', 1, '/data', 1, 1, 1, 'backup_failed: full')`);
    expect(await troubles()).toEqual([]);
    await run("update agent_instance set started_at = now() - interval '3 hours'");
    expect(await troubles()).toEqual(["a1 backup backup_failed: full"]);
  });

  it("are receivers with repeated or given up calls, money, and revoked hosts", async () => {
    const call = (id: string, state: string, tries: number, host = "hooks.example") =>
      run(`with job as (insert into webhook_job (request_id, account_id, key_id, model, url, host, origin, state, expires_at, finished_at)
          values ('${id}', 'u:ada', 'k', 'm', 'https://r', '${host}', 'https://s', 'succeeded', now(), now()))
        insert into webhook_delivery (webhook_id, request_id, account_id, url, host, body, state, tries, last_outcome, finished_at)
        values ('${id}', '${id}', 'u:ada', 'https://r', '${host}', '{}', '${state}', ${tries}, '5xx', ${state === "pending" ? "null" : "now()"})`);
    await call("w1", "pending", 3);
    await call("w2", "exhausted", 8);
    await call("w3", "pending", 1, "new.example");
    await run(
      "insert into node_identity (host_id, key_hash, serial, not_after, revoked_at) values ('h9', '', 's', now(), now())",
    );
    await run(
      "insert into usage_quarantine (request_id, attempt, host_id, node_epoch, problem, why, record) values ('r', 1, 'h1', '1', 'malformed', '', '{}')",
    );
    expect(await store.facts(50, [])).toMatchObject({
      receivers: [
        {
          account: "u:ada",
          email: "ada@example.com",
          receiver: "hooks.example",
          retrying: 1,
          exhausted: 1,
          outcome: "5xx",
        },
      ],
      revokedHosts: new Set(["h9"]),
      quarantined: 1,
      imbalance: 0n,
      lossOfHour: 0n,
    });
  });
});
