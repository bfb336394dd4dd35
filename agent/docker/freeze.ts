// Freezes the processes of a deployment's containers, so that what they write is of one moment.
import type Docker from "dockerode";
import { createEngineClient } from "./engine-client.ts";
import { statusOf } from "./engine-fault.ts";
import { labelFilter } from "./labels.ts";

export interface Freezer {
  /** Runs `work` while every running container of the deployment stands still. They go on when it has ended, however. */
  frozen<T>(deployId: string, work: () => Promise<T>, signal: AbortSignal): Promise<T>;
  /** Wakes every container of the node that stands still: whoever froze it is gone. */
  thawAll(signal: AbortSignal): Promise<void>;
}

const thawLimitMs = 30_000;

export function createFreezer(options: { readonly nodeName: string; readonly socketPath?: string }): Freezer {
  const client = createEngineClient(options.socketPath);

  /** A container that ended meanwhile, or stands as wanted, is as good as done. */
  async function each(ids: readonly string[], verb: "pause" | "unpause", signal: AbortSignal): Promise<void> {
    for (const id of ids)
      await client.call(signal, async (docker, abortSignal) => {
        await docker
          .getContainer(id)
          [verb]({ abortSignal })
          .catch((error: unknown) => {
            if (
              ![404, 409, 500].includes(statusOf(error) ?? 0) ||
              !/not running|not paused|already paused|no such/i.test(String(error))
            )
              throw error;
          });
      });
  }

  const containers = (status: string, labels: readonly string[], signal: AbortSignal): Promise<string[]> =>
    client.call(signal, async (docker: Docker, abortSignal) => {
      const filters = { status: [status], label: [...labelFilter(options.nodeName).label, ...labels] };
      return (await docker.listContainers({ filters, abortSignal })).map((one) => one.Id);
    });

  return {
    async frozen(deployId, work, signal) {
      const ids = await containers("running", [`stoker.deploy=${deployId}`], signal);
      try {
        await each(ids, "pause", signal);
        return await work();
      } finally {
        await each(ids, "unpause", AbortSignal.timeout(thawLimitMs));
      }
    },
    async thawAll(signal) {
      await each(await containers("paused", [], signal), "unpause", signal);
    },
  };
}
