import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { endingOf } from "../../../console/domain/request-phases.ts";
import { createChecklists } from "../../../control-plane/billing/checklist.ts";
import { createMonthClosing } from "../../../control-plane/billing/months.ts";
import { monthOf } from "../../../control-plane/billing/period.ts";
import { createRequestLabels } from "../../../control-plane/billing/request-labels.ts";
import { createRequestLog } from "../../../control-plane/billing/request-log.ts";
import { createUsageDays } from "../../../control-plane/billing/usage-days.ts";
import { createUsageQueries } from "../../../control-plane/billing/usage-queries.ts";
import { openDatabase } from "../../../control-plane/store/core/database.ts";
import { createDeploymentStatsStore } from "../../../control-plane/store/deployments/deployment-stats-store.ts";
import { createMoneyOverviewStore } from "../../../control-plane/store/money/money-overview-store.ts";
import { createRequestLogStore } from "../../../control-plane/store/money/request-log-store.ts";
import { createUsageDayStore } from "../../../control-plane/store/money/usage-day-store.ts";
import type { DeploymentId, KeyId, RequestId } from "../../../proto/ids.ts";
import type { EndReason } from "../../../proto/usage.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { log, openWorld, tokenPrice, usageRecord, type World } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const usd = 1_000_000_000n;

/** As if everything had been posted `earlier`: past the trigger that keeps posted entries as they are. */
const postEarlier = (world: World, earlier: string) =>
  world.pool.query(
    `set session_replication_role = replica;
     update ledger_entry set posted_at = posted_at - interval '${earlier}';
     reset session_replication_role;
     select rebuild_usage_days()`,
  );

