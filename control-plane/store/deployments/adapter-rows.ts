// LoRA adapters inside the transactions of others: what hosts are told of them, and what hosts say.
import { type Kysely, type Selectable, sql, type Transaction } from "kysely";
import type { AccountId, AdapterId, DeploymentId } from "../../../proto/ids.ts";
import type { AdapterNews, DesiredAdapter } from "../../deployments/store.ts";
import { announce } from "../core/change-feed.ts";
import type { Database } from "../core/schema.ts";
import { bumpHost } from "./deployment-changes.ts";

/** Served, or on its way. */
export const ended = ["deleted", "failed"] as const;
const coming = ["initializing", "downloading", "deploying"] as const;

/** What the instances of each of these deployments are to hold. */
export async function adaptersOf(
  db: Kysely<Database>,
  deployIds: readonly DeploymentId[] | readonly string[],
): Promise<ReadonlyMap<string, readonly DesiredAdapter[]>> {
  if (deployIds.length === 0) return new Map();
  const rows = await db
    .selectFrom("adapter")
    .select(["adapterId", "accountId", "baseDeployId", "source", "repo", "revision", "file", "url", "token", "commit"])
    .where("baseDeployId", "in", [...deployIds])
    .where("status", "not in", [...ended])
    .where("isWanted", "=", true)
    .orderBy("adapterId")
    .execute();
  const byBase = Map.groupBy(rows, (row) => row.baseDeployId);
  return new Map([...byBase].map(([base, all]) => [base, all.map(asDesired)]));
}

type DesiredRow = Pick<
  Selectable<Database["adapter"]>,
  "adapterId" | "accountId" | "source" | "repo" | "revision" | "file" | "url" | "token" | "commit"
>;

const asDesired = ({ adapterId, accountId, ...rest }: DesiredRow): DesiredAdapter => ({
  ...rest,
  id: adapterId as AdapterId,
  account: accountId as AccountId,
});

/** What a host says of the adapters at one of its instances. True when callers may be served differently now. */
export async function observeAdapters(
  trx: Transaction<Database>,
  { instanceId, deployId, adapters }: Pick<Selectable<Database["instance"]>, "instanceId" | "deployId" | "adapters">,
  news: readonly AdapterNews[],
): Promise<boolean> {
  const held = news.flatMap(({ id, phase }) => (phase === "ready" ? [id] : [])).sort();
  let isOther = held.join() !== [...adapters].sort().join();
  if (isOther) await trx.updateTable("instance").set({ adapters: held }).where("instanceId", "=", instanceId).execute();
  for (const one of news) isOther = (await observeOne(trx, deployId, one)) || isOther;
  return isOther;
}

/** One that was ever served is not failed by the trouble of one host. */
async function observeOne(trx: Transaction<Database>, baseDeployId: string, one: AdapterNews): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable("adapter")
    .set({ ...changeBy(one), updatedAt: sql<Date>`now()` })
    .where("adapterId", "=", one.id)
    // A host speaks of adapters of what it runs.
    .where("baseDeployId", "=", baseDeployId)
    .where("status", "not in", [...ended])
    .where(isNewBy(one))
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

function changeBy({ phase, failCode, failMessage, isFinal, commit }: AdapterNews) {
  switch (phase) {
    case "ready":
      // The first that is held anywhere is what all are to hold.
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

/** Before any adapter's row: the order of everybody who writes both. Returns the hosts. */
export async function lockHostsOf(
  trx: Transaction<Database>,
  deployIds: readonly string[],
): Promise<readonly string[]> {
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

/** The last act of a transaction that changed which adapters are wanted of a deployment. */
export async function tellAdapters(
  trx: Transaction<Database>,
  deployIds: readonly string[],
  hosts: readonly string[],
): Promise<void> {
  for (const host of hosts) await bumpHost(trx, host);
  for (const id of deployIds) await announce(trx, "deployment", id);
  for (const host of hosts) await announce(trx, "host", host);
}
