// Another version of what runs: changed in place, counted as what it is.
import { afterEach, expect, it, vi } from "vitest";
import { type ReconciledHost, startReconciledHost } from "../../fakes/reconciled-host.ts";

const patient = { timeout: 30_000, interval: 50 };
let host: ReconciledHost | undefined;
afterEach(() => host?.close());

it("is an operator's restart on the metrics page, and no trouble of the instance", async () => {
  const restarts: string[] = [];
  const none = () => {};
  const running = startReconciledHost({
    metrics: {
      phase: none,
      took: none,
      downloadFailed: none,
      restarted: (deployId, reason) => void restarts.push(`${deployId} ${reason}`),
      gone: none,
    },
  });
  host = running;
  const spec = running.spec();
  running.want(spec);
  await vi.waitFor(() => expect(running.report(spec.instanceId)?.phase).toBe("ready"), patient);
  running.want({ ...spec, generation: "2" });
  await vi.waitFor(
    () => expect(running.report(spec.instanceId)).toMatchObject({ phase: "ready", generation: 2, restarts: 0 }),
    patient,
  );
  expect(restarts).toEqual([`${spec.deployId} operator`]);
});
