// GPU types: the names that prices, limits, deployments and placement use, and how a device gets one. gpu-types.json has the known
// ones; an operator adds others at the start of the control plane (control-plane/catalog/gpu-catalogue.ts).
import catalogue from "./gpu-types.json" with { type: "json" };
import { type GpuVendor, vendorOf } from "./gpu-vendors.ts";

/** The contract's sized GPU types, in display order; `other` is the ninth. */
export const sizedGpuTypes = [
  "B300-270GB",
  "B200-180GB",
  "H200-141GB",
  "H100-80GB",
  "A100-80GB",
  "L40S-48GB",
  "L4-24GB",
  "RTXPRO6000-96GB",
] as const;

/** True for the contract's types, without `other`. */
export const isSizedGpuType = (type: GpuType): boolean => (sizedGpuTypes as readonly string[]).includes(type);

/** Name in the catalogue, or `other` for a device that no entry recognises. */
export type GpuType = string;

export interface GpuTypeEntry {
  readonly name: GpuType;
  readonly vendor: GpuVendor;
  /** Nominal memory; undefined: differs between devices of the type. */
  readonly memory_gb?: number;
  /** Parts of the product name as the vendor's tool reports it, whole words in any case. */
  readonly marks: readonly string[];
}

const builtIn = catalogue.types as readonly GpuTypeEntry[];
let ownEntries: readonly GpuTypeEntry[] = [];
const byName = new Map(builtIn.map((entry) => [entry.name, entry]));
const names: GpuType[] = [...sizedGpuTypes, "other", ...without(sizedGpuTypes, builtIn)];

/** The contract's names first. Changed by `addGpuTypes` only: schemas that contain it must be compiled later. */
export const gpuTypes: readonly GpuType[] = names;

/**
 * Adds an operator's entries, which replace known ones of the same name. Call before anything else reads the types. Returns a
 * function that restores the types before this call.
 */
export function addGpuTypes(entries: readonly GpuTypeEntry[]): () => void {
  const before = { ownEntries, names: [...names], byName: [...byName] };
  ownEntries = entries;
  names.push(...without(names, entries));
  for (const entry of entries) if (entry.name !== "other") byName.set(entry.name, entry);
  return () => {
    ownEntries = before.ownEntries;
    names.splice(0, names.length, ...before.names);
    byName.clear();
    for (const [name, entry] of before.byName) byName.set(name, entry);
  };
}

function without(known: readonly string[], entries: readonly GpuTypeEntry[]): GpuType[] {
  return [...new Set(entries.map(({ name }) => name))].filter((name) => !known.includes(name));
}

export function isGpuType(text: string): boolean {
  return text === "other" || byName.has(text);
}

/** Allowed names for an error message. */
export const gpuTypesInWords = `${sizedGpuTypes.join(", ")}, other, and types that GET /v1/gpu_pool/gpu_types lists`;

export function inDisplayOrder(types: Iterable<GpuType>): GpuType[] {
  const wanted = new Set(types);
  return names.filter((name) => wanted.has(name));
}

/** GPU memory in bytes; 0: `other`, or it differs between devices of the type. */
export function nominalBytes(type: GpuType): number {
  return (byName.get(type)?.memory_gb ?? 0) * 1e9;
}

/** Undefined for `other`. */
export const vendorOfType = (type: GpuType): GpuVendor | undefined => byName.get(type)?.vendor;

interface Device {
  readonly uuid: string;
  /** Product name, as the vendor's tool reports it. */
  readonly name: string;
  readonly memoryBytes: number;
}

/** By product name and memory: a name alone would sell a 40 GB A100 as one of 80 GB. */
export function gpuTypeOf(device: Device): GpuType {
  return recognise(ownEntries, device) ?? recognise([...byName.values()], device) ?? "other";
}

/**
 * Type of a GPU that an agent reports. An operator's entry wins over the agent's type. `other` of an older agent is checked again,
 * and a type that is not in this catalogue is `other`. A slice of a GPU stays `other`: named types are whole GPUs.
 */
export function reportedGpuType(gpu: Device & { readonly type: string; readonly migProfile?: string }): GpuType {
  if (gpu.migProfile) return "other";
  const own = recognise(ownEntries, gpu);
  if (own !== undefined) return own;
  return gpu.type !== "other" && isGpuType(gpu.type) ? gpu.type : gpuTypeOf(gpu);
}

/** Drivers reserve a few per cent. */
const minShare = 0.9;

function recognise(entries: readonly GpuTypeEntry[], { uuid, name, memoryBytes }: Device): GpuType | undefined {
  const vendor = vendorOf(uuid);
  let best: { readonly entry: GpuTypeEntry; readonly mark: number } | undefined;
  for (const entry of entries) {
    const minBytes = (entry.memory_gb ?? 0) * 1e9 * minShare;
    if (entry.vendor !== vendor || memoryBytes < minBytes) continue;
    const mark = Math.max(0, ...entry.marks.filter((one) => hasWords(name, one)).map((one) => one.length));
    if (mark === 0) continue;
    // The longer mark says more: "M3 Max" is not "M3".
    const isBetter =
      !best || mark > best.mark || (mark === best.mark && (entry.memory_gb ?? 0) > (best.entry.memory_gb ?? 0));
    if (isBetter) best = { entry, mark };
  }
  return best?.entry.name;
}

function hasWords(text: string, words: string): boolean {
  const lower = text.toLowerCase();
  const wanted = words.toLowerCase();
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, at + 1)) {
    const isWhole = !/[a-z0-9]/.test(lower[at - 1] ?? " ") && !/[a-z0-9]/.test(lower[at + wanted.length] ?? " ");
    if (isWhole) return true;
  }
  return false;
}
