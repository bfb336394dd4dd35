import { sql } from "kysely";
import type { AccountId, BudgetId, LeaseId, ReplicaId, RequestId } from "../../../proto/ids.ts";
import type { GivenBack, GrantSizes, LeaseState, LeaseStore, Replica } from "../../billing/store.ts";
import { auditSystem } from "../accounts/audit-rows.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";
import {
  createBudgetMaker,
  type LeaseMove,
  type LockedBudget,
  type LockedLease,
  lockBudgets,
  lockLeases,
  moveBudgets,
  moveLeases,
} from "./budget-rows.ts";

/** At most this many leases in one sweep. */
const sweepLimit = 500;

export function createLeaseStore(db: Db): LeaseStore {
  const makeBudgets = createBudgetMaker(db);
  return asked<LeaseStore>({
    async registerReplica(id) {
      const { rows } = await sql<{ epoch: bigint }>`
        insert into replica (replica_id, epoch) values (${id}, nextval('replica_epoch')) returning epoch`.execute(db);
      return { id, epoch: rows[0]?.epoch ?? 0n };
    },

    async touchReplica(replica) {
      await sql`update replica set seen_at = now() where replica_id = ${replica.id}`.execute(db);
    },

    async grant(replica, scopes, ttlMs, size) {
      await makeBudgets(scopes.map((scope) => scope.budget));
      return await inTransaction(db, async (trx) => {
        const ids = scopes.map((scope) => scope.budget.budgetId);
        const budgets = new Map((await lockBudgets(trx, ids)).map((budget) => [budget.budgetId, budget]));
        const [first] = scopes;
        const isProvider = first?.budget.provider !== undefined;
        const reason = isProvider ? null : await suspendReason(trx, first?.budget.account);
        if (reason !== null) return { kind: "suspended", reason } as const;
        const leases = await lockLeases(
          trx,
          scopes.filter((s) => !s.isNew).map((s) => s.leaseId),
        );
        const alive = new Set(leases.filter((lease) => isOurs(lease, replica)).map((lease) => lease.leaseId));
        const gone = scopes.filter((scope) => !scope.isNew && !alive.has(scope.leaseId));
        if (gone.length > 0) return { kind: "gone", leaseIds: gone.map((scope) => scope.leaseId) } as const;
        const available = ids.map((id) => availableOf(budgets.get(id)));
        const sizes = size(scopes.map(({ free }, i) => ({ free, available: available[i] })));
        await noteSignIn(trx, [...budgets.values()], sizes.refusal, ids);
        const amounts = sizes.amounts.map((amount, i) => {
          const max = available[i];
          return max !== undefined && amount > max ? max : amount;
        });
        const granted = scopes.map((scope, i) => ({ ...scope, amount: amounts[i] ?? 0n })).filter((s) => s.amount > 0n);
        await moveBudgets(
          trx,
          granted.map((s) => ({ budgetId: s.budget.budgetId, spent: 0n, leased: s.amount })),
        );
        await moveLeases(
          trx,
          granted.filter((s) => !s.isNew).map((s) => ({ leaseId: s.leaseId, granted: s.amount })),
        );
        const fresh = granted.filter((s) => s.isNew);
        if (fresh.length > 0) {
          await trx
            .insertInto("lease")
            .values(
              fresh.map((s) => ({
                leaseId: s.leaseId,
                budgetId: s.budget.budgetId,
                replicaId: replica.id,
                replicaEpoch: replica.epoch,
                granted: s.amount,
                expiresAt: sql<Date>`now() + make_interval(secs => ${ttlMs / 1000})`,
              })),
            )
            .execute();
        }
        return { kind: "granted", amounts } as const;
      });
    },

    async sync(replica, leaseIds, requests, ttlMs) {
      // One statement, one snapshot: a record that it sees is inside the `settled` that it returns.
      const { rows } = await sql<{ leases: StateRow[] | null; recorded: Record<RequestId, number[]> | null }>`
        with mine as (
          select lease_id from lease where lease_id = any(${[...leaseIds]}::text[]) and replica_id = ${replica.id}
            and replica_epoch = ${replica.epoch.toString()} and closed_at is null order by lease_id for update
        ), renewed as (
          update lease set expires_at = now() + make_interval(secs => ${ttlMs / 1000})
          from mine where lease.lease_id = mine.lease_id
          returning lease.lease_id, lease.granted::text as granted, lease.settled::text as settled
        ), recorded as (
          select request_id, json_agg(attempt) as attempts from usage
          where request_id = any(${[...requests]}::text[]) and admitted_at > now() - interval '2 days' group by request_id
        )
        select (select json_agg(renewed) from renewed) as leases,
          (select json_object_agg(request_id, attempts) from recorded) as recorded`.execute(db);
      const row = rows[0];
      return {
        leases: (row?.leases ?? []).map(
          (state): LeaseState => ({
            leaseId: state.lease_id,
            granted: BigInt(state.granted),
            settled: BigInt(state.settled),
          }),
        ),
        recorded: new Map(Object.entries(row?.recorded ?? {}) as [RequestId, number[]][]),
      };
    },

    giveBack: (replica, items, why) =>
      inTransaction(db, async (trx) => {
        const asked = new Map(items.map((item) => [item.leaseId, item]));
        await lockBudgets(trx, [...new Set(items.map((item) => item.budgetId))].sort());
        const leases = (await lockLeases(trx, [...asked.keys()])).filter((lease) => isOurs(lease, replica));
        return await giveUp(trx, leases, (lease, left) => {
          const item = asked.get(lease.leaseId);
          const amount = item && item.amount < left ? item.amount : left;
          return { amount, why: item?.mayClose && amount === left ? why : undefined };
        });
      }),

    async expiredLeases(graceMs) {
      const { rows } = await sql<{ leaseId: LeaseId }>`
        select lease_id from lease where closed_at is null and expires_at < now() - make_interval(secs => ${graceMs / 1000})
        order by expires_at limit ${sweepLimit}`.execute(db);
      return rows.map((row) => row.leaseId);
    },

    closeExpired: (leaseIds, graceMs, voided) =>
      inTransaction(db, async (trx) => {
        const owners = await trx
          .selectFrom("lease")
          .select("budgetId")
          .where("leaseId", "in", [...leaseIds])
          .execute();
        await lockBudgets(trx, [...new Set(owners.map((owner) => owner.budgetId))].sort());
        const leases = (await lockLeases(trx, leaseIds, graceMs)).filter((lease) => lease.isOpen && lease.isExpired);
        const given = await giveUp(trx, leases, (_, left) => ({ amount: left, why: "dead" }));
        for (const { leaseId, given: amount } of given) {
          const host = voided.get(leaseId);
          if (host !== undefined) await auditVoid(trx, leaseId, host, amount);
        }
        return given;
      }),
  });
}

