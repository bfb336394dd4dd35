// Webhooks on a real database with a real receiver; what a request comes to is the test's to say.
import { Registry } from "prom-client";
import { onTestFinished, vi } from "vitest";
import { callerOf } from "../../../control-plane/accounts/authenticate.ts";
import type { Caller } from "../../../control-plane/accounts/caller.ts";
import { createDataKeys } from "../../../control-plane/accounts/data-keys.ts";
import { webhookSeal } from "../../../control-plane/accounts/seals.ts";
import { mib } from "../../../control-plane/webhooks/account-load.ts";
import type { RunJob } from "../../../control-plane/webhooks/job.ts";
import type { DeliveryRecord } from "../../../control-plane/webhooks/store.ts";
import { createWebhookService } from "../../../control-plane/wiring/webhooks.ts";
import { type AccountId, type RequestId, randomId } from "../../../proto/ids.ts";
import type { TestDatabases } from "../../fakes/postgres.ts";
import { startWebhookReceiver } from "../../fakes/webhook-receiver.ts";
import { log, openWorld, patience } from "../billing/world.ts";

/** Echoes the input, for USD 0.25. */
export const echo: RunJob = async (job) => ({
  results: { results: [{ generated_text: (JSON.parse(job.body.toString()) as { input: string }).input }] },
  runtimeMs: 7,
  cost: 0.25,
});

export type WebhookWorld = Awaited<ReturnType<typeof openWebhooks>>;

export async function openWebhooks(postgres: TestDatabases, options: { readonly run?: RunJob } = {}) {
  const world = await openWorld(postgres);
  const receiver = await startWebhookReceiver();
  onTestFinished(() => receiver.close());
  const { db, accountStore, secrets } = world;

  /** A control plane. Its schedule runs a hundred times as fast. */
  function start(run: RunJob = options.run ?? echo, change: { readonly allowsPrivate?: boolean } = {}) {
    const registry = new Registry();
    const service = createWebhookService({
      fault: () => {},
      db,
      accountStore,
      seal: webhookSeal(createDataKeys({ store: accountStore, secrets })),
      linkKey: secrets.pepper,
      rules: { allowsPrivate: change.allowsPrivate ?? true, blocked: [] },
      clockScale: 0.01,
      claimScale: 1,
      maxBodyBytes: 64 * mib,
      hasCapacity: () => true,
      registry,
      log,
    });
    service.verbs.runWith(run);
    service.start();
    onTestFinished(service.stop);
    return { ...service.verbs, stop: service.stop, registry };
  }

  const first = start();

  async function callerIn(account: AccountId): Promise<Caller> {
    const row = await accountStore.findOwnKey(account, await world.keyOf(account));
    if (!row) throw new Error("the account has no key");
    return callerOf(row);
  }

  return {
    ...world,
    ...first,
    receiver,
    start,
    callerIn,
    async ask(caller: Caller, input = "Hello", path = "/hook", at = first): Promise<RequestId> {
      const requestId = randomId<"request">(24);
      await at.accept({
        caller,
        requestId,
        target: await at.check(receiver.origin + path),
        label: undefined,
        source: undefined,
        model: "org/model",
        body: Buffer.from(JSON.stringify({ input })),
        origin: "https://stoker.example.com",
      });
      return requestId;
    },
    /** Once it has come to `state`. */
    ended(account: AccountId, requestId: RequestId, state = "delivered"): Promise<DeliveryRecord> {
      return vi.waitFor(async () => {
        const { deliveries } = await first.deliveries(account, undefined, 100);
        const found = deliveries.find((one) => one.requestId === requestId);
        if (found?.state !== state) throw new Error(`it is ${found?.state ?? "not told yet"}, not ${state}`);
        return found;
      }, patience);
    },
  };
}