describe("the usage page", () => {
  it("shows this month's tokens and cost by model, of the account and of one key", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const stranger = await world.account(usd);
    await world.settlement.settle(
      [
        usageRecord(account, { input: 10, output: 5 }, { keyId: "k1", model: "acme/a" }),
        usageRecord(account, { input: 1, output: 1 }, { keyId: "k1", model: "acme/a" }),
        usageRecord(account, { input: 2, output: 2 }, { keyId: "k2", model: "acme/b" }),
        usageRecord(stranger, { input: 100, output: 100 }, { keyId: "k3", model: "acme/a" }),
      ],
      "1",
    );
    const queries = createUsageQueries({ store: world.usageStore });
    const whole = await queries.usage({ account }, "current");
    expect(whole.months).toHaveLength(1);
    expect(whole.months[0]).toMatchObject({ invoiceId: "NOT_FINAL", totalCost: 21n * tokenPrice });
    expect(whole.months[0]?.items.map(({ model, units, cost }) => [model.name, units, cost])).toEqual([
      ["acme/a", 17, 17n * tokenPrice],
      ["acme/b", 4, 4n * tokenPrice],
    ]);
    const ofKey = await queries.usage({ account, key: "k2" as KeyId }, "current");
    expect(ofKey.months[0]?.items.map(({ model }) => model.name)).toEqual(["acme/b"]);
    const othersKey = await queries.usage({ account, key: "k3" as KeyId }, "current");
    expect(othersKey.months[0]?.items).toEqual([]);
  });

  it("counts a record in the month it was posted, and a later correction in its own", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const first = usageRecord(account, { input: 0, output: 50 });
    await world.settlement.settle([first], "1");
    await postEarlier(world, "1 month");
    await world.pool.query("update usage set settled_at = settled_at - interval '1 month'");
    await world.pool.query("select rebuild_usage_days()");
    const queries = createUsageQueries({ store: world.usageStore });
    const before = await queries.usage({ account }, "current(-1)", "current");
    expect(before.months.map((month) => month.totalCost)).toEqual([50n * tokenPrice, 0n]);
    await world.settlement.settle(
      [usageRecord(account, { input: 0, output: 20 }, { requestId: first.requestId, attempt: 2 })],
      "1",
    );
    const after = await queries.usage({ account }, "current(-1)", "current");
    expect(after.months.map((month) => month.totalCost)).toEqual([50n * tokenPrice, -30n * tokenPrice]);
  });

  it("comes to the same by day, model, key and scoped token, and shows nobody else's", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const stranger = await world.account(usd);
    const key = await world.keyOf(account);
    const use = (tokens: number, model: string, keyId: string, who = account) =>
      usageRecord(who, { input: tokens, output: 0 }, { model, keyId: keyId as KeyId });
    const mine = [use(10, "acme/a", key), use(2, "acme/a", "k2"), use(4, "acme/b", "k2")];
    await world.settlement.settle([...mine, use(100, "acme/a", "k3", stranger)], "1");
    // The last was asked with a token that has a limit, a day before.
    await world.pool.query(
      `insert into budget (budget_id, scope, account_id, lim, spent) values ('jwt/t', 'jwt', $1, 7000, 4000)`,
      [account],
    );
    await world.pool.query("update usage set token_budget = 'jwt/t' where request_id = $1", [mine[2]?.requestId]);
    await world.pool.query("update usage set settled_at = settled_at - interval '1 day' where model = 'acme/b'");
    await world.pool.query(
      `set session_replication_role = replica;
       update ledger_entry set posted_at = posted_at - interval '1 day' where model = 'acme/b';
       reset session_replication_role;
       select rebuild_usage_days()`,
    );
    const { rows } = await world.pool.query<{ day: string }>(
      "select to_char(max(settled_at) at time zone 'UTC', 'YYYY-MM-DD') as day from usage",
    );
    const today = rows[0]?.day as string;
    const read = createUsageDays({ store: createUsageDayStore(world.db), unixMs: () => Date.parse(today) });
    const pairs = (await read.read(account, "model_and_key", undefined, today)).days.slice(-2);
    expect(
      pairs.map(({ items }) => items.map((one) => [one.of, one.key, one.keyName, one.requests, one.cost])),
    ).toEqual([
      [["acme/b", "k2", "", 1, 4n * tokenPrice]],
      [
        ["acme/a", key, "auto", 1, 10n * tokenPrice],
        ["acme/a", "k2", "", 1, 2n * tokenPrice],
      ],
    ]);
    const found = async (by: "model" | "key" | "token") =>
      (await read.read(account, by, undefined, today)).days
        .slice(-2)
        .map(({ totalCost, items }) => [
          totalCost,
          items.map((item) => [item.of, item.name, item.requests, item.cost]),
        ]);
    expect(await found("model")).toEqual([
      [4n * tokenPrice, [["acme/b", "acme/b", 1, 4n * tokenPrice]]],
      [12n * tokenPrice, [["acme/a", "acme/a", 2, 12n * tokenPrice]]],
    ]);
    expect(await found("key")).toEqual([
      [4n * tokenPrice, [["k2", "", 1, 4n * tokenPrice]]],
      [
        12n * tokenPrice,
        [
          [key, "auto", 1, 10n * tokenPrice],
          ["k2", "", 1, 2n * tokenPrice],
        ],
      ],
    ]);
    expect(await found("token")).toEqual([
      [4n * tokenPrice, [["jwt/t", "", 1, 4n * tokenPrice]]],
      [0n, []],
    ]);
  });

  it("marks a past month without use as empty", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const queries = createUsageQueries({ store: world.usageStore });
    const { months } = await queries.usage({ account }, "current(-2)", "current");
    expect(months.map((month) => month.invoiceId)).toEqual(["EMPTY", "EMPTY", "NOT_FINAL"]);
  });
});

describe("the checklist", () => {
  it("leaves as funds what the credit is more than the use, what is invoiced apart", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const old = usageRecord(account, { input: 0, output: 100 });
    await world.settlement.settle([old], "1");
    await postEarlier(world, "40 days");
    await world.settlement.settle([usageRecord(account, { input: 0, output: 7 })], "1");
    const months = createMonthClosing({ store: world.invoiceStore, log });
    await months.closeMonths();
    const store = { ...world.billingStore, ...world.invoiceStore };
    const checklist = await createChecklists({ store, updateStatus: async () => {}, minDue: 1n }).read(account);
    expect(checklist).toMatchObject({ paymentsBalance: 100n * tokenPrice - usd, recent: 7n * tokenPrice });
  });
});

describe("the usage table", () => {
  it("gets its months ahead, and takes records of any other month too", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const now = new Date(Date.UTC(2026, 11, 20));
    await Promise.all([world.settlementStore.ensureMoneyMonths(now), world.settlementStore.ensureMoneyMonths(now)]);
    const times = [now.getTime(), Date.UTC(2027, 0, 1), Date.UTC(2031, 0, 1)];
    await world.settlement.settle(
      times.map((at) => usageRecord(account, { input: 1, output: 1 }, { admittedAtMs: String(at) })),
      "1",
    );
    const { rows } = await world.pool.query("select tableoid::regclass::text as part from usage order by admitted_at");
    expect(rows.map((row) => row.part)).toEqual(["usage_2026_12", "usage_2027_01", "usage_other"]);
  });
});

