// `Idempotency-Key` on POSTs that spend or create: the first request runs, repeats get its response.
import { createHash } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type { Caller } from "../../accounts/caller.ts";
import type { Claim, Idempotency, KeptAnswer, KeyedRequest } from "../../accounts/idempotency.ts";
import { badIdempotencyKey } from "../../accounts/token-errors.ts";
import type { Dialect, Refusal } from "../errors/error-body.ts";
import { refusalOf, renderError } from "../errors/render-error.ts";

const keyForm = /^[\x20-\x7e]{1,255}$/;
const json = ["content-type", "application/json; charset=utf-8"];
const notKept: ReadonlySet<number> = new Set([401, 429]);

export interface OnceDeps {
  readonly idempotency: Idempotency;
  readonly log: Logger;
}

/** Parts in which a keyed request and its repeats must be equal. */
export type KeyedInput = Pick<FastifyRequest, "headers" | "params" | "query" | "readBody">;

export interface OnceRoute {
  readonly name: string;
  readonly dialect: Dialect;
  readonly holdsSecrets: boolean;
  /** As KeyedRequest's. */
  readonly isPaid: boolean;
}

/**
 * Runs `run`, or sends the stored response and returns the reply. Without the header it only runs `run`. Refusals are stored too,
 * except 401, 429 and 5xx, which do not depend on the request itself.
 */
export async function once(
  deps: OnceDeps,
  route: OnceRoute,
  request: FastifyRequest,
  reply: FastifyReply,
  caller: Caller,
  run: () => unknown,
): Promise<unknown> {
  if (!isKeyed(request)) return run();
  const begun = await beginKeyed(deps, route.name, request, caller, route.isPaid);
  if ("kept" in begun) return replay(begun.kept, request, reply);
  const { claim } = begun;
  try {
    const answer = await run();
    const headers = route.holdsSecrets ? [...json, "cache-control", "no-store"] : json;
    await claim.finish({ status: 200, headers, body: JSON.stringify(answer) });
    return answer;
  } catch (error) {
    await endRefused(claim, refusalOf(error), route.dialect, request.id);
    throw error;
  }
}

export const isKeyed = ({ headers }: KeyedInput): boolean => headers["idempotency-key"] !== undefined;

/**
 * Throws badIdempotencyKey and the errors of Idempotency. The claim never throws: the request has run and gets its response, even
 * if that cannot be stored.
 */
export async function beginKeyed(
  { idempotency, log }: OnceDeps,
  route: string,
  request: KeyedInput,
  caller: Caller,
  isPaid: boolean,
): ReturnType<Idempotency["begin"]> {
  const begun = await idempotency.begin({ ...keyedRequest(route, request, caller), isPaid });
  if ("kept" in begun) return begun;
  const { claim } = begun;
  const written = (work: Promise<void>) =>
    work.catch((error) => log.warn({ err: error, route }, "could not store the response of an idempotent request"));
  return {
    claim: {
      finish: (answer) => written(claim.finish(answer)),
      spend: () => written(claim.spend()),
      abandon: () => written(claim.abandon()),
    },
  };
}

/** Throws badIdempotencyKey. */
export function keyedRequest(
  route: string,
  request: KeyedInput,
  { account, member, spending }: Caller,
): Omit<KeyedRequest, "isPaid"> {
  const key = request.headers["idempotency-key"];
  if (typeof key !== "string" || !keyForm.test(key)) throw badIdempotencyKey();
  return {
    account,
    route,
    key,
    bodyHash: hashOf(request, [spending.token?.budget ?? null, ...(member ? [member.id] : [])]),
  };
}

/** Ends the claim of a request that was refused before it ran. */
export const endRefused = (claim: Claim, refusal: Refusal, dialect: Dialect, requestId: string): Promise<void> =>
  refusal.status >= 500 || notKept.has(refusal.status)
    ? claim.abandon()
    : claim.finish(renderError(refusal, dialect, requestId));

/** Header of a repeated response. */
export const replayed = ["idempotent-replayed", "true"] as const;

function replay({ status, headers, body }: KeptAnswer, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const all = [...headers, ...replayed, ...(request.state?.headers() ?? [])];
  for (let i = 0; i < all.length; i += 2) reply.header(all[i] as string, all[i + 1]);
  // Already serialised.
  return reply.code(status).serializer(String).send(body);
}

/** Digest of the whole request and of its token and member: the response of one is not for another. */
function hashOf({ params, query, readBody }: KeyedInput, by: readonly (string | null)[]): Buffer {
  return createHash("sha256")
    .update(JSON.stringify([params, query, ...by]))
    .update(readBody?.bytes ?? "")
    .digest();
}
