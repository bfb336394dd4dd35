// Plans a long-lived container of the operator's catalogue: isolated like a model server, with its own volume that outlives it.
// The image's own program runs and reads its settings from the environment.

import { join } from "node:path";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { type HostFacts, identityOf, type PlanOutcome, refused } from "./host-facts.ts";

/** A folder below the root that holds nothing an image or the system needs. */
const mountForm = /^\/(data|home|srv|workspace|var\/lib)(\/[\w][\w.-]{0,63}){0,4}$/;

export function planAgentInstance(spec: InstanceSpec__Output, host: HostFacts): PlanOutcome {
  const { agentInstance: wanted, deployId } = spec;
  if (host.volumesDir === undefined)
    return refused(
      "agent_instances_unavailable",
      "this host offers no agent instances: its agent must run as root with the Docker driver. Tell your operator.",
    );
  if (!wanted || spec.image === "" || !(wanted.port >= 1 && wanted.port <= 65_535) || wanted.dashboardPort > 65_535)
    return refused("bad_spec", "the specification of the agent instance names no image or no port.");
  if (!mountForm.test(wanted.volumePath) || wanted.volumePath.includes(".."))
    return refused(
      "bad_spec",
      "the volume of an agent instance is mounted below /data, /home, /srv, /workspace or /var/lib.",
    );
  return {
    ok: true,
    files: [],
    plan: {
      ...identityOf(spec),
      kind: "runtime",
      image: spec.image,
      args: [],
      env: {
        STOKER_INSTANCE_ID: deployId,
        STOKER_VOLUME: wanted.volumePath,
        PORT: String(wanted.port),
        ...(wanted.dashboardPort > 0 ? { STOKER_DASHBOARD_PORT: String(wanted.dashboardPort) } : {}),
      },
      volume: deployId,
      // A link to the current content, resolved at every start, so that a restored volume needs no new plan.
      mounts: [{ source: join(host.volumesDir, deployId, "current"), target: wanted.volumePath, readOnly: false }],
      port: wanted.port,
      memoryBytes: Number(spec.memoryBytes),
      cpus: spec.cpus,
      gpuUuids: [],
      shmBytes: 0,
    },
  };
}
