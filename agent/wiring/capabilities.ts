// Capabilities of this process as root: in a container it may have only a few.
import { readFileSync } from "node:fs";

/** Bits of capabilities(7). */
const bits = { CHOWN: 0n, DAC_OVERRIDE: 1n, FOWNER: 3n } as const;

export type Capability = keyof typeof bits;

/** `status`: text of /proc/self/status. Nothing lacks where the kernel does not say. */
export function lackingCapabilities(wanted: readonly Capability[], status = ownStatus()): readonly Capability[] {
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1];
  if (effective === undefined) return [];
  return wanted.filter((one) => ((BigInt(`0x${effective}`) >> bits[one]) & 1n) === 0n);
}

function ownStatus(): string {
  try {
    return readFileSync("/proc/self/status", "utf8");
  } catch {
    return "";
  }
}
