// Why a deployment waits, in a fleet so large that it is not read again for every choice.
import { expect, it } from "vitest";
import { type Choice, createHostChooser } from "../../../../control-plane/deployments/choose-hosts.ts";
import { deployment } from "../../../fakes/deployment-ports.ts";
import { gib, gpu, hostView, inventory } from "../../../fakes/fleet-records.ts";

const hosts = Array.from({ length: 101 }, (_, n) =>
  hostView(`host-${n}`, {
    inventory: inventory({
      gpus: [gpu(0, { type: "H100-80GB", memoryBytes: 80 * gib })],
      nvidiaDriverVersion: "570",
      memoryBytes: 512 * gib,
    }),
    claims: [{ gpuUuid: "GPU-0", account: "u:another" as never }],
  }),
);

const newChooser = () =>
  createHostChooser({
    snapshot: async () => hosts,
    hostState: () => "live",
    reserves: {
      reserve: async (type) => ({ gpu: type, minimums: new Map(), revision: 0n }),
      sharing: async (keys) => keys.map((key) => ({ ...key, revision: 0n })),
    },
    monotonicMs: () => 0,
    resyncMs: 5_000,
  });
const reasonsOf = ([only]: readonly Choice[]) => only?.reasons ?? [];
const alone = deployment({ numGpus: 1, memoryBytes: 10 * gib });

it("gives the reasons for the current request, even if the fleet and the memory needed are the same", async () => {
  const chooser = newChooser();
  const why = async (isMemoryBound: boolean) =>
    reasonsOf(await chooser.choose([{ deployment: { ...alone, isMemoryBound }, instances: [], count: 1 }])).map(
      ({ why }) => why,
    );
  const taken = "0 of 1 H100-80GB GPUs are free";
  expect(await why(false)).toEqual([`${taken}; 1 needed`]);
  expect(await why(true)).toEqual([`${taken}, and no capacity beside your other models; 1 needed`]);
  expect(await why(false)).toEqual([`${taken}; 1 needed`]);
});

it("gives the reason for the one permitted host if it exists, and for no other host", async () => {
  const reasons = async (host: string) =>
    reasonsOf(
      await newChooser().choose([
        { deployment: { ...alone, weights: { ...alone.weights, host } }, instances: [], count: 1 },
      ]),
    );
  expect(await reasons("host-7")).toEqual([{ host: "host-7", why: "0 of 1 H100-80GB GPUs are free; 1 needed" }]);
  expect(await reasons("gone")).toEqual([{ host: "101 hosts", why: "not the required host (gone)" }]);
});
