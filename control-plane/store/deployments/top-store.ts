// What models, customers and hosts use now.
import { sql } from "kysely";
import type { BusyHost, Holding, NamedDeployment, TopStore, Traffic } from "../../oversight/store.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { hostSamples } from "../fleet/host-samples.ts";

/** A host that reported within this time counts. */
const freshMs = 15_000;

export function createTopStore(db: Db): TopStore {
  return asked<TopStore>({
    async traffic(by) {
      const label = sql.ref(by === "model" ? "model" : "account_id");
      const other = sql.ref(by === "model" ? "account_id" : "model");
      const isPresent = sql`at >= date_trunc('minute', now()) - interval '1 minute'`;
      const { rows } = await sql<Traffic>`
        select ${label} as label, (60 + extract(epoch from now() - date_trunc('minute', now())))::float8 as seconds,
          coalesce(sum(requests) filter (where ${isPresent}), 0)::float8 as requests,
          coalesce(sum(client_errors + server_errors) filter (where ${isPresent}), 0)::float8 as errors,
          coalesce(sum(output_tokens) filter (where ${isPresent}), 0)::float8 as output_tokens, sum(spend)::bigint as spend
        from request_series where step = 1 and at >= now() - interval '1 hour' and ${label} <> '' and ${other} = ''
        group by 1`.execute(db);
      return rows;
    },

    async holdings(by) {
      const label = sql.ref(by === "deployment" ? "i.deploy_id" : "i.account_id");
      const { rows } = await sql<Holding>`
        with reported as (
          select host_id, live from host where live is not null and reported_at > now() - make_interval(secs => ${freshMs / 1000})
        ), gpu as (
          select host_id, g->>'uuid' as uuid, max(host_figure(g->'utilizationRatio')) as use
          from reported, jsonb_array_elements(live->'gpus') g group by 1, 2
        ), load as (
          select ${label} as label, sum(host_figure(e->'inFlight')) as running, sum(host_figure(e->'waiting')) as waiting
          from reported r, jsonb_array_elements(r.live->'instances') e, instance i
          where i.instance_id = e->>'instanceId' and i.host_id = r.host_id and i.tombstoned_at is null group by 1
        ), held as (
          select label, count(*) as gpus, avg(use) as gpu_use from (
            select distinct ${label} as label, i.host_id, u.uuid from instance i, unnest(i.gpu_uuids) u (uuid)
            where i.tombstoned_at is null
          ) each left join gpu using (host_id, uuid) group by label
        )
        select label, coalesce(gpus, 0)::float8 as gpus, gpu_use, coalesce(running, 0) as running, coalesce(waiting, 0) as waiting
        from held full join load using (label)`.execute(db);
      return rows;
    },

    async deployments(ids, names) {
      const { rows } = await sql<Omit<NamedDeployment, "owner"> & NamedDeployment["owner"]>`
        select d.deploy_id as id, d.kind, array_prepend(d.model_name, array(
            select p.model_name from public_model p where p.deploy_id = d.deploy_id order by p.model_name)) as names,
          d.account_id as account, a.email
        from deployment d join account a using (account_id)
        where d.status <> 'deleted' and (d.deploy_id = any(${[...ids]}::text[]) or d.model_name = any(${[...names]}::text[])
          or d.deploy_id in (select deploy_id from public_model where model_name = any(${[...names]}::text[])))`.execute(
        db,
      );
      return rows.map(({ account, email, ...one }) => ({ ...one, owner: { account, email } }));
    },

    async emails(accounts) {
      const { rows } = await sql<{ accountId: string; email: string }>`
        select account_id, email from account where account_id = any(${[...accounts]}::text[])`.execute(db);
      return new Map(rows.map((row) => [row.accountId, row.email]));
    },

    async hosts() {
      const { rows } = await sql<BusyHost>`
        ${hostSamples(freshMs)}
        select host_id as id, hostname as name, gpus_held::float8, gpu_use, running, waiting, tokens_per_second
        from sample join host using (host_id)`.execute(db);
      return rows;
    },
  });
}
