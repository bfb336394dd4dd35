// One maker of GPUs: its tool is asked, and its answer read. One file per maker, with the same interface.
import { gpuTypeOf } from "../../../proto/gpu.ts";
import type { GpuAccess, GpuVendor } from "../../../proto/gpu-vendors.ts";
import type { FoundGpu } from "../gpu.ts";
import type { ToolEnd } from "../run-tool.ts";

export interface VendorGpu {
  readonly gpu: FoundGpu;
  readonly access: Omit<GpuAccess, "groups">;
  /** Current figures; undefined: the tool reports none. */
  readonly load?: VendorLoad | undefined;
}

export interface VendorLoad {
  readonly utilizationRatio?: number | undefined;
  readonly memoryUsedBytes?: number | undefined;
  readonly temperatureCelsius?: number | undefined;
  readonly powerWatts?: number | undefined;
}

export type VendorAnswer =
  | { readonly kind: "none" }
  | { readonly kind: "found"; readonly gpus: readonly VendorGpu[]; readonly driverVersion: string }
  | { readonly kind: "broken"; readonly reason: string };

export interface Vendor {
  readonly vendor: GpuVendor;
  /** Never rejects except with the signal's reason. */
  read(signal: AbortSignal): Promise<VendorAnswer>;
}

/** Runs the vendor's tool with these arguments. */
export type RunVendorTool = (tool: string, args: readonly string[], signal: AbortSignal) => Promise<ToolEnd>;

/** A healthy GPU of the type that its name and memory say; a vendor overrides what it knows. */
export function plainGpu(
  facts: Pick<FoundGpu, "uuid" | "index" | "name" | "memoryBytes"> & Partial<FoundGpu>,
): FoundGpu {
  return {
    type: gpuTypeOf(facts),
    healthy: facts.memoryBytes > 0,
    unhealthyReason: facts.memoryBytes > 0 ? "" : "its tool does not report its memory",
    faultId: "",
    pciBusId: "",
    migProfile: "",
    parentUuid: "",
    computeCapability: "",
    powerLimitWatts: 0,
    eccUncorrected: 0,
    ...facts,
  };
}

export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Member of nested objects; undefined where one of them is missing. */
export function at(value: unknown, ...keys: readonly string[]): unknown {
  return keys.reduce<unknown>((inner, key) => (inner as Record<string, unknown> | null | undefined)?.[key], value);
}

/** A number, also as text or as `{ "value": 1, "unit": "MB" }`; undefined for "N/A". */
export function numberOf(value: unknown): number | undefined {
  const plain = typeof value === "object" && value !== null ? (value as { value?: unknown }).value : value;
  const number = typeof plain === "string" && plain.trim() !== "" ? Number(plain.trim()) : plain;
  return typeof number === "number" && Number.isFinite(number) ? number : undefined;
}

export const textOf = (value: unknown): string => (typeof value === "string" && value !== "N/A" ? value.trim() : "");
