// Signed links to results that are too large for a call. They need no key and work as long as the results are kept.
import { createHmac, timingSafeEqual } from "node:crypto";
import type { RequestId } from "../../proto/ids.ts";

const lifeMs = 7 * 24 * 60 * 60 * 1000;

export function createResultsLinks(key: Buffer) {
  const sign = (requestId: string, expires: string) =>
    createHmac("sha256", key).update(`${requestId}.${expires}`).digest("base64url");
  return {
    make(origin: string, requestId: RequestId, nowMs: number): string {
      const expires = String(Math.floor((nowMs + lifeMs) / 1000));
      return `${origin}/v1/webhooks/results/${requestId}?expires=${expires}&sig=${sign(requestId, expires)}`;
    },
    isGood(requestId: string, expires: string, signature: string, nowMs: number): boolean {
      const given = Buffer.from(signature);
      const wanted = Buffer.from(sign(requestId, expires));
      return given.length === wanted.length && timingSafeEqual(given, wanted) && Number(expires) * 1000 > nowMs;
    },
  };
}

export type ResultsLinks = ReturnType<typeof createResultsLinks>;
