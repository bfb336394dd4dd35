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

const limitMs = 60_000;

/** Returns when the control plane counts every agent of this start among its live hosts. */
export async function untilAgentsConnected({ api, agents, dataDir, step, signal }: AgentsWait): Promise<void> {
  for (const [index, child] of agents.entries()) {
    const title = agents.length === 1 ? "The agent" : `Agent ${index + 1}`;
    await untilReady({ child, title, dataDir, limitMs, signal }, async () => {
      const answer = await api.call("GET", "/v1/admin/nodes");
      const nodes = Array.isArray(answer.body?.nodes) ? (answer.body.nodes as { name?: string; state?: string }[]) : [];
      return nodes.some((node) => node.name === `local-${index + 1}` && node.state === "ready");
    });
  }
  step.done(agents.length === 1 ? "connected" : `${agents.length} connected`);
}
