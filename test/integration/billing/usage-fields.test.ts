// The usage table holds the fields of proto/usage-record.ts, and a settlement writes all of them.
import { afterAll, beforeAll, expect, it } from "vitest";
import type { SettledRecord } from "../../../control-plane/billing/record.ts";
import type { AccountId, RequestId } from "../../../proto/ids.ts";
import { type UsageValues, usageFieldList } from "../../../proto/usage-record.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { columnsOf } from "./specified-books.ts";
import { openWorld, type World } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
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

function recordOf({ charge: _, isVoided: __, tokenBudget: ___, ...values }: UsageValues): SettledRecord {
  const { characters, audioMs, images, imagePixelSteps, items, ...flat } = values;
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

async function expectStored(
  world: World,
  record: SettledRecord,
  posted: Parameters<typeof columnsOf>[1],
): Promise<void> {
  const { rows } = await world.pool.query("select * from usage where request_id = $1", [record.requestId]);
  const { settled_at: _, ...stored } = rows[0];
  const { rows: users } = await world.pool.query("select end_user_id as id from end_user where name = $1", [
    record.endUser,
  ]);
  expect(stored).toEqual(columnsOf({ ...record, endUser: users[0].id }, posted));
}

/** An account with an open lease, and a record with a value in every field. */
async function filled(world: World) {
  const account = await world.account(1_000_000n);
  await world.pool.query("update budget set leased = 1000 where budget_id = $1", [`account/${account}`]);
  await world.pool.query(
    `insert into lease (lease_id, budget_id, replica_id, replica_epoch, granted, expires_at)
     values ('lease', $1, 'r', 1, 1000, now() + interval '1 day')`,
    [`account/${account}`],
  );
  const full: UsageValues = { ...values(account), key: await world.keyOf(account), leaseIds: ["lease"] };
  expect(Object.values(full).filter((value) => value === 0 || value === 0n)).toEqual([]);
  return recordOf(full);
}

it("stores every field of a record with units, on the columns that follow from the list", async () => {
  const world = await openWorld(postgres);
  const record = await filled(world);
  await world.settlementStore.settle({ records: [record], counts: [] });
  await expectStored(world, record, { charge: 7n, isVoided: false, tokenBudget: null });
  const { rows } = await world.pool.query("select * from usage");
  for (const { name, column, from } of usageFieldList)
    if (from !== "posting") expect(rows[0][column], name).not.toBeNull();
  expect(rows[0]).toMatchObject({ characters: BigInt(record.units?.characters ?? 0), gpu_ms: BigInt(record.gpuMs) });
});

it.each([1, 2])("stores every field of %i records without units", async (count) => {
  const world = await openWorld(postgres);
  const record = { ...(await filled(world)), units: undefined };
  const records = Array.from({ length: count }, (_, i) => ({ ...record, requestId: `request-${i}` as RequestId }));
  const { losses } = await world.settlementStore.settle({ records, counts: [] });
  expect(losses).toEqual([]);
  for (const one of records) await expectStored(world, one, { charge: 7n, isVoided: false, tokenBudget: null });
});

it("writes a column that a later migration adds, and its default for control planes that do not send it", async () => {
  const world = await openWorld(postgres);
  const record = await filled(world);
  const { settle } = world.settlementStore;
  const named = (id: string) => ({ ...record, requestId: id as RequestId });
  // The connection has planned every statement by now.
  for (let i = 0; i < 8; i++) await settle({ records: [named(`before-${i}`)], counts: [] });
  await world.pool.query(`
    alter table usage add column tool_calls bigint not null default 0;
    create or replace function usage_defaults() returns usage language sql immutable return json_populate_record(null::usage,
      '{"characters":0,"audio_ms":0,"images":0,"image_pixel_steps":0,"items":0,"gpu_ms":0,"character_rate":0,"audio_rate":0,
        "image_rate":0,"image_unit":0,"charge":0,"voided":false,"tool_calls":0}')`);
  await settle({ records: [named("old")], counts: [] });
  const { rows } = await world.pool.query(
    "select lot from (select row_to_json(u) as lot from usage u where request_id = 'old') one",
  );
  const lot = JSON.stringify({ ...rows[0].lot, tool_calls: 3, token_budget: null, charge: 0 });
  await world.pool.query(
    `select settle($1, '{1}', '{new}', '{1}', '{0}', '{0}', '{7}', '{7}', '{1}', '{0}', '{1}', '{0}', '{1}', '{1}', '{1}', null,
      '-infinity', 'infinity', false)`,
    [[lot]],
  );
  const { rows: stored } = await world.pool.query(
    "select request_id, tool_calls, model from usage where request_id in ('old', 'new') order by 1",
  );
  expect(stored).toEqual([
    { request_id: "new", tool_calls: 3n, model: record.model },
    { request_id: "old", tool_calls: 0n, model: record.model },
  ]);
});