async function auditVoid(trx: Trx, lease: LeaseId, host: string, amount: bigint): Promise<void> {
  const owner = await trx
    .selectFrom("lease as l")
    .innerJoin("budget as b", "b.budgetId", "l.budgetId")
    .select("b.accountId")
    .where("l.leaseId", "=", lease)
    .executeTakeFirst();
  await auditSystem(trx, {
    action: "lease.void",
    subject: lease,
    account: owner?.accountId ?? null,
    after: { host, given_nano_usd: String(amount) },
    note: "the host that reported requests on it has been silent for 24 hours",
  });
}

/** Inside JSON. */
interface StateRow {
  readonly lease_id: LeaseId;
  readonly granted: string;
  readonly settled: string;
}

const isOurs = (lease: LockedLease, replica: Replica): boolean =>
  lease.isOpen && lease.replicaId === (replica.id as ReplicaId) && lease.replicaEpoch === replica.epoch;

/** Null: it may spend. A deleted account, or none, may not. */
async function suspendReason(trx: Trx, account: AccountId | undefined): Promise<string | null> {
  const row = await trx
    .selectFrom("account")
    .select(["suspendReason", "deletedAt"])
    .where("accountId", "=", account ?? ("" as AccountId))
    .executeTakeFirst();
  // Without a row there is no budget either, and nothing available.
  return row?.deletedAt ? "admin" : (row?.suspendReason ?? null);
}

/** Checklists show it: see refusalReasonOf in billing/status-reasons.ts. Writes only what changes. */
async function noteSignIn(
  trx: Trx,
  budgets: readonly LockedBudget[],
  refusal: GrantSizes["refusal"],
  ids: readonly BudgetId[],
): Promise<void> {
  if (refusal === undefined) return;
  const refusing = refusal && ids[refusal.scope];
  const floor = refusal?.floor ?? null;
  const changed = budgets.filter(
    ({ budgetId, refusedFloor }) => (refusal === null || budgetId === refusing) && refusedFloor !== floor,
  );
  if (changed.length === 0) return;
  await trx
    .updateTable("budget")
    .set({ refusedFloor: floor })
    .where(
      "budgetId",
      "in",
      changed.map(({ budgetId }) => budgetId),
    )
    .execute();
}

/** 0 without a budget; undefined without a limit. */
function availableOf(budget: { limit: bigint | null; spent: bigint; leased: bigint } | undefined): bigint | undefined {
  if (!budget) return 0n;
  if (budget.limit === null) return undefined;
  const available = budget.limit - budget.spent - budget.leased;
  return available > 0n ? available : 0n;
}

async function giveUp(
  trx: Parameters<typeof moveLeases>[0],
  leases: readonly LockedLease[],
  decide: (lease: LockedLease, left: bigint) => { readonly amount: bigint; readonly why: string | undefined },
): Promise<GivenBack[]> {
  const moves: LeaseMove[] = [];
  const byBudget = new Map<BudgetId, bigint>();
  const given = leases.map((lease): GivenBack => {
    const left = lease.granted > lease.settled ? lease.granted - lease.settled : 0n;
    const { amount, why } = decide(lease, left);
    moves.push({ leaseId: lease.leaseId, granted: -amount, ...(why === undefined ? {} : { why }) });
    byBudget.set(lease.budgetId, (byBudget.get(lease.budgetId) ?? 0n) + amount);
    return { leaseId: lease.leaseId, given: amount, isClosed: why !== undefined };
  });
  await moveLeases(trx, moves);
  await moveBudgets(
    trx,
    [...byBudget].map(([budgetId, amount]) => ({ budgetId, spent: 0n, leased: -amount })),
  );
  return given;
}
