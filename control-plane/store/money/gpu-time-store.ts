import { sql } from "kysely";
import { asleepMinuteId, gpuMinuteId, minuteMs, minuteOf } from "../../../proto/gpu-minute.ts";
import {
  type AccountId,
  accountBudget,
  type BudgetId,
  type InstanceId,
  type LeaseId,
  randomId,
} from "../../../proto/ids.ts";
import type {
  BudgetRow,
  Discount,
  FoundHold,
  GpuMinute,
  GpuPrice,
  GpuTariff,
  GpuTimeStore,
  KnownMinute,
  Span,
} from "../../billing/store.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";
import { isServingRow } from "../deployments/deployment-rows.ts";
import { createBudgetMaker, lockBudgets, lockLeases, moveBudgets, moveLeases } from "./budget-rows.ts";
import { discountColumns } from "./price-store.ts";

/** Holder of these leases in the lease table: no replica, so none renews them and none's death ends them. */
const holder = "gpu-time";

/** Record of the other kind (awake or asleep) of the same minute. */
const otherIdOf = ({ instance, startMs, isAsleep }: GpuMinute) =>
  (isAsleep ? gpuMinuteId : asleepMinuteId)(instance, startMs);

export function createGpuTimeStore(db: Db): GpuTimeStore {
  const makeBudgets = createBudgetMaker(db);
  return asked<GpuTimeStore>({
    async lookUp(minutes, host) {
      const { rows } = await sql<{
        accountId: AccountId | null;
        modelName: string;
        gpu: string;
        gpus: number;
        priceVersion: bigint | null;
        hourRate: bigint;
        effectiveFrom: Date;
        surface: string;
        covered: boolean | null;
        expired: boolean;
        leaseId: LeaseId | null;
        otherMs: number;
        createdAt: Date;
        endedAt: Date | null;
      }>`
        select d.account_id, d.model_name, d.gpu, case when d.price_subject is null
          then d.num_gpus * coalesce(h.gpu_share, i.gpu_share, 1) else 1 end as gpus, p.price_version, p.hour_rate, p.effective_from,
          case when d.price_subject is null then 'gpu' else 'container' end as surface, h.covered @> m.start_at as covered, h.lease_id,
          exists (select from usage_retention where m.start_at < expired_before) as expired,
          coalesce((select u.total_ms from usage u
            where u.request_id = m.other_id and u.attempt = 1 and u.admitted_at = m.start_at), 0)::float8 as other_ms,
          -- Without its row an instance is at most an hour older than its hold: it may have become ready during an outage.
          coalesce(i.created_at, lower(h.covered) - interval '1 hour', h.ended_at - interval '1 hour', now()) as created_at,
          case when i.instance_id is null then coalesce(e.ended_at, h.ended_at) end as ended_at
        from unnest(${minutes.map((m) => m.deployId)}::text[], ${minutes.map((m) => m.instance)}::text[],
          ${minutes.map((m) => new Date(m.startMs))}::timestamptz[], ${minutes.map((m) => m.isAsleep)}::boolean[],
          ${minutes.map(otherIdOf)}::text[]) with ordinality
          as m (deploy_id, instance_id, start_at, is_asleep, other_id, place)
        left join gpu_hold h on h.instance_id = m.instance_id
        left join instance i on i.instance_id = m.instance_id
        left join ended_instance e on e.instance_id = m.instance_id
        -- The hold remembers where an instance ran when its row is gone already.
        left join deployment d on d.deploy_id = m.deploy_id and d.deploy_id = coalesce(h.deploy_id, i.deploy_id)
          and coalesce(h.host_id, i.host_id) = ${host}
        left join lateral (
          select price_version, hour_rate, effective_from from price
          where kind = case when m.is_asleep then 'gpu_asleep' when d.price_subject is null then 'gpu' else 'container' end
            and subject = coalesce(d.price_subject, d.gpu) and effective_from <= m.start_at
          order by effective_from desc, price_version desc limit 1) p on true
        order by m.place`.execute(db);
      const accounts = rows.flatMap((row) => row.accountId ?? []);
      const discounts = accounts.length === 0 ? [] : await discountsOf(db, accounts);
      return rows.map((row): KnownMinute | undefined => {
        if (row.accountId === null) return undefined;
        const { priceVersion: version, hourRate, effectiveFrom: from } = row;
        return {
          account: row.accountId,
          model: row.modelName,
          gpu: row.gpu,
          gpus: row.gpus,
          tariff: {
            prices: version === null ? [] : [{ version, hourRate, fromMs: from.getTime() }],
            discounts,
            use: { account: row.accountId, model: row.modelName, surface: row.surface },
          },
          isCovered: row.covered ?? false,
          isExpired: row.expired,
          leaseId: row.leaseId ?? undefined,
          otherMs: row.otherMs,
          createdMs: row.createdAt.getTime(),
          endedMs: row.endedAt?.getTime(),
        };
      });
    },

    async noteSettled(minutes, nowMs) {
      await sql`
        with settled as (
          select instance_id, max(start_at) + interval '1 minute' as until
          from unnest(${minutes.map((m) => m.instance)}::text[], ${minutes.map((m) => new Date(m.startMs))}::timestamptz[])
            as m (instance_id, start_at) group by 1
        ), locked as (
          select instance_id, least(until, upper(covered), ${new Date(minuteOf(nowMs) + minuteMs)}) as until
          from gpu_hold join settled using (instance_id)
          where settled_until < until order by instance_id for update of gpu_hold
        )
        update gpu_hold set settled_until = greatest(settled_until, locked.until) from locked
        where gpu_hold.instance_id = locked.instance_id`.execute(db);
    },

    tariff: (gpu, of) => tariffOf(db, gpu, of),

    async coveredUntil(instances) {
      if (instances.length === 0) return new Map();
      const { rows } = await sql<{ instanceId: InstanceId; until: Date }>`
        select instance_id, upper(covered) as until from gpu_hold
        where instance_id = any(${[...instances]}::text[]) and ended_at is null and not isempty(covered)`.execute(db);
      return new Map(rows.map((row) => [row.instanceId, row.until.getTime()]));
    },

    async renew(one, months, decide) {
      // A month without a row would have no limit.
      await makeBudgets(months);
      return await inTransaction(db, async (trx) => {
        await trx
          .insertInto("gpuHold")
          .values({
            instanceId: one.instance,
            deployId: one.deployId,
            accountId: one.account,
            hostId: (eb) => eb.selectFrom("instance").select("hostId").where("instanceId", "=", one.instance),
            gpuShare: sql<number>`coalesce((select gpu_share from instance where instance_id = ${one.instance}), 1)`,
          })
          .onConflict((at) => at.doNothing())
          .execute();
        const { spans, settledUntilMs, leaseId } = await lockHold(trx, one.instance);
        const account = await trx
          .selectFrom("account as a")
          .leftJoin("deployment as d", (on) =>
            on.onRef("d.accountId", "=", "a.accountId").on("d.deployId", "=", one.deployId),
          )
          .select(["a.suspendReason", (eb) => eb.fn.coalesce("d.modelName", sql<string>`''`).as("modelName")])
          .where("a.accountId", "=", one.account)
          .executeTakeFirstOrThrow();
        const budgetId = accountBudget(one.account);
        const budgets = await lockBudgets(trx, [budgetId, ...months.map((month) => month.budgetId)].sort());
        const [lease] = leaseId ? await lockLeases(trx, [leaseId]) : [];
        const open = lease?.isOpen ? lease : undefined;
        const reserved = open ? open.granted - open.settled : 0n;
        const verdict = decide({
          covered: spans,
          settledUntilMs,
          reserved,
          available: availableOf(budgets, budgetId, await reservedOf(trx, budgetId)),
          suspendReason: account.suspendReason,
          tariff: await tariffOf(trx, one.gpu, { account: one.account, model: account.modelName }),
        } satisfies FoundHold);
        if (verdict.kind === "refused") return verdict;
        const more = verdict.reserve - reserved;
        let held = open?.leaseId;
        if (held && more !== 0n) await moveLeases(trx, [{ leaseId: held, granted: more }]);
        else if (!held && more > 0n) held = await openLease(trx, budgetId, more);
        if (more !== 0n) await moveBudgets(trx, [{ budgetId, spent: 0n, leased: more }]);
        const { fromMs, untilMs } = verdict.cover;
        await sql`
          update gpu_hold set lease_id = ${held ?? null}, ended_at = null,
            covered = covered + tstzmultirange(tstzrange(${new Date(fromMs)}, ${new Date(untilMs)}))
          where instance_id = ${one.instance}`.execute(trx);
        return verdict;
      });
    },

    async endStopped(nowMs) {
      const now = new Date(nowMs);
      const { numAffectedRows } = await sql`
        update gpu_hold set ended_at = ${now},
          covered = covered * tstzmultirange(tstzrange(null, date_trunc('minute', ${now}::timestamptz) + interval '1 minute'))
        where instance_id in (
          select h.instance_id from gpu_hold h where ended_at is null and not exists (
            select from instance i where i.instance_id = h.instance_id and ${isServingRow} and i.tombstoned_at is null)
          order by h.instance_id for update)`.execute(db);
      return Number(numAffectedRows ?? 0n);
    },

    release: (beforeMs) =>
      inTransaction(db, async (trx) => {
        const { rows } = await sql<{ instanceId: InstanceId; accountId: AccountId; leaseId: LeaseId }>`
          select instance_id, account_id, lease_id from gpu_hold
          where lease_id is not null and ended_at < ${new Date(beforeMs)} order by instance_id for update`.execute(trx);
        if (rows.length === 0) return 0;
        await lockBudgets(trx, [...new Set(rows.map((row) => accountBudget(row.accountId)))].sort());
        const leases = (await lockLeases(trx, rows.map((row) => row.leaseId).sort())).filter((lease) => lease.isOpen);
        const left = leases.map((lease) => ({ ...lease, left: lease.granted - lease.settled }));
        await moveLeases(
          trx,
          left.map(({ leaseId, left }) => ({ leaseId, granted: -left, why: "idle" })),
        );
        const byBudget = Map.groupBy(left, (lease) => lease.budgetId);
        await moveBudgets(
          trx,
          [...byBudget].map(([budgetId, of]) => ({
            budgetId,
            spent: 0n,
            leased: -of.reduce((sum, one) => sum + one.left, 0n),
          })),
        );
        await trx
          .updateTable("gpuHold")
          .set({ leaseId: null })
          .where(
            "instanceId",
            "in",
            rows.map((row) => row.instanceId),
          )
          .execute();
        return rows.length;
      }),
  });
}

