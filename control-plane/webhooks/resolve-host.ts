// Addresses of a name from the hosts file and DNS. By c-ares, not getaddrinfo: that one occupies threads which every lookup and
// every file access of the process share, and whoever owns a name decides how long its servers are silent.
import { Resolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";

/** Addresses of a name, those of IPv4 first; rejects with the codes of node:dns. */
export type Resolve = (hostname: string) => Promise<readonly string[]>;

/** Of one query, asked once more; and of a name in all. */
const queryMs = 2_000;
const mostMs = 5_000;
const unknown: ReadonlySet<unknown> = new Set(["ENOTFOUND", "ENODATA"]);

/** There is no such name, or it has no address. */
export const isUnknownName = (error: unknown): boolean =>
  error instanceof Error && "code" in error && unknown.has(error.code);

interface NameSources {
  /** The name servers, with ports where they are not 53; those of the system without it. */
  readonly servers?: readonly string[];
  readonly hostsFile?: string;
  readonly mostMs?: number;
}

export function resolveHost(sources: NameSources = {}): Resolve {
  const { servers, hostsFile = "/etc/hosts" } = sources;
  return async (hostname) => {
    const known = inHostsFile(await readFile(hostsFile, "utf8").catch(() => ""), hostname);
    if (known.length > 0) return known;
    // Made anew: what the system is configured with may change, and cancel() ends all queries of a resolver.
    const dns = new Resolver({ timeout: queryMs, tries: 2 });
    if (servers) dns.setServers(servers);
    const timer = setTimeout(() => dns.cancel(), sources.mostMs ?? mostMs);
    try {
      return await ofBothFamilies(dns, hostname);
    } finally {
      clearTimeout(timer);
    }
  };
}

async function ofBothFamilies(dns: Resolver, hostname: string): Promise<readonly string[]> {
  const answers = await Promise.allSettled([dns.resolve4(hostname), dns.resolve6(hostname)]);
  const found = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
  if (found.length > 0) return found;
  const errors = answers.flatMap((answer) => (answer.status === "rejected" ? [answer.reason] : []));
  // A family that was not answered may be the one that has an address.
  throw errors.find((error) => !isUnknownName(error)) ?? errors[0];
}

/** Of the lines `ADDRESS NAME...`, with comments after #. Pure. */
function inHostsFile(text: string, hostname: string): readonly string[] {
  const name = hostname.toLowerCase().replace(/\.$/, "");
  return text.split("\n").flatMap((line) => {
    const [address, ...names] = line.replace(/#.*/, "").trim().toLowerCase().split(/\s+/);
    return address && names.includes(name) ? [address] : [];
  });
}
