import pino from "pino";
import { describe, expect, it } from "vitest";
import type { HostChooser } from "../../../../control-plane/deployments/choose-hosts.ts";
import { createController } from "../../../../control-plane/deployments/controller.ts";
import type { PlacedInstance } from "../../../../control-plane/deployments/deployment.ts";
import type { Active, DeploymentStore } from "../../../../control-plane/deployments/store.ts";
import type { Timer } from "../../../../control-plane/deployments/timers.ts";
import { DatabaseUnavailable } from "../../../../control-plane/service-error.ts";
import type { DeploymentId, HostId, InstanceId } from "../../../../proto/ids.ts";
import { placedInstance } from "../../../fakes/fleet-records.ts";
import { deployment } from "../../../fakes/ports.ts";

const nowMs = 1_000_000;
const idOf = (name: string) => name as DeploymentId;

const noHosts: HostChooser = {
  holds: () => true,
  choose: async (requests) =>
    requests.map(() => ({ placements: [], reasons: [], reserve: undefined, sharing: undefined })),
  placed() {},
  changed() {},
};

/** Deployments that each have one thing to do: what serves them is reported, and they are to be called deployed. */
function world(
  names: readonly string[],
  over: {
    readonly draining?: ReadonlyMap<HostId, number>;
    readonly commitMs?: number;
    readonly hosts?: Partial<HostChooser>;
  } = {},
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
  /** Hosts on which a commit fails, and those of every commit. */
  const refusing = new Set<string>();
  const commits: string[] = [];
  /** Deployments of each claim. */
  const groups: (readonly DeploymentId[])[] = [];
  const clock = { nowMs };
  const timers: Timer[] = [];
  const store: Pick<DeploymentStore, "active" | "claim" | "commit" | "release"> = {
    active: async (ids) => [...rows.values()].filter((row) => !ids || ids.includes(row.deployment.id)),
    async claim(ids) {
      groups.push(ids);
      for (const id of ids) {
        const error = broken.get(id);
        if (error) throw error;
      }
      return ids.flatMap((id) => {
        const row = held.has(id) ? undefined : rows.get(id);
        return row ? [{ ...row, lockToken: 1n }] : [];
      });
    },
    async commit(decisions) {
      const hosts = decisions.flatMap(({ verdict }) => verdict.placements.map(({ hostId }) => hostId));
      commits.push(...hosts);
      if (hosts.some((host) => refusing.has(host))) throw new Error("a value that the database refuses");
      clock.nowMs += over.commitMs ?? 0;
      const won = decisions.map(({ claimed }) => claimed.deployment.id).filter((id) => !raced.has(id));
      done.push(...won);
      return new Set(won);
    },
    release: async () => {},
  };
  const controller = createController({
    store,
    hosts: { ...noHosts, ...over.hosts },
    hostState: () => "live",
    owner: "test",
    log: pino({ level: "silent" }),
    leaving: async () => over.draining ?? new Map(),
    timers: { add: (more) => void timers.push(...more) },
    unixMs: () => clock.nowMs,
  });
  return { controller, clock, refusing, commits, broken, raced, held, rows, done, timers, groups };
}

const away = () => new DatabaseUnavailable("unreachable");
const retryOf = (name: string) => ({ id: name, kind: "retry", atMs: nowMs + 250 });

