import type { TopStore } from "../../control-plane/oversight/store.ts";
import type { AccountId, DeploymentId, HostId } from "../../proto/ids.ts";

export const topId = "DpM4BkrjEspUwmTa" as DeploymentId;
const account = "u:1000000000001" as AccountId;

/** One deployment of ada's with two GPUs, offered under another name, an adapter, and one host. */
export function fakeTopStore(): TopStore {
  const traffic = { seconds: 60, errors: 6, outputTokens: 6_000 };
  const holding = { gpus: 2, gpuUse: 0.75, running: 3, waiting: 1 };
  return {
    traffic: async (by) =>
      by === "account"
        ? [{ label: account, requests: 120, spend: 5_000_000_000n, ...traffic }]
        : [
            { label: "ada/my-llm", requests: 60, spend: 2_000_000_000n, ...traffic },
            { label: "offered", requests: 30, spend: 2_000_000_000n, ...traffic },
            { label: "adapter", requests: 600, spend: 1_000_000_000n, ...traffic },
          ],
    holdings: async (by) => [{ label: by === "account" ? account : topId, ...holding }],
    deployments: async () => [
      { id: topId, kind: "model", names: ["ada/my-llm", "offered"], owner: { account, email: "ada@example.com" } },
    ],
    emails: async () => new Map([[account, "ada@example.com"]]),
    hosts: async () => [
      {
        id: "host-1" as HostId,
        name: "gpu-1",
        gpusHeld: 2,
        gpuUse: 0.75,
        running: 3,
        waiting: 1,
        tokensPerSecond: 40.5,
      },
    ],
  };
}
