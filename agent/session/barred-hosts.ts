// Hosts that the control plane revoked but whose certificates are still valid: this host refuses them as peers.
import type { HostId } from "../../proto/ids.ts";

export type BarredHosts = ReturnType<typeof createBarredHosts>;

export function createBarredHosts() {
  let barred: ReadonlySet<string> = new Set();
  const listeners: (() => void)[] = [];
  return {
    has: (host: HostId) => barred.has(host),
    replace(hosts: readonly string[]) {
      if (hosts.length === barred.size && hosts.every((host) => barred.has(host))) return;
      barred = new Set(hosts);
      for (const listener of listeners) listener();
    },
    onChange: (listener: () => void): void => void listeners.push(listener),
  };
}
