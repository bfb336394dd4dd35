import pino from "pino";
import { describe, expect, it } from "vitest";
import { createController } from "../../../../control-plane/deployments/controller.ts";
import type { PlacedInstance } from "../../../../control-plane/deployments/deployment.ts";
import type { Active, DeploymentStore } from "../../../../control-plane/deployments/store.ts";
import type { Timer } from "../../../../control-plane/deployments/timers.ts";
import { DatabaseUnavailable } from "../../../../control-plane/service-error.ts";
import type { DeploymentId, HostId } from "../../../../proto/ids.ts";
import { placedInstance } from "../../../fakes/fleet-records.ts";
import { deployment } from "../../../fakes/ports.ts";

const nowMs = 1_000_000;
const idOf = (name: string) => name as DeploymentId;

/** Deployments that each have one thing to do: what serves them is reported, and they are to be called deployed. */
function world(
  names: readonly string[],
  over: { readonly draining?: ReadonlyMap<HostId, number>; readonly commitMs?: number } = {},
) {
  const broken = new Map<string, Error>();
  const rows = new Map<string, Active>(
    names.map((name) => {
      const instance: PlacedInstance = placedInstance(name, { phase: "ready", deployId: idOf(name) });
      return [
        name,
        { deployment: deployment({ id: idOf(name), status: "deploying" }), instances: [instance], claimedUntilMs: 0 },
      ];
    }),
  );
  const raced = new Set<string>();
  /** By a controller that may have died. */
  const held = new Set<string>();
  const done: string[] = [];
  const clock = { nowMs };
  const timers: Timer[] = [];
  const store: Pick<DeploymentStore, "active" | "claim" | "commit" | "release"> = {
    active: async (ids) => [...rows.values()].filter((row) => !ids || ids.includes(row.deployment.id)),
    async claim(id) {
      const error = broken.get(id);
      if (error) throw error;
      if (held.has(id)) return undefined;
      const row = rows.get(id);
      return row && { ...row, lockToken: 1n };
    },
    async commit({ deployment: { id } }) {
      clock.nowMs += over.commitMs ?? 0;
      if (!raced.has(id)) done.push(id);
      return !raced.has(id);
    },
    release: async () => {},
  };
  const controller = createController({
    store,
    hosts: {
      holds: () => true,
      choose: async () => ({ placements: [], reasons: [], reserve: undefined, sharing: undefined }),
      placed() {},
      changed() {},
    },
    hostState: () => "live",
    owner: "test",
    log: pino({ level: "silent" }),
    leaving: async () => over.draining ?? new Map(),
    timers: { add: (more) => void timers.push(...more) },
    unixMs: () => clock.nowMs,
  });
  return { controller, broken, raced, held, rows, done, timers };
}

const away = () => new DatabaseUnavailable("unreachable");
const retryOf = (name: string) => ({ id: name, kind: "retry", atMs: nowMs + 250 });

describe("a controller's look", () => {
  it("at one deployment whose step fails does not hold up the others, and has that one tried again soon", async () => {
    const { controller, broken, done, timers } = world(["a", "b", "c"]);
    broken.set("b", new Error("a defect of its own"));
    expect(await controller.pass()).toBe(2);
    expect(done).toEqual(["a", "c"]);
    expect(timers).toEqual([retryOf("b")]);
  });

  it("goes on past one that waits for somebody's lock, and tries that one again at the next look", async () => {
    const { controller, broken, done, timers } = world(["a", "b", "c"]);
    broken.set("b", away());
    expect(await controller.pass()).toBe(2);
    expect(done).toEqual(["a", "c"]);
    expect(timers).toEqual([]);
    broken.clear();
    expect(await controller.pass()).toBe(3);
  });

  it("ends where the database is away: nobody is asked, and nothing is queued for each of thousands", async () => {
    const { controller, broken, done, timers } = world(["a", "b", "c", "d"]);
    for (const name of ["b", "c", "d"]) broken.set(name, away());
    await expect(controller.pass()).rejects.toThrow(DatabaseUnavailable);
    expect(done).toEqual(["a"]);
    expect(timers).toEqual([]);
    broken.clear();
    expect(await controller.pass()).toBe(4);
  });

  it("that ends at two who wait for a lock has kept its timers, and comes to all others first the next time", async () => {
    const { controller, broken, done, timers } = world(["a", "b", "c", "d"], {
      draining: new Map([["h1" as HostId, 14_000]]),
    });
    for (const name of ["b", "c"]) broken.set(name, away());
    await expect(controller.pass()).rejects.toThrow(DatabaseUnavailable);
    expect(done).toEqual(["a"]);
    expect(timers).toEqual([{ id: "a", kind: "due", atMs: nowMs + 14_000 }]);
    await expect(controller.pass()).rejects.toThrow(DatabaseUnavailable);
    expect(done).toEqual(["a", "a", "d"]);
  });

  it("that loses race after race has the deployment tried again, and is told so where one was woken", async () => {
    const { controller, raced, done, timers } = world(["a", "b"]);
    raced.add("a");
    expect(await controller.pass()).toBe(1);
    expect(done).toEqual(["b"]);
    expect(timers).toEqual([retryOf("a")]);
    await expect(controller.check(idOf("a"))).rejects.toThrow(/lost every race/);
    raced.clear();
    await controller.check(idOf("a"));
    expect(done).toEqual(["b", "a"]);
  });

  it("at one that is gone finds nothing to do", async () => {
    const { controller, rows, done, timers } = world(["a"]);
    rows.clear();
    await controller.check(idOf("a"));
    expect([done, timers]).toEqual([[], []]);
  });

  it("sets a timer for what comes due within three looks, and none for what lies farther off", async () => {
    const soon = world(["a"], { draining: new Map([["h1" as HostId, 14_000]]) });
    await soon.controller.pass();
    await soon.controller.check(idOf("a"));
    const timer = { id: "a", kind: "due", atMs: nowMs + 14_000 };
    expect(soon.timers).toEqual([timer, timer]);
    const later = world(["a"], { draining: new Map([["h1" as HostId, 16_000]]) });
    await later.controller.pass();
    expect(later.timers).toEqual([]);
  });

  it("sets the timers of a drain by when it was read, however long the look takes", async () => {
    const draining = new Map([["h1" as HostId, 9_000]]);
    const { controller, timers } = world(["a", "b"], { draining, commitMs: 5_000 });
    await controller.pass();
    expect(timers.map(({ id, atMs }) => [id, atMs])).toEqual([
      ["a", nowMs + 9_000],
      ["b", nowMs + 9_000],
    ]);
  });

  it("at one that another controller holds is done again when that one's claim has ended, or before by itself", async () => {
    const { controller, held, rows, done, timers } = world(["a"]);
    held.add("a");
    const claimedTo = (claimedUntilMs: number) => rows.set("a", { ...(rows.get("a") as Active), claimedUntilMs });
    claimedTo(nowMs + 16_000);
    await controller.pass();
    expect([done, timers]).toEqual([[], []]);
    claimedTo(nowMs + 11_000);
    await controller.check(idOf("a"));
    expect(timers).toEqual([{ id: "a", kind: "due", atMs: nowMs + 11_000 }]);
    // Its own claim, which it has ended since, is nobody's.
    held.clear();
    await controller.pass();
    expect([done, timers.length]).toEqual([["a"], 1]);
  });

  it("is one at a time: what is woken while all are looked at waits its turn", async () => {
    const { controller, done } = world(["a", "b"]);
    await Promise.all([controller.pass(), controller.check(idOf("a")), controller.check(idOf("b"))]);
    expect(done).toEqual(["a", "b", "a", "b"]);
  });
});
