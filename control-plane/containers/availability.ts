// GPUs that a container could get now. Uses the placement itself, so what is offered can be placed.

import { type GpuType, gpuTypesInWords, inDisplayOrder, isGpuType } from "../../proto/gpu.ts";
import { place } from "../deployments/placement-preview.ts";
import { gpuTypesOn, type HostView } from "../fleet/host.ts";
import { containerRefused } from "./errors.ts";

interface GpuConfig {
  readonly count: number;
  readonly gpu: GpuType;
}

const maxGpus = 8;

/** Parses `8xB200-180GB`: whole GPUs of one type on one host. Throws containerRefused. */
export function parseGpuConfig(text: string): GpuConfig {
  const [, count = "", gpu = ""] = /^([1-9]\d{0,2})x(.+)$/.exec(text) ?? [];
  if (!isGpuType(gpu) || Number(count) > maxGpus)
    throw containerRefused(
      `gpu_config: ${text.slice(0, 40)} must be <count>x<type> with 1 to ${maxGpus} GPUs of ${gpuTypesInWords}, such as 1xH100-80GB.`,
      { param: "gpu_config" },
    );
  return { count: Number(count), gpu };
}

const writeGpuConfig = ({ count, gpu }: GpuConfig): string => `${count}x${gpu}`;

export interface Offer {
  readonly gpuConfig: string;
  /** Nano-USD for all its GPUs; 0n without a price. */
  readonly hourRate: bigint;
  readonly isAvailable: boolean;
}

/** All counts that `parseGpuConfig` accepts. */
const counts = [1, 2, 3, 4, 5, 6, 7, 8];

/** Returns names of images, each offered by at least one live host. */
export function offeredImages(hosts: readonly HostView[]): readonly string[] {
  return [...new Set(offering(hosts).flatMap((host) => host.inventory.rentalImages ?? []))].sort();
}

/** Returns every size that fits a host that offers containers, in display order. */
export function offers(
  hosts: readonly HostView[],
  hourRates: ReadonlyMap<string, bigint>,
  /** Maximum GPUs that the account may newly claim; undefined: any that are free. */
  maxNew: (gpu: GpuType) => number | undefined = () => undefined,
): readonly Offer[] {
  const renting = offering(hosts);
  return configsOf(renting).map((config) => ({
    gpuConfig: writeGpuConfig(config),
    hourRate: (hourRates.get(config.gpu) ?? 0n) * BigInt(config.count),
    isAvailable: renting.some((host) => fits(config, host, maxNew(config.gpu))),
  }));
}

function configsOf(hosts: readonly HostView[]): GpuConfig[] {
  const max = (gpu: GpuType) =>
    Math.max(0, ...hosts.map((host) => host.inventory.gpus.filter((one) => one.type === gpu && isWhole(one)).length));
  return inDisplayOrder(gpuTypesOn(hosts)).flatMap((gpu) =>
    counts.filter((count) => count <= max(gpu)).map((count) => ({ count, gpu })),
  );
}

function fits({ count, gpu }: GpuConfig, host: HostView, maxNewGpus: number | undefined): boolean {
  const rentalImage = host.inventory.rentalImages?.[0];
  const want = {
    gpu,
    gpusPerInstance: count,
    maxNewGpus,
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