it("sums usage by the end user that requests named, together what the ledger charged", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(usd);
  const stranger = await world.account(usd);
  const uses = ["ann", "ann", "bob", undefined].map((endUser, n) => ({
    endUser,
    requestId: `r-user-${n}` as RequestId,
  }));
  await world.settlement.settle(
    [
      ...uses.map(({ requestId, endUser }, n) =>
        usageRecord(account, { input: 10 ** n, output: 1 }, { requestId, ...(endUser && { endUser }) }),
      ),
      usageRecord(stranger, { input: 1, output: 1 }, { endUser: "ann" }),
    ],
    "1",
  );
  const days = createUsageDays({ store: createUsageDayStore(world.db) });
  const by = async (dimension: "user" | "model") => (await days.read(account, dimension, undefined, undefined)).days;
  const items = (await by("user")).flatMap((one) => one.items);
  expect(items.map(({ of, name, requests, inputTokens, cost }) => [of, name, requests, inputTokens, cost])).toEqual([
    ["", "", 1, 1000, 1001n * tokenPrice],
    ["bob", "bob", 1, 100, 101n * tokenPrice],
    ["ann", "ann", 2, 11, 13n * tokenPrice],
  ]);
  const total = (of: Awaited<ReturnType<typeof by>>) => of.reduce((sum, one) => sum + one.totalCost, 0n);
  expect(total(await by("user"))).toBe(total(await by("model")));
});

describe("request labels", () => {
  it("are written in the background and never waited for", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const labels = createRequestLabels({ store: world.usageStore, log });
    labels.start();
    labels.note("r1" as RequestId, "mine", account);
    labels.note("r2" as RequestId, "mine", account);
    await labels.stop();
    const { rows } = await world.pool.query("select request_id from request_label where label = 'mine' order by 1");
    expect(rows).toEqual([{ request_id: "r1" }, { request_id: "r2" }]);
  });
});

describe("the log of requests", () => {
  const all = { fromMs: 0, toMs: Date.now() + 3_600_000, model: undefined, onlyFailed: false };

  it("is read by page, by model and by failure, each request once and nobody else's", async () => {
    const world = await openWorld(postgres);
    const [account, stranger] = [await world.account(usd), await world.account(usd)];
    const one = (more: object = {}, who = account) => usageRecord(who, { input: 1, output: 1 }, more);
    const again = one();
    // Settled together, so that only their ids tell them apart.
    await world.settlement.settle([one(), one(), again, one({}, stranger)], "1");
    await world.settlement.settle([one({ model: "acme/other", endReason: "engine_error" })], "1");
    await world.settlement.settle([one({ requestId: again.requestId, attempt: 2 })], "1");
    const requests = createRequestLog({ store: createRequestLogStore(world.db) });
    const pages = [await requests.list(account, all, undefined, 3)];
    pages.push(await requests.list(account, all, pages[0]?.requests.at(-1)?.id, 3));
    expect(pages.map((page) => [page.requests.length, page.hasMore])).toEqual([
      [3, true],
      [1, false],
    ]);
    expect(new Set(pages.flatMap((page) => page.requests.map(({ id }) => id))).size).toBe(4);
    const failed = await requests.list(account, { ...all, onlyFailed: true }, undefined, 10);
    expect(failed.requests.map(({ model, charge }) => [model, charge])).toEqual([["acme/other", 2n * tokenPrice]]);
    expect((await requests.list(account, { ...all, model: "acme/model" }, undefined, 10)).requests).toHaveLength(3);

    expect(
      (await requests.find(again.requestId, account)).attempts.map(({ attempt, isVoided }) => [attempt, isVoided]),
    ).toEqual([
      [1, true],
      [2, false],
    ]);
    expect((await requests.find(again.requestId, undefined)).attempts).toHaveLength(2);
    await expect(requests.find(again.requestId, stranger)).rejects.toMatchObject({ code: "request_not_found" });
    await expect(requests.list(stranger, all, again.requestId, 10)).rejects.toMatchObject({
      code: "request_not_found",
    });
  });

  it("and the sums of days, where an account has too many for one statement, are refused with what to ask instead", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    // Its statements end early, and nothing is read while another holds the table.
    const { db, close } = openDatabase(world.url, { maxConnections: 2, statementTimeoutMs: 300, log });
    const holder = await world.pool.connect();
    try {
      await holder.query("begin; lock table usage, usage_day in access exclusive mode");
      const requests = createRequestLog({ store: createRequestLogStore(db) });
      await expect(requests.list(account, all, undefined, 10)).rejects.toThrow(
        /^Looking through these requests takes longer/,
      );
      const days = createUsageDays({ store: createUsageDayStore(db) });
      await expect(days.read(account, "model", undefined, undefined)).rejects.toThrow(/Ask for a shorter period/);
      const stats = createDeploymentStatsStore(db);
      const asked = ["d-1" as DeploymentId, account, 0, Date.now()] as const;
      const reads = [stats.series(...asked, 2), stats.use(...asked), stats.requests(account, 0, Date.now())];
      await Promise.all(reads.map((read) => expect(read).rejects.toMatchObject({ code: "report_too_long" })));
    } finally {
      await holder.query("rollback");
      holder.release();
      await close();
    }
  });

  it("finds a request by the client's own id too, for its account alone", async () => {
    const world = await openWorld(postgres);
    const [account, stranger] = [await world.account(usd), await world.account(usd)];
    const record = usageRecord(account, { input: 1, output: 1 });
    await world.settlement.settle([record], "1");
    const labels = createRequestLabels({ store: world.usageStore, log });
    labels.start();
    labels.note(record.requestId as RequestId, "mine", account);
    await labels.stop();
    const requests = createRequestLog({ store: createRequestLogStore(world.db) });
    expect((await requests.find("mine", account)).attempts.map(({ id }) => id)).toEqual([record.requestId]);
    await expect(requests.find("mine", stranger)).rejects.toMatchObject({ code: "request_not_found" });
    await expect(requests.find("mine", undefined)).rejects.toMatchObject({ code: "request_not_found" });
  });
});

