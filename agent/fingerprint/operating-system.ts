import { arch, release } from "node:os";
import { askSystem } from "./ask-system.ts";
import type { Probe } from "./probe.ts";

export interface OperatingSystemFacts {
  /** E.g. `Debian GNU/Linux 12 (6.1.0-30-amd64, x64)`. */
  readonly os: string;
}

export function operatingSystemProbe(): Probe<OperatingSystemFacts> {
  return {
    name: "operating-system",
    async read(signal) {
      const { distro, release: version } = await askSystem("os", signal);
      return { os: `${distro} ${version} (${release()}, ${arch()})`.trim() };
    },
  };
}
