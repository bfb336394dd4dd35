import pino from "pino";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createRejections } from "../../../control-plane/billing/rejections.ts";
import { createRequestLog } from "../../../control-plane/billing/request-log.ts";
import type { Rejection } from "../../../control-plane/billing/store.ts";
import { createRetentionStore } from "../../../control-plane/store/core/retention-store.ts";
import { createRejectionStore } from "../../../control-plane/store/money/rejection-store.ts";
import { createRequestLogStore } from "../../../control-plane/store/money/request-log-store.ts";
import type { AccountId, KeyId, RequestId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { openWorld, usageRecord } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const atMs = Date.UTC(2026, 5, 1, 14, 2);
const rejection = (account: AccountId, n: number, more: Partial<Rejection> = {}): Rejection => ({
  id: `rejected-${n}` as RequestId,
  account,
  key: "key" as KeyId,
  atMs: atMs + Math.floor(n / 2) * 1_000,
  model: "org/unknown",
  route: "/v1/chat/completions",
  status: 404,
  code: "model_not_found",
  label: null,
  otherCount: 0,
  ...more,
});
const period = { fromMs: atMs, toMs: atMs + 60_000 };

it("lists rejected requests of the account by page and filter, once each, and finds one by the client's id", async () => {
  const world = await openWorld(postgres);
  const [account, stranger] = [await world.account(1n), await world.account(1n)];
  const store = createRejectionStore(world.db);
  const log = createRequestLog({ store: createRequestLogStore(world.db) });
  const all = Array.from({ length: 7 }, (_, n) => rejection(account, n));
  all[3] = rejection(account, 3, { code: "funds_used_up", status: 402, label: "mine", model: "org/other" });
  await store.writeRejections([...all, rejection(stranger, 99), rejection(account, 98, { atMs: period.toMs })]);
  await store.writeRejections([rejection(account, 6, { otherCount: 4, code: "changed" })]);

  const ids: string[] = [];
  for (let after: string | undefined; ; after = ids.at(-1)) {
    const { rejections, hasMore } = await log.rejections(account, account, period, after, 3);
    ids.push(...rejections.map(({ id }) => id));
    if (!hasMore) break;
  }
  expect(ids).toEqual([6, 5, 4, 3, 2, 1, 0].map((n) => `rejected-${n}`));
  const [newest] = (await log.rejections(account, account, period, undefined, 1)).rejections;
  expect(newest).toEqual({ ...all[6], otherCount: 4 });
  const listed = async (filter: object) =>
    (await log.rejections(account, account, { ...period, ...filter }, undefined, 50)).rejections.map(({ id }) => id);
  expect(await listed({ code: "funds_used_up" })).toEqual(["rejected-3"]);
  expect(await listed({ model: "org/other" })).toEqual(["rejected-3"]);
  expect(await listed({ key: "other" })).toEqual([]);

  expect(await log.find("mine", account)).toMatchObject({ attempts: [], rejection: { id: "rejected-3" } });
  expect(await log.find("rejected-0", account)).toMatchObject({ rejection: { code: "model_not_found" } });
  for (const [id, of] of [
    ["rejected-0", stranger],
    ["unknown", account],
  ] as const)
    await expect(log.find(id, of)).rejects.toMatchObject({ code: "request_not_found" });
  await expect(log.rejections(stranger, stranger, period, "rejected-0", 1)).rejects.toMatchObject({
    code: "request_not_found",
  });

  const ofAll = await log.rejections(stranger, undefined, period, undefined, 50);
  expect(ofAll.rejections.map(({ id }) => id)).toEqual(["rejected-99", ...ids]);
  expect(ofAll.rejections.find(({ id }) => id === "rejected-99")).toMatchObject({ account: stranger });
  const next = await log.rejections(stranger, undefined, period, "rejected-5", 2);
  expect(next).toMatchObject({ rejections: [{ id: "rejected-4" }, { id: "rejected-3" }], hasMore: true });
  expect(await log.find("rejected-99", undefined)).toMatchObject({ rejection: { account: stranger } });
  await expect(log.find("mine", undefined)).rejects.toMatchObject({ code: "request_not_found" });
});

it("leaves out one that PostgreSQL refuses, and those of deleted accounts, and writes the others", async () => {
  const world = await openWorld(postgres);
  const [account, deleted] = [await world.account(1n), await world.account(1n)];
  await world.pool.query("update account set deleted_at = now() where account_id = $1", [deleted]);
  const store = createRejectionStore(world.db);
  const rejections = createRejections({ store, log: pino({ level: "silent" }) });
  rejections.note(rejection(account, 0));
  rejections.note(rejection(account, 1, { code: "\ud800" }));
  rejections.note(rejection(deleted, 2));
  rejections.note(rejection(account, 3));
  await rejections.stop();
  const { rows } = await world.pool.query("select request_id as id from rejected_request order by 1");
  expect(rows).toEqual([{ id: "rejected-0" }, { id: "rejected-3" }]);
});

it("leaves out a request that a host has recorded, and deletes expired ones", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(1_000_000_000n);
  const store = createRejectionStore(world.db);
  const log = createRequestLog({ store: createRequestLogStore(world.db) });
  await store.writeRejections([0, 1, 2].map((n) => rejection(account, n)));
  await world.settlement.settle(
    [usageRecord(account, { input: 1, output: 1 }, { requestId: "rejected-1" as RequestId })],
    "1",
  );
  const ids = async () =>
    (await log.rejections(account, account, period, undefined, 50)).rejections.map(({ id }) => id);
  expect(await ids()).toEqual(["rejected-2", "rejected-0"]);
  expect(await log.find("rejected-1", account)).toMatchObject({ attempts: [{ attempt: 1 }], rejection: undefined });
  const retention = createRetentionStore(world.db);
  expect(await retention.deleteBefore("rejected-requests", new Date(atMs + 500), 1)).toBe(1);
  expect(await retention.deleteBefore("rejected-requests", new Date(atMs + 500), 10)).toBe(1);
  expect(await ids()).toEqual(["rejected-2"]);
});
