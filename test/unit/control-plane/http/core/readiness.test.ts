import { describe, expect, it } from "vitest";
import { createReadiness } from "../../../../../control-plane/http/core/readiness.ts";

function start() {
  const at = { nowMs: 0, isUnavailable: false, isLoaded: true };
  const readiness = createReadiness({
    ping: async () => {
      if (at.isUnavailable) throw new Error("away");
    },
    loaded: { "the routing table": () => at.isLoaded },
    monotonicMs: () => at.nowMs,
  });
  return { at, readiness };
}

describe("readiness", () => {
  it("waits for what must be in memory", async () => {
    const { at, readiness } = start();
    at.isLoaded = false;
    await readiness.check();
    expect(readiness.read()).toEqual({ isReady: false, reasons: ["the routing table is not loaded yet"] });
    at.isLoaded = true;
    expect(readiness.read()).toEqual({ isReady: true });
  });

  it("is not there before the database has answered once", () => {
    expect(start().readiness.read()).toEqual({ isReady: false, reasons: ["the database cannot be reached"] });
  });

  it("ends when the control plane begins to stop, for good", async () => {
    const { readiness } = start();
    await readiness.check();
    expect(readiness.read().isReady).toBe(true);
    readiness.leave();
    await readiness.check();
    expect(readiness.read()).toEqual({ isReady: false, reasons: ["it shuts down"] });
  });

  it("outlasts a database that is away as long as slices do, and no longer", async () => {
    const { at, readiness } = start();
    await readiness.check();
    at.isUnavailable = true;
    at.nowMs = 30_000;
    await readiness.check();
    expect(readiness.read().isReady).toBe(true);
    at.nowMs = 30_001;
    expect(readiness.read()).toEqual({ isReady: false, reasons: ["the database cannot be reached"] });
    at.isUnavailable = false;
    await readiness.check();
    expect(readiness.read().isReady).toBe(true);
  });
});
