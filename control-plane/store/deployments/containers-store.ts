import { sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { Container, ContainerStore } from "../../containers/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";
import { isListed } from "./deployment-rows.ts";

const rateNow = sql`(select hour_rate from price where kind = 'gpu' and subject = d.gpu and effective_from <= now()
  order by effective_from desc, price_version desc limit 1)`;

export function createContainerStore(db: Db): ContainerStore {
  const rows = (account: AccountId, id: string | undefined) =>
    sql<Container>`
      select d.deploy_id as id, d.model_name as name, d.status, d.fail_reason, d.container->>'image' as image, d.gpu,
        d.num_gpus as gpus, ${epochMs("d.createdAt")} as created_at_ms, ${epochMs("d.updatedAt")} as changed_at_ms,
        ${epochMs("d.deletedAt")} as deleted_at_ms, coalesce(${rateNow} * d.num_gpus, 0) as hour_rate,
        coalesce(i.ssh_address, '') as ssh_address, coalesce(i.ssh_port, 0) as ssh_port,
        exists (select from instance x where x.deploy_id = d.deploy_id) as is_on_host
      from deployment d
      left join lateral (select ssh_address, ssh_port from instance
        where deploy_id = d.deploy_id and tombstoned_at is null order by created_at desc limit 1) i on true
      where d.account_id = ${account} and d.kind = 'container'
        and ${id === undefined ? isListed(account, "container") : sql`d.deploy_id = ${id}`}
      order by d.created_at desc, d.deploy_id`.execute(db);

  return asked<ContainerStore>({
    async get(id, account) {
      return (await rows(account, id)).rows[0];
    },

    list: async (account) => (await rows(account, undefined)).rows,

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

    async hourRates(kind = "gpu") {
      const { rows: found } = await sql<{ subject: string; hourRate: bigint }>`
        select distinct on (subject) subject, hour_rate from price where kind = ${kind} and effective_from <= now()
        order by subject, effective_from desc, price_version desc`.execute(db);
      return new Map(found.map((row) => [row.subject, row.hourRate]));
    },
  });
}
