// Deployments of all accounts with owners and hosts, and events. Read by operators only, except for the events of one's own deployment.
import { sql } from "kysely";
import type { DeploymentId } from "../../../proto/ids.ts";
import type { Overseen, OverseenInstance, OversightStore } from "../../oversight/store.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";
import { asDeployment, selectDeployments } from "./deployment-rows.ts";

export function createOversightStore(db: Db): OversightStore {
  return asked<OversightStore>({
    async list({ account, kind, statuses, name, host, gpu }, after, limit) {
      let rows = select(db).orderBy("d.createdAt", "desc").orderBy("d.deployId", "desc").limit(limit);
      if (account !== undefined) rows = rows.where("d.accountId", "=", account);
      if (kind !== undefined) rows = rows.where("d.kind", "=", kind);
      if (gpu !== undefined) rows = rows.where(sql<boolean>`d.gpu = ${gpu}`);
      rows = statuses ? rows.where("d.status", "in", [...statuses]) : rows.where("d.status", "<>", "deleted");
      if (name !== undefined)
        rows = rows.where(sql<boolean>`position(${name.toLowerCase()} in lower(d.model_name)) > 0`);
      if (host !== undefined)
        rows = rows.where(sql<boolean>`d.deploy_id in (
          select i.deploy_id from instance i where i.host_id = ${host} and i.tombstoned_at is null)`);
      if (after !== undefined)
        rows = rows.where(
          sql<boolean>`(d.created_at, d.deploy_id) < (select c.created_at, c.deploy_id from deployment c where c.deploy_id = ${after})`,
        );
      return read(db, rows);
    },

    async get(id) {
      return (await read(db, select(db).where("d.deployId", "=", id)))[0];
    },

    events: (...query) => selectEvents(db, ...query).execute(),

    namedEvents: (...query) =>
      selectEvents(db, ...query)
        .leftJoin("account as a", "a.accountId", "e.accountId")
        .leftJoin("deployment as d", "d.deployId", "e.deployId")
        .leftJoin("host as h", "h.hostId", "e.hostId")
        .select(["a.email as accountEmail", "d.modelName as deploymentName", "h.hostname"])
        .execute(),
  });
}

function selectEvents(
  db: Db,
  ...[{ account, deployment, host, kind }, before, limit]: Parameters<OversightStore["events"]>
) {
  let rows = db
    .selectFrom("event as e")
    .select(["e.eventId as id", epochMs("e.at").as("atMs"), "e.kind", "e.accountId as account"])
    .select(["e.deployId as deployment", "e.instanceId as instance", "e.hostId as host", "e.gpuUuid as gpu"])
    .select(["e.state", "e.reason"])
    .orderBy("e.eventId", "desc")
    .limit(limit);
  if (before !== undefined) rows = rows.where("e.eventId", "<", before);
  if (account !== undefined) rows = rows.where("e.accountId", "=", account);
  if (deployment !== undefined) rows = rows.where("e.deployId", "=", deployment);
  if (host !== undefined) rows = rows.where("e.hostId", "=", host);
  if (kind !== undefined)
    rows = kind.includes(".")
      ? rows.where("e.kind", "=", kind)
      : rows.where("e.kind", ">", `${kind}.`).where("e.kind", "<", `${kind}/`);
  return rows;
}

const select = (db: Db) =>
  selectDeployments(db)
    .innerJoin("account as a", "a.accountId", "d.accountId")
    .select(["a.email", "a.displayName", "a.suspendReason"]);

async function read(db: Db, query: ReturnType<typeof select>): Promise<readonly Overseen[]> {
  const rows = await query.execute();
  const instances = await instancesOf(
    db,
    rows.map((row) => row.deployId),
  );
  return rows.map((row) => ({
    deployment: asDeployment(row),
    owner: {
      account: row.accountId,
      email: row.email,
      displayName: row.displayName,
      suspendReason: row.suspendReason,
    },
    instances: instances.get(row.deployId) ?? [],
  }));
}

async function instancesOf(
  db: Db,
  ids: readonly DeploymentId[],
): Promise<ReadonlyMap<DeploymentId, readonly OverseenInstance[]>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom("instance as i")
    .innerJoin("host as h", "h.hostId", "i.hostId")
    .select([
      "i.deployId",
      "i.instanceId as id",
      "i.hostId as host",
      "h.hostname",
      "i.phase",
      "i.restarts",
      "i.gpuUuids",
    ])
    .select(sql<string>`concat_ws(': ', nullif(i.fail_code, ''), nullif(i.fail_message, ''))`.as("trouble"))
    .select(epochMs("i.createdAt").as("createdAtMs"))
    .where(sql<boolean>`i.deploy_id = any(${ids}::text[])`)
    .where("i.tombstonedAt", "is", null)
    .orderBy("i.createdAt")
    .execute();
  const byDeployment = Map.groupBy(rows, (row) => row.deployId);
  return new Map([...byDeployment].map(([id, own]) => [id, own.map(({ deployId: _, ...one }) => one)]));
}
