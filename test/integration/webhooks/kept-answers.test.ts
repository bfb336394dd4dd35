// Stored responses of calls are limited per account.
import { afterAll, beforeAll, expect, it } from "vitest";
import { createWebhookDeliveryStore } from "../../../control-plane/store/work/webhook-delivery-store.ts";
import { createWebhookJobStore } from "../../../control-plane/store/work/webhook-job-store.ts";
import { AccountLoad, mib } from "../../../control-plane/webhooks/account-load.ts";
import { randomId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { openWebhooks } from "./world.ts";

const plenty = { count: 100, bytes: mib };
const place = { model: "m", url: "https://good.example/", host: "good.example", origin: "https://stoker.example.com" };
const ample = new AccountLoad({ maxPerAccount: 8, maxBytes: mib, maxBytesPerAccount: mib }).capacity();
let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());

it("calls of an account store responses within its limit: the oldest delivered ones are deleted, undelivered ones count", async () => {
  const world = await openWebhooks(postgres);
  const [account, other] = [await world.account(0n), await world.account(0n)];
  await world.stop();
  const jobs = createWebhookJobStore(world.db, 1_000);
  const job = { key: "key" as never, token: null, label: undefined, source: undefined, ...place };
  const add = (of = account) =>
    jobs.addJob({ ...job, account: of, requestId: randomId(24), body: Buffer.alloc(1) }, 60_000, plenty);
  let told = 0;
  const answer = async (bytes: number, of = account) => {
    await add(of);
    const [claimed] = await jobs.claimJobs({ claim: randomId(16), limit: 1, lockMs: 60_000, ...ample });
    const { requestId, claim } = claimed as NonNullable<typeof claimed>;
    told += 1;
    const end = { requestId, claim, error: undefined, webhookId: `msg_${told}`, body: Buffer.alloc(10) };
    expect(await jobs.endJob({ ...end, results: Buffer.alloc(bytes - 10) })).toBe(true);
    return end.webhookId;
  };
  const delivered = (id: string, state = "delivered") =>
    world.pool.query("update webhook_delivery set state = $2, finished_at = now() where webhook_id = $1", [id, state]);
  const kept = async () => {
    const { rows } = await world.pool.query(
      "select webhook_id from webhook_delivery where account_id = $1 and body is not null order by created_at",
      [account],
    );
    return rows.map(({ webhook_id: id }) => id);
  };
  const counted = async () =>
    (await world.pool.query("select account_id, bytes::integer from webhook_kept where bytes > 0")).rows;

  await answer(900, other);
  const [exhausted, first, second] = [await answer(300), await answer(300), await answer(300)];
  await delivered(exhausted, "exhausted");
  await delivered(first);
  await delivered(second);
  const third = await answer(300);
  expect(await kept()).toEqual([exhausted, second, third]);
  const records = createWebhookDeliveryStore(world.db);
  expect((await records.deliveries(account, undefined, 10)).map(({ state }) => state).toSorted()).toEqual([
    ...["delivered", "delivered", "exhausted", "pending"],
  ]);
  expect([await records.replay({ account, ip: "" }, first), await records.replay({ account, ip: "" }, second)]).toEqual(
    ["empty", "replayed"],
  );
  // What is not told yet is never let go.
  const fourth = await answer(900);
  expect(await kept()).toEqual([second, third, fourth]);
  expect([await add(), await add(other)]).toEqual(["unheard", "added"]);
  await delivered(fourth);
  expect(await add()).toBe("added");
  expect(await counted()).toEqual(
    expect.arrayContaining([
      { account_id: other, bytes: 900 },
      { account_id: account, bytes: 1_500 },
    ]),
  );
  await world.pool.query("delete from webhook_job");
  expect(await counted()).toEqual([]);
  expect(await records.keptBytes()).toBe(0);
});
