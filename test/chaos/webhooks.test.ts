// Webhooks while the control plane is killed and its job queue wiped, be it in PostgreSQL or in a Redis that is killed and
// emptied: every accepted request is reported, with one id and the same bytes, and billed once.
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { ledgerFacts, query, usageRows } from "../e2e/spine/database.ts";
import { type ExternalStack, startExternalStack } from "../fakes/external-stack.ts";
import { hasRedis, startRedis, withoutRedis } from "../fakes/redis.ts";
import { startWebhookReceiver, verified, type WebhookReceiver } from "../fakes/webhook-receiver.ts";

const count = 500;
const more = 250;
const patient = { timeout: 120_000, interval: 200 };
let world: ExternalStack;
let receiver: WebhookReceiver;

withoutRedis("webhooks while the Redis of the job queue is killed and emptied");
beforeAll(async () => {
  receiver = await startWebhookReceiver();
  world = await startExternalStack({
    isDatabaseOnDisk: true,
    engine: { firstByteMs: 50 },
    // The database of the queue is the control plane's own: what is wiped below is all that the queue knows.
    controlPlaneEnv: {
      STOKER_WEBHOOK_ALLOW_PRIVATE: "1",
      STOKER_WEBHOOK_CLOCKS: "0.2",
      STOKER_SLICE_CLOCKS: "0.2",
    },
  });
});
afterAll(async () => {
  await world?.stop();
  await receiver?.close();
});

const healthy = () =>
  vi.waitFor(async () => expect((await world.stack.call("GET", "/readyz")).status).toBe(200), patient);

/** Requests of one test; what was asked for before is not its own. */
function asking() {
  const ids: string[] = [];
  const request = { input: "hello", max_new_tokens: 4, webhook: `${receiver.origin}/hook` };
  const ask = async () => {
    // Who is told to come again was not promised anything: a machine that is busy may say so.
    const { status, body } = await vi.waitFor(async () => {
      const answer = await world.stack.call("POST", `/v1/inference/${world.model}`, request);
      if (answer.status === 503) throw new Error(JSON.stringify(answer.body));
      return answer;
    }, patient);
    expect(status, JSON.stringify(body)).toBe(200);
    expect(body.inference_status.status).toBe("queued");
    ids.push(body.request_id);
  };
  const askMany = async (many: number) => {
    for (let left = many; left > 0; left -= 10) await Promise.all(Array.from({ length: Math.min(10, left) }, ask));
  };
  return { ids, askMany };
}

/** Every third call fails the first time. */
function failNowAndThen() {
  const failed = new Set<string>();
  receiver.answer((call, res) => {
    const isThird = failed.size * 3 < receiver.calls.length && !failed.has(call.id);
    if (isThird) failed.add(call.id);
    res.writeHead(isThird ? 500 : 204).end();
  });
}

/** Nothing is left to do, and each was told at least once, with one id and the same signed bytes, and billed once. */
async function expectToldOnce(ids: readonly string[]): Promise<void> {
  const { stack } = world;
  await vi.waitFor(async () => {
    const [row] = await query<{ jobs: number; calls: number }>(
      stack.databaseUrl,
      `select (select count(*)::int from webhook_job where finished_at is null) as jobs,
         (select count(*)::int from webhook_delivery where state <> 'delivered') as calls`,
    );
    expect(row).toEqual({ jobs: 0, calls: 0 });
  }, patient);

  const { secret } = (await stack.call("GET", "/v1/webhooks/secret")).body;
  const mine = new Set(ids);
  const told = new Map<string, Set<string>>();
  for (const call of receiver.calls) {
    const body = verified(secret, call) as { request_id: string; inference_status: { status: string } };
    if (!mine.has(body.request_id)) continue;
    expect(body.inference_status.status).toBe("succeeded");
    const versions = told.get(body.request_id) ?? new Set();
    told.set(body.request_id, versions.add(`${call.id} ${call.body.toString()}`));
  }
  expect([...told.keys()].toSorted()).toEqual(ids.toSorted());
  expect([...told.values()].filter((versions) => versions.size !== 1)).toEqual([]);

  await vi.waitFor(async () => {
    const billed = (await usageRows(stack.databaseUrl)).filter((row) => !row.voided && row.charge > 0);
    const ofUs = billed.map((row) => row.request_id).filter((id) => mine.has(id));
    expect(ofUs.toSorted()).toEqual(ids.toSorted());
  }, patient);
  expect(await ledgerFacts(stack.databaseUrl)).toMatchObject({ sum: 0, overspent: 0, capturesPerRequest: 1 });
}

it(`delivers each of ${count} requests at least once and bills it once when the control plane is killed at every step`, async () => {
  const { controlPlane, databaseUrl } = world.stack;
  failNowAndThen();
  const { ids, askMany } = asking();
  const restart = async () => {
    await controlPlane.kill9();
    controlPlane.start();
    await healthy();
  };

  // While requests run: the engine is held up until the control plane is gone.
  world.engine.behave({ firstByteMs: 600_000 });
  await askMany(count / 3);
  await vi.waitFor(() => expect(world.engine.running).toBeGreaterThan(0), patient);
  await controlPlane.kill9();
  world.engine.behave({ firstByteMs: 50 });
  await query(databaseUrl, "drop schema if exists stoker_jobs cascade");
  controlPlane.start();
  await healthy();

  // While calls are made.
  await askMany(count / 3);
  await vi.waitFor(() => expect(receiver.calls.length).toBeGreaterThan(0), patient);
  await restart();

  // Just after they were taken.
  await askMany(count - ids.length);
  await restart();

  await expectToldOnce(ids);
}, 600_000);

it.runIf(hasRedis)(
  `does the same for ${more} more when the job queue's Redis is killed, empty or unavailable at every step`,
  async () => {
    const { controlPlane } = world.stack;
    const redis = await startRedis();
    onTestFinished(() => redis.stop());
    await controlPlane.stop();
    controlPlane.start({ REDIS_URL: redis.url });
    await healthy();
    await vi.waitFor(async () => expect(await redis.keys()).toBeGreaterThan(0), patient);

    failNowAndThen();
    const { ids, askMany } = asking();
    const callsFrom = (before: number) =>
      vi.waitFor(() => expect(receiver.calls.length).toBeGreaterThan(before), patient);

    // Killed while requests run, and away while others come and all of them are told.
    await askMany(more / 5);
    await redis.kill9();
    const before = receiver.calls.length;
    await askMany(more / 5);
    await callsFrom(before);

    // Back and empty, then emptied under way.
    await redis.start();
    await askMany(more / 5);
    await redis.flush();
    await askMany(more / 5);

    // Killed with the control plane, whose successor finds none.
    await redis.kill9();
    await controlPlane.kill9();
    controlPlane.start({ REDIS_URL: redis.url });
    await healthy();
    await askMany(more - ids.length);
    await expectToldOnce(ids);
  },
  600_000,
);
