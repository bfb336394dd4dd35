// Where a model server keeps graphs as it optimised them for this machine: a folder per deployment, for what was made for one
// tenant is never read for another. It outlives the instances. Pure.
import { join } from "node:path";
import type { ContainerPlan } from "../reconcile/driver.ts";
import type { HostFacts } from "./host-facts.ts";

const target = "/var/cache/stoker/graphs";

export interface GraphCache {
  readonly env: Readonly<Record<string, string>>;
  readonly mounts: ContainerPlan["mounts"];
  /** Made before the start, for a server of any user. */
  readonly folders: readonly string[];
}

/** Nothing for GGUF, which llama.cpp reads as it is, and on a host that keeps no such folders. */
export function graphCache(modelPath: string, deployId: string, { graphsDir, driver }: HostFacts): GraphCache {
  if (graphsDir === undefined || /\.gguf$/i.test(modelPath)) return { env: {}, mounts: [], folders: [] };
  const folder = join(graphsDir, deployId);
  return driver === "process"
    ? { env: { STOKER_GRAPH_CACHE: folder }, mounts: [], folders: [folder] }
    : {
        env: { STOKER_GRAPH_CACHE: target },
        mounts: [{ source: folder, target, readOnly: false }],
        folders: [folder],
      };
}
