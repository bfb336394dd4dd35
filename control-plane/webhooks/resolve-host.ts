// Resolves a name from the hosts file and DNS. Uses c-ares, not getaddrinfo: getaddrinfo occupies the thread pool that file
// access shares, for as long as a name's servers choose not to respond.
import { Resolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";

/** Returns the addresses of a name, IPv4 first; rejects with the codes of node:dns. */
export type Resolve = (hostname: string) => Promise<readonly string[]>;

/** Limit of one query, which is retried once; `maxMs` limits the whole lookup. */
const queryMs = 2_000;
const maxMs = 5_000;
const unknown: ReadonlySet<unknown> = new Set(["ENOTFOUND", "ENODATA"]);

/** True when the name does not exist or has no address. */
export const isUnknownName = (error: unknown): boolean =>
  error instanceof Error && "code" in error && unknown.has(error.code);

interface NameSources {
  /** Name servers, with ports where they are not 53. Default: the system's. */
  readonly servers?: readonly string[];
  readonly hostsFile?: string;
  readonly maxMs?: number;
}

export function resolveHost(sources: NameSources = {}): Resolve {
  const { servers, hostsFile = "/etc/hosts" } = sources;
  return async (hostname) => {
    const known = inHostsFile(await readFile(hostsFile, "utf8").catch(() => ""), hostname);
    if (known.length > 0) return known;
    // A new resolver for each lookup: the system's configuration may change, and cancel() ends all queries of a resolver.
    const dns = new Resolver({ timeout: queryMs, tries: 2 });
    if (servers) dns.setServers(servers);
    const timer = setTimeout(() => dns.cancel(), sources.maxMs ?? maxMs);
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
  // The family that failed may be the one that has an address.
  throw errors.find((error) => !isUnknownName(error)) ?? errors[0];
}

/** Parses lines of `ADDRESS NAME...`, with comments after #. Pure. */
function inHostsFile(text: string, hostname: string): readonly string[] {
  const name = hostname.toLowerCase().replace(/\.$/, "");
  return text.split("\n").flatMap((line) => {
    const [address, ...names] = line.replace(/#.*/, "").trim().toLowerCase().split(/\s+/);
    return address && names.includes(name) ? [address] : [];
  });
}
