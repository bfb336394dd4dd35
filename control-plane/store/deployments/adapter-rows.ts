// LoRA adapters within other transactions: what is sent to hosts, and what hosts report.
import { type Selectable, sql } from "kysely";
import type { DeploymentId, HostId } from "../../../proto/ids.ts";
import type { AdapterNews, DesiredAdapter } from "../../deployments/store.ts";
import { announce } from "../core/change-feed.ts";
import { affectsRow } from "../core/rows.ts";
import type { Database, Db, Trx } from "../core/schema.ts";
import { now } from "../core/time.ts";
import { bumpHost } from "./deployment-changes.ts";

export const ended = ["deleted", "failed"] as const;
const coming = ["initializing", "downloading", "deploying"] as const;

/** Adapters that the instances of each of these deployments must hold. */
export async function adaptersOf(
  db: Db,
  deployIds: readonly DeploymentId[],
): Promise<ReadonlyMap<DeploymentId, readonly DesiredAdapter[]>> {
  if (deployIds.length === 0) return new Map();
  const rows = await db
    .selectFrom("adapter")
    .select([
      "adapterId as id",
      "accountId as account",
      "baseDeployId",
      "source",
      "repo",
      "revision",
      "file",
      "url",
      "token",
      "commit",
    ])
    .where("baseDeployId", "in", [...deployIds])
    .where("status", "not in", [...ended])
    .where("isWanted", "=", true)
    .orderBy("adapterId")
    .execute();
  const byBase = Map.groupBy(rows, (row) => row.baseDeployId);
  return new Map([...byBase].map(([base, all]) => [base, all.map(({ baseDeployId: _, ...adapter }) => adapter)]));
}

/** Stores a host's report of the adapters at one of its instances. Returns true when routes change. */
export async function observeAdapters(
  trx: Trx,
  { instanceId, deployId, adapters }: Pick<Selectable<Database["instance"]>, "instanceId" | "deployId" | "adapters">,
  news: readonly AdapterNews[],
): Promise<boolean> {
  const held = news.flatMap(({ id, phase }) => (phase === "ready" ? [id] : [])).sort();
  let isOther = held.join() !== [...adapters].sort().join();
  if (isOther) await trx.updateTable("instance").set({ adapters: held }).where("instanceId", "=", instanceId).execute();
  for (const one of news) isOther = (await observeOne(trx, deployId, one)) || isOther;
  return isOther;
}

/** An error of one host does not fail an adapter that was served before. */
async function observeOne(trx: Trx, baseDeployId: DeploymentId, one: AdapterNews): Promise<boolean> {
  return (
    trx
      .updateTable("adapter")
      .set({ ...changeBy(one), updatedAt: now })
      .where("adapterId", "=", one.id)
      // A host may only report adapters of deployments that it runs.
      .where("baseDeployId", "=", baseDeployId)
      .where("status", "not in", [...ended])
      .where(isNewBy(one))
      .$call(affectsRow)
  );
}

function changeBy({ phase, failCode, failMessage, isFinal, commit }: AdapterNews) {
  switch (phase) {
    case "ready":
      // The first commit that any instance holds is the one that all must hold.
      return {
        status: "deployed" as const,
        failReason: "",
        ...(commit === "" ? {} : { commit: sql<string>`case when "commit" = '' then ${commit} else "commit" end` }),
      };
    case "failed":
      return {
        failReason: `${failCode}: ${failMessage}`,
        ...(isFinal ? { status: sql<"failed">`case when status = 'deployed' then status else 'failed' end` } : {}),
      };
    default:
      return { status: statusIn[phase] };
  }
}

const statusIn = { downloading: "downloading", loading: "deploying" } as const;

function isNewBy({ phase, failCode, failMessage, commit }: AdapterNews) {
  switch (phase) {
    case "ready":
      return sql<boolean>`(status <> 'deployed' or fail_reason <> '' or ("commit" = '' and ${commit} <> ''))`;
    case "failed":
      return sql<boolean>`fail_reason <> ${`${failCode}: ${failMessage}`}`;
    default:
      return sql<boolean>`(status in (${sql.join([...coming])}) and status <> ${statusIn[phase]})`;
  }
}

/** Locks the hosts and returns them. Every writer of hosts and adapters locks hosts first. */
export async function lockHostsOf(trx: Trx, deployIds: readonly DeploymentId[]): Promise<readonly HostId[]> {
  const rows = await trx
    .selectFrom("host")
    .select("hostId")
    .where("hostId", "in", (eb) =>
      eb
        .selectFrom("instance")
        .select("instance.hostId")
        .where("deployId", "in", [...deployIds]),
    )
    .orderBy("hostId")
    .forNoKeyUpdate()
    .execute();
  return rows.map((row) => row.hostId);
}

/** Notifies the hosts; the last step of a transaction that changed the desired adapters of a deployment. */
export async function announceAdapters(
  trx: Trx,
  deployIds: readonly DeploymentId[],
  hosts: readonly HostId[],
): Promise<void> {
  for (const host of hosts) await bumpHost(trx, host);
  await announce(trx, "deployment", ...deployIds);
  await announce(trx, "host", ...hosts);
}
