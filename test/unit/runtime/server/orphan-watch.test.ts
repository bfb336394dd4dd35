import { afterEach, describe, expect, it, vi } from "vitest";
import { watchForOrphan } from "../../../../runtime/server/runtime-state.ts";

afterEach(() => vi.useRealTimers());

describe("the watch for a lost agent", () => {
  it("calls once after the timeout since the last request", () => {
    vi.useFakeTimers();
    let heardAt = Date.now();
    const onOrphan = vi.fn();
    const silence = {
      get silenceMs() {
        return Date.now() - heardAt;
      },
    };
    watchForOrphan(silence, 1000, onOrphan);
    vi.advanceTimersByTime(900);
    heardAt = Date.now();
    vi.advanceTimersByTime(900);
    expect(onOrphan).not.toHaveBeenCalled();
    vi.advanceTimersByTime(200);
    expect(onOrphan).toHaveBeenCalledOnce();
    vi.advanceTimersByTime(10_000);
    expect(onOrphan).toHaveBeenCalledOnce();
  });

  it("never calls when it is off", () => {
    vi.useFakeTimers();
    const onOrphan = vi.fn();
    watchForOrphan({ silenceMs: 1e9 }, 0, onOrphan);
    vi.advanceTimersByTime(1e9);
    expect(onOrphan).not.toHaveBeenCalled();
  });
});
