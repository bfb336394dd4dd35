// Summarises why a deployment waits, in bounded size for fleets of any size.
import type { PendingReason } from "./deployment.ts";
import type { Rejection } from "./place-reasons.ts";

const maxHosts = 20;

/** Lists each host by name while there are few; otherwise one line per reason, the most frequent first. */
export function summarize(rejections: readonly Rejection[]): readonly PendingReason[] {
  if (rejections.length <= maxHosts) return rejections;
  const byWhy = [...Map.groupBy(rejections, ({ why }) => why)]
    .map(([why, hosts]) => ({ why, hosts }))
    .sort((a, b) => b.hosts.length - a.hosts.length || (a.why < b.why ? -1 : 1));
  const lines = byWhy.slice(0, maxHosts).map(({ why, hosts }) => ({
    host: hosts.length === 1 ? (hosts[0] as Rejection).host : `${hosts.length} hosts`,
    why,
  }));
  const rest = byWhy.slice(maxHosts).reduce((sum, { hosts }) => sum + hosts.length, 0);
  return rest === 0 ? lines : [...lines, { host: `${rest} hosts`, why: "for other reasons" }];
}
