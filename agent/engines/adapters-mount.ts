import { join } from "node:path";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { HostFacts } from "./host-facts.ts";

/** Path of the LoRA adapters inside a container. */
export const adaptersTarget = "/adapters";

const adaptedTasks: ReadonlySet<string> = new Set(["", "text-generation", "text-to-image"]);

/** A folder that fills and empties while the engine runs; of models that take adapters. */
export function adaptersMount(spec: InstanceSpec__Output, { adaptersDir }: HostFacts) {
  if (adaptersDir === undefined || !adaptedTasks.has(spec.task)) return { mounts: [], folders: [] };
  const source = join(adaptersDir, spec.instanceId);
  return { mounts: [{ source, target: adaptersTarget, readOnly: true }], folders: [source] };
}
