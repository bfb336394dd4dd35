// The usage table holds the fields of proto/usage-record.ts, and every way of a settlement writes all of them.
import { afterAll, beforeAll, expect, it } from "vitest";
import { moneyRules } from "../../../control-plane/billing/post.ts";
import type { SettledRecord } from "../../../control-plane/billing/record.ts";
import { isPlain } from "../../../control-plane/store/money/settle-plain.ts";
import type { AccountId, RequestId } from "../../../proto/ids.ts";
import { type UsageValues, usageFieldList } from "../../../proto/usage-record.ts";
import { startPostgres, type TestPostgres } from "../../fakes/postgres.ts";
import { openWorld, type World } from "./world.ts";

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const columnTypes = {
  text: "text",
  texts: "ARRAY",
  integer: "integer",
  count: "bigint",
  duration: "integer",
  time: "timestamp with time zone",
  amount: "bigint",
  flag: "boolean",
};

it("has one column per field, of its type, and the time of settlement", async () => {
  const world = await openWorld(postgres);
  const { rows } = await world.pool.query(
    `select column_name as name, data_type as type, is_nullable = 'YES' as nullable
     from information_schema.columns where table_schema = 'public' and table_name = 'usage'`,
  );
  const fields = usageFieldList.map(({ column, type, isNullable = false }) => ({
    name: column as string,
    type: columnTypes[type],
    nullable: isNullable,
  }));
  const settledAt = { name: "settled_at", type: columnTypes.time, nullable: false };
  const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1);
  expect(rows.toSorted(byName)).toEqual([...fields, settledAt].toSorted(byName));
});

/** A different value for each field. */
function values(account: AccountId): UsageValues {
  const admittedAtMs = Date.now();
  const byType = (i: number, name: string) => ({
    text: name,
    texts: [] as string[],
    integer: 1,
    count: i + 1,
    duration: i + 1,
    time: admittedAtMs + i,
    amount: BigInt(i + 1),
    flag: false,
  });
  const all = usageFieldList.map(({ name, type }, i) => [name, byType(i, name)[type]]);
  return { ...Object.fromEntries(all), account, hold: 1_000n, cost: 7n, charge: 7n, tokenBudget: null };
}

function recordOf({ charge: _, isVoided: __, tokenBudget: ___, ...flat }: UsageValues): SettledRecord {
  const { characters, audioMs, images, imagePixelSteps, items } = flat;
  return {
    ...(flat as unknown as SettledRecord),
    units: { characters, audioMs, images, imagePixelSteps, items },
    rates: {
      input: flat.inputRate,
      cachedInput: flat.cachedInputRate,
      output: flat.outputRate,
      units: {
        characters: flat.characterRate,
        audio: flat.audioRate,
        images: flat.imageRate,
        imageUnit: flat.imageUnit,
      },
    },
  };
}

async function expectStored(world: World, expected: UsageValues): Promise<void> {
  const { rows } = await world.pool.query("select * from usage where request_id = $1", [expected.requestId]);
  const { settled_at: _, ...stored } = rows[0];
  const columns = usageFieldList.map(({ name, column, type }) => {
    const value = expected[name];
    return [column, type === "count" ? BigInt(value as number) : type === "time" ? new Date(value as number) : value];
  });
  expect(stored).toEqual(Object.fromEntries(columns));
}

it("stores every field by the long way", async () => {
  const world = await openWorld(postgres);
  const expected = values(await world.account(1_000_000n));
  await world.settlementStore.settle({ records: [recordOf(expected)], counts: [] }, moneyRules);
  await expectStored(world, expected);
});

it.each([1, 2])("stores every field of %i plain records by the short way", async (count) => {
  const world = await openWorld(postgres);
  const account = await world.account(1_000_000n);
  await world.pool.query("update budget set leased = 1000 where budget_id = $1", [`account/${account}`]);
  await world.pool.query(
    `insert into lease (lease_id, budget_id, replica_id, replica_epoch, granted, expires_at)
     values ('lease', $1, 'r', 1, 1000, now() + interval '1 day')`,
    [`account/${account}`],
  );
  // A key that nobody knows has no month, and its records take the long way.
  const full: UsageValues = { ...values(account), key: await world.keyOf(account), leaseIds: ["lease"] };
  const optional = usageFieldList.filter(({ from, isRequired }) => from !== "posting" && !isRequired);
  const empty: Partial<UsageValues> = Object.fromEntries(
    optional.map(({ name, type }) => [name, type === "amount" ? 0n : type === "text" ? "" : 0]),
  );
  const base = { ...recordOf({ ...full, ...empty }), units: undefined };
  // Any other value of the fields that the short way leaves out sends a record the long way.
  const kept = optional.filter(
    ({ name, in: group }) => group !== "units" && group !== "rates" && isPlain({ ...base, [name]: full[name] }),
  );
  const expected: UsageValues = {
    ...full,
    ...empty,
    ...Object.fromEntries(kept.map(({ name }) => [name, full[name]])),
  };
  const record = { ...recordOf(expected), units: undefined };
  const records = Array.from({ length: count }, (_, i) => ({ ...record, requestId: `request-${i}` as RequestId }));
  expect(records.every(isPlain)).toBe(true);
  const { postings } = await world.settlementStore.settle({ records, counts: [] }, moneyRules);
  expect(postings).toBeUndefined();
  for (const { requestId } of records) await expectStored(world, { ...expected, requestId });
});
