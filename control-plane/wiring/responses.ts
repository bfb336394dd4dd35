// Stored responses with their store; those in the background are rows that a loop of every control plane processes.
import type { Logger } from "pino";
import { Counter, type Registry } from "prom-client";
import { steadyTime } from "../../proto/steady-time.ts";
import { laterCallerOf } from "../accounts/authenticate.ts";
import type { DataKeys } from "../accounts/data-keys.ts";
import { responseSeal } from "../accounts/seals.ts";
import type { AccountStore } from "../accounts/store.ts";
import { createResponses } from "../responses/responses.ts";
import { createResponseRuns, type RunResponse } from "../responses/run-responses.ts";
import type { ResponseLimits } from "../responses/store.ts";
import type { OpenDatabase } from "../store/core/database.ts";
import { createResponseStore } from "../store/work/response-store.ts";
import { looping } from "./modules.ts";

export function createResponseService(deps: {
  readonly db: OpenDatabase["db"];
  readonly accountStore: Pick<AccountStore, "findOwnKey">;
  readonly dataKeys: DataKeys;
  readonly limits?: ResponseLimits;
  readonly maxBodyBytes: number;
  readonly hasCapacity: () => boolean;
  /** 1; less in tests shortens pauses and claims by these factors. */
  readonly clockScale: number;
  readonly claimScale: number;
  readonly registry: Registry;
  readonly log: Logger;
}) {
  const { db, accountStore, maxBodyBytes, hasCapacity, clockScale, claimScale, log } = deps;
  const store = createResponseStore(db);
  const seal = responseSeal(deps.dataKeys);
  const ended = new Counter({
    name: "stoker_background_responses_total",
    help: "Runs of responses in the background, by how they ended",
    labelNames: ["outcome"] as const,
    registers: [deps.registry],
  });
  const runs = createResponseRuns({
    store,
    seal,
    findCaller: async (account, key) => {
      const row = await accountStore.findOwnKey(account, key);
      return laterCallerOf(row, steadyTime.nowMs());
    },
    ...(deps.limits ? { limits: deps.limits } : {}),
    maxBodyBytes,
    hasCapacity,
    ran: (outcome) => ended.inc({ outcome }),
    clockScale,
    claimScale,
    log,
  });
  let runResponse: RunResponse | undefined;
  return {
    verbs: {
      ...createResponses({
        store,
        seal,
        ...(deps.limits ? { limits: deps.limits } : {}),
        onQueued: runs.wake,
        onEnded: (id) => runs.abort((item) => item.id === id),
      }),
      runWith: (run: RunResponse) => {
        runResponse = run;
      },
    },
    ...looping({ run: (signal) => runs.run((...given) => (runResponse as RunResponse)(...given), signal) }),
  };
}
