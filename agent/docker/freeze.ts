// Freezes the processes of a deployment's containers, so that what they write is of one moment.
import type Docker from "dockerode";
import type { Logger } from "pino";
import { createEngineClient } from "./engine-client.ts";
import { statusOf } from "./engine-fault.ts";
import { labelFilter } from "./labels.ts";

export interface Freezer {
  /**
   * Runs `work` while every running container of the deployment stands still. They go on when it has ended, however; one that
   * the engine does not wake in time is no failure of `work`, and is left to `wakeLeft`.
   */
  frozen<T>(deployId: string, work: () => Promise<T>, signal: AbortSignal): Promise<T>;
  /** Wakes every container of the node that stands still: whoever froze it is gone. */
  thawAll(signal: AbortSignal): Promise<void>;
  /** Tries once more to wake what could not be woken; done at once where there is nothing, or where a try still runs. */
  wakeLeft(): Promise<void>;
}

export interface FreezerOptions {
  readonly nodeName: string;
  readonly log: Logger;
  readonly socketPath?: string;
  /** 30 s; tests cannot wait that long. */
  readonly thawLimitMs?: number;
}

export function createFreezer(options: FreezerOptions): Freezer {
  const { log, thawLimitMs = 30_000 } = options;
  const client = createEngineClient(options.socketPath);
  /** Containers that stand still and are to run. */
  const left = new Set<string>();
  /** Containers that a copy is being made of. */
  const held = new Set<string>();
  /** The engine could not be asked what an earlier life of the agent left asleep. */
  let owesAll = false;
  /** Freezes that are about to say which containers they hold. */
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
          if (left.delete(id)) log.info({ container: id }, "a container that stood still was woken");
        } catch (err) {
          if (!left.has(id))
            log.error({ container: id, err }, "a container stands still and could not be woken; it is tried again");
          left.add(id);
        }
      }),
    );
  }

  /** Wakes every frozen container of the node, except those being copied. */
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
    async frozen(deployId, work, signal) {
      // One that is woken in the middle of the copy would write into it.
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
    thawAll: wakeAll,
    async wakeLeft() {
      if (waking || choosing > 0 || (left.size === 0 && !owesAll)) return;
      const signal = AbortSignal.timeout(thawLimitMs);
      // An engine that does not even say what stands still is asked again.
      waking = (owesAll ? wakeAll(signal) : wake([...left], signal)).catch(() => {});
      await waking;
      waking = undefined;
    },
  };
}
