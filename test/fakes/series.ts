import type { SeriesStore } from "../../control-plane/series/store.ts";
import type { HostId } from "../../proto/ids.ts";

/** One point of one account, model, host and GPU, at the beginning of every window. */
export function fakeSeriesStore(): SeriesStore {
  const nothing = async () => {};
  const figures = { gpus: 8, gpusHeld: 4, gpuUse: 0.5, gpuMemoryUsed: 1e9, gpuMemoryTotal: 2e9, gpuPowerWatts: 900 };
  const machine = { gpuTemperature: 60, cpuUse: 0.1, memoryUsed: 5e9, running: 3, waiting: 1 };
  return {
    live: async (accounts) =>
      new Map(
        accounts.map((account) => [
          account,
          { seconds: 60, requests: account === "" ? 600 : 60, errors: 6, outputTokens: 120, firstMs: [0, 3] },
        ]),
      ),
    liveFleet: async () => ({ ...figures, running: 3, waiting: 1 }),
    writeRequests: nothing,
    sampleHosts: nothing,
    writeSpend: nothing,
    rollUp: nothing,
    deleteOld: async () => 0,
    requests: async ({ by }, { fromMs }) => [
      {
        atMs: fromMs,
        label: by === "account" ? "u:1000000000001" : by === "model" ? "org/model" : "",
        name: by === "account" ? "ada@example.com" : null,
        ...{
          requests: 10,
          clientErrors: 2,
          serverErrors: 1,
          aborted: 0,
          inputTokens: 100,
          outputTokens: 50,
          spend: 5_000_000n,
        },
        firstMs: [0, 0, 0, 0, 4],
        totalMs: [0, 0, 0, 0, 0, 0, 0, 0, 7],
      },
    ],
    hosts: async (by, _host, _limit, { fromMs }) => [
      {
        atMs: fromMs,
        host: by === "fleet" ? "" : ("host-1" as HostId),
        name: by === "fleet" ? null : "gpu-1",
        ...figures,
        ...machine,
      },
    ],
    gpus: async (_host, { fromMs }) => [
      { atMs: fromMs, gpu: "GPU-1", use: 0.5, memoryUsed: 1e9, powerWatts: 300, temperature: 60 },
    ],
  };
}
