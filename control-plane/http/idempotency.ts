// `Idempotency-Key` on the POSTs that spend or create: the first request runs, its repeats get the first one's answer.
import { createHash } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type { Caller } from "../accounts/caller.ts";
import type { Idempotency, KeptAnswer } from "../accounts/idempotency.ts";
import { BadIdempotencyKey } from "../accounts/token-errors.ts";
import type { Dialect } from "./error-body.ts";
import { refusalOf, renderError } from "./render-error.ts";

const keyForm = /^[\x20-\x7e]{1,255}$/;
const json = ["content-type", "application/json; charset=utf-8"];
const notKept: ReadonlySet<number> = new Set([401, 429]);

export interface OnceDeps {
  readonly idempotency: Idempotency;
  readonly log: Logger;
}

/**
 * Runs `run`, or sends what was answered before and returns the reply. Without the header `run` simply runs. Refusals are
 * kept as well, all but 401, 429 and 5xx: those say nothing about the request itself.
 */
export async function once(
  deps: OnceDeps,
  route: { readonly name: string; readonly dialect: Dialect; readonly holdsSecrets: boolean },
  request: FastifyRequest,
  reply: FastifyReply,
  caller: Caller,
  run: () => unknown,
): Promise<unknown> {
  const key = request.headers["idempotency-key"];
  if (key === undefined) return run();
  if (typeof key !== "string" || !keyForm.test(key)) throw new BadIdempotencyKey();
  const begun = await deps.idempotency.begin({
    account: caller.account,
    route: route.name,
    key,
    bodyHash: hashOf(request, caller),
  });
  if ("kept" in begun) return replay(begun.kept, reply);
  const { claim } = begun;
  // What was done is done and answered; a key that cannot be written down is free again when its lock ends.
  const written = (work: Promise<void>) =>
    work.catch((error) => deps.log.warn({ err: error, route: route.name }, "an idempotent answer was not kept"));
  try {
    const answer = await run();
    const headers = route.holdsSecrets ? [...json, "cache-control", "no-store"] : json;
    await written(claim.finish({ status: 200, headers, body: JSON.stringify(answer) }));
    return answer;
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal.status >= 500 || notKept.has(refusal.status)) await written(claim.abandon());
    else await written(claim.finish(renderError(refusal, route.dialect, request.id)));
    throw error;
  }
}

function replay({ status, headers, body }: KeptAnswer, reply: FastifyReply): FastifyReply {
  for (let i = 0; i < headers.length; i += 2) reply.header(headers[i] as string, headers[i + 1]);
  // Serialised already: sent as it was.
  return reply.code(status).header("idempotent-replayed", "true").serializer(String).send(body);
}

/** Of all that the request says, and of the token it says it with: one token's answer is not for another. */
function hashOf(request: FastifyRequest, caller: Caller): Buffer {
  const { params, query } = request;
  return createHash("sha256")
    .update(JSON.stringify([params, query, caller.spending.token?.budget ?? null]))
    .update(request.readBody?.bytes ?? "")
    .digest();
}
