// A host comes: which epoch it gets, whether this database is the one it obeyed last, whether its identity lives twice.
import { type Selectable, sql, type Transaction } from "kysely";
import type {
  AdoptedHost,
  FleetAct,
  GrantOf,
  Inventory,
  Registered,
  Registration,
  TicketKeySeal,
} from "../fleet/store.ts";
import { adoptInstances } from "./adopt-instances.ts";
import { writeAudit } from "./audit-rows.ts";
import { announce } from "./change-feed.ts";
import { cordonFaulty } from "./gpu-cordons.ts";
import type { Database } from "./schema.ts";

type HostRow = Selectable<Database["host"]>;

const keptRuns = 8;
const cloneAlert =
  "cloned_identity: two agents run with this host's identity, which happens when its disk was copied; the one that came " +
  "last serves. End the copy and remove its folder; if you do not know which it is, revoke the host and join it anew";
const behindCondition =
  "control_plane_behind: the agent has obeyed a newer state than this database holds, so it is told to change nothing; " +
  "adopt the host (`stoker node adopt`) once you are sure that this control plane is the right one";

export async function registerHost(
  trx: Transaction<Database>,
  seal: TicketKeySeal,
  host: Registration,
  leaseMs: number,
): Promise<Registered> {
  const row = await trx
    .selectFrom("host")
    .selectAll()
    .select(sql<boolean>`seen_at > now() - ${leaseMs} * interval '1 millisecond'`.as("is_alive"))
    .where("host_id", "=", host.hostId)
    .forUpdate()
    .executeTakeFirst();
  // A process that was started anew never says an earlier one's name: whoever does was running beside its successor.
  const isClone = row !== undefined && host.runId !== "" && row.superseded_runs.includes(host.runId);
  if (isClone && row.identity_alert === "") await raiseAlert(trx, host);
  if (isClone && row.is_alive) {
    if (row.identity_alert === "") await announce(trx, "host", host.hostId);
    return { kind: "superseded" };
  }
  // The epochs it obeyed were given by a database that went on from where this one was left.
  const isBehind = row ? row.behind_epoch !== null || host.highestEpoch > row.node_epoch : host.highestEpoch > 0n;
  const values = {
    hostname: host.hostname,
    advertise: host.advertise,
    inventory: JSON.stringify(host.inventory),
    ticket_key: seal.seal(host.ticketKey, host.hostId),
    agent_version: host.agentVersion,
    seen_at: new Date(),
    run_id: host.runId,
    run_began_at: row && row.run_id === host.runId ? row.run_began_at : new Date(),
    superseded_runs: supersededBy(host.runId, row),
    node_epoch: isBehind ? (row?.node_epoch ?? 0n) : sql<bigint>`nextval('node_epoch')`,
    ...(isBehind
      ? {
          behind_epoch: largest(host.highestEpoch, row?.behind_epoch ?? 0n),
          behind_generation: largest(host.generation, row?.behind_generation ?? 0n),
          schedulable: false,
          condition: behindCondition,
        }
      : {}),
  };
  const { node_epoch: nodeEpoch } = await trx
    .insertInto("host")
    .values({ host_id: host.hostId, ...values, behind_epoch: values.behind_epoch ?? null })
    .onConflict((at) => at.column("host_id").doUpdateSet({ ...values, revision: (eb) => eb("host.revision", "+", 1n) }))
    .returning("node_epoch")
    .executeTakeFirstOrThrow();
  await cordonFaulty(trx, host.hostId, host.inventory);
  await announce(trx, "host", host.hostId);
  return { kind: "registered", nodeEpoch, isBehind, isClone };
}

/** Undefined when there is nothing to adopt. */
export async function adoptHost(
  trx: Transaction<Database>,
  host: string,
  act: FleetAct,
  grantOf: GrantOf,
): Promise<AdoptedHost | undefined> {
  const row = await trx.selectFrom("host").selectAll().where("host_id", "=", host).forUpdate().executeTakeFirst();
  if (!row || row.behind_epoch === null) return undefined;
  const adopted = await adoptInstances(trx, { ...row, inventory: row.inventory as Inventory }, grantOf);
  const known = new Set<string>(adopted.instances);
  const unknown = row.unknown_instances.filter((one) => !known.has(one.instanceId));
  // A thousand above: whoever draws an epoch in this moment stays above as well.
  await sql`
    select setval('node_epoch', ${row.behind_epoch}::bigint + 1000)
    where ${row.behind_epoch}::bigint >= (select last_value from node_epoch)`.execute(trx);
  await trx
    .updateTable("host")
    .set({
      node_epoch: sql<bigint>`nextval('node_epoch')`,
      generation: largest(row.generation, row.behind_generation) + 1n,
      behind_epoch: null,
      condition: "",
      unknown_instances: JSON.stringify(unknown),
      revision: (eb) => eb("revision", "+", 1n),
    })
    .where("host_id", "=", host)
    .execute();
  await writeAudit(trx, {
    actor: act.by,
    action: "node.adopt",
    subject: host,
    account: null,
    ip: act.ip,
    before: { node_epoch: `${row.node_epoch}`, obeyed_epoch: `${row.behind_epoch}` },
    after: { instances: adopted.instances, left: adopted.left },
    note: act.note,
  });
  for (const deployId of adopted.deployIds) await announce(trx, "deployment", deployId);
  await announce(trx, "host", host);
  return adopted;
}

async function raiseAlert(trx: Transaction<Database>, host: Registration): Promise<void> {
  await trx.updateTable("host").set({ identity_alert: cloneAlert }).where("host_id", "=", host.hostId).execute();
  await writeAudit(trx, {
    actor: "system",
    action: "node.clone",
    subject: host.hostId,
    account: null,
    ip: "",
    after: { hostname: host.hostname, advertise: host.advertise },
    note: "two agents came with the identity of one host",
  });
}

function supersededBy(runId: string, row: Pick<HostRow, "run_id" | "superseded_runs"> | undefined): string[] {
  if (!row || row.run_id === runId || row.run_id === "") return row?.superseded_runs ?? [];
  return [row.run_id, ...row.superseded_runs.filter((run) => run !== runId)].slice(0, keptRuns);
}

const largest = (a: bigint, b: bigint): bigint => (a > b ? a : b);
