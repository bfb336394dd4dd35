// Makers of GPUs, and how the identifier of a device names its maker.

export const gpuVendors = ["nvidia", "amd", "intel", "ascend", "apple"] as const;
export type GpuVendor = (typeof gpuVendors)[number];

/** As users know them. */
export const vendorNames: Readonly<Record<GpuVendor, string>> = {
  nvidia: "NVIDIA",
  amd: "AMD",
  intel: "Intel",
  ascend: "Ascend",
  apple: "Apple",
};

/** Identifiers of NVIDIA are those of its driver; the others get a prefix, and the host where the tool's own is not unique. */
const prefixes: Readonly<Record<GpuVendor, RegExp>> = {
  nvidia: /^(GPU|MIG)-/,
  amd: /^AMD-/,
  intel: /^XPU-/,
  ascend: /^NPU-/,
  apple: /^APPLE-/,
};

/** Undefined: a share of the host's memory, not a device. */
export function vendorOf(uuid: string): GpuVendor | undefined {
  return gpuVendors.find((vendor) => prefixes[vendor].test(uuid));
}

/** A share of processor and memory of a host without GPUs, presented as a GPU of type `other`. */
export const isProcessorSlot = ({ type, uuid }: { readonly type: string; readonly uuid: string }): boolean =>
  type === "other" && vendorOf(uuid) === undefined;

/** Ways to give one device to a container or a process, from the facts of its maker's tool. */
export interface GpuAccess {
  readonly vendor: GpuVendor;
  /** Names of the device in CDI; a container engine lists those that its specifications define. */
  readonly cdi: readonly string[];
  /** Device files, for an engine that lists none of the names. Empty: only CDI or the maker's runtime gives it. */
  readonly devices: readonly string[];
  /** Groups that own these files, by number. */
  readonly groups: readonly number[];
  /** Files and folders of the driver that a container needs with the device files, read-only. */
  readonly libraries: readonly string[];
  /** Variable that limits a process to devices, and this device's value in its list; empty: there is none. */
  readonly visible: { readonly variable: string; readonly value: string };
}
