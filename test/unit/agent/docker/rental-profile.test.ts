import type Docker from "dockerode";
import { pino } from "pino";
import { describe, expect, it } from "vitest";
import { rentalProfile } from "../../../../agent/docker/rental-profile.ts";
import type { InstanceId } from "../../../../proto/ids.ts";

const ids = ["instance-1" as InstanceId];
const { signal } = new AbortController();

function rentals() {
  const world = { nowMs: 0, isBroken: false, networks: 1, applied: 0, killed: [] as string[] };
  const docker = {
    listNetworks: async () => Array(world.networks).fill({}),
    listContainers: async () => [{ Id: "c-1" }, { Id: "c-2" }],
    getContainer: (id: string) => ({ kill: async () => void world.killed.push(id) }),
  } as unknown as Docker;
  const profile = rentalProfile({
    nodeName: "host-1-rentals",
    subnet: "10.234.0.0/20",
    ports: { first: 23_000, last: 23_001 },
    bind: "127.0.0.1",
    address: "203.0.113.7",
    dns: [],
    diskBytes: 0,
    firewall: {
      whyNot: async () => undefined,
      async apply() {
        world.applied += 1;
        if (world.isBroken) throw new Error("Another app is currently holding the xtables lock");
      },
      async remove() {},
    },
    log: pino({ level: "silent" }),
    nowMs: () => world.nowMs,
  });
  const lookAt = async (nowMs: number) => {
    world.nowMs = nowMs;
    await profile.uphold?.(ids, docker, signal);
  };
  return { world, lookAt };
}

describe("a firewall of rentals that cannot be upheld", () => {
  it("hides no rental from those who look, and is tried again after 5 seconds", async () => {
    const { world, lookAt } = rentals();
    world.isBroken = true;
    for (const nowMs of [0, 4_999, 5_000]) await lookAt(nowMs);
    expect(world).toMatchObject({ applied: 2, killed: [] });
    world.isBroken = false;
    for (const nowMs of [10_000, 15_000, 39_999, 40_000]) await lookAt(nowMs);
    expect(world.applied).toBe(4);
  });

  it("is not set around what was removed since it was looked at", async () => {
    const { world, lookAt } = rentals();
    world.networks = 0;
    await lookAt(0);
    expect(world.applied).toBe(0);
  });

  it("ends them after six failures in a row, and not before", async () => {
    const { world, lookAt } = rentals();
    world.isBroken = true;
    for (let n = 0; n < 5; n++) await lookAt(n * 5_000);
    world.isBroken = false;
    await lookAt(25_000);
    world.isBroken = true;
    for (let n = 0; n < 5; n++) await lookAt(100_000 + n * 5_000);
    expect(world.killed).toEqual([]);
    await lookAt(130_000);
    expect(world.killed).toEqual(["c-1", "c-2"]);
  });
});
