// Cores, file systems and network interfaces, as systeminformation finds them.
import { cpu, fsSize, networkInterfaces } from "systeminformation";
import type { Disk } from "../../proto/gen/stoker/fleet/v1/Disk.ts";
import type { NetworkInterface } from "../../proto/gen/stoker/fleet/v1/NetworkInterface.ts";
import type { Probe } from "./probe.ts";

export interface HostParts {
  readonly cpuPhysicalCores: number;
  readonly disks: readonly Disk[];
  readonly networks: readonly NetworkInterface[];
}

/** Bridges and pairs that container engines make come and go; they are no part of the host. */
const madeByEngines = /^(lo$|docker|br-|veth|virbr|cni|flannel|cali)/;
const most = 16;

export function hostPartsProbe(): Probe<HostParts> {
  return {
    name: "host-parts",
    async read() {
      const [processor, disks, networks] = await Promise.all([cpu(), fsSize(), networkInterfaces()]);
      return {
        cpuPhysicalCores: processor.physicalCores,
        disks: disks
          .filter(({ size, rw, type }) => size > 0 && rw !== false && !/^(tmpfs|overlay|squashfs)$/.test(type))
          .slice(0, most)
          .map((one) => ({ mount: one.mount, type: one.type, totalBytes: one.size, freeBytes: one.available })),
        networks: [networks]
          .flat()
          .filter(({ iface, internal, operstate }) => !internal && operstate !== "down" && !madeByEngines.test(iface))
          .slice(0, most)
          .map((one) => ({
            name: one.iface,
            addresses: [one.ip4, one.ip6].filter((address) => address !== ""),
            speedBitsPerSecond: Math.max(0, Math.round((one.speed ?? 0) * 1e6)),
          })),
      };
    },
  };
}
