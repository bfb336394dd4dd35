// Providers of external servers in memory, for the HTTP edge.
import type { ExternalProvider, Providers } from "../../control-plane/billing/providers.ts";
import type { Deployment } from "../../control-plane/deployments/deployment.ts";
import { notFound } from "../../control-plane/service-error.ts";
import { nano } from "../../proto/money.ts";

/** One external server: `known`. */
export function fakeProviders(known: Pick<Deployment, "id" | "modelName" | "status">): Pick<Providers, "list" | "set"> {
  let server: ExternalProvider = {
    deployId: known.id,
    modelName: known.modelName,
    api: "openai",
    url: "http://127.0.0.1:9",
    status: known.status,
    terms: null,
    monthSpent: nano(0n),
    daySpent: nano(0n),
  };
  return {
    list: () => Promise.resolve({ servers: [server], hasMore: false }),
    set(_, id, terms) {
      if (id !== known.id) return Promise.reject(notFound("external_not_found", "External server not found."));
      server = { ...server, terms };
      return Promise.resolve(server);
    },
  };
}
