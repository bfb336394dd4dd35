// Freezes the processes of a deployment's containers, so that what they write is of one moment.
import type Docker from "dockerode";
import type { Logger } from "pino";
import { createEngineClient } from "./engine-client.ts";
import { statusOf } from "./engine-fault.ts";
import { labelFilter } from "./labels.ts";

export type Freezer = ReturnType<typeof createFreezer>;

export interface FreezerOptions {
  readonly nodeName: string;
  readonly log: Logger;
  readonly socketPath?: string;
  /** 30 s; tests cannot wait that long. */
  readonly thawLimitMs?: number;
}

export function createFreezer(options: FreezerOptions) {
  const { log, thawLimitMs = 30_000 } = options;
  const client = createEngineClient(options.socketPath);
  /** Frozen containers that should run. */
  const left = new Set<string>();
  /** Containers that are being copied. */
  const held = new Set<string>();
  /** The containers that an earlier agent left frozen are still unknown. */
  let owesAll = false;
  /** Calls of `frozen` that are still listing their containers. */
  let choosing = 0;
  let waking: Promise<void> | undefined;

  /** A container that has ended in the meantime, or already has the requested state, counts as done. */
  async function turn(id: string, verb: "pause" | "unpause", signal: AbortSignal): Promise<void> {
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

  const containers = (status: readonly string[], labels: readonly string[], signal: AbortSignal): Promise<string[]> =>
    client.call(signal, async (docker: Docker, abortSignal) => {
      const filters = { status: [...status], label: [...labelFilter(options.nodeName).label, ...labels] };
      return (await docker.listContainers({ filters, abortSignal })).map((one) => one.Id);
    });

  /** A delay of one container does not delay the others. */
  async function wake(ids: readonly string[], signal: AbortSignal): Promise<void> {
    await Promise.all(
      ids.map(async (id) => {
        try {
          await turn(id, "unpause", signal);
          if (left.delete(id)) log.info({ container: id }, "resumed a frozen container");
        } catch (err) {
          if (!left.has(id)) log.error({ container: id, err }, "could not resume a frozen container; will retry");
          left.add(id);
        }
      }),
    );
  }

  async function wakeAll(signal: AbortSignal): Promise<void> {
    owesAll = true;
    const found = await containers(["paused"], [], signal);
    owesAll = false;
    await wake(
      found.filter((id) => !held.has(id)),
      signal,
    );
  }

  return {
    /**
     * Runs `work` while every running container of the deployment is frozen, and resumes them afterwards. A container that the
     * engine does not resume in time is no failure of `work`; `wakeLeft` retries it.
     */
    async frozen<T>(deployId: string, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
      // A container that resumes during the copy would write into it.
      while (waking) await waking;
      choosing += 1;
      let ids: readonly string[] = [];
      try {
        ids = await containers(["running", "paused"], [`stoker.deploy=${deployId}`], signal);
        for (const id of ids) {
          left.delete(id);
          held.add(id);
        }
      } finally {
        choosing -= 1;
      }
      try {
        for (const id of ids) await turn(id, "pause", signal);
        return await work();
      } finally {
        for (const id of ids) held.delete(id);
        await wake(ids, AbortSignal.timeout(thawLimitMs));
      }
    },
    /** Resumes every frozen container of the node: the process that froze it is gone. */
    thawAll: wakeAll,
    /** Retries containers that could not be resumed. No-op if there are none, or while a retry runs. */
    async wakeLeft() {
      if (waking || choosing > 0 || (left.size === 0 && !owesAll)) return;
      const signal = AbortSignal.timeout(thawLimitMs);
      // If the engine cannot list the frozen containers, the next call retries.
      waking = (owesAll ? wakeAll(signal) : wake([...left], signal)).catch(() => {});
      await waking;
      waking = undefined;
    },
  };
}
