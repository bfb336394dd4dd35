// Interval over which a fleet's hosts spread their first reconnect: about thirteen per second, at most a seventh of the
// hosts in any second. Always shorter than a lease, so that the spread itself makes no host unreachable; small fleets need
// no spread.

const perHostMs = 75;
const minMs = 1_000;
const maxMs = 15_000;

export function reconnectSpreadMs(hosts: number): number {
  return Math.min(maxMs, Math.max(minMs, hosts * perHostMs));
}