/** Amount that all instances of the account have reserved. Exact while its budget is locked: every such lease moves under that lock. */
async function reservedOf(trx: Trx, budgetId: BudgetId): Promise<bigint> {
  const { rows } = await sql<{ reserved: bigint }>`
    select coalesce(sum(granted - settled), 0)::bigint as reserved from lease
    where budget_id = ${budgetId} and replica_id = ${holder} and closed_at is null`.execute(trx);
  return rows[0]?.reserved ?? 0n;
}

/** GPU time is reserved only at the account: a month's limit must cover its own use and all that is `reserved` there. */
function availableOf(budgets: readonly BudgetRow[], account: BudgetId, reserved: bigint): bigint | undefined {
  if (!budgets.some((budget) => budget.budgetId === account)) return 0n;
  const available = budgets.flatMap(({ budgetId, limit, spent, leased }) =>
    limit === null ? [] : [limit - spent - leased - (budgetId === account ? 0n : reserved)],
  );
  return available.reduce<bigint | undefined>(
    (min, amount) => (min === undefined || amount < min ? amount : min),
    undefined,
  );
}

async function tariffOf(
  db: Db,
  gpu: string,
  of: { readonly account: AccountId; readonly model: string },
): Promise<GpuTariff> {
  const rows = await db
    .selectFrom("price")
    .select(["kind", "priceVersion", "hourRate", "effectiveFrom"])
    // Their subjects never meet: GPU types are a closed list without colons.
    .where("kind", "in", ["gpu", "container"])
    .where("subject", "=", gpu)
    .orderBy("effectiveFrom", "desc")
    .orderBy("priceVersion", "desc")
    .execute();
  const prices = rows.map(
    (row): GpuPrice => ({
      version: row.priceVersion,
      hourRate: row.hourRate,
      fromMs: row.effectiveFrom.getTime(),
    }),
  );
  const use = { ...of, surface: rows[0]?.kind ?? "gpu" };
  return { prices, discounts: prices.length === 0 ? [] : await discountsOf(db, [of.account]), use };
}