describe("statistics of deployments", () => {
  const deployed = (world: World, account: string, id: string, name: string) =>
    world.pool.query(
      `insert into deployment (deploy_id, account_id, model_name, version, task, type, engine, status, gpu, num_gpus,
         max_batch_size, min_instances, max_instances, weights)
       values ($1, $2, $3, 'v', 'text-generation', 'llm', 'stoker', 'deployed', 'other', 1, 4, 1, 1, '{}')`,
      [id, account, name],
    );

  it("count a period's requests, times, tokens, money and failures, for the owner alone", async () => {
    const world = await openWorld(postgres);
    const [account, stranger] = [await world.account(usd), await world.account(usd)];
    await deployed(world, account, "d-1", "ada/one");
    await deployed(world, account, "d-2", "ada/two");
    const of = (deployId: string, more: object = {}, who = account) =>
      usageRecord(who, { input: 10, output: 11 }, { deployId: deployId as DeploymentId, ...more });
    const hoursAgo = (hours: number) => String(Date.now() - hours * 3_600_000);
    await world.settlement.settle(
      [
        of("d-1", { firstByteMs: 100, totalMs: 200 }),
        of("d-1", { firstByteMs: 300, totalMs: 800, endReason: "engine_error" }),
        of("d-1", { admittedAtMs: hoursAgo(9) }),
        of("d-2"),
        of("d-1", {}, stranger),
      ],
      "1",
    );
    const stats = createDeploymentStatsStore(world.db);
    const [fromMs, toMs] = [Date.now() - 5 * 3_600_000, Date.now() + 1_000];
    expect(await stats.use("d-1" as DeploymentId, account, fromMs, toMs)).toMatchObject({
      requests: 2,
      errors: 1,
      inputTokens: 20,
      outputTokens: 22,
      totalMs: 1000,
      averageMs: 500,
      averageFirstMs: 200,
      averageTokenMs: 30,
      chargeNano: 42n * tokenPrice,
    });
    const { p95Ms, p95TokenMs } = await stats.use("d-1" as DeploymentId, account, fromMs, toMs);
    expect([p95Ms, p95TokenMs].map(Math.round)).toEqual([770, 48]);
    expect(await stats.requests(account, fromMs, toMs)).toEqual([
      { modelName: "ada/one", requests: 2 },
      { modelName: "ada/two", requests: 1 },
    ]);
    expect(await stats.use("d-1" as DeploymentId, stranger, fromMs, toMs)).toMatchObject({ requests: 0, averageMs: 0 });

    // The same over time: all of it happened in the last of ten half hours.
    const series = await stats.series("d-1" as DeploymentId, account, fromMs, toMs, 10);
    expect(series.steps.map(({ requests }) => requests)).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    expect(series.steps.at(-1)).toMatchObject({ errors: 1, outputTokens: 22, firstMs: { p50: 200, p95: 290 } });
    expect(series.steps.at(-1)?.totalMs).toEqual({ p50: 500, p95: 770 });
    expect(series.steps[0]).toMatchObject({ fromMs, errors: 0, firstMs: null, totalMs: null, queueP95Ms: null });
    expect(series.endReasons).toEqual([
      { reason: "engine_error", requests: 1 },
      { reason: "stop", requests: 1 },
    ]);
    expect((await stats.series("d-1" as DeploymentId, stranger, fromMs, toMs, 2)).endReasons).toEqual([]);
    expect(await stats.requests(stranger, fromMs, toMs)).toEqual([]);
  });

  it("say of the same requests that they failed as the log and the console do", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    await deployed(world, account, "d-1", "ada/one");
    const failures = ["drained", "engine_error", "engine_timeout", "lost", "refused"];
    const reasons = ["stop", "client_gone", ...failures] as EndReason[];
    const of = (endReason: EndReason) =>
      usageRecord(account, { input: 1, output: 1 }, { deployId: "d-1" as DeploymentId, endReason });
    await world.settlement.settle(reasons.map(of), "1");
    const [fromMs, toMs] = [Date.now() - 3_600_000, Date.now() + 1_000];
    const stats = createDeploymentStatsStore(world.db);
    expect(await stats.use("d-1" as DeploymentId, account, fromMs, toMs)).toMatchObject({ requests: 7, errors: 5 });
    const { steps } = await stats.series("d-1" as DeploymentId, account, fromMs, toMs, 1);
    expect(steps).toMatchObject([{ requests: 7, errors: 5 }]);
    const logged = createRequestLog({ store: createRequestLogStore(world.db) });
    const filter = { fromMs, toMs, model: undefined, onlyFailed: true };
    const { requests } = await logged.list(account, filter, undefined, 10);
    expect(requests.map(({ endReason }) => endReason).sort()).toEqual(failures);
    expect(reasons.filter((reason) => endingOf(reason).isFailure).sort()).toEqual(failures);
  });

  it("of a model that is offered to everybody tell its owner what all of them asked", async () => {
    const world = await openWorld(postgres);
    const [account, stranger] = [await world.account(usd), await world.account(usd)];
    await deployed(world, account, "d-3", "ada/three");
    await world.pool.query("insert into public_model (model_name, deploy_id) values ('org/three', 'd-3')");
    const deployId = "d-3" as DeploymentId;
    await world.settlement.settle([usageRecord(stranger, { input: 1, output: 1 }, { deployId })], "1");
    const stats = createDeploymentStatsStore(world.db);
    expect((await stats.use(deployId, account, 0, Date.now() + 1_000)).requests).toBe(1);
  });
});

