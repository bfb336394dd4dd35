// Headers that an agent adds to a request for an engine. Clients' headers are never passed on, so no client can set them, except
// for the checked `tracestate` of a trace (trace-context.ts).

/** Digest of the account, different for each start of an agent: engines take turns by it and keep caches apart. */
export const tenantHeader = "x-stoker-tenant";
/** Scope of prefix caches where it is not the tenant: deployments whose operator shares caches between accounts. */
export const cacheScopeHeader = "x-stoker-cache-scope";
/** Milliseconds of audio that the hold covers: longer files are refused. */
export const audioBoundHeader = "x-stoker-max-audio-ms";
