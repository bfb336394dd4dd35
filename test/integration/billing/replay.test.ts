// P3: replaying any usage event or command changes nothing.
import { createHash } from "node:crypto";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createDeliveredCounts } from "../../../control-plane/billing/delivered-counts.ts";
import { accountMonthBudget, scopesOf } from "../../../control-plane/billing/scopes.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { inTransaction } from "../../../control-plane/store/core/database.ts";
import { createFundsStore } from "../../../control-plane/store/money/funds-store.ts";
import { setMonthlyLimit } from "../../../control-plane/store/money/limit-store.ts";
import { type BudgetId, type LeaseId, type ReplicaId, type RequestId, randomId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { log, openWorld, tokenPrice, usageRecord, wholeBooks } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const usd = 1_000_000_000n;
const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);

/** Mulberry32: the same order for the same seed. */
function numbers(from: number): () => number {
  let state = from;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

function shuffled<T>(items: readonly T[], next: () => number): T[] {
  return items
    .map((item) => ({ item, at: next() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

const accounts = 3;
const requests = 150;
const admittedAtMs = Date.now();
const startOf = {
  request: (i: number) => `request-${String(i).padStart(8, "0")}` as RequestId,
  lease: (i: number) => `lease-${i}`,
};

/** What happens in both runs: the same ids, tokens and ends. */
function plan() {
  const next = numbers(seed);
  const upTo = (n: number) => Math.floor(next() * n);
  return Array.from({ length: requests }, (_, i) => ({
    request: startOf.request(i),
    account: i % accounts,
    hold: tokenPrice * BigInt(20 + upTo(200)),
    attempts: Array.from({ length: 1 + upTo(3) }, (__, a) => ({
      attempt: a + 1,
      output: upTo(200),
      isLost: upTo(5) === 0,
      delivered: upTo(3) === 0 ? upTo(200) : undefined,
    })),
  }));
}
type Plan = ReturnType<typeof plan>;

type Message =
  | { readonly kind: "record"; readonly of: Plan[number]; readonly attempt: number }
  | { readonly kind: "count"; readonly of: Plan[number]; readonly attempt: number }
  | { readonly kind: "credit"; readonly account: number; readonly reference: string }
  | { readonly kind: "limit"; readonly account: number };

const messagesOf = (planned: Plan): Message[] => [
  ...planned.flatMap((of) =>
    of.attempts.flatMap(({ attempt, delivered, isLost }): Message[] => [
      { kind: "record", of, attempt },
      // Without a count a lost attempt waits a minute for it.
      ...(delivered !== undefined || isLost ? [{ kind: "count", of, attempt } as const] : []),
    ]),
  ),
  ...Array.from({ length: 12 }, (_, i): Message => ({ kind: "credit", account: i % accounts, reference: `wire-${i}` })),
  ...Array.from({ length: accounts }, (_, account): Message => ({ kind: "limit", account })),
];

/** The state after all messages, sent in groups of which `atOnce` are under way together, at two control planes. */
async function run(planned: Plan, messages: readonly Message[], groupSize: number, atOnce: number): Promise<string> {
  const world = await openWorld(postgres);
  const owners = await Promise.all(Array.from({ length: accounts }, () => world.account(10n * usd)));
  const keys = await Promise.all(owners.map((account) => world.keyOf(account)));
  const replica = await world.leaseStore.registerReplica(randomId<"replica">(12));
  const owner = (i: number) => ({
    account: owners[i] as (typeof owners)[number],
    key: keys[i] as (typeof keys)[number],
  });
  // Each account holds its requests' money in its four scopes, as a request of a scoped token does.
  const leases = await Promise.all(
    owners.map(async (_, i) => {
      const token = { budget: `jwt/token-${i}` as BudgetId, limit: 5n * usd };
      const payer = { ...owner(i), spending: { hasAccountLimit: true, hasKeyLimit: true, token } };
      const scopes = scopesOf(payer, admittedAtMs).scopes.map((budget, at) => ({
        budget,
        leaseId: `${startOf.lease(i)}-${at}` as LeaseId,
        free: 0n,
        isNew: true,
      }));
      const granted = await world.leaseStore.grant(replica, scopes, 600_000, () => ({
        amounts: scopes.map(() => usd / 100n),
        refusal: undefined,
      }));
      expect(granted.kind).toBe("granted");
      return scopes.map((scope) => scope.leaseId);
    }),
  );
  const planes = [0, 1].map(() => ({
    settlement: world.openSettlement({ lostWaitMs: 60_000 }),
    counts: createDeliveredCounts({
      store: world.settlementStore,
      counts: world.unrecorded,
      log,
      metrics: world.metrics,
    }),
  }));
  const funds = createFundsStore(world.db);

  const recordOf = ({ of, attempt }: Extract<Message, { kind: "record" }>) => {
    const { output, isLost } = of.attempts[attempt - 1] as Plan[number]["attempts"][number];
    const { account, key } = owner(of.account);
    return usageRecord(
      account,
      { input: 5, output: isLost ? 0 : output },
      {
        spoolId: `${of.request}/${attempt}`,
        requestId: of.request,
        attempt,
        admittedAtMs: String(admittedAtMs),
        endedAtMs: String(admittedAtMs),
        keyId: key,
        replicaId: replica.id as ReplicaId,
        leaseIds: [...(leases[of.account] as LeaseId[])],
        holdNanoUsd: String(of.hold),
        endReason: isLost ? "lost" : "stop",
      },
    );
  };
  const unacknowledged = new Map<string, Extract<Message, { kind: "record" }>>();

  async function send(group: readonly Message[], plane: (typeof planes)[number]): Promise<void> {
    const records = group.filter((message) => message.kind === "record");
    for (const message of records) unacknowledged.set(`${message.of.request}/${message.attempt}`, message);
    const others = group.map(async (message) => {
      if (message.kind === "count") {
        const { of, attempt } = message;
        const { account } = owner(of.account);
        const leaseIds = leases[of.account] as LeaseId[];
        const outputTokens = of.attempts[attempt - 1]?.delivered ?? 7;
        plane.counts.report(
          { requestId: of.request, attempt, account, outputTokens, leaseIds, hold: nano(of.hold) },
          "broken",
        );
      } else if (message.kind === "credit") {
        const { account } = owner(message.account);
        const grant = { account, amount: usd, kind: "credit", note: "", reference: message.reference } as const;
        await funds.grantCredit(grant, { by: "u:op", ip: "", note: "" });
      } else if (message.kind === "limit") {
        const { account } = owner(message.account);
        const month = accountMonthBudget(account, admittedAtMs);
        await inTransaction(world.db, (trx) =>
          setMonthlyLimit(trx, { account }, 3n * usd, month, { by: account, ip: "", note: "" }),
        );
      }
    });
    const [acknowledged] = await Promise.all([plane.settlement.settle(records.map(recordOf), "1"), ...others]);
    for (const id of acknowledged ?? []) unacknowledged.delete(id);
  }

  const groups = Array.from({ length: Math.ceil(messages.length / groupSize) }, (_, i) =>
    messages.slice(i * groupSize, (i + 1) * groupSize),
  );
  for (let i = 0; i < groups.length; i += atOnce) {
    const together = groups.slice(i, i + atOnce);
    await Promise.all(together.map((group, at) => send(group, planes[at % 2] as (typeof planes)[number])));
  }
  for (const { counts } of planes) await counts.stop();
  // A lost attempt that came before its count comes again, as every record does that was not acknowledged.
  await send([...unacknowledged.values()], planes[0] as (typeof planes)[number]);
  expect([...unacknowledged.keys()]).toEqual([]);
  expect(await checkBooks(world.db)).toEqual(wholeBooks);

  const rows = async (query: string) => (await world.pool.query(query)).rows.map((row) => JSON.stringify(row, plain));
  const state = [
    ...(await rows(
      "select request_id, attempt, account_id, key_id, output_tokens, cost, charge, voided, source from usage",
    )),
    // Net: what is posted in one step or in two corrections is the same money.
    ...(await rows(`select account_id, book, request_id, attempt, sum(amount) as sum from ledger_entry group by 1, 2, 3, 4
      having sum(amount) <> 0`)),
    ...(await rows("select budget_id, account_id, lim, spent, leased from budget")),
    ...(await rows("select lease_id, budget_id, granted, settled, closed_at is null as open from lease")),
    ...(await rows("select request_id, attempt, output_tokens from delivered_count")),
    ...(await rows("select account_id, reference, amount from credit where reference like 'wire-%'")),
    ...(await rows("select account_id, action, subject from audit where action = 'credit.grant'")),
    ...(await rows("select why, record from usage_quarantine")),
  ];
  // Accounts and keys are named anew in each database.
  const named = (line: string) =>
    owners.reduce((text, account, i) => text.replaceAll(account, `A${i}`).replaceAll(keys[i] as string, `K${i}`), line);
  expect(state.length).toBeGreaterThan(planned.length * 2);
  return createHash("sha256").update(state.map(named).sort().join("\n")).digest("hex");
}

const plain = (_: string, value: unknown) => (typeof value === "bigint" ? String(value) : value);

it(`P3: every message three times, shuffled (TEST_SEED=${seed}), ends in the state of the run that sends each once`, async () => {
  const planned = plan();
  const messages = messagesOf(planned);
  const once = await run(planned, messages, 20, 1);
  const next = numbers(seed + 1);
  const thrice = shuffled([...messages, ...messages, ...messages], next);
  expect(await run(planned, thrice, 11, 4)).toBe(once);
  // The hash sees a difference where there is one.
  const missing = messages.filter((message) => message.kind !== "credit" || message.reference !== "wire-3");
  expect(await run(planned, missing, 50, 1)).not.toBe(once);
});
