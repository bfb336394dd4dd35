import { type Kysely, sql } from "kysely";
import { isGpuType } from "../../../proto/gpu.ts";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import type { Container, ContainerStore } from "../../containers/store.ts";
import { asked } from "../core/asked.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import type { Database } from "../core/schema.ts";
import { isListed } from "./deployment-rows.ts";

interface ContainerRow {
  readonly deployId: string;
  readonly modelName: string;
  readonly status: string;
  readonly failReason: string;
  readonly image: string;
  readonly gpu: string;
  readonly numGpus: number;
  readonly hourRate: bigint | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly deletedAt: Date | null;
  readonly sshAddress: string | null;
  readonly sshPort: number | null;
  readonly onHost: boolean;
}

const rateNow = sql`(select hour_rate from price where kind = 'gpu' and subject = d.gpu and effective_from <= now()
  order by effective_from desc, price_version desc limit 1)`;

export function createContainerStore(db: Kysely<Database>): ContainerStore {
  const rows = (account: AccountId, id: string | undefined) =>
    sql<ContainerRow>`
      select d.deploy_id, d.model_name, d.status, d.fail_reason, d.container->>'image' as image, d.gpu, d.num_gpus,
        d.created_at, d.updated_at, d.deleted_at, ${rateNow} * d.num_gpus as hour_rate, i.ssh_address, i.ssh_port,
        exists (select from instance x where x.deploy_id = d.deploy_id) as on_host
      from deployment d
      left join lateral (select ssh_address, ssh_port from instance
        where deploy_id = d.deploy_id and tombstoned_at is null order by created_at desc limit 1) i on true
      where d.account_id = ${account} and d.kind = 'container'
        and ${id === undefined ? isListed(account, "container") : sql`d.deploy_id = ${id}`}
      order by d.created_at desc, d.deploy_id`.execute(db);

  return asked<ContainerStore>({
    async get(id, account) {
      const [row] = (await rows(account, id)).rows;
      return row && asContainer(row);
    },

    list: async (account) => (await rows(account, undefined)).rows.map(asContainer),

    async rename(id, account, name) {
      try {
        return await inTransaction(db, async (trx) => {
          const moved = await trx
            .updateTable("deployment")
            .set((eb) => ({ modelName: name, revision: eb("revision", "+", 1n) }))
            .where("deployId", "=", id)
            .where("accountId", "=", account)
            .where("kind", "=", "container")
            .where("status", "!=", "deleted")
            .executeTakeFirst();
          if (moved.numUpdatedRows === 0n) return "not_found";
          await announce(trx, "deployment", id);
          return "renamed";
        });
      } catch (error) {
        if (uniqueViolation(error) === "deployment_name") return "name_taken";
        throw error;
      }
    },

    async hourRates() {
      const { rows: found } = await sql<{ subject: string; hourRate: bigint }>`
        select distinct on (subject) subject, hour_rate from price where kind = 'gpu' and effective_from <= now()
        order by subject, effective_from desc, price_version desc`.execute(db);
      return new Map(found.map((row) => [row.subject, row.hourRate]));
    },
  });
}

function asContainer(row: ContainerRow): Container {
  return {
    id: row.deployId as DeploymentId,
    name: row.modelName,
    status: row.status as Container["status"],
    failReason: row.failReason,
    image: row.image,
    gpu: isGpuType(row.gpu) ? row.gpu : "other",
    gpus: row.numGpus,
    hourRate: row.hourRate ?? 0n,
    createdAtMs: row.createdAt.getTime(),
    changedAtMs: row.updatedAt.getTime(),
    deletedAtMs: row.deletedAt?.getTime() ?? null,
    sshAddress: row.sshAddress ?? "",
    sshPort: row.sshPort ?? 0,
    isOnHost: row.onHost,
  };
}
