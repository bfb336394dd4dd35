// The rules that keep rentals apart from everything but the internet, as text for iptables-restore. Pure. They know a rental
// by the bridge it hangs on: an address can be forged inside, the bridge cannot.
import { createHash } from "node:crypto";
import { anyBridge, bridgePrefix } from "./rental-network.ts";

export interface Jump {
  readonly from: string;
  readonly match: readonly string[];
  readonly to: string;
}

export interface RuleSet {
  readonly chains: readonly string[];
  /** For `iptables-restore --noflush`: chains are made or emptied and filled in one step. */
  readonly text: string;
  readonly jumps: readonly Jump[];
}

/** Everything that is not the public internet: private, link-local (metadata services), carrier, test, multicast. */
const notPublic = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "224.0.0.0/4",
  "240.0.0.0/4",
];
const ofConnections = ["-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED"].join(" ");

export function rulesFor(nodeName: string, denied: readonly string[]): { readonly v4: RuleSet; readonly v6: RuleSet } {
  const bridges = `${bridgePrefix(nodeName)}+`;
  const name = `STOKER-${createHash("sha256").update(nodeName).digest("hex").slice(0, 8)}`;
  const [out, into, host] = [`${name}-OUT`, `${name}-IN`, `${name}-HOST`];
  const v4 = [
    // Another rental first: also by the address that this host publishes for it.
    `-A ${out} -o ${anyBridge}+ -j DROP`,
    `-A ${out} ${ofConnections} -j RETURN`,
    ...[...notPublic, ...denied].map((network) => `-A ${out} -d ${network} -j DROP`),
    // From outside only what was published, and answers.
    `-A ${into} ${ofConnections} -j RETURN`,
    `-A ${into} -p tcp -m conntrack --ctstate DNAT -j RETURN`,
    `-A ${into} -j DROP`,
    // The host asks (is SSH up?) and is never asked.
    `-A ${host} ${ofConnections} -j RETURN`,
    `-A ${host} -j DROP`,
  ];
  const jumps = (forward: string): readonly Jump[] => [
    { from: forward, match: ["-i", bridges], to: out },
    { from: forward, match: ["-o", bridges], to: into },
    { from: "INPUT", match: ["-i", bridges], to: host },
  ];
  const v6 = [out, into, host].map((chain) => `-A ${chain} -j DROP`);
  return {
    v4: { chains: [out, into, host], text: restoreText([out, into, host], v4), jumps: jumps("DOCKER-USER") },
    // Rentals have no IPv6; link-local addresses are there all the same.
    v6: { chains: [out, into, host], text: restoreText([out, into, host], v6), jumps: jumps("FORWARD") },
  };
}

function restoreText(chains: readonly string[], rules: readonly string[]): string {
  return ["*filter", ...chains.map((chain) => `:${chain} - [0:0]`), ...rules, "COMMIT", ""].join("\n");
}
