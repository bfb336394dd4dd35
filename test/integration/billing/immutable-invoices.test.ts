import { afterAll, beforeAll, expect, it } from "vitest";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { openWorld } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());

it("refuses every change of an issued invoice and its lines, except that it is paid once", async () => {
  const { pool, account } = await openWorld(postgres);
  const owner = await account(1n);
  await pool.query("insert into invoice values ('inv_1', $1, 24300, 1000, now(), now() + interval '14 days')", [owner]);
  await pool.query(
    `insert into invoice_line (invoice_id, account_id, key_id, model, task, is_private, pricing_type, discount_name,
       discount_text, milli_units, cost) values ('inv_1', $1, 'k', 'm', 't', false, 'tokens', '', '', 1000, 1000)`,
    [owner],
  );
  const attempts = [
    "update invoice set total = 1",
    "update invoice set due_at = now()",
    "update invoice set paid_at = now(), total = 1",
    "delete from invoice_line",
    "update invoice_line set cost = 1",
    "delete from invoice",
    "truncate invoice, invoice_line, charge, invoice_statement",
  ];
  for (const statement of attempts)
    await expect(pool.query(statement), statement).rejects.toThrow(/immutable|append only/);
  await pool.query("update invoice set paid_at = now()");
  for (const statement of [
    "update invoice set paid_at = null",
    "update invoice set paid_at = now() + interval '1 hour'",
  ])
    await expect(pool.query(statement), statement).rejects.toThrow(/immutable/);
  const { rows } = await pool.query("select total::int, paid_at is not null as paid from invoice");
  expect(rows).toEqual([{ total: 1000, paid: true }]);
});
