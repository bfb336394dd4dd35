// Which GPUs a container could have now. The placement itself answers: what is shown as available is what would be placed.
import { type GpuType, gpuTypes } from "../../proto/gpu.ts";
import { place } from "../deployments/place.ts";
import type { HostView } from "../fleet/host.ts";
import { type GpuConfig, writeGpuConfig } from "./gpu-config.ts";

export interface Offer {
  readonly gpuConfig: string;
  /** Nano-USD for all its GPUs; 0n without a price. */
  readonly hourRate: bigint;
  readonly isAvailable: boolean;
}

/** All that `parseGpuConfig` takes. */
const counts = [1, 2, 3, 4, 5, 6, 7, 8];

/** Names of images, each offered by a host that is there. */
export function offeredImages(hosts: readonly HostView[]): readonly string[] {
  return [...new Set(offering(hosts).flatMap((host) => host.inventory.rentalImages ?? []))].sort();
}

/** Every size that fits a host that offers containers, in display order. */
export function offers(
  hosts: readonly HostView[],
  hourRates: ReadonlyMap<string, bigint>,
  /** Most GPUs that the account may claim anew; undefined: any that are free. */
  mostNew: (gpu: GpuType) => number | undefined = () => undefined,
): readonly Offer[] {
  const renting = offering(hosts);
  return configsOf(renting).map((config) => ({
    gpuConfig: writeGpuConfig(config),
    hourRate: (hourRates.get(config.gpu) ?? 0n) * BigInt(config.count),
    isAvailable: renting.some((host) => fits(config, host, mostNew(config.gpu))),
  }));
}

function configsOf(hosts: readonly HostView[]): GpuConfig[] {
  const most = (gpu: GpuType) =>
    Math.max(0, ...hosts.map((host) => host.inventory.gpus.filter((one) => one.type === gpu && isWhole(one)).length));
  return gpuTypes.flatMap((gpu) => counts.filter((count) => count <= most(gpu)).map((count) => ({ count, gpu })));
}

function fits({ count, gpu }: GpuConfig, host: HostView, mostNewGpus: number | undefined): boolean {
  const rentalImage = host.inventory.rentalImages?.[0];
  const want = {
    gpu,
    gpusPerInstance: count,
    mostNewGpus,
    memoryBytes: 0,
    engine: "container",
    host: undefined,
    rentalImage,
  } as const;
  return place(want, [host]).ok;
}

const isWhole = (gpu: { readonly uuid: string }) => !gpu.uuid.startsWith("MIG-");
const offering = (hosts: readonly HostView[]) =>
  hosts.filter((host) => host.state === "live" && (host.inventory.rentalImages?.length ?? 0) > 0);
