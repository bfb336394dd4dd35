import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { AddressLimits } from "../../../../../control-plane/http/connections/address-limits.ts";

function limited(config = { requestsPerSecond: 2, connections: 3 }) {
  const clock = { nowMs: 1_000 };
  const limits = new AddressLimits(
    config,
    (address) => address === "10.0.0.1",
    () => clock.nowMs,
  );
  const taken = (address: string): number => {
    for (let count = 0; ; count++) {
      try {
        limits.take(address);
      } catch (error) {
        expect(error).toMatchObject({ code: "too_many_requests" });
        return count;
      }
      if (count > 1_000) return Number.POSITIVE_INFINITY;
    }
  };
  return { limits, clock, taken };
}

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

let port = 1;
const socketOf = (remoteAddress: string, remotePort = port++) =>
  Object.assign(new EventEmitter(), { remoteAddress, remotePort }) as unknown as Socket;

describe("requests without a valid credential", () => {
  it("are taken for ten seconds' worth at once, and as fast as the rate afterwards", () => {
    const { clock, taken, limits } = limited();
    expect(taken("192.0.2.7")).toBe(20);
    clock.nowMs += 499;
    expect(() => limits.check("192.0.2.7")).toThrow(expect.objectContaining({ code: "too_many_requests" }));
    clock.nowMs += 1;
    limits.check("192.0.2.7");
    expect(taken("192.0.2.7")).toBe(1);
    expect(taken("192.0.2.8")).toBe(20);
  });

  it("say how long to wait", () => {
    const { limits, taken } = limited();
    taken("192.0.2.7");
    expect(() => limits.take("192.0.2.7")).toThrow(expect.objectContaining({ retryAfterSeconds: 0.5 }));
  });

  it("are counted by /64 of IPv6", () => {
    const { taken } = limited();
    expect(taken("2001:db8::1")).toBe(20);
    expect(taken("2001:db8:0:0:ffff::2")).toBe(0);
    expect(taken("2001:db8:0:1::1")).toBe(20);
  });

  it.each(["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1"])("are not limited from %s", (address) => {
    expect(limited().taken(address)).toBe(Number.POSITIVE_INFINITY);
  });

  it("are not limited at a rate of 0", () => {
    expect(limited({ requestsPerSecond: 0, connections: 3 }).taken("192.0.2.7")).toBe(Number.POSITIVE_INFINITY);
  });

  it("leave the limit on sign-in attempts in place at a rate of 0", () => {
    const { limits } = limited({ requestsPerSecond: 0, connections: 3 });
    for (let count = 0; count < 60; count++) limits.attempt("192.0.2.7");
    expect(() => limits.attempt("192.0.2.7")).toThrow(expect.objectContaining({ code: "too_many_requests" }));
    limits.attempt("192.0.2.8");
  });

  it("are remembered of a bounded number of addresses", () => {
    const { limits } = limited();
    collectGarbage();
    const before = process.memoryUsage().heapUsed;
    for (let n = 0; n < 150_000; n++) limits.take(`10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`);
    collectGarbage();
    // 50,000 of them take 5 MiB, all of them 12 MiB.
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(8 * 1024 ** 2);
  });
});

describe("connections without a valid credential", () => {
  it("are refused above the limit of their address, until one closes", () => {
    const { limits } = limited();
    const open = [1, 2, 3].map(() => socketOf("192.0.2.7"));
    expect(open.map((socket) => limits.connected(socket))).toEqual([true, true, true]);
    expect(limits.connected(socketOf("192.0.2.7"))).toBe(false);
    expect(limits.connected(socketOf("192.0.2.8"))).toBe(true);
    open[0]?.emit("close");
    expect(limits.connected(socketOf("192.0.2.7"))).toBe(true);
    expect(limits.connected(socketOf("192.0.2.7"))).toBe(false);
  });

  it("count no more once a valid credential came, also through TLS, and once only", () => {
    const { limits } = limited();
    const [first, second] = [socketOf("192.0.2.7", 5), socketOf("192.0.2.7", 6)];
    for (const socket of [first, second, socketOf("192.0.2.7")]) limits.connected(socket);
    // A TLS connection is another object over the same address and port.
    limits.authenticated(socketOf("192.0.2.7", 5));
    limits.authenticated(first);
    first.emit("close");
    expect(limits.connected(socketOf("192.0.2.7"))).toBe(true);
    expect(limits.connected(socketOf("192.0.2.7"))).toBe(false);
  });
});
