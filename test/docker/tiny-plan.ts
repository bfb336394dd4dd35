import type { ContainerPlan } from "../../agent/reconcile/driver.ts";
import { randomId } from "../../proto/ids.ts";
import { tinyImage } from "./docker-host.ts";

/** A plan that runs the tiny stand-in of the model server. */
export function tinyPlan(change: Partial<ContainerPlan> = {}): ContainerPlan {
  const instanceId = change.instanceId ?? randomId<"instance">(16);
  return {
    instanceId,
    deployId: randomId<"deployment">(16),
    generation: 1,
    kind: "runtime",
    image: tinyImage,
    args: [],
    env: {
      STOKER_INSTANCE_ID: instanceId,
      STOKER_SERVED_MODEL_NAME: "tiny/model",
      STOKER_HOST: "0.0.0.0",
      STOKER_PORT: "8000",
    },
    mounts: [],
    port: 8000,
    memoryBytes: 256 * 1024 * 1024,
    cpus: 1,
    gpuUuids: [],
    shmBytes: 0,
    ...change,
  };
}
