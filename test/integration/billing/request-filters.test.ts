// The request log by key, end user, HTTP status and end reason, and the indexes that keep it quick in a large account.
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createRequestLog, type RequestFilter } from "../../../control-plane/billing/request-log.ts";
import { openDatabase } from "../../../control-plane/store/core/database.ts";
import { createEndUserStore } from "../../../control-plane/store/money/end-user-store.ts";
import { ensureMoneyMonths } from "../../../control-plane/store/money/money-months.ts";
import { createRequestLogStore } from "../../../control-plane/store/money/request-log-store.ts";
import type { AccountId, KeyId } from "../../../proto/ids.ts";
import type { EndReason } from "../../../proto/usage.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { log, openWorld, usageRecord } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const usd = 1_000_000_000n;
const all = { fromMs: 0, toMs: Date.now() + 3_600_000 };

interface Terms {
  readonly keyId?: KeyId;
  readonly endUser?: string;
  readonly endReason?: EndReason;
  readonly httpStatus?: number;
}

describe("the request log", () => {
  it("is filtered by model, on all days with its usage, also while sums are by month", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const records = ["acme/a", "acme/b", "acme/a", "acme/a"].map((model) =>
      usageRecord(account, { input: 1, output: 1 }, { model }),
    );
    await world.settlement.settle(records, "1");
    const ids = records.map(({ requestId }) => requestId);
    for (const [n, days] of [0, 2, 20, 40].entries())
      await world.pool.query("update usage set settled_at = settled_at - $1::interval where request_id = $2", [
        `${days} days`,
        ids[n],
      ]);
    await world.pool.query("select rebuild_usage_days()");
    const requests = createRequestLog({ store: createRequestLogStore(world.db) });
    const found = async (model: string) =>
      (await requests.list(account, { ...all, model }, undefined, 10)).requests.map(({ id }) => ids.indexOf(id));
    const byModel = [[0, 2, 3], [1], []];
    expect(await Promise.all(["acme/a", "acme/b", "acme/c"].map(found))).toEqual(byModel);
    await world.pool.query(`create table months as select * from usage_month;
       delete from usage_day;
       insert into usage_day (account_id, month, key_id, model, price_version, discount_id, deploy_id, records, entries, cost, tokens, gpu_ms,
         characters, audio_ms, images, image_milli) select * from months`);
    expect(await Promise.all(["acme/a", "acme/b", "acme/c"].map(found))).toEqual(byModel);
  });

  it("is filtered by key, end user, HTTP status and end reason, of one account", async () => {
    const world = await openWorld(postgres);
    const [account, stranger] = [await world.account(usd), await world.account(usd)];
    const one = (terms: Terms, who = account) => usageRecord(who, { input: 1, output: 1 }, terms);
    const [first, second] = ["k1" as KeyId, "k2" as KeyId];
    const records = {
      plain: one({ keyId: first, httpStatus: 200 }),
      ann: one({ keyId: second, endUser: "ann", httpStatus: 200 }),
      bad: one({ keyId: first, endReason: "refused", httpStatus: 422 }),
      slow: one({ keyId: second, endReason: "engine_timeout", httpStatus: 504 }),
      gone: one({ keyId: first, endReason: "client_gone", httpStatus: 499 }),
      /** Of an agent of the version before. */
      old: one({ keyId: first }),
    };
    await world.settlement.settle([...Object.values(records), one({ keyId: first, endUser: "ann" }, stranger)], "1");
    const requests = createRequestLog({ store: createRequestLogStore(world.db) });
    const names = new Map(Object.entries(records).map(([name, { requestId }]) => [requestId as string, name]));
    const found = async (filter: Partial<RequestFilter>) =>
      (await requests.list(account, { ...all, ...filter }, undefined, 10)).requests
        .map(({ id }) => names.get(id))
        .sort();
    expect(await found({})).toEqual(Object.keys(records).sort());
    expect(await found({ key: "k2" })).toEqual(["ann", "slow"]);
    expect(await found({ user: "ann" })).toEqual(["ann"]);
    expect(await found({ user: "bob" })).toEqual([]);
    expect(await found({ status: { min: 400, max: 499 } })).toEqual(["bad", "gone"]);
    expect(await found({ status: { min: 504, max: 504 } })).toEqual(["slow"]);
    expect(await found({ status: { min: 200, max: 299 }, key: "k1" })).toEqual(["plain"]);
    expect(await found({ endReason: "client_gone" })).toEqual(["gone"]);
    expect(await found({ endReason: "stop", key: "k1" })).toEqual(["old", "plain"]);
    expect(await found({ onlyFailed: true, key: "k2" })).toEqual(["slow"]);

    const { attempts } = await requests.find(records.ann.requestId, account);
    expect(attempts).toMatchObject([{ user: "ann", httpStatus: 200 }]);
    await createEndUserStore(world.db).eraseEndUser(account, "ann");
    expect(await requests.find(records.ann.requestId, account)).toMatchObject({ attempts: [{ user: null }] });
    expect(await requests.find(records.old.requestId, account)).toMatchObject({
      attempts: [{ user: null, httpStatus: 0 }],
    });
  });

  it("lists failures of all accounts, newest first, without voided attempts and GPU minutes", async () => {
    const world = await openWorld(postgres);
    const accounts = [await world.account(usd), await world.account(usd), await world.account(usd)] as const;
    const one = (who: number, endReason: EndReason) =>
      usageRecord(accounts[who] as AccountId, { input: 1, output: 1 }, { endReason });
    const failed = [one(0, "engine_error"), one(1, "refused"), one(1, "lost")];
    await world.settlement.settle([...failed, one(0, "stop"), one(2, "client_gone"), one(2, "stop")], "1");
    const [late, middle, voided] = failed.map(({ requestId }) => requestId);
    const at = (minutes: number, id: string | undefined) =>
      world.pool.query("update usage set settled_at = settled_at - make_interval(mins => $1) where request_id = $2", [
        minutes,
        id,
      ]);
    await at(1, late);
    await at(2, middle);
    await world.pool.query("update usage set voided = true where request_id = $1", [voided]);
    const requests = createRequestLog({ store: createRequestLogStore(world.db) });
    const found = async (fromMs: number, limit: number) => {
      const page = await requests.failures(accounts[2], fromMs, limit);
      return { ids: page.requests.map(({ id }) => id), hasMore: page.hasMore };
    };
    expect(await found(0, 10)).toEqual({ ids: [late, middle], hasMore: false });
    expect(await found(0, 1)).toEqual({ ids: [late], hasMore: true });
    expect(await found(Date.now() - 90_000, 10)).toEqual({ ids: [late], hasMore: false });
  });

  it("finds a rare key, end user and failure among many requests without reading them all", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const plain = usageRecord(account, { input: 1, output: 1 });
    const rare = [
      usageRecord(account, { input: 1, output: 1 }, { keyId: "rare" as KeyId }),
      usageRecord(account, { input: 1, output: 1 }, { endUser: "ann" }),
      usageRecord(account, { input: 1, output: 1 }, { endReason: "lost" }),
    ];
    await world.settlement.settle([plain, ...rare], "1");
    // 10,000 more of the same request, an hour before.
    await world.pool.query(
      `insert into usage select many.* from usage one, generate_series(1, 10000) i, lateral json_populate_record(one,
         json_build_object('request_id', 'r' || i, 'settled_at', now() - interval '1 hour')) many where one.request_id = $1`,
      [plain.requestId],
    );
    await world.pool.query("analyze usage");
    // One connection: its figures are written when it is asked to.
    const { db, close } = openDatabase(world.url, { maxConnections: 1, log });
    onTestFinished(close);
    const scans = async () => {
      await sql`select pg_stat_force_next_flush()`.execute(db);
      const { rows } = await sql<{ name: string; scans: bigint }>`
        select indexrelname as name, idx_scan as scans from pg_stat_user_indexes where relname like 'usage\\_20%'`.execute(
        db,
      );
      return new Map(rows.map(({ name, scans: count }) => [name, Number(count)]));
    };
    const requests = createRequestLog({ store: createRequestLogStore(db) });
    const filters: readonly (readonly [string, Partial<RequestFilter>])[] = [
      ["_key_id_settled_at", { key: "rare" }],
      ["_end_user_settled_at", { user: "ann" }],
      ["_account_id_settled_at_idx1", { onlyFailed: true }],
      ["_account_id_settled_at_idx1", { status: { min: 400, max: 599 } }],
    ];
    for (const [index, filter] of filters) {
      const before = await scans();
      await requests.list(account, { ...all, ...filter }, undefined, 10);
      const after = await scans();
      const used = [...after].filter(([name, count]) => count > (before.get(name) ?? 0)).map(([name]) => name);
      expect(used.length, index).toBeGreaterThan(0);
      expect(
        used.filter((name) => !name.includes(index)),
        index,
      ).toEqual([]);
    }
  }, 60_000);

  it("has its indexes on months to come", async () => {
    const world = await openWorld(postgres);
    await ensureMoneyMonths(world.db, new Date(Date.UTC(2031, 4, 1)));
    const { rows } = await world.pool.query(
      "select indexdef from pg_indexes where tablename = 'usage_2031_05' order by indexdef",
    );
    const definitions = rows.map(({ indexdef }) => indexdef as string);
    for (const columns of ["(key_id, settled_at)", "(end_user, settled_at)", "(account_id, settled_at) WHERE"])
      expect(
        definitions.filter((one) => one.includes(columns)),
        columns,
      ).toHaveLength(1);
  });
});
