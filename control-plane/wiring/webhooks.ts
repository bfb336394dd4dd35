// Webhooks put together: requests and calls are rows, worked on by loops of every control plane.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { AddressRules } from "../../proto/address-rules.ts";
import type { AccountId, KeyId } from "../../proto/ids.ts";
import { callerOf } from "../accounts/authenticate.ts";
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
/** A little more than a request that runs gets; a call may take longer, and is then made once more. */
const stopLimitMs = 12_000;

export function createWebhookService(deps: {
  readonly db: OpenDatabase["db"];
  readonly accountStore: Pick<AccountStore, "findOwnKey">;
  readonly seal: SecretSeal;
  readonly linkKey: Buffer;
  readonly rules: AddressRules;
  /** 1, or less in tests: the schedule of calls, and apart from it the claims, run that much faster. */
  readonly clockScale: number;
  readonly claimScale: number;
  /** Of one account's answers, in the database. */
  readonly maxKeptBytes?: number;
  /** Memory for the requests that run, and whether there is some for another answer. */
  readonly maxBodyBytes: number;
  readonly hasCapacity: () => boolean;
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
      return row && callerOf(row);
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

  /** A gauge: looked up beside the loops, never while the metrics page waits. */
  async function watchAge(): Promise<void> {
    while (!stopping.signal.aborted) {
      const ms = await deliveryStore.oldestDueMs().catch(() => undefined);
      if (ms !== undefined) metrics.oldestDue(ms / 1000);
      const kept = await deliveryStore.keptBytes().catch(() => undefined);
      if (kept !== undefined) metrics.storedBytes(kept);
      await wait(ageEveryMs, undefined, { signal: stopping.signal }).catch(() => {});
    }
  }

  return {
    verbs: createWebhooks({
      jobs: jobStore,
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
      running ??= Promise.all([runs.run(run, signal), calls.run(signal), watchAge()]);
    },
    /** What runs has seconds to end; what does not is another control plane's, or the next one's. */
    async stop(): Promise<void> {
      stopping.abort();
      const timer = new AbortController();
      const limit = wait(stopLimitMs, undefined, { signal: timer.signal }).catch(() => {});
      await Promise.race([running, limit]);
      timer.abort();
    },
  };
}
