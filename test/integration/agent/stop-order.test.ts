// What happens to an instance that is removed while a request runs, whatever its engine does about SIGTERM.
import { readdirSync, readFileSync } from "node:fs";
import { afterEach, expect, it, vi } from "vitest";
import { type ReconciledHost, startReconciledHost } from "../../fakes/reconciled-host.ts";

const patient = { timeout: 30_000, interval: 50 };
let host: ReconciledHost | undefined;
afterEach(() => host?.close());

/** Processes that were started for the instance. */
const processesOf = (id: string) =>
  readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/environ`, "utf8").includes(`STOKER_INSTANCE_ID=${id}`);
    } catch {
      return false;
    }
  });

it.skipIf(process.platform !== "linux")(
  "closes the gate, waits for the drain deadline, cuts, and kills an engine with its child that ignore SIGTERM",
  async () => {
    const calls: string[] = [];
    const running = startReconciledHost({
      drainMs: 300,
      stopGraceMs: 500,
      dataPath: {
        setTargets: () => {},
        stats: () => ({ inFlight: 1, waiting: 0, tokensPerSecond: 0 }),
        rest: () => true,
        resume: () => {},
        onIdle: () => {},
        markDraining: () => void calls.push("gate closed"),
        serverEnded: () => 0,
        forget: () => {},
        drained: async (_id, ms) => {
          calls.push("waited");
          await new Promise((done) => setTimeout(done, ms));
          return false;
        },
        cut: async (id) => void calls.push(`cut with ${processesOf(id).length} processes`),
      },
    });
    host = running;
    const spec = running.spec({ ignoreTerm: true, hasChild: true });
    const id = spec.instanceId;
    running.want(spec);
    await vi.waitFor(() => expect(running.report(id)?.phase).toBe("ready"), patient);
    await vi.waitFor(() => expect(processesOf(id)).toHaveLength(2), patient);
    running.remove(id);
    await vi.waitFor(() => expect(processesOf(id)).toEqual([]), patient);
    expect(calls[0]).toBe("gate closed");
    expect([...new Set(calls)]).toEqual(["gate closed", "waited", "cut with 2 processes"]);
  },
);

it("cuts no request and stops no engine when the agent stops during a drain", async () => {
  const calls: string[] = [];
  const running = startReconciledHost({
    drainMs: 600_000,
    dataPath: {
      setTargets: () => {},
      stats: () => ({ inFlight: 1, waiting: 0, tokensPerSecond: 0 }),
      rest: () => true,
      resume: () => {},
      onIdle: () => {},
      markDraining: () => {},
      serverEnded: () => 0,
      forget: () => {},
      drained: async (_id, _ms, signal) => {
        calls.push("waited");
        await new Promise((done) => signal?.addEventListener("abort", done));
        return false;
      },
      cut: async () => void calls.push("cut"),
    },
  });
  host = running;
  const spec = running.spec();
  const id = spec.instanceId;
  running.want(spec);
  await vi.waitFor(() => expect(running.report(id)?.phase).toBe("ready"), patient);
  const pid = running.pid(id);
  running.remove(id);
  await vi.waitFor(() => expect(calls).toEqual(["waited"]), patient);
  await running.stopLoop();
  expect(calls).toEqual(["waited"]);
  expect(process.kill(pid, 0)).toBe(true);
});
