// Cores, file systems and network interfaces, as systeminformation finds them.
import type { Disk } from "../../proto/gen/stoker/fleet/v1/Disk.ts";
import type { NetworkInterface } from "../../proto/gen/stoker/fleet/v1/NetworkInterface.ts";
import { askSystem } from "./ask-system.ts";
import type { Probe } from "./probe.ts";

export interface HostParts {
  readonly cpuPhysicalCores: number;
  readonly disks: readonly Disk[];
  readonly networks: readonly NetworkInterface[];
}

/** Bridges and pairs that container engines make come and go; they are no part of the host. */
const madeByEngines = /^(lo$|docker|br-|veth|virbr|cni|flannel|cali)/;
const most = 16;
/** Finding them starts a dozen tools; what moves faster, the data folder's disk, has a probe of its own. */
const keptMs = 600_000;

export function hostPartsProbe(nowMs = () => performance.now()): Probe<HostParts> {
  let known: HostParts | undefined;
  let readMs = 0;
  return {
    name: "host-parts",
    async read(signal) {
      if (known && nowMs() - readMs < keptMs) return known;
      const { cpu, disks, networks } = await askSystem("parts", signal);
      readMs = nowMs();
      known = {
        cpuPhysicalCores: cpu.physicalCores,
        disks: disks
          .filter(({ size, rw, type }) => size > 0 && rw !== false && !/^(tmpfs|overlay|squashfs)$/.test(type))
          .slice(0, most)
          .map((one) => ({ mount: one.mount, type: one.type, totalBytes: one.size, freeBytes: one.available })),
        networks: networks
          .filter(({ iface, internal, operstate }) => !internal && operstate !== "down" && !madeByEngines.test(iface))
          .slice(0, most)
          .map((one) => ({
            name: one.iface,
            addresses: [one.ip4, one.ip6].filter((address) => address !== ""),
            speedBitsPerSecond: Math.max(0, Math.round((one.speed ?? 0) * 1e6)),
          })),
      };
      return known;
    },
  };
}
