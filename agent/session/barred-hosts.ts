// Hosts that the control plane revoked but whose certificates are still valid: this host refuses them as peers.
import type { HostId } from "../../proto/ids.ts";

export interface BarredHosts {
  has(host: HostId): boolean;
  /** All revoked hosts, as last received. */
  replace(hosts: readonly string[]): void;
  onChange(listener: () => void): void;
}

export function createBarredHosts(): BarredHosts {
  let barred: ReadonlySet<string> = new Set();
  const listeners: (() => void)[] = [];
  return {
    has: (host) => barred.has(host),
    replace(hosts) {
      if (hosts.length === barred.size && hosts.every((host) => barred.has(host))) return;
      barred = new Set(hosts);
      for (const listener of listeners) listener();
    },
    onChange: (listener) => void listeners.push(listener),
  };
}
