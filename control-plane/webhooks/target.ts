// Rules for a webhook's URL, and its destination. Checks the parsed host, never the raw text: `new URL` normalises every
// spelling of an IPv4 address.
import { isIP } from "node:net";
import { type AddressRules, addressTest } from "../../proto/address-rules.ts";
import { BadWebhookUrl, WebhookRefused } from "./errors.ts";
import { isUnknownName, type Resolve, resolveHost } from "./resolve-host.ts";

export interface Target {
  readonly url: string;
  /** Host and port. */
  readonly host: string;
}

/** A checked address to connect to. */
export interface Destination {
  readonly url: URL;
  readonly address: string;
}

const maxWebhookChars = 2048;
const ports = new Set(["", "443", "8443"]);

/** `maxCharacters`: maximum length of a URL; a longer one is invalid. */
export function createTargets(rules: AddressRules, resolve: Resolve = resolveHost(), maxCharacters = maxWebhookChars) {
  const mayConnectTo = addressTest(rules);

  function read(text: string): URL {
    const url = text.length <= maxCharacters ? URL.parse(text) : null;
    if (!url || url.hostname === "") throw new BadWebhookUrl();
    const isPlain = url.protocol === "http:" && rules.allowsPrivate;
    if (url.protocol !== "https:" && !isPlain) throw new WebhookRefused("its URL must start with https://");
    if (!rules.allowsPrivate && !ports.has(url.port)) throw new WebhookRefused("its port must be 443 or 8443");
    if (url.username !== "" || url.password !== "")
      throw new WebhookRefused("its URL contains a user name or password");
    if (url.hash !== "" || text.includes("#")) throw new WebhookRefused("its URL contains a fragment");
    return url;
  }

  async function locate(url: URL): Promise<Destination> {
    const hostname = url.hostname.replace(/^\[|\]$/g, "");
    const addresses = isIP(hostname) ? [hostname] : await resolve(hostname);
    const [address] = addresses;
    // One forbidden address is enough: the name's owner chooses which address each lookup returns.
    if (address === undefined || !addresses.every(mayConnectTo))
      throw new WebhookRefused("its host is not a public address");
    return { url, address };
  }

  return {
    mayConnectTo,
    /** Resolves once and checks every address. Throws WebhookRefused, or as `resolve` does. */
    locate: async (text: string): Promise<Destination> => locate(read(text)),
    /** Throws BadWebhookUrl, WebhookRefused. A name that cannot be resolved at the moment is accepted. */
    async check(text: string): Promise<Target> {
      const url = read(text);
      try {
        await locate(url);
      } catch (error) {
        if (error instanceof WebhookRefused) throw error;
        if (isUnknownName(error)) throw new WebhookRefused("its host name does not resolve");
      }
      return { url: url.href, host: url.host };
    },
  };
}

export type Targets = ReturnType<typeof createTargets>;
