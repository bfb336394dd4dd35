// Reads the headers that the agent adds to each request. They can be trusted: no client reaches this server directly, and the
// agent forwards no header of a client.
import type { IncomingHttpHeaders } from "node:http";
import { audioBoundHeader, cacheScopeHeader, tenantHeader } from "../../proto/engine-headers.ts";
import { noTenant } from "../batch/tenant.ts";

export interface RequestOrigin {
  /** Digest of the account: queues take turns by it. */
  readonly tenant: string;
  /** Evaluated prompts are reused only within it. */
  readonly cacheScope: string;
  readonly maxAudioMs: number | undefined;
}

const idForm = /^[\w-]{1,64}$/;

export function originOf(headers: IncomingHttpHeaders): RequestOrigin {
  const tenant = idOf(headers[tenantHeader]) ?? noTenant;
  const maxAudioMs = Number(headers[audioBoundHeader] ?? Number.NaN);
  return {
    tenant,
    cacheScope: idOf(headers[cacheScopeHeader]) ?? tenant,
    maxAudioMs: Number.isSafeInteger(maxAudioMs) && maxAudioMs >= 0 ? maxAudioMs : undefined,
  };
}

const idOf = (header: string | string[] | undefined): string | undefined =>
  typeof header === "string" && idForm.test(header) ? header : undefined;
