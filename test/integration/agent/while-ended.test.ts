// Work on a deployment's volume, with its instances ended, meets a download of one of them.
import { afterEach, expect, it } from "vitest";
import { type ReconciledHost, startReconciledHost } from "../../fakes/reconciled-host.ts";

let host: ReconciledHost | undefined;
let release = () => {};
afterEach(async () => {
  release();
  await host?.close();
});

/** A host on which a download has begun that only ends, if at all, when it is cancelled. */
async function fetching(heedsCancel: boolean): Promise<{ readonly one: ReconciledHost; readonly deployId: string }> {
  const begun = Promise.withResolvers<void>();
  const ensure = (_: unknown, __: unknown, signal: AbortSignal) =>
    new Promise<never>((_resolve, reject) => {
      release = () => reject(new Error("released"));
      if (heedsCancel) signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      begun.resolve();
    });
  const one = startReconciledHost({ weights: { ensure } });
  host = one;
  const spec = one.spec();
  one.want(spec);
  await begun.promise;
  return { one, deployId: spec.deployId };
}

it("cancels the download and goes on", async () => {
  const { one, deployId } = await fetching(true);
  await expect(one.whileEnded(deployId, async () => "done", AbortSignal.timeout(10_000))).resolves.toBe("done");
});

it("waits no longer than its caller does for a step that does not end", async () => {
  const { one, deployId } = await fetching(false);
  let isDone = false;
  const work = async () => {
    isDone = true;
  };
  await expect(one.whileEnded(deployId, work, AbortSignal.timeout(300))).rejects.toThrow(/timeout/i);
  expect(isDone).toBe(false);
});
