// Over how long the hosts of a fleet are to spread their first attempt to come back: about thirteen a second, so that none of
// the seconds sees more than a seventh of them. Never longer than most of a lease, or the spread itself would make hosts
// count as unreachable; two handfuls of hosts are no herd.

const perHostMs = 75;
const leastMs = 1_000;
const mostMs = 15_000;

export function reconnectSpreadMs(hosts: number): number {
  return Math.min(mostMs, Math.max(leastMs, hosts * perHostMs));
}
