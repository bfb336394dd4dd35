// Clients of identity providers, with their metadata and keys. Metadata is read at the first use and again after some minutes; the
// older one serves while a provider does not respond. Loads the library at first use.
import type { Configuration, CustomFetch } from "openid-client";
import type { Logger } from "pino";
import { providerFailed } from "./errors.ts";
import { fetchLimits, type JudgedFetches } from "./judged-fetch.ts";
import type { ProviderRow } from "./store.ts";

export const loadClient = () => import("openid-client");

interface Known {
  readonly revision: number;
  readonly config: Promise<Configuration>;
  readonly readAtMs: number;
}

const freshMs = 600_000;
/** How long metadata serves that cannot be read again. */
const usableMs = 86_400_000;
/** A provider that failed is not asked again before this. */
const pauseMs = 5_000;

export function createProviderClients(deps: {
  readonly fetches: JudgedFetches;
  readonly openSecret: (sealed: Buffer, provider: string) => string;
  readonly log: Logger;
  /** Monotonic. */
  readonly nowMs?: () => number;
}) {
  const { fetches, openSecret, log, nowMs = () => performance.now() } = deps;
  const known = new Map<string, Known>();
  const failedAtMs = new Map<string, number>();

  async function discover({ id, issuer, clientId, clientSecret }: ProviderRow): Promise<Configuration> {
    const client = await loadClient();
    const secret = clientSecret === null ? undefined : openSecret(clientSecret, id);
    const server = new URL(issuer);
    return client.discovery(server, clientId, {}, authentication(client, secret), {
      timeout: fetchLimits.totalMs / 1000,
      [client.customFetch]: fetches.to(server.hostname) as CustomFetch,
      execute: [
        // The signature is checked although the token comes over TLS: a provider's proxy must not be able to name people.
        client.enableNonRepudiationChecks,
        ...(fetches.isPlain(server) ? [client.allowInsecureRequests] : []),
      ],
    });
  }

  function read(provider: ProviderRow, older: Known | undefined): Known {
    const config = discover(provider);
    const fresh: Known = { revision: provider.revision, config, readAtMs: nowMs() };
    known.set(provider.id, fresh);
    config.then(
      () => failedAtMs.delete(provider.id),
      (err) => {
        log.warn({ err, provider: provider.id }, "could not read the metadata of an identity provider");
        failedAtMs.set(provider.id, nowMs());
        if (known.get(provider.id) !== fresh) return;
        if (older) known.set(provider.id, older);
        else known.delete(provider.id);
      },
    );
    return fresh;
  }

  return {
    /** Throws providerFailed. */
    async of(provider: ProviderRow): Promise<Configuration> {
      const last = known.get(provider.id);
      const same = last?.revision === provider.revision ? last : undefined;
      const ageMs = same ? nowMs() - same.readAtMs : Number.POSITIVE_INFINITY;
      const hasFailed = nowMs() - (failedAtMs.get(provider.id) ?? Number.NEGATIVE_INFINITY) < pauseMs;
      try {
        if (same && (ageMs < freshMs || (hasFailed && ageMs < usableMs))) return await same.config;
        if (hasFailed) throw new Error("its metadata could not be read a moment ago");
        return await read(provider, same).config;
      } catch (error) {
        if (same && ageMs < usableMs) return same.config;
        throw providerFailed(provider.name, error);
      }
    },
    forget(id: string): void {
      known.delete(id);
      failedAtMs.delete(id);
    },
  };
}

export type ProviderClients = ReturnType<typeof createProviderClients>;

/** As the metadata allows: by the header, otherwise in the body. */
function authentication(client: Awaited<ReturnType<typeof loadClient>>, secret: string | undefined) {
  if (secret === undefined) return client.None();
  const [basic, post] = [client.ClientSecretBasic(secret), client.ClientSecretPost(secret)];
  const chosen: typeof basic = (server, ...rest) => {
    const methods = server.token_endpoint_auth_methods_supported;
    return methods && !methods.includes("client_secret_basic") ? post(server, ...rest) : basic(server, ...rest);
  };
  return chosen;
}
