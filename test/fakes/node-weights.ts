// Weights on one host, `node-1`, as the edge sees them.
import {
  type NodeWeightsOrders,
  prefetchNodeNotFound,
  prefetchNotFound,
} from "../../control-plane/fleet/node-weights.ts";

const here = {
  id: "prefetch1",
  repo: "acme/tiny",
  revision: "main",
  file: "",
  format: "gguf",
  isPinned: true,
  commit: "c0ffee",
  bytes: 5n,
  bytesTotal: 5n,
  failCode: "",
  failMessage: "",
  createdAtMs: 1_786_000_000_000,
};

export function fakeNodeWeights(): NodeWeightsOrders {
  const known = <T>(host: string, value: T): Promise<T> =>
    host === "node-1" ? Promise.resolve(value) : Promise.reject(prefetchNodeNotFound(host));
  return {
    ask: (host, request) => known(host, { ...here, ...request, commit: "", bytes: 0n, bytesTotal: 0n }),
    list: (host) => known(host, [here]),
    drop: async (host, id) => {
      if (id !== here.id) throw prefetchNotFound(host, id);
    },
  };
}
