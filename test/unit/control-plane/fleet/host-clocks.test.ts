import { describe, expect, it } from "vitest";
import { createHostClocks } from "../../../../control-plane/fleet/host-clocks.ts";
import type { HostId } from "../../../../proto/ids.ts";

const [a, b, c, d] = ["a", "b", "c", "d"] as unknown as [HostId, HostId, HostId, HostId];

function start(hosts: readonly HostId[], seenMs = 1_000_000) {
  let nowMs = 50_000;
  const clocks = createHostClocks({ limits: { leaseMs: 20_000, lostMs: 60_000 }, monotonicMs: () => nowMs });
  const seen = new Map(hosts.map((host) => [host, seenMs]));
  clocks.sawSeenAt(seen);
  return { clocks, seen, pass: (ms: number) => (nowMs += ms) };
}

describe("the clocks of a host", () => {
  it("restart with the control plane, however long ago the host was seen", () => {
    const { clocks, pass } = start([a], 0);
    expect(clocks.state(a)).toBe("live");
    pass(20_000);
    expect(clocks.state(a)).toBe("live");
    pass(1);
    expect(clocks.state(a)).toBe("unreachable");
    pass(40_000);
    expect(clocks.state(a)).toBe("lost");
  });

  it("give the remaining time of a silent host, and nothing for a reachable, lost or suspended one", () => {
    const { clocks, pass } = start([a]);
    expect(clocks.untilLostMs(a)).toBeUndefined();
    pass(20_001);
    expect(clocks.untilLostMs(a)).toBe(39_999);
    clocks.setRevoked(new Set([a]));
    expect(clocks.untilLostMs(a)).toBeUndefined();
    clocks.setRevoked(new Set());
    pass(40_000);
    expect(clocks.state(a)).toBe("lost");
    expect(clocks.untilLostMs(a)).toBeUndefined();
    const many = start([a, b, c]);
    many.pass(60_001);
    expect(many.clocks.state(a)).toBe("unreachable");
    expect(many.clocks.untilLostMs(a)).toBeUndefined();
  });

  it("count a renewal, a heartbeat written by another replica and a response on the data path as signs of life", () => {
    const { clocks, seen, pass } = start([a, b]);
    pass(30_000);
    clocks.heard(a);
    seen.set(b, 1_030_000);
    clocks.sawSeenAt(seen);
    expect([clocks.state(a), clocks.state(b)]).toEqual(["live", "live"]);
    pass(30_000);
    clocks.sawSeenAt(seen);
    expect(clocks.state(b)).toBe("unreachable");
  });

  it("declare no host lost when more than half of three or more hosts fall silent together", () => {
    const { clocks, pass } = start([a, b, c]);
    pass(30_000);
    clocks.heard(c);
    pass(20_000);
    clocks.heard(c);
    pass(20_000);
    expect([clocks.state(a), clocks.state(b), clocks.state(c)]).toEqual(["unreachable", "unreachable", "live"]);
    expect(clocks.heldBack()).toEqual([a, b]);
  });

  it("declare one host of three lost, and one of two", () => {
    for (const others of [[b, c], [b]]) {
      const { clocks, pass } = start([a, ...others]);
      pass(61_000);
      for (const other of others) clocks.heard(other);
      expect(clocks.state(a)).toBe("lost");
      expect(clocks.heldBack()).toEqual([]);
    }
  });

  it("do not let hosts lost long ago prevent a new loss", () => {
    const { clocks, pass } = start([a, b, c, d]);
    pass(300_000);
    for (const host of [b, c, d]) clocks.heard(host);
    pass(300_000);
    for (const host of [c, d]) clocks.heard(host);
    expect(clocks.state(b)).toBe("lost");
  });
});
