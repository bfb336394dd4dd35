// POST /sleep, POST /wake_up and GET /is_sleeping, as vLLM has them. For the agent alone. Weights stay in the page cache of the
// host, so a level is not read: both of vLLM's levels mean the same here.
import type { ServerResponse } from "node:http";
import { RequestError } from "./request-error.ts";
import type { RuntimeState } from "./runtime-state.ts";
import { writeJson } from "./write-json.ts";

export interface Sleeper {
  readonly state: RuntimeState;
  /** Unloads the model. Returns false while it is not ready or answers requests. */
  readonly sleep: () => Promise<boolean>;
  /** Loads it again, once for concurrent calls; resolves when it is ready or was awake. Rejects when it cannot be loaded. */
  readonly wake: () => Promise<void>;
}

export async function serveSleep(deps: Sleeper, path: string, response: ServerResponse): Promise<void> {
  if (path === "/sleep" && !(await deps.sleep())) {
    const refused = new RequestError(409, "the model is not ready, or answers requests", { code: "busy" });
    return writeJson(response, refused.status, refused.body);
  }
  if (path === "/wake_up") await deps.wake();
  writeJson(response, 200, { is_sleeping: deps.state.phase.status === "asleep" });
}