describe("a check by the controller", () => {
  it("of a deployment whose step fails does not delay the others, and is repeated soon", async () => {
    const { controller, broken, done, timers } = world(["a", "b", "c"]);
    broken.set("b", new Error("a defect of its own"));
    expect(await controller.pass()).toBe(2);
    expect(done).toEqual(["a", "c"]);
    expect(timers).toEqual([retryOf("b")]);
  });

  it("skips a deployment that waits for a lock, and tries it again at the next check", async () => {
    const { controller, broken, done, timers } = world(["a", "b", "c"]);
    broken.set("b", away());
    expect(await controller.pass()).toBe(2);
    expect(done).toEqual(["a", "c"]);
    expect(timers).toEqual([]);
    broken.clear();
    expect(await controller.pass()).toBe(3);
  });

  it("ends if the database is unavailable: it queues nothing for the remaining deployments", async () => {
    const { controller, broken, done, timers } = world(["a", "b", "c", "d"]);
    for (const name of ["b", "c", "d"]) broken.set(name, away());
    await expect(controller.pass()).rejects.toThrow(DatabaseUnavailable);
    expect(done).toEqual(["a"]);
    expect(timers).toEqual([]);
    broken.clear();
    expect(await controller.pass()).toBe(4);
  });

  it("that stops after two lock waits preserves its timers, and starts with the others the next time", async () => {
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

  it("takes the steps of all others at the next check when the first ones wait for a lock", async () => {
    const { controller, broken, done } = world(["a", "b", "c", "d", "e", "f"]);
    for (const name of ["a", "b", "c"]) broken.set(name, away());
    // Two in a row may be an outage; with them out of the way, one is a lock.
    await expect(controller.pass()).rejects.toThrow(DatabaseUnavailable);
    expect(done).toEqual([]);
    await expect(controller.pass()).rejects.toThrow(DatabaseUnavailable);
    expect(done).toEqual(["d", "e", "f"]);
    done.splice(0);
    await expect(controller.pass()).rejects.toThrow(DatabaseUnavailable);
    expect(done).toEqual(["d", "e", "f"]);
  });

  it("tries every deployment that timed out before, although two of them still wait for a lock", async () => {
    const { controller, broken, done } = world(["a", "b", "c", "d", "e"]);
    for (const name of ["a", "b", "c", "d"]) broken.set(name, away());
    for (let n = 0; n < 3; n++) await expect(controller.pass()).rejects.toThrow(DatabaseUnavailable);
    for (const name of ["c", "d"]) broken.delete(name);
    done.splice(0);
    for (let n = 0; n < 2; n++) await controller.pass().catch(() => {});
    expect(done).toEqual(expect.arrayContaining(["c", "d", "e"]));
    broken.clear();
    // Those that were answered are of the group again.
    await controller.pass();
    done.splice(0);
    expect(await controller.pass()).toBe(5);
    expect(done).toEqual(["a", "b", "c", "d", "e"]);
  });

  it("that loses every race is repeated, and a wake-up is told that it failed", async () => {
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

  it("takes the steps of up to 200 deployments together, and those that lost a race again", async () => {
    const names = Array.from({ length: 450 }, (_, n) => `d${n}`);
    const { controller, raced, done, groups } = world(names);
    expect(await controller.pass()).toBe(450);
    expect(groups.map((ids) => ids.length)).toEqual([200, 200, 50]);
    expect(done).toEqual(names);
    groups.splice(0);
    raced.add("d7");
    expect(await controller.pass()).toBe(449);
    expect(groups.map((ids) => ids.length)).toEqual([200, 1, 1, 1, 200, 50]);
  });

  it("of a deleted deployment finds nothing to do", async () => {
    const { controller, rows, done, timers } = world(["a"]);
    rows.clear();
    await controller.check(idOf("a"));
    expect([done, timers]).toEqual([[], []]);
  });

  it("sets a timer for what is due within three checks, and none for anything later", async () => {
    const soon = world(["a"], { draining: new Map([["h1" as HostId, 14_000]]) });
    await soon.controller.pass();
    await soon.controller.check(idOf("a"));
    const timer = { id: "a", kind: "due", atMs: nowMs + 14_000 };
    expect(soon.timers).toEqual([timer, timer]);
    const later = world(["a"], { draining: new Map([["h1" as HostId, 16_000]]) });
    await later.controller.pass();
    expect(later.timers).toEqual([]);
  });

  it("sets the timers of a drain from the time it was read, however long the check takes", async () => {
    const draining = new Map([["h1" as HostId, 9_000]]);
    const { controller, timers } = world(["a", "b"], { draining, commitMs: 5_000 });
    await controller.pass();
    expect(timers.map(({ id, atMs }) => [id, atMs])).toEqual([
      ["a", nowMs + 9_000],
      ["b", nowMs + 9_000],
    ]);
  });

  it("of a deployment claimed by another controller is repeated when that claim ends, or earlier by a regular check", async () => {
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

  it("runs alone: a wake-up during a full check waits", async () => {
    const { controller, done } = world(["a", "b"]);
    await Promise.all([controller.pass(), controller.check(idOf("a")), controller.check(idOf("b"))]);
    expect(done).toEqual(["a", "b", "a", "b"]);
  });
});

describe("a placement whose commit fails", () => {
  const placed = { gpus: [], gpuShare: 1, gpuMemoryBytes: 0, grantBytes: 0, hostRevision: 1n };
  const choosing: Partial<HostChooser> = {
    choose: async (requests) =>
      requests.map(({ deployment, avoided }) => {
        const host = ["h1", "h2"].find((id) => !avoided?.has(id as HostId));
        const id = `of ${deployment.id}` as InstanceId;
        const placements = host === undefined ? [] : [{ ...placed, id, hostId: host as HostId }];
        return { placements, reasons: [], reserve: undefined, sharing: undefined };
      }),
  };
  const unplaced = (names: readonly string[]) => {
    const found = world(names, { hosts: choosing });
    for (const [name, row] of found.rows) found.rows.set(name, { ...row, instances: [] });
    return found;
  };

  it("is tried on another host next, and on the same one again after a pause that grows", async () => {
    const { controller, clock, refusing, commits } = unplaced(["a"]);
    refusing.add("h1").add("h2");
    await controller.pass();
    await controller.pass();
    expect(commits).toEqual(["h1", "h2"]);
    clock.nowMs += 4_999;
    await controller.pass();
    expect(commits).toHaveLength(2);
    clock.nowMs += 1;
    await controller.pass();
    expect(commits).toEqual(["h1", "h2", "h1"]);
    clock.nowMs += 9_999;
    await controller.pass();
    expect(commits.filter((host) => host === "h1")).toHaveLength(2);
  });

  it("excludes the host for this deployment only", async () => {
    const { controller, refusing, commits, rows } = unplaced(["a", "b"]);
    refusing.add("h1");
    const b = rows.get("b") as Active;
    rows.delete("b");
    await controller.pass();
    refusing.clear();
    rows.set("b", b);
    commits.length = 0;
    await controller.check(idOf("a"));
    await controller.check(idOf("b"));
    expect(commits).toEqual(["h2", "h1"]);
  });
});
