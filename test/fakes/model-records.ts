// The verbs of model records over nothing: one version of every model, and one price of GPUs.

import { noPapers } from "../../control-plane/catalog/model-meta.ts";
import { createModelRecords, type ModelRecords } from "../../control-plane/catalog/model-records.ts";

export function fakeModelRecords(): ModelRecords {
  return createModelRecords({
    store: {
      papers: () => Promise.resolve({ ...noPapers, githubUrl: "https://example.com/code" }),
      versions: () => Promise.resolve([{ version: "v1", uploadedAtMs: 1_786_000_000_000 }]),
      change: async () => {},
      show: async () => {},
      forget: async () => {},
      hourRates: () => Promise.resolve(new Map([["H100-80GB", 1_800_000_000n]])),
    },
    offers: { offer: (offer) => Promise.resolve({ ...offer, priceVersion: 1, createdAtMs: 1_786_000_000_000 }) },
    endDeployments: async () => {},
    refresh: async () => {},
  });
}
