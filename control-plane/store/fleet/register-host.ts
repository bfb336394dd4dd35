// Registers a host: issues its epoch, detects a database older than the host's state, and two agents with one identity.
import { type Selectable, sql } from "kysely";
import type { HostId } from "../../../proto/ids.ts";
import type { AdoptedHost, FleetAct, GrantOf, Registered, Registration, TicketKeySeal } from "../../fleet/store.ts";
import { announce } from "../core/change-feed.ts";
import type { Database, Trx } from "../core/schema.ts";
import { auditAct, writeAudit } from "../people/audit-rows.ts";
import { adoptInstances } from "./adopt-instances.ts";
import { cordonFaulty } from "./gpu-cordons.ts";

type HostRow = Selectable<Database["host"]>;

const keptRuns = 8;
const cloneAlert =
  "cloned_identity: two agents use this host's identity, because its disk was copied; the last one that registered serves. " +
  "Stop the copy and remove its folder; if you do not know which one it is, revoke the host and join it again";
const behindCondition =
  "control_plane_behind: the agent has applied a newer state than this database has, so nothing changes there; " +
  "adopt the host (`stoker node adopt`) if this control plane is the right one";

export async function registerHost(
  trx: Trx,
  seal: TicketKeySeal,
  host: Registration,
  leaseMs: number,
): Promise<Registered> {
  const row = await trx
    .selectFrom("host")
    .selectAll()
    .select(sql<boolean>`seen_at > now() - ${leaseMs} * interval '1 millisecond'`.as("isAlive"))
    .where("hostId", "=", host.hostId)
    .forUpdate()
    .executeTakeFirst();
  // Each process has its own run id: a superseded run that returns was running beside its successor.
  const isClone = row !== undefined && host.runId !== "" && row.supersededRuns.includes(host.runId);
  if (isClone && row.identityAlert === "") await raiseAlert(trx, host);
  if (isClone && row.isAlive) {
    if (row.identityAlert === "") await announce(trx, "host", host.hostId);
    return { kind: "superseded" };
  }
  // A higher epoch was issued by a database that continued after the restored backup.
  const isBehind = row ? row.behindEpoch !== null || host.highestEpoch > row.nodeEpoch : host.highestEpoch > 0n;
  const values = {
    hostname: host.hostname,
    advertise: host.advertise,
    inventory: JSON.stringify(host.inventory),
    ticketKey: seal.seal(host.ticketKey, host.hostId),
    agentVersion: host.agentVersion,
    seenAt: new Date(),
    runId: host.runId,
    runBeganAt: row && row.runId === host.runId ? row.runBeganAt : new Date(),
    supersededRuns: supersededBy(host.runId, row),
    nodeEpoch: isBehind ? (row?.nodeEpoch ?? 0n) : sql<bigint>`nextval('node_epoch')`,
    ...(isBehind
      ? {
          behindEpoch: largest(host.highestEpoch, row?.behindEpoch ?? 0n),
          behindGeneration: largest(host.generation, row?.behindGeneration ?? 0n),
          schedulable: false,
          condition: behindCondition,
        }
      : {}),
  };
  const { nodeEpoch } = await trx
    .insertInto("host")
    .values({ hostId: host.hostId, ...values, behindEpoch: values.behindEpoch ?? null })
    .onConflict((at) => at.column("hostId").doUpdateSet({ ...values, revision: (eb) => eb("host.revision", "+", 1n) }))
    .returning("nodeEpoch")
    .executeTakeFirstOrThrow();
  await cordonFaulty(trx, host.hostId, host.inventory);
  await announce(trx, "host", host.hostId);
  return { kind: "registered", nodeEpoch, isBehind, isClone };
}

/** Undefined when there is nothing to adopt. */
export async function adoptHost(
  trx: Trx,
  host: HostId,
  act: FleetAct,
  grantOf: GrantOf,
): Promise<AdoptedHost | undefined> {
  const row = await trx.selectFrom("host").selectAll().where("hostId", "=", host).forUpdate().executeTakeFirst();
  if (!row || row.behindEpoch === null) return undefined;
  const adopted = await adoptInstances(trx, row, grantOf);
  const known = new Set<string>(adopted.instances);
  const unknown = row.unknownInstances.filter((one) => !known.has(one.instanceId));
  // 1,000 above, so that epochs issued concurrently are also higher.
  await sql`
    select setval('node_epoch', ${row.behindEpoch}::bigint + 1000)
    where ${row.behindEpoch}::bigint >= (select last_value from node_epoch)`.execute(trx);
  await trx
    .updateTable("host")
    .set({
      nodeEpoch: sql<bigint>`nextval('node_epoch')`,
      generation: largest(row.generation, row.behindGeneration) + 1n,
      behindEpoch: null,
      condition: "",
      unknownInstances: JSON.stringify(unknown),
      revision: (eb) => eb("revision", "+", 1n),
    })
    .where("hostId", "=", host)
    .execute();
  await auditAct(trx, act, {
    action: "node.adopt",
    subject: host,
    account: null,
    before: { node_epoch: `${row.nodeEpoch}`, obeyed_epoch: `${row.behindEpoch}` },
    after: { instances: adopted.instances, left: adopted.left },
  });
  for (const deployId of adopted.deployIds) await announce(trx, "deployment", deployId);
  await announce(trx, "host", host);
  return adopted;
}

async function raiseAlert(trx: Trx, host: Registration): Promise<void> {
  await trx.updateTable("host").set({ identityAlert: cloneAlert }).where("hostId", "=", host.hostId).execute();
  await writeAudit(trx, {
    actor: "system",
    action: "node.clone",
    subject: host.hostId,
    account: null,
    ip: "",
    after: { hostname: host.hostname, advertise: host.advertise },
    note: "two agents registered with the identity of one host",
  });
}

function supersededBy(runId: string, row: Pick<HostRow, "runId" | "supersededRuns"> | undefined): string[] {
  if (!row || row.runId === runId || row.runId === "") return row?.supersededRuns ?? [];
  return [row.runId, ...row.supersededRuns.filter((run) => run !== runId)].slice(0, keptRuns);
}

const largest = (a: bigint, b: bigint): bigint => (a > b ? a : b);
