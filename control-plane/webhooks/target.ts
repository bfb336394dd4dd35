// What a webhook's URL must be, and where it leads. The parsed host is judged, never the raw text: `new URL` turns every
// spelling of an IPv4 address into the usual one.
import { isIP } from "node:net";
import { type AddressRules, addressTest } from "./addresses.ts";
import { BadWebhookUrl, WebhookRefused } from "./errors.ts";
import { isUnknownName, type Resolve, resolveHost } from "./resolve-host.ts";

export interface Target {
  readonly url: string;
  /** Host and port. */
  readonly host: string;
}

/** A checked place to connect to. */
export interface Destination {
  readonly url: URL;
  readonly address: string;
}

export interface Targets {
  /** Throws BadWebhookUrl, WebhookRefused. A name that cannot be resolved just now is not refused. */
  check(text: string): Promise<Target>;
  /** Resolves once and checks every address. Throws WebhookRefused, or as `resolve` does. */
  locate(url: string): Promise<Destination>;
  mayConnectTo(address: string): boolean;
}

const mostOfWebhooks = 2048;
const ports = new Set(["", "443", "8443"]);

/** `mostCharacters`: of a URL; longer ones are as good as none. */
export function createTargets(
  rules: AddressRules,
  resolve: Resolve = resolveHost(),
  mostCharacters = mostOfWebhooks,
): Targets {
  const mayConnectTo = addressTest(rules);

  function read(text: string): URL {
    const url = text.length <= mostCharacters ? URL.parse(text) : null;
    if (!url || url.hostname === "") throw new BadWebhookUrl();
    const isPlain = url.protocol === "http:" && rules.allowsPrivate;
    if (url.protocol !== "https:" && !isPlain) throw new WebhookRefused("its URL must begin with https://");
    if (!rules.allowsPrivate && !ports.has(url.port)) throw new WebhookRefused("its port must be 443 or 8443");
    if (url.username !== "" || url.password !== "") throw new WebhookRefused("its URL holds a user or a password");
    if (url.hash !== "" || text.includes("#")) throw new WebhookRefused("its URL holds a fragment");
    return url;
  }

  async function locate(url: URL): Promise<Destination> {
    const hostname = url.hostname.replace(/^\[|\]$/g, "");
    const addresses = isIP(hostname) ? [hostname] : await resolve(hostname);
    const [address] = addresses;
    // One bad address is enough: which of them a name answers with is its owner's choice, at every look.
    if (address === undefined || !addresses.every(mayConnectTo))
      throw new WebhookRefused("its host is not a public address");
    return { url, address };
  }

  return {
    mayConnectTo,
    locate: async (text) => locate(read(text)),
    async check(text) {
      const url = read(text);
      try {
        await locate(url);
      } catch (error) {
        if (error instanceof WebhookRefused) throw error;
        if (isUnknownName(error)) throw new WebhookRefused("its host has no address");
      }
      return { url: url.href, host: url.host };
    },
  };
}
