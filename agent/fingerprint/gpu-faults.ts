// Chooses the faults that take a GPU out of use until the operator clears them. Pure.
import { meaningOf, pciAddress, type Xid } from "./xid.ts";

export interface Fault {
  /** Names this very occurrence, the same after a restart of the agent. */
  readonly id: string;
  readonly reason: string;
}

/** Error counters of the GPU itself. `boot`: they are reset with it. */
export function memoryFault(
  counts: { readonly uncorrected: number | undefined; readonly rowRemapFailure: string | undefined },
  boot: string,
): Fault | undefined {
  if (counts.rowRemapFailure !== undefined && /^(yes|1)$/i.test(counts.rowRemapFailure))
    return { id: "row_remap_failure", reason: "a memory row could not be remapped: replace the GPU" };
  const { uncorrected = 0 } = counts;
  if (uncorrected === 0) return undefined;
  const errors = uncorrected === 1 ? "1 uncorrected memory error" : `${uncorrected} uncorrected memory errors`;
  return { id: `ecc:${boot}:${uncorrected}`, reason: `${errors} since the driver started: reset the GPU` };
}

export function goneFault(at: string): Fault {
  return { id: `gone:${at}`, reason: "it is not listed any more: check the host's kernel log, power and seating" };
}

export function xidFault(gpu: { readonly pciBusId: string }, xids: readonly Xid[], boot: string): Fault | undefined {
  if (gpu.pciBusId === "") return undefined;
  const own = xids.filter((xid) => xid.pciAddress === pciAddress(gpu.pciBusId) && meaningOf(xid.code) !== undefined);
  const last = own.at(-1);
  return last && { id: `xid:${last.code}:${boot}:${last.bootUs}`, reason: `Xid ${last.code}: ${meaningOf(last.code)}` };
}
