import { sql } from "kysely";
import type { GpuType } from "../../../proto/gpu.ts";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import type { Act } from "../../act.ts";
import type {
  AnyLimitRequest,
  Filing,
  GpuUse,
  LimitChange,
  LimitKind,
  LimitRecord,
  LimitRequest,
  ListedRequest,
  QuotaStore,
} from "../../quotas/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs, now } from "../core/time.ts";
import { lockAccount } from "./account-rows.ts";
import { auditAct } from "./audit-rows.ts";

export function createQuotaStore(db: Db): QuotaStore {
  return asked<QuotaStore>({
    async ownRateLimits() {
      const rows = await db
        .selectFrom("accountLimit")
        .select(["accountId", "rateLimit", "tpmRateLimit", "weight"])
        .where((eb) =>
          eb.or([eb("rateLimit", "is not", null), eb("tpmRateLimit", "is not", null), eb("weight", "is not", null)]),
        )
        .execute();
      return new Map(rows.map((row) => [row.accountId, ratesOf(row)]));
    },

    record: (account) => readRecord(db, account),

    openRequest: (account, kind) => requests(db, account, kind).where("decision", "is", null).executeTakeFirst(),

    lastDecided: (account, kind) =>
      requests(db, account, kind)
        .where("decision", "in", ["approved", "rejected"])
        .orderBy("resolvedAt", "desc")
        .limit(1)
        .executeTakeFirst(),

    requestsOf: (account, limit) =>
      db
        .selectFrom("limitRequest")
        .select(requestColumns)
        .where("accountId", "=", account)
        .orderBy("createdAt", "desc")
        .limit(limit)
        .$castTo<AnyLimitRequest>()
        .execute(),

    file: <Kind extends LimitKind>(account: AccountId, kind: Kind, id: string, decide: Decide<Kind>) =>
      inTransaction(db, async (trx) => {
        if (!(await lockAccount(trx, account))) return undefined;
        const record = (await readRecord(trx, account)) as LimitRecord;
        const open = await requests(trx, account, kind).where("decision", "is", null).forUpdate().executeTakeFirst();
        const { requested, reason } = decide(record, open);
        const contents = { requested: JSON.stringify(requested), reason };
        const written = open
          ? trx
              .updateTable("limitRequest")
              .set((eb) => ({ ...contents, revision: eb("revision", "+", 1), updatedAt: now }))
              .where("requestId", "=", open.id)
              .returning(requestColumns)
          : trx
              .insertInto("limitRequest")
              .values({ requestId: id, accountId: account, kind, ...contents })
              .returning(requestColumns);
        return (await written.executeTakeFirstOrThrow()) as LimitRequest<Kind>;
      }),

    withdraw: (account, kind, id) =>
      inTransaction(db, async (trx) => {
        const row = await requests(trx, account, kind).where("requestId", "=", id).forUpdate().executeTakeFirst();
        if (!row) return "unknown";
        if (row.decision !== null) return "decided";
        await close(trx, id, "withdrawn", undefined);
        return "done";
      }),

    list: <Kind extends LimitKind>(kind: Kind, limit: number) =>
      db
        .selectFrom("limitRequest")
        .innerJoin("account", "account.accountId", "limitRequest.accountId")
        .select([...requestColumns, "email", "displayName"])
        .where("kind", "=", kind)
        .orderBy(sql`decision is not null`)
        .orderBy("limitRequest.createdAt", "desc")
        .limit(limit)
        .$castTo<ListedRequest<Kind>>()
        .execute(),

    resolve: (kind, id, decision, ifRevision, act) =>
      inTransaction(db, async (trx) => {
        const found = await trx
          .selectFrom("limitRequest")
          .select("accountId")
          .where("requestId", "=", id)
          .where("kind", "=", kind)
          .executeTakeFirst();
        if (!found) return "unknown";
        const account = found.accountId;
        // The account first, as in filing and amending.
        await lockAccount(trx, account);
        const row = await requests(trx, account, kind)
          .where("requestId", "=", id)
          .forUpdate()
          .executeTakeFirstOrThrow();
        if (row.decision !== null) return "decided";
        if (ifRevision !== undefined && row.revision !== ifRevision) return "moved";
        await close(trx, id, decision, act);
        const before = await readRecord(trx, account);
        const after = before && decision === "approved" ? withRequested(before, row) : before;
        if (after && after !== before) await writeRecord(trx, account, after);
        await auditAct(trx, act, {
          action: decision === "approved" ? "limit.approve" : "limit.reject",
          subject: id,
          account,
          before: limitsIn(before),
          after: limitsIn(after),
        });
        await announce(trx, "quota", account);
        return "done";
      }),

    setLimits: (account, change, check, act) =>
      inTransaction(db, async (trx) => {
        if (!(await lockAccount(trx, account))) return undefined;
        const before = (await readRecord(trx, account)) as LimitRecord;
        const after = withChange(before, change);
        check(after);
        await writeRecord(trx, account, after);
        await auditAct(trx, act, {
          action: "limit.change",
          subject: account,
          account,
          before: limitsIn(before),
          after: limitsIn(after),
        });
        await announce(trx, "quota", account);
        return after;
      }),
  });
}

