import type { Logger } from "pino";
import type { FundsDeps } from "../deployments/dedicated-money.ts";
import { createScaler } from "../deployments/scaler.ts";
import type { Fleet } from "./fleet.ts";
import { type RefreshLoop, refreshOn } from "./refresh-loop.ts";

const everyMs = 5_000;

/** As often as hosts report: more looks would see nothing new. */
export function createScaling(
  deps: FundsDeps & { readonly fleet: Fleet; readonly clockScale: number; readonly log: Logger },
): RefreshLoop {
  const { fleet, clockScale, log } = deps;
  const scaler = createScaler({ ...deps, store: fleet.deploymentStore, live: fleet.live });
  return refreshOn({ on() {} }, [], {
    what: "load of deployments",
    refresh: async () => void (await scaler.pass()),
    everyMs: Math.max(250, everyMs * clockScale),
    log,
  });
}
