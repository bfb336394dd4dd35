// Webhooks with their stores: requests and deliveries are rows that loops of every control plane process.
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { AddressRules } from "../../proto/address-rules.ts";
import { type FaultPoint, withPoints } from "../../proto/fault-point.ts";
import type { AccountId, KeyId } from "../../proto/ids.ts";
import { pause } from "../../proto/pause.ts";
import { repeat } from "../../proto/repeat.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import { laterCallerOf } from "../accounts/authenticate.ts";
import type { AccountStore } from "../accounts/store.ts";
import type { OpenDatabase } from "../store/core/database.ts";
import { createWebhookDeliveryStore } from "../store/work/webhook-delivery-store.ts";
import { createWebhookJobStore } from "../store/work/webhook-job-store.ts";
import { createWebhookSecretStore } from "../store/work/webhook-secret-store.ts";
import { createDeliveries } from "../webhooks/deliver.ts";
import type { RunJob } from "../webhooks/job.ts";
import { createWebhookMetrics } from "../webhooks/metrics.ts";
import { createResultsLinks } from "../webhooks/results-link.ts";
import { createJobRuns } from "../webhooks/run-jobs.ts";
import { createWebhookSecrets, type SecretSeal } from "../webhooks/secrets.ts";
import { createTargets } from "../webhooks/target.ts";
import { createWebhooks } from "../webhooks/webhooks.ts";

const ageEveryMs = 10_000;
/** Slightly more than the limit of a running request. A longer delivery is repeated by another control plane. */
const stopLimitMs = 12_000;

export function createWebhookService(deps: {
  readonly db: OpenDatabase["db"];
  readonly accountStore: Pick<AccountStore, "findOwnKey">;
  readonly seal: SecretSeal;
  readonly linkKey: Buffer;
  readonly rules: AddressRules;
  /** 1; less in tests shortens the delivery schedule and the claims by these factors. */
  readonly clockScale: number;
  readonly claimScale: number;
  /** Maximum bytes of one account's responses in the database. */
  readonly maxKeptBytes?: number;
  /** Memory for running requests, and whether there is memory for another response. */
  readonly maxBodyBytes: number;
  readonly hasCapacity: () => boolean;
  readonly fault: FaultPoint<"after_accept">;
  readonly registry: Registry;
  readonly log: Logger;
}) {
  const { db, accountStore, clockScale, claimScale, log } = deps;
  const metrics = createWebhookMetrics(deps.registry);
  const jobStore = createWebhookJobStore(db, deps.maxKeptBytes);
  const deliveryStore = createWebhookDeliveryStore(db);
  const secrets = createWebhookSecrets({ store: createWebhookSecretStore(db), seal: deps.seal });
  const targets = createTargets(deps.rules);
  const links = createResultsLinks(deps.linkKey);
  const calls = createDeliveries({ store: deliveryStore, secrets, targets, metrics, log, clockScale, claimScale });
  const runs = createJobRuns({
    store: jobStore,
    findCaller: async (account: AccountId, key: KeyId) => {
      const row = await accountStore.findOwnKey(account, key);
      return laterCallerOf(row, steadyTime.nowMs());
    },
    links,
    maxBodyBytes: deps.maxBodyBytes,
    hasCapacity: deps.hasCapacity,
    metrics,
    log,
    clockScale,
    claimScale,
    onEnded: calls.wake,
  });
  let runJob: RunJob | undefined;
  const stopping = new AbortController();
  let running: Promise<unknown> | undefined;

  /** Updates gauges in the background, so that the metrics page does not wait for the database. */
  async function readAge(): Promise<void> {
    const ms = await deliveryStore.oldestDueMs().catch(() => undefined);
    if (ms !== undefined) metrics.oldestDue(ms / 1000);
    const kept = await deliveryStore.keptBytes().catch(() => undefined);
    if (kept !== undefined) metrics.storedBytes(kept);
  }

  return {
    verbs: createWebhooks({
      jobs: withPoints(jobStore, "addJob", deps.fault, { after: "after_accept" }),
      deliveries: deliveryStore,
      secrets,
      targets,
      links,
      onAccepted: runs.wake,
      onReplayed: calls.wake,
      runWith: (run) => {
        runJob = run;
      },
    }),
    start(): void {
      const { signal } = stopping;
      const run: RunJob = (...given) => (runJob as RunJob)(...given);
      running ??= Promise.all([runs.run(run, signal), calls.run(signal), repeat(ageEveryMs, signal, readAge)]);
    },
    /** Running requests have seconds to end; later ones are continued by another control plane. */
    async stop(): Promise<void> {
      stopping.abort();
      const timer = new AbortController();
      const limit = pause(stopLimitMs, timer.signal);
      await Promise.race([running, limit]);
      timer.abort();
    },
  };
}