/** Columns of a LimitRequest; `requested` is of the kind that the caller selects. */
const requestColumns = [
  "requestId as id",
  "limitRequest.accountId as account",
  "kind",
  "requested",
  "reason",
  "revision",
  epochMs("limitRequest.createdAt").as("createdAtMs"),
  "decision",
  epochMs<null>("resolvedAt").as("resolvedAtMs"),
  "resolutionReason",
] as const;

const requests = <Kind extends LimitKind>(db: Db, account: AccountId, kind: Kind) =>
  db
    .selectFrom("limitRequest")
    .select(requestColumns)
    .where("accountId", "=", account)
    .where("kind", "=", kind)
    .$castTo<LimitRequest<Kind>>();

type Decide<Kind extends LimitKind> = (record: LimitRecord, open: LimitRequest<Kind> | undefined) => Filing<Kind>;

async function close(
  trx: Trx,
  id: string,
  decision: "approved" | "rejected" | "withdrawn",
  act: Act | undefined,
): Promise<void> {
  await trx
    .updateTable("limitRequest")
    .set({
      decision,
      resolvedAt: sql<Date>`clock_timestamp()`,
      resolvedBy: act?.by ?? null,
      resolutionReason: act?.note ?? null,
    })
    .where("requestId", "=", id)
    .execute();
}

function withRequested(record: LimitRecord, request: LimitRequest): LimitRecord {
  if (request.kind === "rate") {
    const { concurrent, tokensPerMinute } = (request as LimitRequest<"rate">).requested;
    return withChange(record, { concurrent, ...(tokensPerMinute === null ? {} : { tokensPerMinute }) });
  }
  return withChange(record, (request as LimitRequest<"gpu">).requested);
}

function withChange(record: LimitRecord, change: LimitChange): LimitRecord {
  const { rate } = record;
  const { concurrent = rate.concurrent, tokensPerMinute = rate.tokensPerMinute, weight = rate.weight } = change;
  return {
    ...record,
    rate: { concurrent, tokensPerMinute, weight },
    max: withoutNulls({ ...record.max, ...change.max }),
    min: withoutNulls({ ...record.min, ...change.min }),
  };
}

function withoutNulls(counts: Readonly<Record<string, number | null>>): LimitRecord["max"] {
  return Object.fromEntries(Object.entries(counts).flatMap(([gpu, count]) => (count === null ? [] : [[gpu, count]])));
}

const limitsIn = (record: LimitRecord | undefined) => record && { ...record.rate, max: record.max, min: record.min };

async function readRecord(db: Db, account: AccountId): Promise<LimitRecord | undefined> {
  const row = await db
    .selectFrom("account as a")
    .leftJoin("accountLimit as l", "l.accountId", "a.accountId")
    .select(["a.isAdmin", "a.suspendReason", "l.rateLimit", "l.tpmRateLimit", "l.weight", "l.gpuMax", "l.gpuMin"])
    .where("a.accountId", "=", account)
    .where("a.deletedAt", "is", null)
    .executeTakeFirst();
  return (
    row && {
      isAdmin: row.isAdmin,
      suspendReason: row.suspendReason,
      rate: ratesOf(row),
      max: row.gpuMax ?? {},
      min: row.gpuMin ?? {},
    }
  );
}

interface RateColumns {
  readonly rateLimit: number | null;
  readonly tpmRateLimit: bigint | null;
  readonly weight: number | null;
}

const ratesOf = ({ rateLimit, tpmRateLimit, weight }: RateColumns): LimitRecord["rate"] => ({
  concurrent: rateLimit,
  tokensPerMinute: tpmRateLimit === null ? null : Number(tpmRateLimit),
  weight,
});

/** Call after `lockAccount`. Stopping deployments count; stopped, failed and deleted ones do not. */
export async function readGpuUse(
  trx: Trx,
  account: AccountId,
  gpu: GpuType,
  except: DeploymentId | undefined,
): Promise<GpuUse> {
  const record = await readRecord(trx, account);
  const { used } = await trx
    .selectFrom("deployment")
    .select(sql<number>`coalesce(sum(max_instances * num_gpus), 0)::float8`.as("used"))
    .where("accountId", "=", account)
    .where("gpu", "=", gpu)
    .where("status", "not in", ["stopped", "failed", "deleted"])
    .$if(except !== undefined, (query) => query.where("deployId", "!=", except as DeploymentId))
    .executeTakeFirstOrThrow();
  return { isAdmin: record?.isAdmin ?? false, max: record?.max ?? {}, used };
}

async function writeRecord(trx: Trx, account: AccountId, next: LimitRecord): Promise<void> {
  const { concurrent, tokensPerMinute, weight } = next.rate;
  const values = {
    rateLimit: concurrent,
    weight,
    tpmRateLimit: tokensPerMinute === null ? null : BigInt(tokensPerMinute),
    gpuMax: JSON.stringify(next.max),
    gpuMin: JSON.stringify(next.min),
    updatedAt: now,
  };
  await trx
    .insertInto("accountLimit")
    .values({ accountId: account, ...values })
    .onConflict((at) => at.column("accountId").doUpdateSet(values))
    .execute();
}
