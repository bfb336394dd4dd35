import { describe, expect, it } from "vitest";
import type { ColdStart } from "../../../../control-plane/deployments/store.ts";
import { stateOf } from "../../../../control-plane/deployments/wake.ts";

const start = (externalUrl: string | null, phase: ColdStart["phases"][number]): ColdStart => ({
  deployment: { externalUrl, progress: null, pendingReasons: [] } as unknown as ColdStart["deployment"],
  phases: [phase],
  elapsedMs: 40_000,
  startMs: 0,
});

describe("what callers learn about the next instance", () => {
  it("a loading model server counts as starting", () => {
    expect(stateOf(start(null, "loading"))).toEqual({ kind: "coming", phase: "deploying", etaSeconds: 2 });
  });

  it("an external server that does not answer does not: nothing here starts it", () => {
    const told = stateOf(start("http://127.0.0.1:1", "loading"));
    expect(told).toEqual({ kind: "stuck", phase: "unreachable", etaSeconds: 10 });
  });
});
