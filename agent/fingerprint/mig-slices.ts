// The slices of GPUs in MIG mode. No single answer of nvidia-smi has all of them: the report has their memory, the list their
// uuids, and both count them alike.
import { type MigDevice, type MigName, type NvidiaReport, parseList } from "./nvidia-report.ts";
import type { NvidiaSmi, Row } from "./nvidia-smi.ts";

export type MigSlice = MigDevice & MigName;

/** True for a GPU in MIG mode. The row must contain `mig.mode.current`. */
export const isSplit = (row: Row): boolean => row["mig.mode.current"] === "Enabled";

/** By uuid of the GPU; without those that one of both answers leaves out. */
export async function migSlices(
  smi: NvidiaSmi,
  report: NvidiaReport | undefined,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, readonly MigSlice[]>> {
  const list = await smi.list(signal);
  const names = parseList(list.kind === "ok" ? list.output : "");
  const found = [...(report?.migDevices ?? [])].map(([gpu, devices]) => {
    const slices = devices.flatMap((device) => {
      const name = names.get(gpu)?.find((one) => one.index === device.index);
      return name ? [{ ...device, ...name }] : [];
    });
    return [gpu, slices] as const;
  });
  return new Map(found);
}