/** Discounts of these accounts and of all accounts for GPU time, including ended ones: minutes may arrive late. */
const discountsOf = (db: Db, accounts: readonly AccountId[]): Promise<Discount[]> =>
  db
    .selectFrom("discount")
    .select(discountColumns)
    .where((eb) => eb.or([eb("accountId", "is", null), eb("accountId", "in", [...new Set(accounts)])]))
    .where((eb) => eb.or([eb("surface", "is", null), eb("surface", "in", ["gpu", "container"])]))
    .execute();

async function lockHold(trx: Trx, instance: InstanceId) {
  const row = await trx
    .selectFrom("gpuHold")
    .select(["settledUntil", "leaseId"])
    .where("instanceId", "=", instance)
    .forUpdate()
    .executeTakeFirstOrThrow();
  const { rows } = await sql<{ from: Date; until: Date }>`
    select lower(span) as from, upper(span) as until from gpu_hold, unnest(covered) as span
    where instance_id = ${instance} order by 1`.execute(trx);
  return {
    settledUntilMs: row.settledUntil.getTime(),
    leaseId: row.leaseId,
    spans: rows.map((span): Span => ({ fromMs: span.from.getTime(), untilMs: span.until.getTime() })),
  };
}

async function openLease(trx: Trx, budgetId: BudgetId, granted: bigint): Promise<LeaseId> {
  const leaseId = randomId<"lease">(16);
  await trx
    .insertInto("lease")
    .values({
      leaseId: leaseId,
      budgetId: budgetId,
      replicaId: holder,
      replicaEpoch: 0n,
      granted,
      expiresAt: sql<Date>`'infinity'`,
    })
    .execute();
  return leaseId;
}
