import { setTimeout as sleep } from "node:timers/promises";
import type { Api, OwnApi } from "./api.ts";
import { type Child, lastSentence, logTail } from "./child.ts";
import { fullDiskNote } from "./disk.ts";
import type { Step } from "./screen.ts";
import { UpError } from "./up-error.ts";

interface Wait {
  readonly child: Child;
  readonly title: string;
  readonly dataDir: string;
  readonly limitMs: number;
  readonly signal: AbortSignal;
}

/** Polls until `isReady`. Throws UpError with the end of the log if the child keeps exiting or the limit is reached. */
export async function untilReady(wait: Wait, isReady: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + wait.limitMs;
  while (performance.now() < deadline && wait.child.deaths() < 3) {
    wait.signal.throwIfAborted();
    if (wait.child.isMisconfigured())
      throw new UpError(`${wait.title} cannot start. ${lastSentence(wait.dataDir, wait.child.name)}`);
    if (wait.child.pid() !== undefined && (await isReady().catch(() => false))) return;
    await sleep(150, undefined, { signal: wait.signal });
  }
  const what = wait.child.deaths() > 0 ? "exits right after starting" : `was not ready within ${wait.limitMs / 1000} s`;
  throw new UpError(
    `${wait.title} ${what}.${fullDiskNote(wait.dataDir)} The last lines of ${wait.dataDir}/logs/${wait.child.name}.log:\n${logTail(wait.dataDir, wait.child.name)}`,
  );
}

export async function answersOk(api: OwnApi, url: string, signal: AbortSignal): Promise<boolean> {
  const response = await api.fetch(url, { signal: AbortSignal.any([signal, AbortSignal.timeout(3000)]) });
  await response.arrayBuffer();
  return response.ok;
}

interface AgentsWait {
  readonly api: Api;
  readonly agents: readonly Child[];
  readonly dataDir: string;
  readonly step: Step;
  readonly signal: AbortSignal;
}

interface Node {
  readonly name: string;
  readonly state: string;
  /** Time since the last report of the host. */
  readonly silent_seconds: number;
}

const limitMs = 60_000;

/**
 * Returns when every agent has reported since this call. A host that is only known from the last start
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
