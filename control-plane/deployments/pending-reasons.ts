// Why a deployment waits, short enough to stand in its record whatever the size of the fleet.
import type { PendingReason } from "./deployment.ts";
import type { Rejection } from "./place-reasons.ts";

const mostHosts = 20;

/** Each host by name while they are few; else one line per reason, the most frequent first. */
export function summarize(rejections: readonly Rejection[]): readonly PendingReason[] {
  if (rejections.length <= mostHosts) return rejections;
  const byWhy = [...Map.groupBy(rejections, ({ why }) => why)]
    .map(([why, hosts]) => ({ why, hosts }))
    .sort((a, b) => b.hosts.length - a.hosts.length || (a.why < b.why ? -1 : 1));
  const lines = byWhy.slice(0, mostHosts).map(({ why, hosts }) => ({
    host: hosts.length === 1 ? (hosts[0] as Rejection).host : `${hosts.length} hosts`,
    why,
  }));
  const rest = byWhy.slice(mostHosts).reduce((sum, { hosts }) => sum + hosts.length, 0);
  return rest === 0 ? lines : [...lines, { host: `${rest} hosts`, why: "for other reasons" }];
}
