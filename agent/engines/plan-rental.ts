// Plans a customer's container. The image comes from the host's own list, GPUs are whole or none, and nothing of ours is in it.
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { type HostFacts, identityOf, type PlanOutcome, refused } from "./host-facts.ts";

const gib = 1024 ** 3;
const sshPort = 22;
const maxKeys = 100;
/** One line that starts with the type of a key: options before it could run commands. */
const keyForm = /^(ssh|ecdsa|sk)-[\w@.-]+ [A-Za-z0-9+/=]+( [^\r\n\0]*)?$/;

export function planRental(spec: InstanceSpec__Output, host: HostFacts): PlanOutcome {
  const { rental } = spec;
  if (!rental || !host.rentals)
    return refused(
      "bad_spec",
      "this host rents out no containers; its operator names images with STOKER_RENTAL_IMAGES.",
    );
  const image = host.rentals.images.get(spec.image);
  if (image === undefined)
    return refused(
      "image_refused",
      `the operator of this host does not offer the image ${JSON.stringify(spec.image.slice(0, 200))}; choose one of GET /v1/containers/params.`,
    );
  if (rental.sshKeys.length > maxKeys || !rental.sshKeys.every((key) => keyForm.test(key)))
    return refused(
      "bad_spec",
      "a key of the account is no line of an authorized_keys file; the control plane sent it wrongly.",
    );
  if (spec.gpuUuids.some((uuid) => uuid.startsWith("MIG-")))
    return refused("bad_spec", "a part of a GPU is not rented out; the control plane placed it wrongly.");
  const memoryBytes = Number(spec.memoryBytes);
  const hasDevices = host.rentals.devices === "nvidia";
  return {
    ok: true,
    files: [],
    plan: {
      ...identityOf(spec),
      kind: "rental",
      image,
      args: [],
      env: {},
      mounts: [],
      port: sshPort,
      memoryBytes,
      cpus: spec.cpus,
      claimedGpus: spec.gpuUuids,
      gpuUuids: hasDevices ? spec.gpuUuids.filter((uuid) => uuid.startsWith("GPU-")) : [],
      shmBytes: Math.max(64 * 1024 * 1024, Math.min(16 * gib, Math.floor(memoryBytes / 2))),
      rental: { sshKeys: rental.sshKeys, firstStart: rental.firstStart },
    },
  };
}
