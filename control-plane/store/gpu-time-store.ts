import { type Kysely, sql, type Transaction } from "kysely";
import {
  type AccountId,
  accountBudget,
  type BudgetId,
  type InstanceId,
  type LeaseId,
  randomId,
} from "../../proto/ids.ts";
import type {
  BudgetRow,
  Discount,
  FoundHold,
  GpuPrice,
  GpuTariff,
  GpuTimeStore,
  KnownMinute,
  Span,
} from "../billing/store.ts";
import { createBudgetMaker } from "./budget-making.ts";
import { lockBudgets, lockLeases, moveBudgets, moveLeases, movingMoney } from "./budget-rows.ts";
import { asking } from "./database.ts";
import { discountOf } from "./discount-rows.ts";
import type { Database } from "./schema.ts";

type Trx = Transaction<Database>;

/** Holder of these leases in the lease table: no replica, so none renews them and none's death ends them. */
const holder = "gpu-time";

export function createGpuTimeStore(db: Kysely<Database>): GpuTimeStore {
  const makeBudgets = createBudgetMaker(db);
  return {
    lookUp: (minutes, host) =>
      asking(async () => {
        const { rows } = await sql<{
          account_id: AccountId | null;
          model_name: string;
          gpu: string;
          gpus: number;
          price_version: bigint | null;
          hour_rate: bigint;
          effective_from: Date;
          surface: string;
          covered: boolean | null;
          lease_id: LeaseId | null;
        }>`
          select d.account_id, d.model_name, d.gpu, case when d.price_subject is null
            then d.num_gpus * coalesce(h.gpu_share, i.gpu_share, 1) else 1 end as gpus, p.price_version, p.hour_rate, p.effective_from,
            case when d.price_subject is null then 'gpu' else 'container' end as surface, h.covered @> m.start_at as covered, h.lease_id
          from unnest(${minutes.map((m) => m.deployId)}::text[], ${minutes.map((m) => m.instance)}::text[],
            ${minutes.map((m) => new Date(m.startMs))}::timestamptz[]) with ordinality
            as m (deploy_id, instance_id, start_at, place)
          left join gpu_hold h on h.instance_id = m.instance_id
          left join instance i on i.instance_id = m.instance_id
          -- The hold remembers where an instance ran when its row is gone already.
          left join deployment d on d.deploy_id = m.deploy_id and d.deploy_id = coalesce(h.deploy_id, i.deploy_id)
            and coalesce(h.host_id, i.host_id) = ${host}
          left join lateral (
            select price_version, hour_rate, effective_from from price
            where kind = case when d.price_subject is null then 'gpu' else 'container' end
              and subject = coalesce(d.price_subject, d.gpu) and effective_from <= m.start_at
            order by effective_from desc, price_version desc limit 1) p on true
          order by m.place`.execute(db);
        const accounts = rows.flatMap((row) => row.account_id ?? []);
        const discounts = accounts.length === 0 ? [] : await discountsOf(db, accounts);
        return rows.map((row): KnownMinute | undefined => {
          if (row.account_id === null) return undefined;
          const { price_version: version, hour_rate: hourRate, effective_from: from } = row;
          return {
            account: row.account_id,
            model: row.model_name,
            gpu: row.gpu,
            gpus: row.gpus,
            tariff: {
              prices: version === null ? [] : [{ version, hourRate, fromMs: from.getTime() }],
              discounts,
              use: { account: row.account_id, model: row.model_name, surface: row.surface },
            },
            isCovered: row.covered ?? false,
            leaseId: row.lease_id ?? undefined,
          };
        });
      }),

    quarantine: (minutes, why) =>
      asking(async () => {
        await db
          .insertInto("usage_quarantine")
          .values(
            minutes.map((minute) => ({
              request_id: minute.id,
              attempt: 1,
              node_epoch: String(minute.nodeEpoch),
              why,
              record: JSON.stringify({ ...minute, nodeEpoch: String(minute.nodeEpoch) }),
            })),
          )
          .onConflict((at) => at.doNothing())
          .execute();
      }),

    noteSettled: (minutes) =>
      asking(async () => {
        await sql`
          with settled as (
            select instance_id, max(start_at) + interval '1 minute' as until
            from unnest(${minutes.map((m) => m.instance)}::text[], ${minutes.map((m) => new Date(m.startMs))}::timestamptz[])
              as m (instance_id, start_at) group by 1
          ), locked as (
            select instance_id, until from gpu_hold join settled using (instance_id)
            where settled_until < until order by instance_id for update of gpu_hold
          )
          update gpu_hold set settled_until = locked.until from locked
          where gpu_hold.instance_id = locked.instance_id`.execute(db);
      }),

    tariff: (gpu, of) => asking(() => tariffOf(db, gpu, of)),

    coveredUntil: (instances) =>
      asking(async () => {
        if (instances.length === 0) return new Map();
        const { rows } = await sql<{ instance_id: InstanceId; until: Date }>`
          select instance_id, upper(covered) as until from gpu_hold
          where instance_id = any(${[...instances]}::text[]) and ended_at is null and not isempty(covered)`.execute(db);
        return new Map(rows.map((row) => [row.instance_id, row.until.getTime()]));
      }),

    async renew(one, months, decide) {
      // A month without a row would have no limit.
      await asking(() => makeBudgets(months));
      return await movingMoney(db, async (trx) => {
        await trx
          .insertInto("gpu_hold")
          .values({
            instance_id: one.instance,
            deploy_id: one.deployId,
            account_id: one.account,
            host_id: (eb) => eb.selectFrom("instance").select("host_id").where("instance_id", "=", one.instance),
            gpu_share: sql<number>`coalesce((select gpu_share from instance where instance_id = ${one.instance}), 1)`,
          })
          .onConflict((at) => at.doNothing())
          .execute();
        const { spans, settledUntilMs, leaseId } = await lockHold(trx, one.instance);
        const account = await trx
          .selectFrom("account as a")
          .leftJoin("deployment as d", (on) =>
            on.onRef("d.account_id", "=", "a.account_id").on("d.deploy_id", "=", one.deployId),
          )
          .select(["a.suspend_reason", (eb) => eb.fn.coalesce("d.model_name", sql<string>`''`).as("model_name")])
          .where("a.account_id", "=", one.account)
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
          room: roomOf(budgets, budgetId, await reservedOf(trx, budgetId)),
          suspendReason: account.suspend_reason,
          tariff: await tariffOf(trx, one.gpu, { account: one.account, model: account.model_name }),
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

    endStopped: (nowMs) =>
      asking(async () => {
        const now = new Date(nowMs);
        const { numAffectedRows } = await sql`
          update gpu_hold set ended_at = ${now},
            covered = covered * tstzmultirange(tstzrange(null, date_trunc('minute', ${now}::timestamptz) + interval '1 minute'))
          where instance_id in (
            select h.instance_id from gpu_hold h where ended_at is null and not exists (
              select from instance i where i.instance_id = h.instance_id and i.phase = 'ready' and i.tombstoned_at is null)
            order by h.instance_id for update)`.execute(db);
        return Number(numAffectedRows ?? 0n);
      }),

    release: (beforeMs) =>
      movingMoney(db, async (trx) => {
        const { rows } = await sql<{ instance_id: string; account_id: string; lease_id: LeaseId }>`
          select instance_id, account_id, lease_id from gpu_hold
          where lease_id is not null and ended_at < ${new Date(beforeMs)} order by instance_id for update`.execute(trx);
        if (rows.length === 0) return 0;
        await lockBudgets(trx, [...new Set(rows.map((row) => accountBudget(row.account_id as AccountId)))].sort());
        const leases = (await lockLeases(trx, rows.map((row) => row.lease_id).sort())).filter((lease) => lease.isOpen);
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
          .updateTable("gpu_hold")
          .set({ lease_id: null })
          .where(
            "instance_id",
            "in",
            rows.map((row) => row.instance_id),
          )
          .execute();
        return rows.length;
      }),
  };
}

/** What all instances of the account have reserved. Sound while its budget is locked: every such lease moves under that lock. */
async function reservedOf(trx: Trx, budgetId: BudgetId): Promise<bigint> {
  const { rows } = await sql<{ reserved: bigint }>`
    select coalesce(sum(granted - settled), 0)::bigint as reserved from lease
    where budget_id = ${budgetId} and replica_id = ${holder} and closed_at is null`.execute(trx);
  return rows[0]?.reserved ?? 0n;
}

/** GPU time is reserved at the account alone: a month's limit must have room beside all that is `reserved` there. */
function roomOf(budgets: readonly BudgetRow[], account: BudgetId, reserved: bigint): bigint | undefined {
  if (!budgets.some((budget) => budget.budgetId === account)) return 0n;
  const rooms = budgets.flatMap(({ budgetId, limit, spent, leased }) =>
    limit === null ? [] : [limit - spent - leased - (budgetId === account ? 0n : reserved)],
  );
  return rooms.reduce<bigint | undefined>(
    (least, room) => (least === undefined || room < least ? room : least),
    undefined,
  );
}

async function tariffOf(
  db: Kysely<Database>,
  gpu: string,
  of: { readonly account: AccountId; readonly model: string },
): Promise<GpuTariff> {
  const rows = await db
    .selectFrom("price")
    .select(["kind", "price_version", "hour_rate", "effective_from"])
    // Their subjects never meet: GPU types are a closed list without colons.
    .where("kind", "in", ["gpu", "container"])
    .where("subject", "=", gpu)
    .orderBy("effective_from", "desc")
    .orderBy("price_version", "desc")
    .execute();
  const prices = rows.map(
    (row): GpuPrice => ({
      version: row.price_version,
      hourRate: row.hour_rate,
      fromMs: row.effective_from.getTime(),
    }),
  );
  const use = { ...of, surface: rows[0]?.kind ?? "gpu" };
  return { prices, discounts: prices.length === 0 ? [] : await discountsOf(db, [of.account]), use };
}

/** Of these accounts and of everybody, for GPU time; ended ones too, since minutes may come late. */
async function discountsOf(db: Kysely<Database>, accounts: readonly AccountId[]): Promise<Discount[]> {
  const rows = await db
    .selectFrom("discount")
    .selectAll()
    .where((eb) => eb.or([eb("account_id", "is", null), eb("account_id", "in", [...new Set(accounts)])]))
    .where((eb) => eb.or([eb("surface", "is", null), eb("surface", "in", ["gpu", "container"])]))
    .execute();
  return rows.map(discountOf);
}

async function lockHold(trx: Trx, instance: InstanceId) {
  const row = await trx
    .selectFrom("gpu_hold")
    .select(["settled_until", "lease_id"])
    .where("instance_id", "=", instance)
    .forUpdate()
    .executeTakeFirstOrThrow();
  const { rows } = await sql<{ from: Date; until: Date }>`
    select lower(span) as from, upper(span) as until from gpu_hold, unnest(covered) as span
    where instance_id = ${instance} order by 1`.execute(trx);
  return {
    settledUntilMs: row.settled_until.getTime(),
    leaseId: row.lease_id as LeaseId | null,
    spans: rows.map((span): Span => ({ fromMs: span.from.getTime(), untilMs: span.until.getTime() })),
  };
}

async function openLease(trx: Trx, budgetId: BudgetId, granted: bigint): Promise<LeaseId> {
  const leaseId = randomId<"lease">(16);
  await trx
    .insertInto("lease")
    .values({
      lease_id: leaseId,
      budget_id: budgetId,
      replica_id: holder,
      replica_epoch: 0n,
      granted,
      expires_at: sql<Date>`'infinity'`,
    })
    .execute();
  return leaseId;
}
