import { describe, expect, it } from "vitest";
import { background, repeat, WakeablePause } from "../../../proto/repeat.ts";

const dayMs = 86_400_000;

describe("repeated work", () => {
  it("runs at once, ends its pause when aborted and does not run again", async () => {
    let runs = 0;
    const count = () => {
      runs += 1;
    };
    const loop = background((signal) => repeat(dayMs, signal, count));
    loop.start();
    loop.start();
    expect(runs).toBe(1);
    await loop.stop();
    expect(runs).toBe(1);
  });

  it("rejects with the error of the work", async () => {
    const failing = repeat(dayMs, new AbortController().signal, () => Promise.reject(new Error("broken")));
    await expect(failing).rejects.toThrow("broken");
  });
});

describe("a pause", () => {
  const { signal } = new AbortController();

  it("ends when it is woken", async () => {
    const untilNext = new WakeablePause();
    const waiting = untilNext.wait(dayMs, signal);
    untilNext.wake();
    await waiting;
  });

  it("ends at once when it was woken before it began, and only once", async () => {
    const untilNext = new WakeablePause();
    untilNext.wake();
    untilNext.wake();
    await untilNext.wait(undefined, signal);
    let hasEnded = false;
    const waiting = untilNext.wait(undefined, signal).then(() => {
      hasEnded = true;
    });
    await new Promise(setImmediate);
    expect(hasEnded).toBe(false);
    untilNext.wake();
    await waiting;
  });

  it("ends when the signal aborts", async () => {
    const ending = new AbortController();
    const waiting = new WakeablePause().wait(undefined, ending.signal);
    ending.abort();
    await waiting;
  });
});
