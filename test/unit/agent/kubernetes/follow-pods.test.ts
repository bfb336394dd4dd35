import { getEventListeners } from "node:events";
import pino from "pino";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { followPods } from "../../../../agent/kubernetes/cluster.ts";

type OnEvent = (type: string, object: object) => void;

/** Follows a watch that does `round` each time it begins, for 16 s. */
async function follow(round: (onEvent: OnEvent, onDone: (error: unknown) => void) => void) {
  const ending = new AbortController();
  const listeners: number[] = [];
  let changes = 0;
  const watch = {
    async watch(_path: string, _query: object, onEvent: OnEvent, onDone: (error: unknown) => void) {
      listeners.push(getEventListeners(ending.signal, "abort").length);
      round(onEvent, onDone);
      return new AbortController();
    },
  };
  const cluster = { watch, namespace: "n" } as never;
  const following = followPods(cluster, "", () => changes++, pino({ level: "silent" }), ending.signal);
  await vi.advanceTimersByTimeAsync(16_000);
  ending.abort();
  await following;
  return { listeners, changes, left: getEventListeners(ending.signal, "abort").length };
}

describe("a watch of Pods", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("leaves nothing behind each time it ends", async () => {
    const { listeners, left } = await follow((_, onDone) => onDone(null));
    expect(listeners.length).toBeGreaterThan(20);
    expect(new Set(listeners)).toEqual(new Set([1]));
    expect(left).toBe(0);
  });

  it("is tried at growing intervals while it only fails", async () => {
    const { listeners } = await follow((onEvent) => onEvent("ERROR", { message: "no" }));
    expect(listeners).toHaveLength(5);
  });

  it("begins soon again if it had worked", async () => {
    const { listeners, changes } = await follow((onEvent) => {
      onEvent("ADDED", {});
      onEvent("ERROR", { message: "too old resource version" });
    });
    expect(listeners.length).toBeGreaterThan(20);
    expect(changes).toBe(2 * listeners.length);
  });
});
