import type { Api } from "./api.ts";
import type { Child } from "./child.ts";
import { untilReady } from "./ready.ts";
import type { Step } from "./screen.ts";

export interface AgentsWait {
  readonly api: Api;
  readonly agents: readonly Child[];
  readonly dataDir: string;
  readonly step: Step;
  readonly signal: AbortSignal;
}

interface Node {
  readonly name: string;
  readonly state: string;
  /** Time since the control plane heard from the host. */
  readonly silent_seconds: number;
}

const limitMs = 60_000;

/**
 * Returns when the control plane has heard from every agent since this call. A host that is only known from the last start
 * does not count. Throws UpError with the agent's reason if it cannot connect.
 */
export async function untilAgentsConnected({ api, agents, dataDir, step, signal }: AgentsWait): Promise<void> {
  const startedMs = performance.now();
  for (const [index, child] of agents.entries()) {
    const title = agents.length === 1 ? "The agent" : `Agent ${index + 1}`;
    await untilReady({ child, title, dataDir, limitMs, signal }, async () => {
      const answer = await api.call("GET", "/v1/admin/nodes");
      const nodes: readonly Node[] = Array.isArray(answer.body?.nodes) ? answer.body.nodes : [];
      const silentLimit = (performance.now() - startedMs) / 1000;
      return nodes.some(
        ({ name, state, silent_seconds: silent }) =>
          name === `local-${index + 1}` && state === "ready" && silent < silentLimit,
      );
    });
  }
  step.done(agents.length === 1 ? "connected" : `${agents.length} connected`);
}
