// Hosts that the control plane revoked and whose certificates others would still believe: no peers of this host.
import type { HostId } from "../../proto/ids.ts";

export interface BarredHosts {
  has(host: HostId): boolean;
  /** All of them, as last heard. */
  heard(hosts: readonly string[]): void;
  onChange(listener: () => void): void;
}

export function createBarredHosts(): BarredHosts {
  let barred: ReadonlySet<string> = new Set();
  const listeners: (() => void)[] = [];
  return {
    has: (host) => barred.has(host),
    heard(hosts) {
      if (hosts.length === barred.size && hosts.every((host) => barred.has(host))) return;
      barred = new Set(hosts);
      for (const listener of listeners) listener();
    },
    onChange: (listener) => void listeners.push(listener),
  };
}
