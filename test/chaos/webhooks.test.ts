// Webhooks while the control plane is killed and its job queue wiped: every accepted request is told, with one id and the same
// bytes, and billed once. 500 of them in the nightly run.
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { ledgerFacts, query, usageRows } from "../e2e/spine/database.ts";
import { type ExternalStack, startExternalStack } from "../fakes/external-stack.ts";
import { longer } from "../fakes/nightly.ts";
import { startWebhookReceiver, verified, type WebhookReceiver } from "../fakes/webhook-receiver.ts";

const count = longer(60, 500);
const patient = { timeout: 120_000, interval: 200 };
let world: ExternalStack;
let receiver: WebhookReceiver;

beforeAll(async () => {
  receiver = await startWebhookReceiver();
  world = await startExternalStack({
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

it(`${count} requests are each told at least once and billed once, though the control plane is killed at every step`, async () => {
  const { stack, model } = world;
  const { controlPlane, databaseUrl } = stack;
  // Every third call fails the first time.
  const failed = new Set<string>();
  receiver.answer((call, res) => {
    const isThird = failed.size * 3 < receiver.calls.length && !failed.has(call.id);
    if (isThird) failed.add(call.id);
    res.writeHead(isThird ? 500 : 204).end();
  });
  const ids: string[] = [];
  const ask = async () => {
    const { status, body } = await stack.call("POST", `/v1/inference/${model}`, {
      input: "hello",
      max_new_tokens: 4,
      webhook: `${receiver.origin}/hook`,
    });
    expect(status, JSON.stringify(body)).toBe(200);
    expect(body.inference_status.status).toBe("queued");
    ids.push(body.request_id);
  };
  const askMany = async (many: number) => {
    for (let left = many; left > 0; left -= 10) await Promise.all(Array.from({ length: Math.min(10, left) }, ask));
  };
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

  await vi.waitFor(async () => {
    const [row] = await query<{ jobs: number; calls: number }>(
      databaseUrl,
      `select (select count(*)::int from webhook_job where finished_at is null) as jobs,
         (select count(*)::int from webhook_delivery where state <> 'delivered') as calls`,
    );
    expect(row).toEqual({ jobs: 0, calls: 0 });
  }, patient);

  const { secret } = (await stack.call("GET", "/v1/webhooks/secret")).body;
  const told = new Map<string, Set<string>>();
  for (const call of receiver.calls) {
    const body = verified(secret, call) as { request_id: string; inference_status: { status: string } };
    expect(body.inference_status.status).toBe("succeeded");
    const versions = told.get(body.request_id) ?? new Set();
    told.set(body.request_id, versions.add(`${call.id} ${call.body.toString()}`));
  }
  expect([...told.keys()].toSorted()).toEqual(ids.toSorted());
  expect([...told.values()].filter((versions) => versions.size !== 1)).toEqual([]);

  await vi.waitFor(async () => {
    const billed = (await usageRows(databaseUrl)).filter((row) => !row.voided && row.charge > 0);
    const ofUs = billed.map((row) => row.request_id).filter((id) => told.has(id));
    expect(ofUs.toSorted()).toEqual(ids.toSorted());
  }, patient);
  expect(await ledgerFacts(databaseUrl)).toMatchObject({ sum: 0, overspent: 0, capturesPerRequest: 1 });
}, 600_000);