describe("what an operator watches of everybody's money", () => {
  it("names who spent most this month, what is leased, and a ledger that does not balance", async () => {
    const world = await openWorld(postgres);
    const little = await world.account(usd);
    const much = await world.account(usd);
    await world.account(usd);
    await world.settlement.settle(
      [
        usageRecord(little, { input: 1, output: 1 }),
        usageRecord(much, { input: 10, output: 10 }),
        usageRecord(much, { input: 10, output: 10 }),
      ],
      "1",
    );
    await world.pool.query(
      `insert into account_suspension (account_id, reason, suspended_by, note) values ('${little}', 'balance', 'system', '')`,
    );
    const { overview } = createMoneyOverviewStore(world.db);
    const month = monthOf(Date.now());
    const sound = await overview(month, 10);
    expect(sound.spenders.map(({ account, spent, requests }) => [account, spent, requests])).toEqual([
      [much, 40n * tokenPrice, 2],
      [little, 2n * tokenPrice, 1],
    ]);
    expect(sound).toMatchObject({ imbalance: 0n, lossOfHour: 0n, suspended: [{ reason: "balance", accounts: 1 }] });
    expect((await overview(month, 1)).spenders.map(({ account }) => account)).toEqual([much]);

    await world.pool.query(
      `insert into ledger_entry (transaction_id, book, account_id, amount, kind) values ('torn', 'platform_loss', null, 7, 'loss')`,
    );
    expect(await overview(month, 10)).toMatchObject({ imbalance: 7n, lossOfHour: 7n });
  });
});
