// Plans a customer's image that the operator of this host allows: it contains its weights and serves the OpenAI paths.
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { driverGpus } from "./container-plan.ts";
import { type HostFacts, identityOf, type PlanOutcome, refused } from "./host-facts.ts";

const gib = 1024 ** 3;
const port = 8000;

export function planCustom(spec: InstanceSpec__Output, host: HostFacts): PlanOutcome {
  if (host.driver === "process")
    return refused(
      "engine_unavailable",
      "an image runs in a container and this host starts model servers as processes; deploy on a host with Docker.",
    );
  if (spec.image === "") return refused("bad_spec", "the deployment names no image.");
  const gpuUuids = driverGpus(spec);
  return {
    ok: true,
    files: [],
    plan: {
      ...identityOf(spec),
      kind: "runtime",
      image: spec.image,
      args: [],
      env: {
        STOKER_INSTANCE_ID: spec.instanceId,
        STOKER_SERVED_MODEL_NAME: spec.servedModelName,
        STOKER_MAX_BATCH_SIZE: String(Math.max(1, spec.maxBatchSize)),
        PORT: String(port),
        HOME: "/tmp",
      },
      mounts: [],
      port,
      memoryBytes: Number(spec.memoryBytes),
      cpus: spec.cpus,
      gpuUuids,
      shmBytes: (gpuUuids.length > 1 ? 16 : 2) * gib,
      scratchBytes: 8 * gib,
    },
  };
}
